"""Requests that TensorFlow Serving runs as one batch have the answers that they have alone, or it does not batch them.

Its rules, from `batching_session.cc`, `bundle_factory_util.cc` and `server.cc` of its release 2:

- `--enable_batching` is for all models; with `--enable_per_model_batching_parameters` only for those with a file
  `batching_params.pbtxt` beside their `saved_model.pb`. It is for all signatures of a model, each on its own.
- Each input of a batch is that of its requests, joined along dimension 0. If they differ in another dimension, all
  requests fail with FAILED_PRECONDITION.
- Each output is cut into the rows of the requests. If dimension 0 is not the sum of the rows, all fail.
"""

import re

import numpy as np
import pytest

import keras_bert
from tests import documents
from tests.conftest import HEADS
from tests.exporting.conftest import OPTIONS

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.exporting.export import build_signatures  # noqa: E402
from keras_bert.text.signatures import on_ids  # noqa: E402

NLI = {"labels": ["entailment", "neutral", "contradiction"], "pair": True, "zero_shot": keras_bert.ZeroShot()}
# The signatures that cannot be batched, besides `tokens`: their inputs are lists.
LISTS = {"multiple_choice": ["serving_default"], "nli": ["zero_shot"], "projection": ["zero_shot"]}
SLOW = ("translation",)
# These have the signatures of `pretraining`, `classification` and `projection`.
ALIKE = {"mlm", "untied", "regression", "embedding"}
KINDS = [*(head for head in HEADS if head not in ALIKE), "translation", "nli"]
PAGE = documents.blocks(documents.ROOT / "docs" / "tutorials" / "serving.md")
RECIPES = [block.code for block in PAGE if "tensorflow/serving:" in block.code]
RECIPES.append((documents.ROOT / "saved_models" / "docker-compose.yml").read_text())


@pytest.fixture
def signatures(model_of, preprocessor, reversible):
    """Returns the signatures of a kind of export by name."""

    def build(kind):
        model = model_of("classification" if kind == "nli" else kind)
        options = NLI if kind == "nli" else OPTIONS.get(kind, {})
        tokenizer = reversible if kind == "translation" else preprocessor
        return {**build_signatures(model, tokenizer, **options), "tokens": on_ids(model)}

    return build


def request(function, size):
    """Returns the inputs of a request of `size` rows; free dimensions depend on the size, too."""
    shapes = {spec.name: [size, *(axis or size + 2 for axis in spec.shape[1:])] for spec in function.input_signature}
    return {spec.name: _values(spec, shapes[spec.name]) for spec in function.input_signature}


def _values(spec, shape):
    if spec.dtype != tf.string:
        values = np.zeros if spec.name in ("segment_ids", "mask_positions") else np.ones
        return values(shape, "int32")
    texts = [chr(97 + index) * shape[0] for index in range(np.prod(shape))]
    texts = [example(text=text.encode(), pair=text.encode()) for text in texts] if spec.name == "inputs" else texts
    return np.array(texts, object).reshape(shape)


def example(**texts):
    feature = {name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[b])) for name, b in texts.items()}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def alone(function, inputs):
    outputs = function.python_function(*map(tf.constant, inputs.values()))
    return {name: value.numpy() for name, value in outputs.items()}


def together(function, requests):
    """Returns the answers to the requests of one batch; raises for FAILED_PRECONDITION."""
    joined = {}
    ends = np.cumsum([len(next(iter(one.values()))) for one in requests])
    for name in requests[0]:
        parts = [one[name] for one in requests]
        if len({part.shape[1:] for part in parts}) > 1:
            raise ValueError(f"FAILED_PRECONDITION: {name} has different shapes")
        joined[name] = np.concatenate(parts)
    outputs = alone(function, joined)
    assert {value.shape[0] for value in outputs.values()} == {ends[-1]}
    return [{name: np.split(value, ends)[index] for name, value in outputs.items()} for index in range(len(requests))]


def assert_same(answer, expected):
    """Compares two answers; that of a batch may have more padding."""
    for name, value in expected.items():
        found = answer[name][tuple(map(slice, value.shape))]
        if value.dtype.kind == "f":
            np.testing.assert_allclose(found, value, rtol=0, atol=1e-5 * np.abs(value).max(initial=1e-3), err_msg=name)
        else:
            np.testing.assert_array_equal(found, value, err_msg=name)


def is_batched(recipe, has_parameters=False):
    """Whether TensorFlow Serving batches a model if it is started like this."""
    found = re.findall(r"--(\w+)(?:=(\S+))?", re.sub("#.*", "", recipe))
    flags = {name: value or "true" for name, value in found}
    per_model = flags.get("enable_per_model_batching_parameters") == "true"
    return flags.get("enable_batching") == "true" and (has_parameters or not per_model)


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in SLOW)) for kind in KINDS])
def test_every_signature(signatures, kind):
    failed = []
    for name, function in signatures(kind).items():
        requests = [request(function, size) for size in (1, 2)]
        try:
            answers = together(function, requests)
        except ValueError:
            failed.append(name)
            continue
        for one, answer in zip(requests, answers, strict=True):
            assert_same(answer, alone(function, one))
    assert failed == [*LISTS.get(kind, []), "tokens"]  # As the page says.
    assert not [recipe for recipe in RECIPES if failed and is_batched(recipe)]


def test_the_recipes_and_the_parameters_of_the_page():
    (parameters,) = (block.code for block in PAGE if block.title.endswith("/batching_params.pbtxt"))
    names = ["max_batch_size", "batch_timeout_micros", "max_enqueued_batches"]
    assert re.findall(r"^(\w+)", parameters, re.MULTILINE) == names
    assert [is_batched(recipe, has_parameters=True) for recipe in RECIPES] == [False, True, False]
