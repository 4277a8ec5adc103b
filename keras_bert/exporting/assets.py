"""The files in `assets.extra/` of a SavedModel: metadata, probes with expected outputs, warm-up requests."""

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from keras_bert.exporting.model_facts import facts_text
from keras_bert.exporting.probes import probes_of
from keras_bert.files import MODEL_FACTS, WARMUP_REQUESTS, json_text

FOLDER, FACTS = MODEL_FACTS.split("/")
PROBES = "probes.json"


def write(directory, signatures, facts, graphs=None):
    """Writes the folder into a SavedModel; `signatures` are its `tf.function`s, which run on the probes.

    They run eagerly, or their graphs, if `graphs` has these by name.
    """
    folder = directory / FOLDER
    folder.mkdir()
    probes = probes_of(signatures, graphs)
    shapes = {}
    for name, (inputs, outputs) in probes.items():
        shapes[name] = {"inputs": _shapes(inputs), "outputs": _shapes(outputs)}
    facts_of_files = facts | {"signatures": shapes, "ops": ops(directory)}
    text = facts_text(facts_of_files, indent=1)
    (folder / FACTS).write_text(text + "\n", encoding="utf-8", errors="replace")
    (folder / PROBES).write_text(_probes_text(probes) + "\n", encoding="utf-8")
    _write_warmup(directory / WARMUP_REQUESTS, probes)


def _shapes(tensors):
    """Returns the type and the rank of tensors by name."""
    return {name: [value.dtype.name, value.shape.rank] for name, value in tensors.items()}


def _probes_text(probes):
    """Returns the probes as JSON; raises an error for answers that are not finite."""
    lists = {}
    for name, (inputs, outputs) in probes.items():
        lists[name] = {"inputs": _lists(inputs), "outputs": _lists(outputs)}
    try:
        return json_text(lists)
    except ValueError as error:
        raise ValueError(
            "the model's answers to the texts of the probes are not finite. Expected a model whose weights are finite: "
            f"its training may have diverged. {error}"
        ) from None


def _lists(tensors):
    """Returns the values of tensors by name, as nested lists."""
    return {name: _decoded(value.numpy().tolist()) for name, value in tensors.items()}


def _decoded(value):
    """Returns nested lists with strings in place of bytes."""
    if isinstance(value, list):
        return [_decoded(element) for element in value]
    if isinstance(value, bytes):
        # Latin-1 has a character for each byte, so that JSON can represent any bytes.
        return value.decode("latin-1")
    return value


def ops(directory):
    """Returns the sorted names of all TensorFlow operations in a SavedModel."""
    saved = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    names = set()
    for meta_graph in saved.meta_graphs:
        graph = meta_graph.graph_def
        nodes = list(graph.node)
        functions = set()
        for function in graph.library.function:
            functions.add(function.signature.name)
            nodes.extend(function.node_def)
        for node in nodes:
            if node.op not in functions:  # A call of a function is no operation of TensorFlow.
                names.add(node.op)
    return sorted(names)


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
