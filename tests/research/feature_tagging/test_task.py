"""Tagging on features: computed once for each kind, and put below the trained BiLSTM."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import keras_bert
from keras_bert.tasks import Start, TaggingTask
from research.feature_tagging.task import BiLSTMSettings, FeatureTaggingTask
from tests.conftest import eagerly
from tests.pipelines.tagging_files import conll, sentences

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, config, pieces):
    """A folder with data files and a model to start from."""
    folder = tmp_path_factory.mktemp("features")
    for name, count, seed in (("train", 4, 0), ("dev", 3, 1)):
        (folder / f"{name}.txt").write_text("\n".join(map(conll, sentences(count, seed))))
    keras_bert.save(keras_bert.build_encoder(config), folder / "bert", pieces)
    return folder


def create_task(folder):
    settings = TaggingTask.Settings(sequence_length=24)
    data = settings.read(f"{folder}/train.txt", f"{folder}/dev.txt")
    model = str(folder / "bert")
    bert = keras_bert.load(model, hidden_states=True)
    start = Start(model, bert, keras_bert.load, {"hidden_states": True})
    bilstm = BiLSTMSettings("float32", width=8, num_layers=1)
    return FeatureTaggingTask(data, start, settings, folder / "cache", bilstm)


SETTING = {"features": "last", "learning_rate": 1e-3, "batch_size": 2, "epochs": 1, "seed": 1}


@pytest.fixture(scope="module")
def task(folder):
    """A task whose features are computed."""
    task = create_task(folder)
    with eagerly():
        task.training.stages(SETTING)
    return task


def test_the_size_of_the_bilstm_is_an_option_of_the_run(task):
    bilstm = task.options["bilstm"]
    assert bilstm == {"feature_dtype": "float32", "width": 8, "num_layers": 1, "dropout": 0.5}


def test_features_of_each_file(task, folder):
    names = sorted(path.name for path in (folder / "cache").iterdir())
    assert names == ["dev-last.json", "dev-last.npy", "train-last.json", "train-last.npy"]
    assert task.training.seconds.keys() == {"last"}
    assert task.training.dev.num_examples == 3


@pytest.mark.usefixtures("task")
def test_another_run_finds_the_features(folder, caplog):
    caplog.set_level("INFO", "keras_bert")
    create_task(folder).training.stages(SETTING)
    assert "found features of train" in caplog.text
    assert "computing" not in caplog.text


def test_the_encoder_is_put_below_the_bilstm(task):
    """The trained model reads features; the complete one has its weights, and those of the encoder."""
    bilstm = task.training.build(task.bert)
    assert set(bilstm.input) == {"features", "padding_mask"}
    tagger = task.training.complete(bilstm)
    assert keras_bert.describe(tagger).head == "bilstm_tagging"
    kernel = tagger.get_layer("token_classifier").get_weights()[0]
    np.testing.assert_array_equal(kernel, bilstm.get_layer("token_classifier").get_weights()[0])
