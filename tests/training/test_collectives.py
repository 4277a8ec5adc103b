"""Several models in sequence in one process."""

import gc

import keras
import pytest
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

import keras_bert
from keras_bert.training.distribution import all_reduce
from tests.training.small_run import linear, numbered


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


def train(*_):
    linear().fit(numbered(1), evaluation=numbered(1))


def answer_texts(config, batch):
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 3)
    preprocessor = keras_bert.TextPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"], 12)
    keras_bert.build_text_model(model, preprocessor).predict({"text": tf.constant(["a b", "b"])}, verbose=0)


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
    assert [float(value) for value in mirrored.experimental_local_results(step(tf.constant(3.0)))] == [8.0, 8.0]
    del step
    assert not graphs() - before
