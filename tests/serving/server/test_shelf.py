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
    return [(each.version, each.State.Name(each.state)) for each in shelf.status("text")]


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


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut_off, "Read less bytes than requested"),
        pytest.param(break_warmup, "corrupted record at 0", marks=pytest.mark.slow),
    ],
)
def test_broken_versions_replace_nothing_and_are_retried(shelf, shelf_folder, drop, toys, caplog, spoil, message):
    broken_at_start, shelf = shelf(), shelf()
    shelf.poll()
    drop("text/2", shelf_folder / "text" / "2")
    spoil(shelf_folder / "text" / "2")
    assert served(broken_at_start, polls=1) == 1
    caplog.clear()
    with caplog.at_level(logging.ERROR, "keras_bert.serving"):
        assert served(shelf, polls=4) == 1
    assert states(shelf) == states(broken_at_start) == [(2, "END"), (1, "AVAILABLE")]
    broken, good = (each.status for each in shelf.status("text"))
    assert broken.error_code == 9  # FAILED_PRECONDITION
    assert message in broken.error_message
    assert (good.error_code, good.error_message) == (0, "")
    ours = [record for record in caplog.records if record.name.startswith("keras_bert")]
    assert [record.levelname for record in ours if record.levelname != "INFO"] == ["ERROR"]
    assert "text/2 failed to load: " in caplog.text
    shutil.rmtree(shelf_folder / "text" / "2")
    shutil.copytree(toys / "text" / "2", shelf_folder / "text" / "2")
    assert served(shelf, polls=2) == 2
    assert not any(each.status.error_message for each in shelf.status("text"))


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


def test_other_folders_and_damaged_metadata(shelf, shelf_folder):
    (shelf_folder / "checkpoint").mkdir()
    (shelf_folder / "checkpoint" / "config.json").write_text("{}")
    (shelf_folder / "empty").mkdir()
    (shelf_folder / "README.md").write_text("")
    (shelf_folder / "text" / "writing-3").mkdir()
    (shelf_folder / "text" / "1" / "assets.extra").mkdir()
    (shelf_folder / "text" / "1" / "assets.extra" / "keras_bert.json").write_text("[" * 100000)
    shutil.copytree(shelf_folder / "text", shelf_folder / "run" / "saved_model")  # The output of a command.
    (shelf_folder / "run" / "model").mkdir()
    shelf = shelf()
    shelf.poll()
    assert shelf.models() == ["run", "text"]
    assert shelf.version("text").model.facts == {}  # The file is damaged.
    for name, message in (
        ("checkpoint", "it is a checkpoint; export it first"),
        ("empty", "its folder has no version. Expected .*empty/<number>/saved_model.pb"),
        ("other", "unknown model. Expected one of: run, text"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            shelf.version(name)
        assert error.value.code == "NOT_FOUND"
        with pytest.raises(ValueError, match=message):
            shelf.status(name)


def test_warm_up_requests_are_replayed(shelf, shelf_folder):
    from tensorflow_serving.apis import prediction_log_pb2

    def write(name, text):
        log = prediction_log_pb2.PredictionLog()
        log.predict_log.request.model_spec.name = "text"
        log.predict_log.request.inputs[name].CopyFrom(tf.make_tensor_proto([text]))
        file = shelf_folder / "text" / "1" / "assets.extra" / "tf_serving_warmup_requests"
        file.parent.mkdir(exist_ok=True)
        other = prediction_log_pb2.PredictionLog()  # Only predict requests are replayed.
        other.classify_log.request.model_spec.name = "text"
        with tf.io.TFRecordWriter(str(file)) as writer:
            writer.write(other.SerializeToString())
            writer.write(log.SerializeToString())

    write("txt", "warm")
    shelf = shelf()
    shelf.poll()
    message = shelf.status("text")[0].status.error_message
    assert "request 2 fails: expected the input(s) `text` string (batch,). Received: `txt`" in message
    write("text", "warm")
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


def test_joinable_signatures(toys):
    from keras_bert.serving.server.saved_model import SavedModel

    model = SavedModel(toys / "many" / "1")
    assert [name for name, signature in model.signatures.items() if not signature.joinable] == ["whole"]
    methods = {name: signature.method for name, signature in model.signatures.items()}
    assert (methods["ids"], methods["classify"]) == ("tensorflow/serving/predict", "tensorflow/serving/classify")
    assert "__saved_model_init_op" not in methods
