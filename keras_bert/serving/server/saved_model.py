"""A loaded SavedModel, run as in TensorFlow Serving: a session over its graph, without the model's Python code.

With the last reference to the session, all resources of the model are freed.
"""

import pathlib
import re

import tensorflow as tf
import tensorflow_text  # noqa: F401  Registers the tokenizer ops.

from keras_bert.files import MODEL_FACTS, read_object
from keras_bert.serving.errors import CODES, RequestError, bad, one_line

_DEFAULT_SIGNATURE = "serving_default"
CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"
# Signatures of the SavedModel format itself.
_INTERNAL = "__saved_model_"
# A check of inputs in the graph with one message, as TensorFlow reports it.
_ASSERTION = re.compile(r"(?:Graph execution error: )?assertion failed: \[([^\[\]]+)\](?: \[\[.*\]\])?")


def _failure(message):
    """Returns the error message of an execution: for a check in the graph, only its own message."""
    assertion = _ASSERTION.fullmatch(message)
    if assertion:
        return assertion[1]
    return f"model execution failed: {message}"


def _spec(info):
    return tf.TensorSpec(tf.TensorShape(info.tensor_shape), info.dtype)


def is_batched(spec):
    """Whether the first dimension is the batch dimension."""
    return spec.shape.rank is None or (spec.shape.rank > 0 and spec.shape[0] is None)


def describe(spec):
    """Formats a `tf.TensorSpec` for messages, such as `string (batch,)`."""
    if spec.shape.rank is None:
        return f"{spec.dtype.name} of any shape"
    sizes = [str(size) if size else "any" for size in spec.shape]
    if spec.shape.rank and spec.shape[0] is None:
        sizes[0] = "batch"
    if len(sizes) == 1:
        return f"{spec.dtype.name} ({sizes[0]},)"
    return f"{spec.dtype.name} ({', '.join(sizes)})"


class Signature:
    """A signature of a loaded model; `inputs` and `outputs` map names to `tf.TensorSpec`s.

    It is `joinable` (requests can share a batch) if all inputs and outputs start with the batch dimension.
    """

    def __init__(self, session, name, definition):
        self.name = name
        self.method = definition.method_name
        self.inputs = {key: _spec(info) for key, info in sorted(definition.inputs.items())}
        self.outputs = {key: _spec(info) for key, info in sorted(definition.outputs.items())}
        specs = [*self.inputs.values(), *self.outputs.values()]
        known = all(spec.shape.rank is not None for spec in self.inputs.values())
        self.joinable = known and all(map(is_batched, specs))
        self._function = session.make_callable(
            [session.graph.get_tensor_by_name(definition.outputs[key].name) for key in self.outputs],
            [session.graph.get_tensor_by_name(definition.inputs[key].name) for key in self.inputs],
        )

    def __call__(self, inputs):
        """Maps a dict of NumPy arrays to a dict of NumPy arrays."""
        try:
            values = self._function(*(inputs[key] for key in self.inputs))
        except tf.errors.OpError as error:
            raise RequestError(CODES[error.error_code], _failure(one_line(error.message))) from error
        except UnicodeDecodeError as error:  # TensorFlow's message quotes bytes of an input.
            raise bad(_failure(one_line(error.object.decode(errors="replace")))) from error
        return dict(zip(self.outputs, values, strict=True))

    def check_names(self, names, where=""):
        """Raises an error unless the names are those of the signature's inputs."""
        if set(names) != set(self.inputs):
            received = ", ".join(f"`{name}`" for name in sorted(names)) or "none"
            raise bad(f"{where}expected the input(s) {self.describe_inputs()}. Received: {received}")

    def describe_inputs(self):
        return ", ".join(f"`{name}` {describe(spec)}" for name, spec in self.inputs.items())


class SavedModel:
    """Loads a SavedModel.

    Attributes:
        definitions: dict of all signature protocol buffers.
        signatures: dict of the runnable signatures.
        facts: dict, the metadata that `keras_bert.export` stores; empty for other models.
    """

    def __init__(self, path):
        if not (pathlib.Path(path) / "saved_model.pb").is_file():
            raise ValueError(f"{path}: there is no saved_model.pb")
        self.facts = _facts(pathlib.Path(path) / MODEL_FACTS)
        config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
        options = config.gpu_options
        options.allow_growth = True
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph, config=config)
        try:
            with graph.as_default():
                meta_graph = tf.compat.v1.saved_model.loader.load(self._session, ["serve"], str(path))
            self.definitions = dict(meta_graph.signature_def)
            self.signatures = {}
            for name, definition in sorted(self.definitions.items()):
                if not name.startswith(_INTERNAL) and _is_dense(definition):
                    self.signatures[name] = Signature(self._session, name, definition)
            if not self.signatures:
                raise ValueError(f"{path}: no signature can be served")
        except BaseException as error:
            self._session.close()
            if isinstance(error, tf.errors.OpError):
                raise ValueError(f"{path}: {one_line(error.message)}") from error
            raise

    def signature(self, name=""):
        """Returns a signature by name. Defaults to `serving_default`."""
        name = name or _DEFAULT_SIGNATURE
        if name not in self.signatures:
            raise bad(f"unknown signature `{name}`. Expected one of: {', '.join(self.signatures)}")
        return self.signatures[name]


def _facts(path):
    try:
        return read_object(path)
    except (OSError, ValueError):  # The file is for people; without it, the model works.
        return {}


def _is_dense(definition):
    infos = (*definition.inputs.values(), *definition.outputs.values())
    return all(info.WhichOneof("encoding") == "name" for info in infos)
