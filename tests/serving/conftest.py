"""Tiny SavedModels, and a server for them in a thread."""

import asyncio
import contextlib
import http.client
import json
import shutil
import threading
import time

import keras
import pytest

import keras_bert
from tests.conftest import TRANSFORMER

if keras.config.backend() == "tensorflow":
    import tensorflow as tf
    from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2


@pytest.fixture(scope="session")
def _open_gate():
    return threading.Event()


@pytest.fixture
def gate(_open_gate):
    """An event that the signature `wait` of `many` waits for."""
    _open_gate.clear()
    yield _open_gate
    _open_gate.set()


@pytest.fixture(scope="session")
def toys(tmp_path_factory, _open_gate):
    """A folder with `text/1` and `text/2`, whose outputs contain their version number, and `many/1`."""
    folder = tmp_path_factory.mktemp("toys")
    for version in (1, 2):
        module = module_with(offset=version)
        save(module, {"serving_default": text_function(module)}, folder / "text" / str(version))
    module = module_with(offset=1)
    save(module, many_functions(module, _open_gate), folder / "many" / "1")
    set_methods(folder / "many" / "1", {"classify": "classify", "regress": "regress"})
    yield folder
    del module  # Until here, `wait` needs its Python function.


@pytest.fixture
def shelf_folder(toys, tmp_path):
    """A folder with `text/1` that a test may modify."""
    shutil.copytree(toys / "text" / "1", tmp_path / "saved_models" / "text" / "1")
    return tmp_path / "saved_models"


@pytest.fixture
def drop(toys):
    """Copies a version under a temporary name and renames it, as `export` does."""

    def copy(source, target):
        temporary = target.with_name(f"writing-{target.name}")
        shutil.copytree(toys / source, temporary)
        temporary.rename(target)

    return copy


def module_with(offset):
    """Returns a module with a variable that functions read."""

    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.offset = tf.Variable(float(offset))

    return Module()


def save(module, functions, path):
    # The variables of a function are saved only if the module owns the function.
    for name, function in functions.items():
        setattr(module, f"function_{name}", function)
    tf.saved_model.save(module, str(path), signatures=functions)


def set_methods(path, methods):
    """Sets the method names of signatures, which `tf.saved_model.save` does not support."""
    file = path / "saved_model.pb"
    proto = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    signatures = proto.meta_graphs[0].signature_def
    for name, method in methods.items():
        signatures[name].MergeFrom(meta_graph_pb2.SignatureDef(method_name=f"tensorflow/serving/{method}"))
    file.write_bytes(proto.SerializeToString())


def texts(*names):
    return [tf.TensorSpec([None], tf.string, name) for name in names]


def text_function(module):
    @tf.function(input_signature=texts("text"), autograph=False)
    def function(text):
        length = tf.strings.length(text)
        label = tf.where(length > 5, "long", "short")
        floats = tf.cast(length, tf.float32)
        vector = tf.stack([floats, floats / 10, tf.zeros_like(floats) + module.offset], 1)
        return {"length": length, "label": label, "vector": vector, "echo_bytes": text}

    return function


def many_functions(module, gate):
    functions = {}

    def signature(*specs):
        def add(body):
            functions[body.__name__] = tf.function(body, input_signature=specs, autograph=False)
            return functions[body.__name__]

        return add

    @signature(*texts("text", "pair"))
    def serving_default(text, pair):
        return {"joined": tf.strings.join([text, pair], "+")}

    @signature(tf.TensorSpec([None, None], tf.int32, "token_ids"))
    def ids(token_ids):
        return {"total": tf.reduce_sum(token_ids, 1)}

    @signature(tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.bool, "flip"))
    def divide(x, flip):
        return {"quotient": tf.where(flip, -1.0, 1.0) / x * module.offset}

    @signature(*texts("text"))
    def whole(text):
        return {"count": tf.size(text)}

    @signature(*texts("text"))
    def unique(text):
        return {"words": tf.unique(text).y}

    @signature(*texts("text"))
    def picky(text):
        tf.debugging.assert_none_equal(text, "spoilt", message="a spoilt text")
        return {"length": tf.strings.length(text)}

    @signature(tf.TensorSpec([None, None], tf.string, "labels"))
    def lists(labels):
        has_labels = tf.debugging.Assert(tf.shape(labels)[1] > 0, ["`labels` must not be empty lists"])
        with tf.control_dependencies([has_labels]):
            return {"joined": tf.strings.reduce_join(labels, 1, separator="+")}

    @signature(tf.TensorSpec([None], tf.int32, "x"))
    def wait(x):
        waited = tf.numpy_function(lambda x: x if gate.wait(60) else None, [x], tf.int32)
        return {"value": tf.ensure_shape(waited, [None])}

    @signature(*texts("inputs"))
    def classify(inputs):
        x = tf.io.parse_example(inputs, {"x": tf.io.FixedLenFeature([], tf.float32)})["x"]
        labels = tf.repeat(tf.constant([["low", "high"]]), tf.size(x), 0)
        return {"classes": labels, "scores": tf.stack([1 - x, x], 1)}

    @signature(*texts("inputs"))
    def regress(inputs):
        return {"outputs": 2 * classify(inputs)["scores"][:, 1:]}

    return functions


