"""The parts of a tagging task."""

import pytest

import keras_bert
from keras_bert.tasks.base import Start
from keras_bert.tasks.tagging.data import TaggingSettings
from keras_bert.tasks.tagging.task import TaggingTask

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


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
