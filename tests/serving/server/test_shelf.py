"""A folder of models that changes while it is served."""

import logging
import os
import shutil
import weakref

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


@pytest.fixture
def shelf(shelf_folder):
    """A function that makes a `Shelf` of the folder."""
    from keras_bert.serving.server.shelf import Shelf

    return lambda: Shelf(shelf_folder)


def answer(version):
    """Returns the version number in a model's answer."""
    outputs = version.model.signature()({"text": np.array(["abc"], object)})
    assert outputs["length"].tolist() == [3]
    return int(outputs["vector"][0, 2])


def served(shelf, polls=0, **target):
    """The version number in the answer after some polls."""
    for _ in range(polls):
        shelf.poll()
    return answer(shelf.version("text", **target))


def states(shelf):
    """Pairs of number and state of the versions of `text`."""
    return [(status.version, status.State.Name(status.state)) for status in shelf.status("text")]


def test_new_versions_replace_old_ones_that_stay_usable_while_requests_hold_them(shelf, shelf_folder, drop):
    shelf = shelf()
    assert not shelf.ready
    shelf.poll()
    assert shelf.ready
    held = shelf.version("text")
    drop("text/2", shelf_folder / "text" / "2")
    assert served(shelf, polls=1) == 1  # It may still be being copied.
    assert served(shelf, polls=1) == 2
    assert states(shelf) == [(2, "AVAILABLE")]
    assert answer(held) == 1
    model = weakref.ref(held.model)
    del held
    assert model() is None  # Its memory is freed.
    with pytest.raises(ValueError, match="version 1 of model text is not loaded. Expected one of: 2"):
        served(shelf, number=1)


def cut_off(folder):
    (file,) = (folder / "variables").glob("*.data*")
    file.write_bytes(file.read_bytes()[:1])


def break_warmup(folder):
    (folder / "assets.extra").mkdir()
    (folder / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"nothing of the kind" * 9)


def break_graph(folder):
    (folder / "saved_model.pb").write_bytes(b"\x0a\xff")


