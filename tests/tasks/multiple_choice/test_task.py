"""The multiple-choice task, without training; what its report shows."""

import json

import numpy as np
import pytest

import keras_bert
from keras_bert.tasks.base import Start
from keras_bert.tasks.multiple_choice import data as choices
from keras_bert.tasks.multiple_choice.data import ChoiceExamples, ChoiceSettings
from keras_bert.tasks.multiple_choice.task import MultipleChoiceTask, judge_choices
from tests.runs.parsed import having, page_of, rows_of, text_of

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
# Of the report, compared with numbers computed by hand.
EXAMPLES = ChoiceExamples(
    text=["Why <b>?", "Who?", "When?"],
    choices=[["rain", "sun", "wind"], ["he", "", "she"], ["now", "then"]],
    labels=[1, 0, 0],
    lines=[2, 4, 5],
    ids=[0, 2, 3],
)
SHARES = np.array([[0.7, 0.2, 0.1], [0.9, 0.0, 0.1], [0.4, 0.6, 0.0]])
KEYS = ["A", "B", "C"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory, config, pieces):
    """A model with a multiple-choice head."""
    folder = tmp_path_factory.mktemp("choosing")
    encoder = keras_bert.build_encoder(config)
    keras_bert.save(keras_bert.build_multiple_choice(encoder), folder, pieces)
    return keras_bert.load(folder)


def read(tmp_path, *rows, **files):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return choices.read_all(path, path, **{name: path for name in files})


ROWS = [
    {"text": "a b", "choices": ["c", "d e f", "g", "h", "i"], "label": 4},
    {"text": "k", "choices": ["l", "m", "n"], "label": 0},
    {"text": "o", "choices": ["p q", "", "r", "s"], "label": 2},
]


def test_rows_of_three_to_five_choices(tmp_path, bert):
    task = MultipleChoiceTask(
        read(tmp_path, *ROWS, predict_file=True), Start("start", bert), ChoiceSettings(sequence_length=7)
    )
    inputs, labels = task.splits["train"][0].pair()
    assert labels.tolist() == [4, 0, 2]
    assert inputs["token_ids"].row_lengths().numpy().tolist() == [
        [6, 7, 6, 6, 6],  # [CLS] a b [SEP] d e [SEP]: truncated.
        [5, 5, 5, 0, 0],
        [6, 0, 5, 5, 0],
    ]
    assert task.report.summary.truncated == {
        "rows": 1, "share": 1 / 3, "sequence_length": 7, "longest": 8, "enough": 32, "held": 1.0
    }  # fmt: skip
    assert task.run_settings["dev"] == ["a.jsonl", 3]
    assert task.export_options(bert)["example"] == {"text": "a b", "choices": ["c", "d e f", "g", "h", "i"]}
    # The logits are those of the choices alone.
    model = task.training.build(bert)
    trainer = keras_bert.Trainer(
        lambda: model, lambda model: keras_bert.create_optimizer(model, 1e-3, 1), task.training.loss
    )
    (logits,) = task.report.dev_logits(trainer.predict).values()
    answers = bert.predict([{"text": row["text"], "choices": row["choices"]} for row in ROWS], sequence_length=7)
    for row, answer in zip(logits, answers, strict=True):
        powers = np.exp(row[: len(answer["scores"])])
        np.testing.assert_allclose(powers / powers.sum(), answer["scores"], atol=1e-5)
    assert [logits[1, 3], logits[1, 4], logits[2, 1], logits[2, 4]] == [-1e9] * 4
    test = task.report.test_logits(trainer.predict)
    np.testing.assert_array_equal(test["test"], logits)
    accuracy = f"accuracy {np.mean(logits.argmax(-1) == labels):.2%}"
    assert task.report.conclude({"dev": logits}, test, tmp_path).all_facts == {"scores on test": accuracy}


def test_a_right_choice_without_tokens_is_refused(tmp_path, bert):
    row = {"text": "a", "choices": ["b", "\u200b"], "label": "B"}
    with pytest.raises(
        ValueError, match=r"a.jsonl:2: the right choice has no tokens. Expected text. Received: '\\u200b'"
    ):
        MultipleChoiceTask(
            read(tmp_path, {**row, "label": "A"}, row), Start("start", bert), ChoiceSettings(sequence_length=16)
        )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    logits = np.where(SHARES > 0, np.log(np.maximum(SHARES, 1e-9)), -1e9)
    judged = judge_choices(KEYS, EXAMPLES, logits, [4, 5, 6])
    return page_of(tmp_path_factory.mktemp("report"), judged, "accuracy")


def body_of(table):
    """Returns the texts of the cells below the head of a table."""
    lines = []
    for line in table.find("tbody"):
        lines.append([text_of(cell) for cell in line])
    return lines


def words(element):
    return " ".join(text_of(element).split())


def test_positions_and_numbers_of_choices(page):
    section = page.sections["Choices"]
    positions, counts = map(body_of, having(section, "list", "table"))
    assert positions == [
        ["A", "2", "50.0%", "2"],
        ["B", "1", "0.0%", "1"],
        ["C", "0", "–", "0"],
    ]
    assert counts == [
        ["2", "2", "50.0%", "50.0%"],
        ["3", "1", "0.0%", "33.3%"],
    ]
    assert "1 of 3 are correct, 33.33%." in text_of(section)
    assert rows_of(page.sections["Calibration"], "list")[-2] == ["80 to 90%", "1", "90.00%", "100.00%"]


def test_hardest_examples_with_their_choices(page):
    first, _, last = page.hard()
    assert (
        words(first)
        == "row 1 · true B · predicted A with 70.0% · loss 1.61 Why <b>? 70.0% A rain 20.0% B sun right 10.0% C wind"
    )
    # The absent choice is not listed.
    assert (
        words(last)
        == "row 3 · true A · predicted A with 90.0% · loss 0.105 · correct Who? 90.0% A he right 10.0% C she"
    )


def test_errors():
    logits = np.log(np.maximum(SHARES, 1e-9))
    header, *rows = judge_choices(KEYS, EXAMPLES, logits, [4, 5, 6]).report()[1]
    assert header == ["row", "true", "predicted", "probability", "loss", "text", "right choice", "predicted choice"]
    assert [[*row[:3], *row[5:]] for row in rows] == [
        [1, "B", "A", "Why <b>?", "sun", "rain"],
        [4, "A", "B", "When?", "now", "then"],
    ]
    assert [row[3] for row in rows] == ["0.7", "0.6"]
