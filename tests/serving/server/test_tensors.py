"""Conversion of JSON to arrays and back, and what of a request is refused."""

import json
import math

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.serving.errors import RequestError  # noqa: E402
from keras_bert.serving.server import tensors  # noqa: E402
from keras_bert.serving.server.saved_model import CLASSIFY, REGRESS, SavedModel  # noqa: E402


@pytest.fixture(scope="module")
def signature(toys):
    """Returns a signature of `many`; `text` is that of the model `text`."""
    many = SavedModel(toys / "many" / "1")
    text = SavedModel(toys / "text" / "1")

    def find(name):
        if name == "text":
            return text.signature()
        return many.signature(name)

    return find


@pytest.mark.parametrize(
    ("name", "request_", "expected", "rows"),
    [
        ("text", {"instances": ["a", "ä"]}, {"text": [b"a", "ä".encode()]}, 2),
        ("text", {"instances": [{"text": "a"}, {"text": {"b64": "/w=="}}]}, {"text": [b"a", b"\xff"]}, 2),
        ("text", {"instances": [{"b64": "/w=="}]}, {"text": [b"\xff"]}, 1),
        ("text", {"inputs": {"text": ["a"]}}, {"text": [b"a"]}, None),
        ("text", {"inputs": {"b64": "/w=="}}, {"text": b"\xff"}, None),
        ("", {"instances": [{"text": "a", "pair": "b"}]}, {"pair": [b"b"], "text": [b"a"]}, 1),
        ("ids", {"inputs": [[1, 2]]}, {"token_ids": [[1, 2]]}, None),
    ],
)
def test_rows_and_columns(signature, name, request_, expected, rows):
    arrays, found_rows = tensors.from_json(request_, signature(name))
    assert {name: array.tolist() for name, array in arrays.items()} == expected
    assert found_rows == rows


def test_numbers_have_the_type_of_the_input(signature):
    request = json.loads('{"inputs": {"x": [1, 0.1, NaN, -Infinity, 3e38], "flip": [true]}}')
    arrays, _ = tensors.from_json(request, signature("divide"))
    assert arrays["x"].dtype == np.float32
    assert arrays["flip"].dtype == bool
    np.testing.assert_array_equal(arrays["x"], np.array([1, 0.1, math.nan, -math.inf, 3e38], "float32"))


TEXT = "`text` string (batch,)"
PAIR = "`pair` string (batch,), `text` string (batch,)"


@pytest.mark.parametrize(
    ("name", "request_", "message"),
    [
        ("text", {}, 'expected either "instances" (rows) or "inputs" (columns) in the request'),
        ("text", {"instances": ["a"], "inputs": ["a"]}, 'expected either "instances" (rows) or "inputs" (columns)'),
        ("text", {"instances": []}, '"instances" must be a list of at least one row'),
        ("text", {"instances": [{"txt": "a"}]}, f"row 0: expected the input(s) {TEXT}. Received: `txt`"),
        ("text", {"instances": [{"text": "a"}, "b"]}, f"row 1: expected the input(s) {TEXT}. Received: not an"),
        ("text", {"instances": ["a", {"text": "b"}]}, "value 1 must be a string or"),
        ("", {"inputs": ["a"]}, f'"inputs" must name the inputs of the signature: {PAIR}. Received: plain'),
        ("text", {"instances": ["a", 3]}, 'input `text`: value 1 must be a string or {"b64": "..."}: received 3'),
        ("text", {"instances": [{"b64": "a"}]}, 'value 0 must be a string or {"b64": "..."}: Invalid base64'),
        ("text", {"instances": ["\ud800"]}, "surrogates not allowed"),
        ("text", {"instances": [["a"]]}, "input `text` must be string (batch,). Received: shape=(1, 1)"),
        ("ids", {"inputs": [[1], [2, 3]]}, "input `token_ids` is ragged"),
        ("lists", {"inputs": [["a"], ["b", "c"]]}, 'Pad shorter ones with ""'),
        ("ids", {"inputs": [[1.5]]}, "input `token_ids` (int32): value 0 must be an integer. Received: 1.5"),
        ("ids", {"inputs": [[1 << 31]]}, "a value is out of range for int32"),
        ("divide", {"inputs": {"x": [1e39], "flip": [True]}}, "range for float32"),
        ("divide", {"inputs": {"x": [1], "flip": [1]}}, "value 0 must be true or false"),
    ],
)
def test_values_that_are_no_inputs(signature, name, request_, message):
    with pytest.raises(RequestError) as error:
        tensors.from_json(request_, signature(name))
    assert message in str(error.value)
    assert error.value.code == "INVALID_ARGUMENT"


def test_the_number_of_rows(signature):
    assert tensors.check(signature("text"), {"text": np.array([b"a", b"b"], object)}) == 2
    assert tensors.check(signature("ids"), {"token_ids": tf.TensorSpec([5, 7], tf.int32)}) == 5


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("text", {"txt": np.array([b"a"], object)}, "Received: `txt`"),
        ("text", {"text": np.array([1])}, "input `text` must be string (batch,). Received: dtype=int64"),
        ("ids", {"token_ids": np.ones(1, "int32")}, "must be int32 (batch, any). Received: shape=(1,)"),
        ("text", {"text": np.array([], object)}, "the request has no rows. Expected at least one"),
        (
            "",
            {"text": np.array([b"a"], object), "pair": np.array([b"b", b"c"], object)},
            "number of rows. Received: `pair` 2, `text` 1",
        ),
    ],
)
def test_arrays_that_are_no_inputs(signature, name, inputs, message):
    with pytest.raises(RequestError) as error:
        tensors.check(signature(name), inputs)
    assert message in str(error.value)


