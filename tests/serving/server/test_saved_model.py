"""SavedModels as TensorFlow Serving loads them: their signatures, and what is refused."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.serving.errors import RequestError  # noqa: E402
from keras_bert.serving.server.saved_model import SavedModel, describe, is_batched  # noqa: E402


@pytest.fixture(scope="module")
def many(toys):
    return SavedModel(toys / "many" / "1")


@pytest.mark.parametrize(
    ("shape", "batched", "text"),
    [
        (None, True, "int32 of any shape"),
        ([], False, "int32 ()"),
        ([3], False, "int32 (3,)"),
        ([None], True, "int32 (batch,)"),
        ([None, None, 2], True, "int32 (batch, any, 2)"),
        ([2, None], False, "int32 (2, any)"),
    ],
)
def test_the_batch_dimension(shape, batched, text):
    spec = tf.TensorSpec(shape, tf.int32)
    assert is_batched(spec) is batched
    assert describe(spec) == text


def test_requests_join_if_all_outputs_have_the_batch_dimension(many):
    alone = [name for name, signature in many.signatures.items() if not signature.joinable]
    assert alone == ["whole"]


def test_methods_and_signatures_of_the_format(many):
    assert many.signature("ids").method == "tensorflow/serving/predict"
    assert many.signature("classify").method == "tensorflow/serving/classify"
    assert "__saved_model_init_op" in many.definitions
    assert "__saved_model_init_op" not in many.signatures


def test_a_signature_maps_arrays_to_arrays(many):
    signature = many.signature()
    outputs = signature({"pair": np.array([b"b"], object), "text": np.array(["ä"], object)})
    assert list(outputs) == ["joined"]
    assert outputs["joined"].tolist() == ["ä+b".encode()]


def test_an_unknown_signature(many):
    with pytest.raises(RequestError, match="unknown signature `other`. Expected one of: classify, divide") as error:
        many.signature("other")
    assert error.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("names", "received"), [(["text"], "`text`"), (["text", "pair", "a"], "`a`, `pair`, `text`"), ([], "none")]
)
def test_names_of_inputs(many, names, received):
    many.signature().check_names(["pair", "text"])
    message = rf"^row 3: expected the input\(s\) `pair` string .*Received: {received}$"
    with pytest.raises(RequestError, match=message):
        many.signature().check_names(names, "row 3: ")


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("lists", {"labels": np.zeros((2, 0), object)}, "^`labels` must not be empty lists$"),
        ("classify", {"inputs": np.array([b"\xff"], object)}, "^model execution failed: .*Could not parse example"),
    ],
)
def test_a_failing_run(many, name, inputs, message):
    """A check in the graph has its own message alone."""
    with pytest.raises(RequestError, match=message) as error:
        many.signature(name)(inputs)
    assert error.value.code == "INVALID_ARGUMENT"


def test_models_of_others_have_no_facts(many):
    assert many.facts == {}


def test_a_folder_without_a_graph(tmp_path):
    with pytest.raises(ValueError, match="there is no saved_model.pb"):
        SavedModel(tmp_path)


def test_a_damaged_graph(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\x0a\xff")
    with pytest.raises((ValueError, OSError), match="saved_model.pb"):
        SavedModel(tmp_path)
