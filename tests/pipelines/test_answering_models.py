"""The models that `predict` asks: their options, and those of a server."""

import numpy as np
import pytest

from pipelines.answering_models import rectangles
from tests.pipelines.programs import call, mistake, read_jsonl

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.predict"
SERVER = "--server=localhost:1"


class ServedLabels:
    """A client of models with the signature `zero_shot`, and of one without it.

    The model "one" chooses one label for each text, the model "several" any number of them.
    """

    def __init__(self, *_):
        pass

    def about(self, model):
        return {}

    def metadata(self, model):
        signatures = {"serving_default": {"inputs": ["text"], "outputs": ["embedding"]}}
        if model == "one":
            signatures["zero_shot"] = {"outputs": ["label", "labels", "probabilities"]}
        elif model == "several":
            signatures["zero_shot"] = {"outputs": ["predicted", "labels", "probabilities"]}
        return {"signatures": signatures}

    def predict(self, model, inputs, signature):
        assert signature == "zero_shot"
        assert inputs["text"] == ["b", "c"]
        labels = np.array(inputs["labels"])
        probabilities = np.tile(np.array([0.25, 0.75, 0.5], "float32"), (2, 1))
        outputs = {"labels": labels, "probabilities": probabilities}
        if model == "several":
            outputs["predicted"] = probabilities >= 0.5
        else:
            outputs["label"] = labels[:, 1]
        return outputs


@pytest.fixture
def served_labels(monkeypatch):
    monkeypatch.setattr("pipelines.answering_models.Client", ServedLabels)


@pytest.mark.usefixtures("served_labels")
def test_one_label_by_a_served_model():
    labels = "--candidate_labels=x,y z,w"
    printed = call(PROGRAM, SERVER, labels, "--model=one", "b", "c")
    header, *lines = [line.split("\t") for line in printed.splitlines()]
    assert header == ["label", "x", "y z", "w"]
    assert lines == [["y z", "0.2500", "0.7500", "0.5000"]] * 2


@pytest.mark.usefixtures("served_labels")
def test_several_labels_by_a_served_model():
    labels = "--candidate_labels=x,y z,w"
    printed = call(PROGRAM, SERVER, labels, "--model=several", given="b\nc\n")
    _, first, _ = printed.splitlines()
    assert first.split("\t") == ["y z|w", "0.2500", "0.7500", "0.5000"]


@pytest.mark.usefixtures("served_labels")
@pytest.mark.parametrize(
    ("arguments", "start", "end"),
    [
        (
            ["--candidate_labels=x", "--model=one"],
            "--candidate_labels must be at least 2 labels",
            "except with a model that was exported with multi_label=True. Received: 'x'",
        ),
        (
            ["--candidate_labels=x,y", "--model=without"],
            "--candidate_labels: the served without has no signature zero_shot. Export it with",
            "",
        ),
        (
            ["--n_best=2", "--model=one"],
            "--n_best: the served one has one answer to each text. Expected no --n_best",
            "",
        ),
    ],
)
def test_what_a_served_model_does_not_do(arguments, start, end):
    message = mistake(PROGRAM, SERVER, *arguments, "b")
    assert message.startswith(start)
    assert message.endswith(end)


class ServedNumbers:
    """A client of regression models: the export of an earlier version, "old", tells no numbers of tokens."""

    def __init__(self, *_):
        pass

    def about(self, model):
        return {}

    def metadata(self, model):
        outputs = {"value": {}}
        if model == "new":
            outputs |= {"tokens": {}, "tokens_read": {}}
        signature = {"inputs": {"text": {}}, "outputs": outputs}
        return {"signatures": {"serving_default": signature}}

    def predict(self, model, inputs, signature):
        tokens = np.array([len(text) + 2 for text in inputs["text"]], "int32")
        outputs = {"value": tokens / 2}
        if model == "new":
            outputs["tokens"] = tokens
            outputs["tokens_read"] = np.minimum(tokens, 5)
        return outputs


@pytest.fixture
def served_numbers(monkeypatch):
    monkeypatch.setattr("pipelines.answering_models.Client", ServedNumbers)


@pytest.mark.usefixtures("served_numbers")
@pytest.mark.parametrize(
    ("model", "of_first", "of_second"),
    [
        ("new", {"tokens": 7, "tokens_read": 5}, {"tokens": 3, "tokens_read": 3}),
        ("old", {}, {}),
    ],
)
def test_texts_that_a_served_model_cuts(tmp_path, caplog, model, of_first, of_second):
    flags = [SERVER, f"--model={model}", "--batch_size=1"]
    printed = call(PROGRAM, *flags, given="abcde\nf\n")
    assert printed.split() == ["value", "3.5", "1.5"]
    call(PROGRAM, *flags, f"--output={tmp_path}/answers.jsonl", given="abcde\nf\n")
    first = {"text": "abcde", "value": 3.5} | of_first
    second = {"text": "f", "value": 1.5} | of_second
    assert read_jsonl(tmp_path / "answers.jsonl") == [first, second]
    told = [record.message for record in caplog.records if "longer" in record.message]
    if model == "old":
        assert told == []
        return
    line = (
        "1 of 2 texts was longer than the 5 tokens that the model reads; "
        "the rest of each was left out. The longest has 7"
    )
    assert told == [line, line]  # One of each call.


def test_requests_have_rows_of_equally_many_choices():
    rows = [{"choices": list(choices)} for choices in ("ab", "cd", "ef", "abc", "ab")]
    assert list(rectangles(rows, 2)) == [rows[:2], rows[2:3], rows[3:4], rows[4:]]
