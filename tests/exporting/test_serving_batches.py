"""Signatures of every head and the documentation's recipes: a batch of requests has the answers that each has alone.

Otherwise, no recipe batches them. The rules of TensorFlow Serving, from `batching_session.cc`,
`bundle_factory_util.cc` and `server.cc` of its release 2:

- `--enable_batching` is for all models; with `--enable_per_model_batching_parameters` only for those with a file
  `batching_params.pbtxt` beside their `saved_model.pb`. It is for all signatures of a model, each on its own.
- Each input of a batch is that of its requests, joined along dimension 0. If they differ in another dimension, all
  requests fail with FAILED_PRECONDITION.
- Each output is cut into the rows of the requests. If dimension 0 is not the sum of the rows, all fail.
"""

import itertools
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
# These have the signatures of `pretraining`, `classification` and `projection`.
ALIKE = {"mlm", "untied", "regression", "embedding"}
KINDS = [head for head in HEADS if head not in ALIKE]
KINDS.append("nli")
PAGE = documents.blocks(documents.ROOT / "docs" / "tutorials" / "serving.md")
RECIPES = [block.code for block in PAGE if "tensorflow/serving:" in block.code]
RECIPES.append((documents.ROOT / "saved_models" / "docker-compose.yml").read_text())


@pytest.fixture
def signatures(model_of, preprocessor, reversible):
    """Returns the signatures of a kind of export by name."""

    def build(kind):
        tokenizer = preprocessor
        if kind == "nli":
            model = model_of("classification")
            options = NLI
        else:
            model = model_of(kind)
            options = OPTIONS.get(kind, {})
        if kind == "translation":
            tokenizer = reversible
        functions = dict(build_signatures(model, tokenizer, **options))
        functions["tokens"] = on_ids(model)
        return functions

    return build


def request(function, size):
    """Returns the inputs of a request of `size` rows; free dimensions depend on the size, too."""
    inputs = {}
    for spec in function.input_signature:
        axes = [axis or size + 2 for axis in spec.shape[1:]]
        inputs[spec.name] = _values(spec, [size, *axes])
    return inputs


def _values(spec, shape):
    """Returns an input of this shape: ids, masks, texts or `tf.train.Example`s."""
    if spec.dtype != tf.string:
        if spec.name in ("segment_ids", "mask_positions"):
            return np.zeros(shape, "int32")
        return np.ones(shape, "int32")
    texts = [chr(97 + index) * shape[0] for index in range(np.prod(shape))]
    if spec.name == "inputs":
        texts = [example(text) for text in texts]
    return np.array(texts, object).reshape(shape)


def example(text):
    """Returns a `tf.train.Example` whose two texts are this one."""
    example = tf.train.Example()
    for name in ("text", "pair"):
        example.features.feature[name].bytes_list.value.append(text.encode())
    return example.SerializeToString()


def alone(function, inputs):
    outputs = function.python_function(*map(tf.constant, inputs.values()))
    return {name: value.numpy() for name, value in outputs.items()}


def together(function, requests):
    """Returns the answers to the requests of one batch; raises for FAILED_PRECONDITION."""
    joined = {}
    sizes = [len(next(iter(inputs.values()))) for inputs in requests]
    ends = np.cumsum(sizes).tolist()
    for name in requests[0]:
        parts = [one[name] for one in requests]
        if len({part.shape[1:] for part in parts}) > 1:
            raise ValueError(f"FAILED_PRECONDITION: {name} has different shapes")
        joined[name] = np.concatenate(parts)
    outputs = alone(function, joined)
    assert {value.shape[0] for value in outputs.values()} == {ends[-1]}
    answers = []
    for start, end in itertools.pairwise([0, *ends]):
        answers.append({name: value[start:end] for name, value in outputs.items()})
    return answers


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


@pytest.mark.parametrize("kind", [*KINDS, pytest.param("translation", marks=pytest.mark.slow)])
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
    if failed:
        assert not any(is_batched(recipe) for recipe in RECIPES)


def test_the_recipes_and_the_parameters_of_the_page():
    (parameters,) = (block.code for block in PAGE if block.title.endswith("/batching_params.pbtxt"))
    names = ["max_batch_size", "batch_timeout_micros", "max_enqueued_batches"]
    assert re.findall(r"^(\w+)", parameters, re.MULTILINE) == names
    assert [is_batched(recipe, has_parameters=True) for recipe in RECIPES] == [False, True, False]
