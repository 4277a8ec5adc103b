"""The files in `assets.extra/` of a SavedModel: metadata, probes with expected outputs, warm-up requests."""

import dataclasses
import importlib.metadata
import json

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from keras_bert.config import OTHER_SETTINGS
from keras_bert.files import MODEL_FACTS, WARMUP_REQUESTS, difference, fingerprint, json_text, read_object
from keras_bert.text.long_texts import READING
from keras_bert.text.preprocessor import TextPreprocessor
from keras_bert.text.token_counts import TOKENS
from keras_bert.text.tokenizer_options import VOCABULARY_OPTIONS
from keras_bert.version import __version__

FOLDER, FACTS = MODEL_FACTS.split("/")
PROBES = "probes.json"
# The facts that make another model: all that answers depend on, but for weights and the options of an export. An export
# of an earlier version lacks the last ones.
_MODEL = ("head", "multi_label", "labels", "pair", "vocabulary", "config", "lowercase", "tokenizer", "graph")
# Settings of training, on which no answer depends.
_NOT_OF_GRAPH = ("multi_label", "sequence_length")  # Options of heads that are a fact of their own, or of an export.
_TRAINING = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "initializer_range")
# A long and a short text, accents, another script, an empty text.
_TEXTS = (
    "The old house by the river was sold to a couple from Toronto last week.",
    "Très bien, naïve café!",
    "今天天气很好。",
    "",
)
_PAIRS = ("A couple from Toronto bought the house.", "Who sold it?", "Yes", "Nothing was said.")
_CHOICES = (("It rained.", "It was sold.", ""),) * len(_TEXTS)
_LABELS = (("houses", "food", ""), ("weather", "food", "houses")) * (len(_TEXTS) // 2)


def facts(description, preprocessor, labels, pair, options, example=None, score_range=None, columns=None, task=None):
    """Returns model metadata for JSON; for the arguments see `export`."""
    return {
        "head": description.head,
        "multi_label": description.multi_label,
        "labels": labels,
        "pair": pair,
        "options": {
            name: dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value
            for name, value in options.items()
        },
        "example": example,
        "range": score_range,
        "columns": columns,
        "task": task,
        "sequence_length": getattr(preprocessor, "sequence_length", description.config.max_position_embeddings),
        "precision": description.dtype,
        "lowercase": preprocessor.lowercase,
        "vocabulary": {"pieces": len(preprocessor.vocabulary), "sha256": preprocessor.vocabulary.sha256},
        "tokenizer": _tokenizer_facts(preprocessor),
        "config": description.config.to_huggingface(),
        "graph": _graph_facts(description),
        "versions": {
            "keras_bert": __version__,
            "keras": keras.__version__,
            "tensorflow": tf.__version__,
            "tensorflow-text": importlib.metadata.version("tensorflow-text"),
        },
    }


def _tokenizer_facts(preprocessor):
    """Returns the settings of a preprocessor that ids depend on, without defaults, besides casing and length."""
    vocabulary = preprocessor.vocabulary.get_config()
    settings = dict(vocabulary) if isinstance(vocabulary, dict) else {}
    settings.pop("pieces", None)
    for option in VOCABULARY_OPTIONS:
        if option.is_large and option.name in settings:
            settings[option.name] = fingerprint(settings[option.name])
    strip_accents = settings.pop("strip_accents", None)
    own = preprocessor.get_config() if isinstance(preprocessor, TextPreprocessor) else {}
    if own.get("strip_accents") is not None:
        strip_accents = own["strip_accents"]
    if strip_accents not in (None, preprocessor.lowercase):
        settings["strip_accents"] = strip_accents
    if own.get("keep_special_tokens"):
        settings["keep_special_tokens"] = sorted(own["keep_special_tokens"])
    if own.get("truncation", "longest_first") != "longest_first":
        settings["truncation"] = own["truncation"]
    settings |= {name: own[name] for name in READING if own.get(name) is not None}
    return settings


def _graph_facts(description):
    """Returns what the graph of a model depends on besides `config.json`, without defaults."""
    graph = {}
    for name, default in OTHER_SETTINGS.items():
        value = getattr(description.config, name, default)
        if value != default:
            graph[name] = value
    for name, default in (("causal", False), ("positions", "learned")):
        value = getattr(description, name, default)
        if value != default:
            graph[name] = value
    options = getattr(description, "options", None) or {}
    graph["head"] = {name: value for name, value in options.items() if name not in _NOT_OF_GRAPH}
    return graph


def _of_model(facts):
    """Returns those of the facts of an export that make another model."""
    chosen = {name: facts[name] for name in _MODEL if name in facts}
    chosen["config"] = {name: value for name, value in facts.get("config", {}).items() if name not in _TRAINING}
    return chosen


def check_same_model(directory, about):
    """Raises an error if a folder has a SavedModel of another model than that of these facts.

    It may have other weights, and its export other options, such as `sequence_length` and `thresholds`.
    """
    if not (directory / "saved_model.pb").is_file():
        return
    path, found = directory / MODEL_FACTS, "not one of `export`"
    if path.is_file():
        before = _of_model(read_object(path))
        now = json.loads(json_text(_of_model(about), default=_plain))
        # An earlier version of this package stored fewer facts.
        found = difference(before, {name: now[name] for name in now if name in before})
    if found:
        raise ValueError(
            f"`directory` has the SavedModel of another model: {found:.200}. Expected another folder, such as the next "
            f"version, or `overwrite=True`. Received: directory={str(directory)!r}"
        )


def write(directory, signatures, about, graphs=None):
    """Writes the folder into a SavedModel; `signatures` are its `tf.function`s, which run on the probes.

    They run eagerly, or their graphs, if `graphs` has these by name.
    """
    folder = directory / FOLDER
    folder.mkdir()
    probes = probes_of(signatures, graphs)
    about = {**about, "signatures": {name: _shapes(*probe) for name, probe in probes.items()}, "ops": ops(directory)}
    text = json_text(about, indent=1, default=_plain)
    (folder / FACTS).write_text(text + "\n", encoding="utf-8", errors="replace")
    (folder / PROBES).write_text(_probes_text(probes) + "\n", encoding="utf-8")
    _write_warmup(directory / WARMUP_REQUESTS, probes)


def probes_of(signatures, graphs=None):
    """Returns the inputs of the probes and the answers to them by the name of the signature, see `write`."""
    functions = graphs or {name: function.python_function for name, function in signatures.items()}
    return {name: _probe(name, function, functions[name]) for name, function in signatures.items()}


def longest_probe(preprocessor, pair):
    """Returns the number of tokens of the longest text of the probes."""
    texts = [f"{text} [MASK]." for text in _TEXTS]
    counts = preprocessor.counted((texts, list(_PAIRS)) if pair else texts)[1]
    return int(max(counts[TOKENS]))


def _plain(value):
    """Returns an option as Python has it: it may be a NumPy scalar or array."""
    return value.tolist()


def _probes_text(probes):
    """Returns the probes as JSON; raises an error for answers that are not finite."""
    plain = {name: {"inputs": _lists(inputs), "outputs": _lists(outputs)} for name, (inputs, outputs) in probes.items()}
    try:
        return json_text(plain)
    except ValueError as error:
        raise ValueError(
            "the model's answers to the texts of the probes are not finite. Expected a model whose weights are finite: "
            f"its training may have diverged. {error}"
        ) from None


def ops(directory):
    """Returns the sorted names of all TensorFlow operations in a SavedModel."""
    saved = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    names = set()
    for graph in (meta.graph_def for meta in saved.meta_graphs):
        functions = {function.signature.name for function in graph.library.function}
        nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
        names |= {node.op for node in nodes} - functions
    return sorted(names)


def probe_inputs(name, function):
    """Returns the inputs of the probe of a signature, tensors by name."""
    # Numbers beside texts have a row for each.
    rows = len(_TEXTS) if any(spec.dtype == tf.string for spec in function.input_signature) else 2
    return {spec.name: _example(name, spec, rows) for spec in function.input_signature}


def _probe(name, signature, function):
    """Returns probe inputs of a signature and the outputs of its function."""
    inputs = probe_inputs(name, signature)
    with tf.init_scope():
        outputs = function(*inputs.values())
    return inputs, outputs


def _example(name, spec, rows):
    """Returns the value of an input in the probe of a signature, with the rank and the sizes of its `TensorSpec`."""
    _check_batch(name, spec)
    if spec.dtype == tf.string:
        return tf.constant(_strings(name, spec, rows))
    shape = _example_shape(spec, rows)
    values = dict.fromkeys(("padding_mask", "source_mask", "target_mask"), tf.ones(shape, tf.int32))
    values["segment_ids"] = tf.zeros(shape, tf.int32)
    numbers = tf.reshape(tf.range(tf.reduce_prod(shape)), shape) // 2 % 3
    return tf.cast(values.get(spec.name, numbers), spec.dtype)


def _check_batch(name, spec):
    """Raises for an input of a signature without a free batch dimension."""
    if spec.shape.rank is None or not spec.shape.rank or spec.shape[0] is not None:
        raise ValueError(
            "inputs of signatures must have a known rank, and a free first dimension, the rows of a request, such as "
            f"tf.TensorSpec([None], tf.string). Received: {spec.name} of the signature {name} with shape={spec.shape}"
        )


def _example_shape(spec, rows):
    """Returns the sizes of an input; free ones are the same for all inputs."""
    return [rows, *(size or 3 + axis for axis, size in enumerate(spec.shape[1:]))]


def _strings(name, spec, rows):
    """Returns the strings of an input: those that suit its name, or texts in the shape of the `TensorSpec`."""
    if name in ("classify", "regress") and spec.name == "inputs":
        return [_serialized(text, pair) for text, pair in zip(_TEXTS, _PAIRS, strict=True)]
    if spec.name == "text":
        suitable = [f"{text} [MASK]." for text in _TEXTS]
    else:
        suitable = {"pair": _PAIRS, "choices": _CHOICES, "question": _PAIRS, "labels": _LABELS}.get(spec.name, _TEXTS)
    if spec.shape.is_compatible_with(np.shape(suitable)):
        return suitable
    # Some strings are empty, as in lists that are shorter than those of other rows.
    shape = _example_shape(spec, rows)
    places = np.indices(shape).sum(0) % len(_TEXTS)
    return np.array(_TEXTS, object)[places].tolist()


def _serialized(*texts):
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
        for name, text in zip(("text", "pair"), texts, strict=True)
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _shapes(inputs, outputs):
    return {
        side: {name: [value.dtype.name, value.shape.rank] for name, value in values.items()}
        for side, values in (("inputs", inputs), ("outputs", outputs))
    }


def _lists(tensors):
    return {name: _decoded(value.numpy().tolist()) for name, value in tensors.items()}


def _decoded(value):
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    # Latin-1 has a character for each byte, so that JSON can represent any bytes.
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _write_warmup(path, probes):
    """Writes requests that TensorFlow Serving runs before it serves a model, since first requests are slow."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name, (inputs, _) in probes.items():
            if name in ("classify", "regress"):
                continue
            request = predict_pb2.PredictRequest()
            request.model_spec.signature_name = name
            for key, value in inputs.items():
                request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
            log = prediction_log_pb2.PredictLog(request=request)
            writer.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())
