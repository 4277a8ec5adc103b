"""The parts of a tagging task; what is known about sentences before training."""

import types

import pytest

import keras_bert
from keras_bert.tasks.base import Start
from keras_bert.tasks.summary import Summary
from keras_bert.tasks.tagging.data import TaggingSettings
from keras_bert.tasks.tagging.schemes import PLAIN
from keras_bert.tasks.tagging.task import TaggingTask, dev_baseline, summary_warnings

pytestmark = pytest.mark.tensorflow


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("names", [("train", "dev"), ("train", "dev", "test")])
def test_data_are_listed_in_the_order_of_their_use(tmp_path, checkpoint, names):
    files = [tmp_path / f"{name}.txt" for name in names]
    for number, file in enumerate(files):
        file.write_text("a B-PER\nb O\n\n" * (number + 2))
    settings = TaggingSettings(sequence_length=8)
    task = TaggingTask(settings.read(*files), Start("start", keras_bert.load(checkpoint)), settings)
    assert list(task.splits) == ["train", "dev", "test"]
    assert len(task.splits["test"]) == len(names) - 2
    listed = task.data_settings()
    assert list(listed["content"]) == list(names)
    flags = {"train": "train_file", "dev": "dev_file", "test": "predict_file"}
    assert [name for name in listed if name.endswith("_file")] == [flags[name] for name in names]


@pytest.mark.parametrize(("what", "key"), [("tags", "tags"), ("types", "entities")])
@pytest.mark.parametrize(
    ("counts", "unknown", "shown"),
    [
        ({"PER": 3}, {"PER\u200b": 2}, r"'PER' (3) and 'PER\u200b' (0)"),
        ({"1": 9, "01": 9}, {}, "'1' (9) and '01' (9)"),
    ],
)
def test_tags_and_types_that_look_alike(what, key, counts, unknown, shown):
    summary = Summary(train=9, more={key: counts, "unknown": unknown})
    first = summary_warnings(summary)[0]
    assert first == f"{what} that look alike are different classes: {shown}"


def dev_of(scheme):
    """Returns a dev set of five words, of which three are nouns."""
    sentences = types.SimpleNamespace(scheme=scheme)
    return types.SimpleNamespace(gold_tags=[["N", "V"], ["N", "N", "D"]], sentences=sentences)


def test_the_majority_of_dev_for_plain_tags():
    """A model that knows none of dev's words is compared with dev's most frequent tag."""
    found = dev_baseline(dev_of(PLAIN))
    assert found["dev_baseline"] == "always N"
    assert found["dev_majority"]["accuracy"] == pytest.approx(3 / 5)


def test_spans_have_no_majority_of_dev():
    assert dev_baseline(dev_of("iob2")) == {}
