"""The multiple-choice task, without training; what its report shows; texts in windows, against a plain loop."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

import keras_bert
from keras_bert.tasks.base import Start
from keras_bert.tasks.multiple_choice import data as choices
from keras_bert.tasks.multiple_choice.data import ChoiceData, ChoiceExamples, ChoiceSettings
from keras_bert.tasks.multiple_choice.task import MultipleChoiceTask, judge_choices
from tests.conftest import eagerly
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
# Of windows.
LENGTH = 12
OVERLAP = 2
ROOM = LENGTH - 3  # Beside [CLS] and two [SEP].
READING = {"sequence_length": LENGTH, "long_texts": "windows", "overlap": OVERLAP}


@pytest.fixture(scope="module")
def bert(tmp_path_factory, config, pieces):
    """A model with a multiple-choice head."""
    folder = tmp_path_factory.mktemp("choosing")
    model = keras_bert.build_multiple_choice(keras_bert.build_encoder(config))
    kernel = model.get_layer("choice_scorer").kernel
    kernel.assign(10 * kernel)  # So that scores differ.
    keras_bert.save(model, folder, pieces)
    return keras_bert.load(folder)


@pytest.fixture(scope="module")
def reader(tmp_path_factory, bert):
    """The same model, which reads long texts in windows."""
    folder = tmp_path_factory.mktemp("reading")
    keras_bert.save(bert.model(), folder, bert.vocabulary, **READING)
    return keras_bert.load(folder)


def read(tmp_path, *rows, predicts=False):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return choices.read_all(path, path, path if predicts else None)


def make_trainer(task, bert):
    model = task.training.build(bert)
    return keras_bert.Trainer(
        lambda: model,
        lambda model: keras_bert.create_optimizer(model, 1e-3, 1),
        task.training.loss,
    )


ROWS = [
    {"text": "a b", "choices": ["c", "d e f", "g", "h", "i"], "label": 4},
    {"text": "k", "choices": ["l", "m", "n"], "label": 0},
    {"text": "o", "choices": ["p q", "", "r", "s"], "label": 2},
]


def test_rows_of_three_to_five_choices(tmp_path, bert):
    data = read(tmp_path, *ROWS, predicts=True)
    task = MultipleChoiceTask(data, Start("start", bert), ChoiceSettings(sequence_length=7))
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
    trainer = make_trainer(task, bert)
    (logits,) = task.report.dev_logits(trainer.predict).values()
    asked = [{"text": row["text"], "choices": row["choices"]} for row in ROWS]
    answers = bert.predict(asked, sequence_length=7)
    for row, answer in zip(logits, answers, strict=True):
        expected = special.softmax(row[: len(answer["scores"])])
        np.testing.assert_allclose(expected, answer["scores"], atol=1e-5)
    assert (logits[1, 3:] == -1e9).all()
    assert (logits[2, [1, 4]] == -1e9).all()
    test = task.report.test_logits(trainer.predict)
    np.testing.assert_array_equal(test["test"], logits)
    accuracy = f"accuracy {np.mean(logits.argmax(-1) == labels):.2%}"
    assert task.report.conclude({"dev": logits}, test, tmp_path).all_facts == {"scores on test": accuracy}


def test_a_right_choice_without_tokens_is_refused(tmp_path, bert):
    row = {"text": "a", "choices": ["b", "\u200b"]}
    data = read(tmp_path, row | {"label": "A"}, row | {"label": "B"})
    settings = ChoiceSettings(sequence_length=16)
    with pytest.raises(ValueError, match="a.jsonl:2: the right choice has no tokens"):
        MultipleChoiceTask(data, Start("start", bert), settings)


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
    wrong = "row 1 · true B · predicted A with 70.0% · loss 1.61 Why <b>?"
    assert words(first) == f"{wrong} 70.0% A rain 20.0% B sun right 10.0% C wind"
    # The absent choice is not listed.
    correct = "row 3 · true A · predicted A with 90.0% · loss 0.105 · correct Who?"
    assert words(last) == f"{correct} 90.0% A he right 10.0% C she"


def test_errors():
    logits = np.log(np.maximum(SHARES, 1e-9))
    _, (header, *rows) = judge_choices(KEYS, EXAMPLES, logits, [4, 5, 6]).report()
    assert header[:5] == ["row", "true", "predicted", "probability", "loss"]
    assert header[5:] == ["text", "right choice", "predicted choice"]
    assert [row[:3] + row[5:] for row in rows] == [
        [1, "B", "A", "Why <b>?", "sun", "rain"],
        [4, "A", "B", "When?", "now", "then"],
    ]
    assert [row[3] for row in rows] == ["0.7", "0.6"]


# Each window of a text is read with every choice. All tokens are letters with a space between them.
TEXTS = ["a b c d e f g h i j k l m n", "a b", "a b c d e f g h", "k"]
CHOICES = [["p q r", "s"], ["t", "", "u v"], ["a b c d e f g h i", "x"], ["b c d e f g h i", "z"]]


def windows_of(text, longest):
    """Returns where the windows of a text start, and how many tokens they have at most."""
    room = ROOM - min(longest, max(ROOM // 2, ROOM - len(text)))
    starts = [0]
    while starts[-1] + room < len(text):
        starts.append(starts[-1] + room - OVERLAP)
    return starts, room


@dataclasses.dataclass(frozen=True)
class Expected:
    """Logits of the choices, the number of windows, and where the strongest window starts and ends."""

    logits: np.ndarray
    windows: int
    strongest: dict


def by_hand(bert, text, choices):
    """Reads a text with its choices, a window and a choice at a time."""
    tokenize = bert.preprocessor(LENGTH).tokenizer
    tokens = tokenize([text]).to_list()[0]
    tokens_of_choices = tokenize(choices).to_list()
    starts, room = windows_of(tokens, max(map(len, tokens_of_choices)))
    most = max(ROOM // 2, ROOM - len(tokens))
    logits = np.full([len(starts), len(choices)], -1e9)
    for number, first in enumerate(starts):
        for place, choice in enumerate(tokens_of_choices):
            if choice:
                window = tokens[first : first + room]
                logits[number, place] = logit_of(bert, window, choice[:most])
    joined = special.logsumexp(logits, 0) - np.log(len(starts))
    strongest = special.log_softmax(logits, 1)[:, joined.argmax()].argmax()
    first = starts[strongest]
    last = min(first + room, len(tokens)) - 1
    return Expected(joined, len(starts), {"start": 2 * first, "end": 2 * last + 1})


def logit_of(bert, window, choice):
    start, end = bert.vocabulary.ids(["[CLS]", "[SEP]"])
    ids = np.array([[[start, *window, end, *choice, end]]])
    segments = np.array([[[0] * (len(window) + 2) + [1] * (len(choice) + 1)]])
    inputs = {"token_ids": ids, "segment_ids": segments, "padding_mask": np.ones_like(ids)}
    return bert.model()(inputs, training=False)["logits"][0, 0]


@pytest.fixture(scope="module")
def expected(reader):
    with eagerly():
        return [by_hand(reader, text, choices) for text, choices in zip(TEXTS, CHOICES, strict=True)]


def test_answers_are_those_of_a_loop(reader, expected):
    rows = [{"text": text, "choices": choices} for text, choices in zip(TEXTS, CHOICES, strict=True)]
    answers = reader.predict(rows)
    assert [answer["windows"] for answer in answers] == [3, 1, 2, 1]
    for row, answer, by_loop in zip(rows, answers, expected, strict=True):
        scores = special.softmax(by_loop.logits)[: len(answer["scores"])]
        np.testing.assert_allclose(answer["scores"], scores, atol=1e-5)
        assert answer["windows"] == by_loop.windows
        assert answer["strongest"] == by_loop.strongest
        longest = max(len(choice.split()) for choice in row["choices"])
        assert answer["tokens"] == 3 + len(row["text"].split()) + longest
    # Of the third, a choice is cut.
    assert [answer["tokens_read"] for answer in answers] == [20, 7, 15, 12]


def test_a_saved_model_reads_the_same(reader, expected, tmp_path):
    reader.export(tmp_path / "1")
    served = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    width = max(map(len, CHOICES))
    filled = [[*choices, *[""] * (width - len(choices))] for choices in CHOICES]
    outputs = served(text=tf.constant(TEXTS), choices=tf.constant(filled))
    for found, by_loop in zip(outputs["probabilities"].numpy(), expected, strict=True):
        probabilities = special.softmax(by_loop.logits)
        np.testing.assert_allclose(found[: len(probabilities)], probabilities, atol=1e-5)


def test_training_reads_the_same(reader, expected):
    examples = ChoiceExamples(TEXTS, CHOICES, labels=[0, 2, 1, 0], lines=[1, 2, 3, 4], ids=None)
    data = ChoiceData(examples, examples, None, {"train": "a", "dev": "a"})
    task = MultipleChoiceTask(data, Start("start", reader), ChoiceSettings(**READING))
    assert task.lengths["train"].shape == (4, 3)
    assert task.report.summary.truncated["rows"] == 2
    (logits,) = task.report.dev_logits(make_trainer(task, reader).predict).values()
    for found, by_loop in zip(logits, expected, strict=True):
        np.testing.assert_allclose(found[: len(by_loop.logits)], by_loop.logits, rtol=1e-5)
    assert (logits[[0, 2, 3], 2] == -1e9).all()
