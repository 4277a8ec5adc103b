"""What an export takes from a loaded model: labels, whether it takes pairs, its task."""

import types

import pytest

from keras_bert.exporting.stored_options import labels_of, stored_options, task_facts

pytestmark = pytest.mark.tensorflow


def bert_of(**values):
    """What `stored_options` asks of a loaded model."""
    known = {"head": "classification", "labels": ["no", "yes", "maybe"], "pair": False, "columns": None}
    known |= {"pooling": "cls", "normalize": True, "task": None, "task_settings": None}
    known |= {"thresholds": None, "confidence": None, "multi_label": False}
    return types.SimpleNamespace(**known | values)


@pytest.mark.parametrize("pair", [True, False, None])
def test_a_classifier(model_of, pair):
    model = model_of("classification")
    bert = bert_of(pair=pair, columns={"text": "review"}, model=lambda: model)
    options = stored_options(bert)
    assert options["labels"] == ["no", "yes", "maybe"]
    assert options["pair"] is bool(pair)
    assert options["columns"] == {"text": "review"}
    assert "pooling" not in options


def test_a_head_that_takes_no_pair(model_of):
    bert = bert_of(head="token_classification", labels=None, pair=True)
    assert stored_options(bert, model_of("token_classification"))["pair"] is False


def test_the_encoder_of_a_classifier_is_pooled_as_the_checkpoint_says(model_of):
    options = stored_options(bert_of(), model_of("encoder"))
    assert (options["pooling"], options["normalize"]) == ("cls", True)
    assert options["labels"] is None
    assert options["pair"] is False


@pytest.mark.parametrize(("num_classes", "labels"), [(None, None), (1, None), (3, ["no", "yes", "maybe"])])
def test_only_classes_have_labels(num_classes, labels):
    description = types.SimpleNamespace(num_classes=num_classes, multi_label=False, head="classification")
    assert labels_of(bert_of(), description) == labels


def test_the_task_of_a_model():
    assert task_facts(bert_of()) is None
    assert task_facts(types.SimpleNamespace()) is None  # Other models have none.
    assert task_facts(bert_of(task="sst2")) == {"name": "sst2", "settings": {}}
    settings = {"labels": ["a"]}
    assert task_facts(bert_of(task="mine", task_settings=settings)) == {"name": "mine", "settings": settings}
