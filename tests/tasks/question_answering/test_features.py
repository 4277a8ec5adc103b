"""Windows, positions of answers and answers from logits, on manually derived cases and on the real files."""

import json

import numpy as np
import pytest

import keras_bert
from keras_bert.tasks.question_answering import data as squad
from keras_bert.tasks.question_answering import features as module
from keras_bert.tasks.question_answering import metrics as squad_metrics
from keras_bert.tasks.question_answering import predictions as squad_predictions
from keras_bert.tasks.question_answering.features import QuestionWindows
from keras_bert.text import viewed_texts

pytestmark = pytest.mark.tensorflow

CLS = 2
SEP = 3


def entry(name, question, *answers, impossible=False):
    listed = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": question, "answers": listed, "is_impossible": impossible}


@pytest.fixture
def windows(eager, pieces, tmp_path):
    """Returns a function that creates the windows of paragraphs, `(context, entries)` each."""

    def make(*paragraphs, length=12, **options):
        data = [{"paragraphs": [{"context": context, "qas": entries} for context, entries in paragraphs]}]
        (tmp_path / "squad.json").write_text(json.dumps({"version": "v2.0", "data": data}))
        preprocessor = keras_bert.TextPreprocessor(pieces, length)
        return QuestionWindows(squad.read(tmp_path / "squad.json"), preprocessor, **options)

    return make


def text_of(pieces, ids):
    return " ".join(pieces[piece] for piece in ids)


def test_windows_of_a_context(windows, pieces):
    # Room for 12 - 3 - 2 = 7 tokens of the context, with stride 3.
    found = windows(("a b c d e f g h i j", [entry("1", "x y", ("i j", 16)), entry("2", "z", ("c", 4))]), doc_stride=3)
    assert found.windows.row.numpy().tolist() == [0, 0, 1, 1]
    inputs, targets = found.inputs(), found.targets()
    assert [text_of(pieces, row) for row in inputs["token_ids"].to_list()] == [
        "[CLS] x y [SEP] a b c d e f g [SEP]",
        "[CLS] x y [SEP] d e f g h i j [SEP]",
        "[CLS] z [SEP] a b c d e f g h [SEP]",
        "[CLS] z [SEP] d e f g h i j [SEP]",
    ]
    assert inputs["segment_ids"].to_list()[0] == [0] * 4 + [1] * 8
    assert targets["start"].tolist() == [0, 9, 5, 0]
    assert targets["end"].tolist() == [0, 10, 5, 0]


def test_contradicted_questions_train_as_impossible(windows):
    rows = [entry("1", "x", ("c", 4), impossible=True), entry("2", "x", ("c", 4)), entry("3", "x", impossible=True)]
    found = windows(("a b c d", rows))
    inputs, targets = found.examples()
    assert (found.unmapped, inputs["token_ids"].shape[0]) == ([], 3)
    assert targets["start"].tolist() == targets["end"].tolist() == [0, 5, 0]


def test_inputs_of_a_range_of_windows(windows, monkeypatch):
    found = windows(("a b c d e f g h i j", [entry(str(number), "x y") for number in range(5)]), doc_stride=3)
    whole = found.inputs()["token_ids"].to_list()
    assert found.inputs(3, 7)["token_ids"].to_list() == whole[3:7]
    monkeypatch.setattr(viewed_texts, "_PACKED", 3)
    assert found.inputs()["token_ids"].to_list() == whole
    monkeypatch.setattr(module, "_WINDOWS", 3)
    # Two windows per question, which are never separated.
    assert found.blocks() == [(0, 4), (4, 6), (6, 10)]
    monkeypatch.setattr(module, "_WINDOWS", 100)
    assert found.blocks() == [(0, 10)]


