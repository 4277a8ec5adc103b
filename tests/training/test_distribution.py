"""Strategies, errors for unavailable ones, the batches of replicas; models in sequence in one process."""

import gc
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

import keras_bert
from keras_bert import create_strategy
from keras_bert.data.batch_source import Stream
from keras_bert.training.distribution import all_reduce, dividing, gather_rows, replica_dataset
from keras_bert.training.losses import Loss
from tests.training.small_run import linear, numbered


def cluster(kind, index):
    return json.dumps({"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": kind, "index": index}})


@pytest.mark.parametrize(
    ("kinds", "config", "message"),
    [
        (["horovod"], "", "`kind` must be one of auto, one, mirrored, multi_worker, tpu. Received: kind="),
        (["tpu"], "", "no TPU was found. Expected a TPU VM, or `tpu` to name one. Received: tpu=None"),
        (["multi_worker"], "", "TF_CONFIG is not set. Expected it to name all workers"),
        (["auto", "multi_worker"], "{", "TF_CONFIG is malformed. Expected JSON such as .* Received: '{'"),
        (["auto"], '{"cluster": {"worker": ["a:1"]}}', r"TF_CONFIG is malformed.*\(KeyError: 'task'\)"),
        (["auto"], cluster("worker", 2), "TF_CONFIG: this task, worker 2, is not in the cluster"),
        (["auto"], cluster("ps", 0), "TF_CONFIG: this task, ps 0, is not in the cluster"),
    ],
)
def test_unavailable_strategies(monkeypatch, kinds, config, message):
    monkeypatch.setenv("TF_CONFIG", config)
    for kind in kinds:
        with pytest.raises(ValueError, match=message):
            create_strategy(kind)


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="there is a GPU")
def test_replicas_on_the_cpu_are_said(caplog):
    caplog.set_level("WARNING", "keras_bert")  # Without a level of one's own, only warnings are seen in Python.
    assert create_strategy("mirrored").num_replicas_in_sync == len(tf.config.list_logical_devices("CPU"))
    assert caplog.messages == ["the strategy mirrored found no GPU: training runs on the CPU"]


def test_a_worker_that_does_not_respond(two_addresses, monkeypatch):
    cluster = {"cluster": {"worker": two_addresses}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    message = rf"the worker {two_addresses[1]} of TF_CONFIG did not answer for 0.5 s"
    with pytest.raises(ValueError, match=message):
        create_strategy("multi_worker", timeout_s=0.5)


def on_replicas(strategy, value):
    return [part.numpy().tolist() for part in strategy.experimental_local_results(value)]


def test_each_row_goes_to_one_replica(mirrored):
    numbers = tf.data.Dataset.range(5).map(lambda x: (x, x)).batch(5)
    loss = Loss("count", None, None)
    dataset = replica_dataset(mirrored, Stream(numbers).dataset, dividing([loss], micro_batches=2))
    ((inputs, _, weights, totals),) = dataset
    assert on_replicas(mirrored, inputs) == [[0, 1, 2, 3], [4, 4, 4, 4]]
    assert on_replicas(mirrored, weights) == [[1, 1, 1, 1], [1, 0, 0, 0]]  # Filler has the weight 0.
    assert on_replicas(mirrored, totals) == [[5], [5]]


@pytest.mark.parametrize(
    "values",
    [[[1.5], [-2.0]], [[2**40, 7], [3, -(2**40)]], [True, False]],
    ids=["floats", "large integers", "booleans"],
)
def test_rows_of_all_replicas_in_order(mirrored, values):
    """They keep their types, and replicas see the same."""
    given = tf.convert_to_tensor(np.array(values))

    def rows():
        index = tf.distribute.get_replica_context().replica_id_in_sync_group
        own = given[index : index + 1]
        return gather_rows({"own": own, "count": tf.ones([1], tf.int32), "half": tf.ones([1], tf.float16)})

    gathered = mirrored.run(tf.function(rows))
    for name, expected in {"own": given, "count": tf.ones([2], tf.int32), "half": tf.ones([2], tf.float16)}.items():
        for part in mirrored.experimental_local_results(gathered[name]):
            assert part.dtype == expected.dtype
            np.testing.assert_array_equal(part, expected)


def test_a_single_replica_keeps_its_rows():
    rows = {"ids": tf.constant([[1, 2]])}
    assert gather_rows(rows) is rows


def test_batches_of_known_size_have_static_shapes():
    """TPUs and XLA need them."""
    batches = keras_bert.data.Batches(tf.ragged.constant([[1], [1], [1], [1]]), batch_size=2)
    dataset = replica_dataset(tf.distribute.get_strategy(), batches.dataset, dividing())
    assert dataset.element_spec[2].shape == (2,)


def test_unsupported_batches():
    run = linear()
    x = np.ones((7, 3), "float32")
    inputs = tf.data.Dataset.from_tensor_slices({"x": x}).batch(3)
    with pytest.raises(ValueError, match="the weights of a batch must have one value per row"):
        run.evaluate(tf.data.Dataset.from_tensors(({"x": x}, x[:, 0], x[:, :2])))
    with pytest.raises(ValueError, match="`targets` are required"):
        run.fit(inputs)
    with pytest.raises(ValueError, match=r"is infinite. Expected `Stream\(dataset, steps\)`"):
        run.predict(inputs.repeat())
    with pytest.raises(ValueError, match="must be a `Batches`, a `Stream`, .* Received: dict"):
        run.predict({"x": x})


def graphs():
    keras.utils.clear_session()
    gc.collect()
    return {id(thing) for thing in gc.get_objects() if type(thing) is FuncGraph}


def differentiate(config, batch):
    model = keras_bert.build_classifier(keras_bert.build_encoder(config, remat=True), 3)

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(batch, training=True)["logits"])
        return tape.gradient(loss, model.trainable_variables)

    tf.function(step, autograph=False).get_concrete_function()


def train(config, batch):
    linear().fit(numbered(1), evaluation=numbered(1))


def answer_texts(config, batch):
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 3)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    text_model = keras_bert.build_text_model(model, keras_bert.TextPreprocessor(pieces, 12))
    text_model.predict({"text": tf.constant(["a b", "b"])}, verbose=0)


@pytest.mark.parametrize("use", [differentiate, train, pytest.param(answer_texts, marks=pytest.mark.slow)])
def test_graphs_of_deleted_models_are_freed(config, batch, use):
    use(config, batch)  # Creates the graphs that TensorFlow and Keras keep globally.
    before = graphs()
    use(config, batch)
    assert not graphs() - before


def test_graphs_of_replicas_are_freed(mirrored):
    @tf.function(autograph=False)
    def step(x):
        return mirrored.run(lambda x: all_reduce([x + 1.0])[0], args=(x,))

    before = graphs()
    assert on_replicas(mirrored, step(tf.constant(3.0))) == [8.0, 8.0]
    del step
    assert not graphs() - before
