"""The command, on questions whose answer is always the choice with the letter "z"."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.tasks.multiple_choice import data as choices
from tests.conftest import SEED
from tests.pipelines.programs import finetune, flags_of, read_json

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.run_multiple_choice"


def write_jsonl(path, count, seed, labeled=True):
    """Writes rows of 3, 4 and 5 choices."""
    rng = np.random.default_rng(seed)
    with path.open("w") as file:
        for number in range(count):
            words = [" ".join(rng.choice(list("abcdefgh"), 2)) for _ in range(3 + number % 3)]
            label = int(rng.integers(len(words)))
            words[label] = words[label][:-1] + "z"
            row = {"question": "y x", "choices": words, **({"answer": "ABCDE"[label]} if labeled else {})}
            file.write(json.dumps(row) + "\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory, config, pieces):
    """A folder with data files and a model to start from."""
    made = tmp_path_factory.mktemp("choices")
    for name, count, seed in (("train", 96, 0), ("dev", 9, 1)):
        write_jsonl(made / f"{name}.jsonl", count, seed)
    write_jsonl(made / "test.jsonl", 6, 2, labeled=False)
    keras_bert.save(keras_bert.build_encoder(config), made / "bert", pieces)
    return made


def arguments(made, output, **changes):
    files = {"train_file": "train", "dev_file": "dev", "predict_file": "test"}
    values = {name: f"{made}/{file}.jsonl" for name, file in files.items()}
    values |= {"model": f"{made}/bert", "output_dir": f"{made}/{output}", "sequence_length": 12, "seed": SEED}
    return flags_of(values, **{"epochs": 4, "learning_rate": "5e-3", **changes})


@pytest.mark.kernels
def test_rows_of_three_to_five_choices(made, eager):
    signatures = {}
    output = made / "one"
    said = finetune(PROGRAM, *arguments(made, "one"), signatures=signatures)
    assert f"accuracy {read_json(output / 'results.json')['scores']['accuracy']:.2%}" in said
    assert "- rows by number of choices: 3: 32, 4: 32, 5: 32\n" in (output / "model" / "README.md").read_text()
    report = read_json(output / "results.json")
    dev = choices.read(made / "dev.jsonl")
    assert report["scores"]["accuracy"] > 0.8 > report["data"]["chance"]
    rows = [{"text": text, "choices": row} for text, row in zip(dev.text, dev.choices, strict=True)]
    bert = keras_bert.load(output / "model")
    assert (bert.head, bert.task, bert.sequence_length) == ("multiple_choice", "multiple_choice", 12)
    answers = bert.predict(rows)
    assert np.mean([answer["choice"] for answer in answers] == np.array(dev.labels)) == report["scores"]["accuracy"]
    # One request has rows of equally many choices: shorter ones are padded with "".
    padded = [row + [""] * (5 - len(row)) for row in dev.choices]
    served = signatures["serving_default"](tf.constant(dev.text), tf.constant(padded))
    assert served["choice"].numpy().tolist() == [answer["choice"] for answer in answers]
    for shares, answer in zip(served["probabilities"].numpy(), answers, strict=True):
        np.testing.assert_allclose(shares[: len(answer["scores"])], answer["scores"], atol=1e-5)
        assert not shares[len(answer["scores"]) :].any()
    test = choices.read(made / "test.jsonl", labeled=False)
    with (output / "predictions.tsv").open() as file:
        header, *lines = csv.reader(file, dialect="excel-tab")
    assert header == ["label", "A", "B", "C", "D", "E", "text", "choice"]
    for line, text, row in zip(lines, test.text, test.choices, strict=True):
        answer = bert.predict({"text": text, "choices": row})
        assert (line[0], line[6:]) == ("ABCDE"[answer["choice"]], [text, row[answer["choice"]]])
        np.testing.assert_allclose([float(cell) for cell in line[1:6] if cell], answer["scores"], atol=1e-4)