A = np.array([b"a", b"\xff"], object)
NUMBERS = np.array([[0.1, 1 / 3], [1e-7, 2]], "float32")


def test_outputs_as_rows_and_columns():
    """An output that is the only one has no name; a name that ends with `_bytes` tells of the encoding."""
    outputs = {"label": A, "raw_bytes": A, "scores": NUMBERS}
    scores = [[0.1, 0.33333334], [1e-7, 2.0]]  # The shortest decimals.
    raw = [{"b64": "YQ=="}, {"b64": "/w=="}]
    columns = {"label": ["a", "\ufffd"], "raw_bytes": raw, "scores": scores}
    assert tensors.to_json(outputs, None) == {"outputs": columns}
    assert tensors.to_json(outputs, 2)["predictions"][0] == {"label": "a", "raw_bytes": raw[0], "scores": scores[0]}
    assert tensors.to_json({"scores": NUMBERS}, None) == {"outputs": scores}
    assert tensors.to_json({"scores": NUMBERS}, 2) == {"predictions": scores}


def test_many_numbers_are_the_shortest_decimals():
    """They are formatted in several parts."""
    numbers = np.arange(10_000, dtype="float32").reshape(100, 100) / 10
    expected = (np.arange(10_000).reshape(100, 100) / 10).tolist()
    assert tensors.to_json({"numbers": numbers}, None) == {"outputs": expected}


def test_outputs_without_the_batch_dimension():
    """A mistake of the model, not of the request."""
    with pytest.raises(RequestError, match=r"output `count` has the shape \(\): its first dim") as error:
        tensors.to_json({"count": np.array(2)}, 2)
    assert error.value.code == "INTERNAL"


def test_examples(signature):
    """Features of the context are those of each example, unless it has its own."""
    request = {
        "context": {"x": 0.25, "kind": ["a", {"b64": "/w=="}]},
        "examples": [{}, {"x": 1.0}, {"count": 3, "other": True, "none": []}],
    }
    rows = tensors.example_inputs(signature("classify"), CLASSIFY, request)["inputs"]
    found = [tf.train.Example.FromString(row).features.feature for row in rows]
    assert [feature["x"].float_list.value[0] for feature in found] == [0.25, 1.0, 0.25]
    assert list(found[0]["kind"].bytes_list.value) == [b"a", b"\xff"]
    assert list(found[2]["count"].int64_list.value) == [3]
    assert list(found[2]["other"].int64_list.value) == [1]
    assert found[2]["none"].WhichOneof("kind") is None


@pytest.mark.parametrize(
    ("name", "examples", "message"),
    [
        ("ids", [{"x": 1.0}], "signature `ids` is not for classify: expected the method"),
        ("regress", [{"x": 1.0}], "signature `regress` is not for classify"),
        ("classify", [], "with at least one example"),
        ("classify", [3], "example 0 must be an object of features. Received: int"),
        ("classify", [{}, {"x": [1, "a"]}], "feature `x` of example 1 must contain only"),
        ("classify", [{"x": None}], "feature `x` of example 0 must contain only"),
        ("classify", [{"x": 1e39}], "feature `x` of example 0: a value is out of range for float32"),
        ("classify", [{"x": {"b64": "YQ==", "c": 1}}], "feature `x` of example 0: received {"),
        ("classify", [{"\ud83d": 1.0}], "of example 0: "),
    ],
)
def test_examples_that_are_none(signature, name, examples, message):
    with pytest.raises(RequestError) as error:
        tensors.example_inputs(signature(name), CLASSIFY, {"examples": examples})
    assert message in str(error.value)


def test_labels_and_scores():
    """A model may return only labels or only scores."""
    classes = np.array([[b"low", b"high"]], object)
    scores = np.array([[0.25, 0.75]])
    both = tensors.labels_or_numbers(CLASSIFY, {"classes": classes, "scores": scores}, 1)
    assert both == [[("low", 0.25), ("high", 0.75)]]
    assert tensors.labels_or_numbers(CLASSIFY, {"scores": scores}, 1) == [[("", 0.25), ("", 0.75)]]
    assert tensors.labels_or_numbers(CLASSIFY, {"classes": classes}, 1) == [[("low", 0.0), ("high", 0.0)]]


def test_numbers():
    assert tensors.labels_or_numbers(REGRESS, {"outputs": np.array([[0.5], [2.0]])}, 2) == [0.5, 2.0]


@pytest.mark.parametrize(("method", "expected"), [(CLASSIFY, "`classes` or `scores`"), (REGRESS, "`outputs`")])
def test_a_signature_that_lacks_an_output(method, expected):
    with pytest.raises(RequestError, match=f"must have the output {expected}") as error:
        tensors.labels_or_numbers(method, {"other": np.zeros((1, 1))}, 1)
    assert error.value.code == "FAILED_PRECONDITION"
