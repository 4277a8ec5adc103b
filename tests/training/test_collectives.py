"""Several models in sequence in one process."""

import dataclasses
import gc

import keras
import pytest
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

import keras_bert
from keras_bert.training.collectives import all_reduce

pytestmark = pytest.mark.tensorflow


def graphs():
    keras.utils.clear_session()
    gc.collect()
    return {id(thing) for thing in gc.get_objects() if type(thing) is FuncGraph}


def fit(config, task):
    inputs, targets, losses = task("classification")
    model = keras_bert.build_classifier(keras_bert.build_encoder(config, remat=config.hidden_act == "gelu"), 3)
    model.compile(keras.optimizers.SGD(0.1), losses)
    model.fit(inputs, targets, verbose=0)


def train(config, task):
    inputs, targets, _ = task("classification")
    rows = {name: tf.RaggedTensor.from_tensor(value) for name, value in inputs.items()}
    trainer = keras_bert.Trainer(
        lambda: keras_bert.build_classifier(keras_bert.build_encoder(config, remat=True), 3),
        lambda model: keras_bert.create_optimizer(model, 1e-3, 10),
        keras_bert.classification_loss(),
    )
    trainer.fit(keras_bert.Batches(rows, targets, 3), epochs=1)


def answer_texts(config, task):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 3)
    text_model = keras_bert.build_text_model(model, keras_bert.TextPreprocessor(pieces, 12))
    text_model.predict({"text": tf.constant(["a b", "b"])}, verbose=0)


@pytest.mark.parametrize(
    ("use", "hidden_act"),
    [
        (fit, "gelu"),
        pytest.param(train, "silu", marks=pytest.mark.slow),
        pytest.param(answer_texts, "gelu_new", marks=pytest.mark.slow),
    ],
)
def test_graphs_of_deleted_models_are_freed(config, task, use, hidden_act):
    config = dataclasses.replace(config, hidden_act=hidden_act)
    use(config, task)  # Creates the graphs that TensorFlow and Keras keep globally.
    before = graphs()
    use(config, task)
    assert not graphs() - before


def test_graphs_of_replicas_are_freed(mirrored):
    @tf.function(autograph=False)
    def step(x):
        return mirrored.run(lambda x: all_reduce([x + 1.0])[0], args=(x,))

    before = graphs()
    assert [float(value) for value in mirrored.experimental_local_results(step(tf.constant(3.0)))] == [8.0, 8.0]
    del step
    assert not graphs() - before