def test_answers_map_to_smallest_covering_span(windows):
    # "ab" is "a ##b".
    found = windows(
        ("x ab c, é x", [entry("0", "q", ("ab", 2)), entry("1", "q", ("b c", 3)), entry("2", "q", ("é x", 8))]),
        ("x 20. c", [entry("half", "q", ("0", 3))]),
        length=32,
    )
    assert found.targets()["start"].tolist() == [4, 5, 8, 4]
    assert found.targets()["end"].tolist() == [5, 6, 9, 4]
    assert found.inexact == ["half"]  # "20" is one [UNK].


def test_unmapped_answers_are_listed(windows):
    entries = [entry("wrong", "q", ("zzz", 0)), entry("nothing", "q", ("\u200b", 4))]
    entries += [entry("second", "q", ("zzz", 0), ("c", 7)), entry("none", "q", impossible=True)]
    entries += [entry("long", "q " * 40, ("a", 0))]
    found = windows(("a b \u200b\u200b c", entries), length=16, max_question_length=5)
    assert found.unmapped == ["wrong", "nothing"]
    assert found.long_questions == ["long"]
    assert found.targets()["start"].tolist() == [0, 0, 5, 0, 7]


def test_answers_are_cut_from_the_context(windows):
    found = windows(("Ünder  é, c", [entry("1", "q")]), length=32)
    pieces = len(found.inputs()["token_ids"].to_list()[0])
    start, end = np.zeros(pieces, "float32"), np.zeros(pieces, "float32")
    start[0] = end[0] = 1.5
    start[3] = 4  # From the first token to the "e".
    end[-4] = 3
    start[-2] = end[-2] = 2
    ((name, answers, null_score),) = found.answers({"start": start, "end": end}, count=3)
    assert (name, null_score) == ("1", 3)
    ((_, all_of_them, _),) = found.answers({"start": start, "end": end}, count=99)
    assert 3 < len(all_of_them) < 99
    assert [answer["text"] for answer in answers][:2] == ["Ünder  é", "Ünder  é, c"]
    assert (answers[0]["start_logit"], answers[0]["end_logit"]) == (4, 3)
    weights = np.exp([7.0, 6.0, answers[2]["start_logit"] + answers[2]["end_logit"]])
    np.testing.assert_allclose([answer["probability"] for answer in answers], weights / weights.sum(), rtol=1e-5)


def test_short_contexts_have_fewer_answers(windows):
    """Before a question whose last window begins behind the end of the first ones."""
    found = windows(("a b", [entry("1", "q")]), (" ".join("c" * 40), [entry("2", "q")]), doc_stride=3)
    zeros = np.zeros(int(found.lengths.numpy().sum()), "float32")
    (_, short, _), (_, long, _) = found.answers({"start": zeros, "end": zeros}, count=20)
    assert ([answer["text"] for answer in short], len(long)) == (["a", "a b", "b"], 20)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "inexact"), [("dev-v1.1", 32), ("dev-v2.0-cs224n-half", 2)])
def test_target_logits_reproduce_the_answers(data, file, inexact):
    questions = squad.read(data / "squad" / f"{file}.json")
    preprocessor = keras_bert.TextPreprocessor(data / "vocab" / "bert-base-uncased-vocab.txt", 384)
    windows = QuestionWindows(questions, preprocessor)
    assert (len(windows.long_questions), len(windows.inexact), windows.unmapped) == (0, inexact, [])
    targets = windows.targets()
    blocks = iter(windows.blocks())

    def predict(inputs):
        """Returns the logits of a perfect model."""
        first, last = next(blocks)
        return {
            f"{name}_logits": np.where(np.arange(384) == targets[name][first:last, None], 9.0, 0.0).astype("float32")
            for name in ("start", "end")
        }

    answers = windows.answers(windows.logits(predict), count=1, max_answer_length=100)
    threshold = 0.0 if questions.version_2 else None
    predictions = squad_predictions.predictions(answers, threshold)
    assert squad_predictions.choose_threshold(questions, answers) == (None if threshold is None else -17.0)
    exact, _ = squad_metrics.score_answers(questions, predictions)
    assert len(predictions) == len(questions)
    missed = {name for name, score in exact.items() if not score}
    assert missed <= set(windows.inexact)
