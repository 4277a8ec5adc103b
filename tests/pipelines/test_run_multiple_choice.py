"""The command, on questions whose answer is always the choice with the letter "z"."""

import csv
import json
from unittest import mock

import numpy as np
import pytest

import keras_bert
from keras_bert.tasks.multiple_choice import data as choices
from tests.pipelines.programs import call, flags_of, mistake, read_json

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
    (made / "bad.csv").write_text("question,A,B,key\ny,a,z,B\ny,a,,A\n")
    keras_bert.save(keras_bert.build_encoder(config), made / "bert", pieces)
    return made


def arguments(made, output, **changes):
    values = {
        "train_file": f"{made}/train.jsonl",
        "dev_file": f"{made}/dev.jsonl",
        "predict_file": f"{made}/test.jsonl",
        "model": f"{made}/bert",
        "output_dir": f"{made}/{output}",
        "sequence_length": 12,
        "epochs": 4,
        "learning_rate": "5e-3",
        **changes,
    }
    return flags_of(values)


MISTAKES = [
    ("--model is required", {"model": None}),
    ("bad.csv:3: expected at least 2 choices, got 1", {"dev_file": "{made}/bad.csv"}),
    ("Fix the file, or skip them with --skip_bad_rows=1", {"train_file": "{made}/bad.csv", "skip_bad_rows": 0}),
    ("no columns of choices", {"train_file": "{made}/bad.csv", "choice_columns": "key"}),
    ("--pack: only for classification and tagging with BERT. Received: ", {"pack": "true"}),
]


def test_user_errors(made):
    for message, changes in MISTAKES:
        changes = {
            name: value.format(made=made) if isinstance(value, str) else value for name, value in changes.items()
        }
        assert message in mistake(PROGRAM, *arguments(made, "mistakes", **changes))


def test_short_run(made, eager):
    """One epoch, without the export, which other tests check."""
    with mock.patch("keras_bert.experiments.results.export"):
        said = call(PROGRAM, *arguments(made, "short", epochs=1, max_train_examples=6))
    output, labels = made / "short", choices.read(made / "dev.jsonl").labels
    (run,) = (output / "runs").glob("*/dev.npz")
    accuracy = np.mean(np.load(run)["dev"].argmax(-1) == labels)
    report = read_json(output / "results.json")
    assert report["scores"]["accuracy"] == pytest.approx(accuracy)
    assert f"accuracy {100 * accuracy:.2f}%" in said
    assert report["data"]["choices"] == {"3": 2, "4": 2, "5": 2}
    assert "- rows by number of choices: 3: 2, 4: 2, 5: 2\n" in (output / "model" / "README.md").read_text()
    with (output / "predictions.tsv").open() as file:
        header, *lines = csv.reader(file, dialect="excel-tab")
    assert header == ["label", "A", "B", "C", "D", "E"]
    assert [sum(map(bool, line[1:])) for line in lines] == [3, 4, 5, 3, 4, 5]
    for label, *cells in lines:
        shares = [float(cell) for cell in cells if cell]
        assert (sum(shares), "ABCDE"[np.argmax(shares)]) == (pytest.approx(1, abs=3e-4), label)


def check_outputs(output, made):
    """Checks scores, predictions and exported answers of a run with one model."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    report, dev = read_json(output / "results.json"), choices.read(made / "dev.jsonl")
    assert report["scores"]["accuracy"] > 0.8 > report["data"]["chance"]
    rows = [{"text": text, "choices": row} for text, row in zip(dev.text, dev.choices, strict=True)]
    bert = keras_bert.load(output / "model")
    assert (bert.head, bert.task, bert.sequence_length) == ("multiple_choice", "multiple_choice", 12)
    answers = bert.predict(rows)
    assert np.mean([answer["choice"] for answer in answers] == np.array(dev.labels)) == report["scores"]["accuracy"]
    # One request to the SavedModel has rows of equally many choices: shorter ones are padded with "".
    padded = [row + [""] * (5 - len(row)) for row in dev.choices]
    serve = tf.saved_model.load(str(output / "saved_model" / "1")).signatures["serving_default"]
    served = serve(text=tf.constant(dev.text), choices=tf.constant(padded))
    assert served["choice"].numpy().tolist() == [answer["choice"] for answer in answers]
    for shares, answer in zip(served["probabilities"].numpy(), answers, strict=True):
        np.testing.assert_allclose(shares[: len(answer["scores"])], answer["scores"], atol=1e-5)
        assert not shares[len(answer["scores"]) :].any()
    test = choices.read(made / "test.jsonl", labeled=False)
    with (output / "predictions.tsv").open() as file:
        _, *lines = csv.reader(file, dialect="excel-tab")
    for line, text, row in zip(lines, test.text, test.choices, strict=True):
        answer = bert.predict({"text": text, "choices": row})
        assert line[0] == "ABCDE"[answer["choice"]]
        np.testing.assert_allclose([float(cell) for cell in line[1:] if cell], answer["scores"], atol=1e-4)


@pytest.mark.slow
def test_rows_of_three_to_five_choices(made):
    said = call(PROGRAM, *arguments(made, "one"))
    output = made / "one"
    check_outputs(output, made)
    assert "chance" in (output / "results.md").read_text()
    assert "predictions.tsv" in said
    assert (
        'AutoModelForMultipleChoice.from_pretrained("path/to/this/folder")' in (output / "model/README.md").read_text()
    )
    # The model answers JSONL with `choices`.
    given = ("--model", str(output / "model"), "--input", str(made / "test.jsonl"), "--text_column=question")
    answers = [json.loads(line) for line in call("pipelines.predict", *given).splitlines()]
    assert [len(answer["scores"]) for answer in answers] == [3, 4, 5, 3, 4, 5]
