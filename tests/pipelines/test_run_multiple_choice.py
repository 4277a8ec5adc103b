"""The command, on questions whose answer is always the choice with the letter "z"."""

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.tasks.multiple_choice import data as choices
from tests.conftest import SEED, eagerly
from tests.pipelines.programs import finetune, flags_of, read_json, read_table, write_jsonl

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.run_multiple_choice"


def rows_of_choices(count, seed):
    """Returns rows of 3, 4 and 5 choices."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        words = [" ".join(rng.choice(list("abcdefgh"), 2)) for _ in range(3 + number % 3)]
        label = int(rng.integers(len(words)))
        words[label] = words[label][:-1] + "z"
        rows.append({"question": "y x", "choices": words, "answer": "ABCDE"[label]})
    return rows


def without_answers(rows):
    return [{"question": row["question"], "choices": row["choices"]} for row in rows]


@pytest.fixture(scope="module")
def made(tmp_path_factory, config, pieces):
    """A folder with data files and a model to start from."""
    made = tmp_path_factory.mktemp("choices")
    write_jsonl(made / "train.jsonl", rows_of_choices(96, 0))
    write_jsonl(made / "dev.jsonl", rows_of_choices(9, 1))
    write_jsonl(made / "test.jsonl", without_answers(rows_of_choices(6, 2)))
    keras_bert.save(keras_bert.build_encoder(config), made / "bert", pieces)
    return made


def arguments(made, output, **changes):
    """Returns the flags of a run."""
    values = {
        "train_file": f"{made}/train.jsonl",
        "dev_file": f"{made}/dev.jsonl",
        "predict_file": f"{made}/test.jsonl",
        "model": f"{made}/bert",
        "output_dir": f"{made}/{output}",
        "sequence_length": 12,
        "seed": SEED,
        "epochs": 4,
        "learning_rate": "5e-3",
    }
    return flags_of(values, **changes)


@pytest.fixture(scope="module")
def trained(made):
    """The folder of a run, what it printed, and the signatures of its export."""
    signatures = {}
    with eagerly():
        printed = finetune(PROGRAM, *arguments(made, "one"), signatures=signatures)
    return made / "one", printed, signatures


@pytest.fixture
def dev(made):
    return choices.read(made / "dev.jsonl")


@pytest.fixture
def answers(trained, dev):
    """Those of the saved model for dev."""
    rows = [{"text": text, "choices": row} for text, row in zip(dev.text, dev.choices, strict=True)]
    return keras_bert.load(trained[0] / "model").predict(rows)


@pytest.mark.kernels
def test_what_is_learned(trained):
    output, printed, _ = trained
    report = read_json(output / "results.json")
    accuracy = report["scores"]["accuracy"]
    assert accuracy > 0.8
    assert report["data"]["chance"] < 0.8
    assert f"accuracy {accuracy:.2%}" in printed
    card = (output / "model" / "README.md").read_text()
    assert "- rows by number of choices: 3: 32, 4: 32, 5: 32\n" in card


@pytest.mark.kernels
@pytest.mark.usefixtures("eager")
def test_the_saved_model(trained, dev, answers):
    output, _, _ = trained
    bert = keras_bert.load(output / "model")
    assert bert.head == "multiple_choice"
    assert bert.task == "multiple_choice"
    assert bert.sequence_length == 12
    are_right = [answer["choice"] for answer in answers] == np.array(dev.labels)
    assert np.mean(are_right) == read_json(output / "results.json")["scores"]["accuracy"]


@pytest.mark.kernels
@pytest.mark.usefixtures("eager")
def test_the_export(trained, dev, answers):
    """One request has rows of equally many choices: shorter ones are padded with ""."""
    _, _, signatures = trained
    padded = [row + [""] * (5 - len(row)) for row in dev.choices]
    served = signatures["serving_default"](tf.constant(dev.text), tf.constant(padded))
    assert served["choice"].numpy().tolist() == [answer["choice"] for answer in answers]
    for shares, answer in zip(served["probabilities"].numpy(), answers, strict=True):
        count = len(answer["scores"])
        np.testing.assert_allclose(shares[:count], answer["scores"], atol=1e-5)
        assert not shares[count:].any()


@pytest.mark.kernels
@pytest.mark.usefixtures("eager")
def test_predictions(made, trained):
    output, _, _ = trained
    bert = keras_bert.load(output / "model")
    test = choices.read(made / "test.jsonl", labeled=False)
    header, lines = read_table(output / "predictions.tsv")
    assert header == ["label", "A", "B", "C", "D", "E", "text", "choice"]
    for line, text, row in zip(lines, test.text, test.choices, strict=True):
        answer = bert.predict({"text": text, "choices": row})
        label, *shares, shown_text, choice = line
        assert label == "ABCDE"[answer["choice"]]
        assert shown_text == text
        assert choice == row[answer["choice"]]
        scores = [float(share) for share in shares if share]
        np.testing.assert_allclose(scores, answer["scores"], atol=1e-4)
