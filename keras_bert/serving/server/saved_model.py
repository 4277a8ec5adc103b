"""One loaded SavedModel, run the way TensorFlow Serving runs it: a session over its graph, fed by tensor names.

No Python of the model is needed, and closing the session frees all that the model held.
"""

import dataclasses
import pathlib

import tensorflow as tf
import tensorflow_text  # noqa: F401  Registers the operations of the tokenizers.

from keras_bert.serving.errors import CODES, RequestError, bad, one_line

DEFAULT_SIGNATURE = "serving_default"
PREDICT, CLASSIFY, REGRESS = (f"tensorflow/serving/{name}" for name in ("predict", "classify", "regress"))
# Signatures of the SavedModel format itself.
_INTERNAL = "__saved_model_"


@dataclasses.dataclass(frozen=True)
class Spec:
    """An input or output: its `tf.DType` and its shape, a tuple with None for what is free; None of unknown rank."""

    dtype: tf.DType
    shape: tuple | None

    @classmethod
    def of(cls, info):
        shape = None
        if not info.tensor_shape.unknown_rank:
            shape = tuple(None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim)
        return cls(tf.dtypes.as_dtype(info.dtype), shape)

    @property
    def batched(self):
        return self.shape is None or (len(self.shape) > 0 and self.shape[0] is None)

    def __str__(self):
        if self.shape is None:
            return f"{self.dtype.name} of any shape"
        sizes = ["batch" if index == 0 and size is None else size or "any" for index, size in enumerate(self.shape)]
        return f"{self.dtype.name} ({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"


class Signature:
    """A signature of a loaded model.

    Attributes:
        inputs, outputs: `Spec`s by name.
        method: what TensorFlow Serving decides by: `tensorflow/serving/predict`, `classify` or `regress`.
        joinable: whether requests may share a run: the first axis of all inputs and outputs is the batch.
    """

    def __init__(self, session, name, definition):
        self.name = name
        self.method = definition.method_name
        self.inputs = {key: Spec.of(info) for key, info in sorted(definition.inputs.items())}
        self.outputs = {key: Spec.of(info) for key, info in sorted(definition.outputs.items())}
        self.joinable = all(spec.batched and spec.shape for spec in self.inputs.values()) and all(
            spec.batched for spec in self.outputs.values()
        )
        graph = session.graph
        self._function = session.make_callable(
            [graph.get_tensor_by_name(definition.outputs[key].name) for key in self.outputs],
            [graph.get_tensor_by_name(definition.inputs[key].name) for key in self.inputs],
        )

    def __call__(self, inputs):
        """Runs it: NumPy arrays by name in, NumPy arrays by name out."""
        try:
            values = self._function(*(inputs[key] for key in self.inputs))
        except tf.errors.OpError as error:
            raise RequestError(CODES[error.error_code], f"the model fails: {one_line(error.message)}") from error
        return dict(zip(self.outputs, values, strict=True))

    def describe_inputs(self):
        return ", ".join(f"`{name}` {spec}" for name, spec in self.inputs.items())


class SavedModel:
    """Loads a SavedModel.

    Args:
        path: the folder with `saved_model.pb`.

    Attributes:
        definitions: the signatures as protocol buffers, by name.
        signatures: those that can be run, as `Signature`s.
    """

    def __init__(self, path):
        if not (pathlib.Path(path) / "saved_model.pb").is_file():
            raise ValueError(f"{path}: there is no saved_model.pb")
        config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
        config.gpu_options.allow_growth = True
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph, config=config)
        try:
            with graph.as_default():
                meta_graph = tf.compat.v1.saved_model.loader.load(self._session, ["serve"], str(path))
            self.definitions = dict(meta_graph.signature_def)
            self.signatures = {
                name: Signature(self._session, name, definition)
                for name, definition in sorted(self.definitions.items())
                if not name.startswith(_INTERNAL) and _is_dense(definition)
            }
        except BaseException as error:
            self._session.close()
            if isinstance(error, tf.errors.OpError):
                raise ValueError(f"{path}: {one_line(error.message)}") from error
            raise
        if not self.signatures:
            self._session.close()
            raise ValueError(f"{path}: there is no signature to serve")

    def signature(self, name=""):
        """The signature of a name; of none, `serving_default`."""
        name = name or DEFAULT_SIGNATURE
        if name not in self.signatures:
            raise bad(f"there is no signature `{name}`. Expected one of: {', '.join(self.signatures)}")
        return self.signatures[name]

    def close(self):
        self._session.close()
        self.signatures = self.definitions = None


def _is_dense(definition):
    infos = (*definition.inputs.values(), *definition.outputs.values())
    return all(info.WhichOneof("encoding") == "name" for info in infos)
