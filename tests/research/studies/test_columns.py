"""The columns of a study's table."""

import types

import pytest

pytest.importorskip("tensorflow")

from keras_bert.tasks.classification.glue import TASKS
from research.studies.columns import Heading, open_columns
from research.studies.scales import SCALES
from tests.tasks.classification.glue_files import WORDS, write_task

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def flags(tmp_path):
    """Flags with files of named entities, and without those of other tasks."""
    sentences = "Ada B-PER\nruns O\n\nBonn B-LOC\n\n"
    (tmp_path / "train.txt").write_text(sentences * 2)
    (tmp_path / "dev.txt").write_text(sentences)
    return types.SimpleNamespace(
        glue_dir=str(tmp_path / "glue"),
        squad_train=None,
        squad_dev=None,
        ner_train=str(tmp_path / "train.txt"),
        ner_dev=str(tmp_path / "dev.txt"),
    )


def test_named_entities(flags):
    """The words of training are counted for the estimate; the same data have the same hashes."""
    scale = SCALES["base"]
    (column,) = open_columns(["ner"], scale, flags, {})
    assert column.words == 6
    assert column.recipe is scale.recipe("ner")
    assert Heading(**column.heading()) == Heading("ner", "NER", "f1", None, None)
    (again,) = open_columns(["ner_features"], scale, flags, {})
    assert again.title == "NER, features"
    assert again.content == column.content


def test_limits_of_the_examples(flags):
    (column,) = open_columns(["ner"], SCALES["demo"], flags, {})
    assert column.train_examples == 300
    assert column.dev_examples == 200


def test_a_task_of_glue_with_another_metric(flags, tmp_path):
    write_task(tmp_path / "glue", TASKS["mrpc"])
    (column,) = open_columns(["mrpc"], SCALES["demo"], flags, {"mrpc": "f1"})
    assert column.title == "MRPC"
    assert column.metric == "f1"
    assert column.words == 2 * sum(len(text.split()) for text in WORDS)


def test_files_that_are_not_given(flags):
    message = "the task squad needs --squad_train and --squad_dev. Received: no --squad_train"
    with pytest.raises(ValueError, match=message):
        open_columns(["squad"], SCALES["demo"], flags, {})


def test_the_folder_of_glue_is_named_as_the_flag(flags):
    with pytest.raises((ValueError, FileNotFoundError), match="--glue_dir"):
        open_columns(["mrpc"], SCALES["demo"], flags, {})