BROKEN = [
    (cut_off, "Read less bytes than requested"),
    pytest.param(break_warmup, "corrupted record at 0", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("spoil", "message"), BROKEN)
def test_broken_versions_replace_nothing_and_are_retried(shelf, shelf_folder, drop, toys, caplog, spoil, message):
    shelf = shelf()
    shelf.poll()
    drop("text/2", shelf_folder / "text" / "2")
    spoil(shelf_folder / "text" / "2")
    with caplog.at_level(logging.ERROR, "keras_bert.serving"):
        assert served(shelf, polls=4) == 1
    assert states(shelf) == [(2, "END"), (1, "AVAILABLE")]
    broken, good = (version.status for version in shelf.status("text"))
    assert broken.error_code == 9  # FAILED_PRECONDITION
    assert message in broken.error_message
    assert good.error_code == 0
    assert good.error_message == ""
    ours = [record.levelname for record in caplog.records if record.name.startswith("keras_bert")]
    assert [level for level in ours if level != "INFO"] == ["ERROR"]
    assert "text/2 failed to load: " in caplog.text

    shutil.rmtree(shelf_folder / "text" / "2")
    shutil.copytree(toys / "text" / "2", shelf_folder / "text" / "2")
    assert served(shelf, polls=2) == 2
    assert not any(version.status.error_message for version in shelf.status("text"))


def test_a_broken_version_at_the_start(shelf, shelf_folder, drop):
    """The one before it is served."""
    drop("text/2", shelf_folder / "text" / "2")
    cut_off(shelf_folder / "text" / "2")
    shelf = shelf()
    assert served(shelf, polls=1) == 1
    assert states(shelf) == [(2, "END"), (1, "AVAILABLE")]


def test_no_working_version(shelf, shelf_folder):
    break_graph(shelf_folder / "text" / "1")
    shelf = shelf()
    for message in ("it is still loading", "version 1: .*saved_model.pb"):
        with pytest.raises(ValueError, match=f"model text is not served: {message}") as error:
            served(shelf)
        assert error.value.code == "UNAVAILABLE"
        shelf.poll()
        assert not shelf.ready


def test_versions_replaced_in_place_are_reloaded(shelf, shelf_folder, toys, drop):
    """As with `export`: the folder is missing for a moment, then another one has its name."""
    shelf = shelf()
    shelf.poll()
    shutil.rmtree(shelf_folder / "text" / "1")
    assert served(shelf, polls=1) == 1
    drop("text/2", shelf_folder / "text" / "1")
    assert served(shelf, polls=1) == 1
    assert served(shelf, polls=1) == 2
    assert states(shelf)[0] == (1, "AVAILABLE")


@pytest.mark.slow
def test_removed_versions(shelf, shelf_folder, drop):
    drop("text/2", shelf_folder / "text" / "2")
    shelf = shelf()
    assert served(shelf, polls=1) == 2
    shutil.rmtree(shelf_folder / "text" / "2")
    assert served(shelf, polls=3) == 1  # The older version is served again.
    shutil.rmtree(shelf_folder / "text" / "1")
    assert served(shelf, polls=3) == 1  # No other version replaces it.
    shutil.rmtree(shelf_folder / "text")
    with pytest.raises(ValueError, match="unknown model. Expected one of: none, the folder has no model"):
        served(shelf, polls=3)
    assert not shelf.ready


def test_a_folder_that_a_command_has_trained_in(shelf, shelf_folder):
    """Its export is in `saved_model`."""
    shutil.move(shelf_folder / "text", shelf_folder / "run" / "saved_model")
    (shelf_folder / "run" / "model").mkdir()
    shelf = shelf()
    shelf.poll()
    assert shelf.models() == ["run"]
    assert answer(shelf.version("run")) == 1


def test_damaged_metadata(shelf, shelf_folder):
    """The model is served without facts."""
    (shelf_folder / "text" / "1" / "assets.extra").mkdir()
    (shelf_folder / "text" / "1" / "assets.extra" / "keras_bert.json").write_text("[" * 100000)
    shelf = shelf()
    assert served(shelf, polls=1) == 1
    assert shelf.version("text").model.facts == {}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("checkpoint", "it is a checkpoint; export it first"),
        ("empty", "its folder has no version. Expected .*empty/<number>/saved_model.pb"),
        ("other", "unknown model. Expected one of: text"),
    ],
)
def test_folders_that_are_no_models(shelf, shelf_folder, name, message):
    (shelf_folder / "checkpoint").mkdir()
    (shelf_folder / "checkpoint" / "config.json").write_text("{}")
    (shelf_folder / "empty").mkdir()
    (shelf_folder / "README.md").write_text("")
    (shelf_folder / "text" / "writing-3").mkdir()
    shelf = shelf()
    shelf.poll()
    assert shelf.models() == ["text"]
    with pytest.raises(ValueError, match=message) as error:
        shelf.version(name)
    assert error.value.code == "NOT_FOUND"
    with pytest.raises(ValueError, match=message):
        shelf.status(name)


def write_warmup(folder, name, text):
    """Writes a request to classify, which is not replayed, and one to predict with an input of this name."""
    from tensorflow_serving.apis import classification_pb2, predict_pb2, prediction_log_pb2

    spec = {"name": "text"}
    other = prediction_log_pb2.ClassifyLog(request=classification_pb2.ClassificationRequest(model_spec=spec))
    inputs = {name: tf.make_tensor_proto([text])}
    request = prediction_log_pb2.PredictLog(request=predict_pb2.PredictRequest(model_spec=spec, inputs=inputs))
    file = folder / "assets.extra" / "tf_serving_warmup_requests"
    file.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(file)) as writer:
        writer.write(prediction_log_pb2.PredictionLog(classify_log=other).SerializeToString())
        writer.write(prediction_log_pb2.PredictionLog(predict_log=request).SerializeToString())


def test_warm_up_requests_are_replayed(shelf, shelf_folder):
    write_warmup(shelf_folder / "text" / "1", "txt", "warm")
    shelf = shelf()
    shelf.poll()
    message = shelf.status("text")[0].status.error_message
    assert "request 2 fails: expected the input(s) `text` string (batch,). Received: `txt`" in message
    write_warmup(shelf_folder / "text" / "1", "text", "warm")
    assert served(shelf, polls=2) == 1


def test_versions_are_not_loaded_while_their_files_change(shelf, shelf_folder, drop):
    shelf = shelf()
    shelf.poll()
    drop("text/2", shelf_folder / "text" / "2")
    file = shelf_folder / "text" / "2" / "saved_model.pb"
    for second in range(4):
        os.utime(file, (second, second))
        shelf.poll()
        assert states(shelf) == [(1, "AVAILABLE")]
    assert served(shelf, polls=1) == 2


def test_missing_folder_raises(tmp_path):
    from keras_bert.serving.server.shelf import Shelf

    with pytest.raises(ValueError, match="the model folder does not exist"):
        Shelf(tmp_path / "none")