class Running:
    """Sends requests to a server in a thread."""

    def __init__(self, server):
        self.port = server.port
        self.grpc_port = server.grpc_port
        self.shelf = server.shelf
        self.batcher = server.batcher

    def send(self, method, path, body=None):
        """Sends a REST request, `body` as bytes or JSON values; returns `(status, response)`."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, body)
            response = connection.getresponse()
            content = response.read()
        if response.headers["Content-Type"].startswith("application/json"):
            return response.status, json.loads(content)
        return response.status, content.decode()

    def predict(self, model, body, method="predict"):
        return self.send("POST", f"/v1/models/{model}:{method}", body)


@pytest.fixture(scope="session")
def running():
    """A context manager that starts a server for a folder."""
    from keras_bert.serving.server.server import Server, ServerSettings

    @contextlib.contextmanager
    def start(folder, ready=True, **settings):
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        defaults = {"port": 0, "grpc_port": 0, "poll_seconds": 0.05, "shutdown_seconds": 5.0}
        server = Server(folder, ServerSettings(**defaults | settings))
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(60)
        try:
            until(lambda: server.shelf.ready or not ready)
            yield Running(server)
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result(60)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()

    return start


@pytest.fixture(scope="session")
def server(running, toys, tmp_path_factory):
    """A shared read-only server with version 2 of `text`, and `many`."""
    with running(toys, batch_window_ms=1.0) as server:
        yield server


MARKUP = "<b>no</b><script>document.title='bad'</script>"
_TAGS = ["B-<i>x</i>", "I-<i>x</i>", "B-LOC", "I-LOC", "B-PER", "I-PER", "B-ORG", "I-ORG", "O"]


@pytest.fixture(scope="session")
def exported_heads(config, pieces, reversible, shared_folder):
    """A folder with an untrained model for each head."""

    def fill(folder):
        preprocessor = keras_bert.TextPreprocessor(pieces, 40)

        def export(name, make, *arguments, **options):
            model = make(keras_bert.build_encoder(config), *arguments)
            keras_bert.export(model, preprocessor, folder / name / "3", **options)

        keras.utils.set_random_seed(3)
        example = {"text": f"{MARKUP} a", "pair": "b"}
        pairs = {"labels": ["yes", MARKUP, "نعم"], "pair": True, "example": example}
        export("classes", keras_bert.build_classifier, 3, **pairs)
        export("many_classes", keras_bert.build_classifier, 150)
        export("score", keras_bert.build_classifier, 1, pair=True, score_range=(-4, 4))
        export("tags", keras_bert.build_token_classifier, 9, labels=_TAGS)
        export("answers", keras_bert.build_span_labeler)
        export("more_answers", keras_bert.build_span_labeler, n_best=4)
        export("or_no_answer", keras_bert.build_span_labeler, n_best=2, null_threshold=0.5)
        export("masks", keras_bert.build_pretrainer)
        export("choices", keras_bert.build_multiple_choice)
        export("vectors", lambda encoder: encoder)
        prompts = {"prompts": {"query": "q: "}, "zero_shot": keras_bert.ZeroShot()}
        export("sentences", keras_bert.build_embedder, **prompts)
        transformer = keras_bert.translation.build_transformer(TRANSFORMER)
        keras_bert.export(transformer, reversible, folder / "translations" / "3", n_best=3)

    return shared_folder("heads", fill)


@pytest.fixture(scope="session")
def heads(running, exported_heads):
    """A server with a model for each head."""
    with running(exported_heads, ready=False) as server:
        until(lambda: server.shelf.ready, 120)
        yield server


def until(condition, seconds=60.0):
    """Waits until a condition is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timeout"
        time.sleep(0.01)


@pytest.fixture(name="until", scope="session")
def until_fixture():
    return until
