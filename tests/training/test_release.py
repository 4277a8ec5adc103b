"""One model after another in one process."""

import dataclasses
import gc
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

import keras_bert
from keras_bert.training.release import all_reduce

pytestmark = pytest.mark.tensorflow


def graphs():
    keras.utils.clear_session()
    gc.collect()
    return {id(thing) for thing in gc.get_objects() if type(thing) is FuncGraph}


def fit_and_predict(config, task, remat, text=None):
    inputs, targets, losses = task("classification")
    model = keras_bert.build_classifier(keras_bert.build_encoder(config, remat=remat), 3)
    model.compile(keras.optimizers.SGD(0.1), losses)
    model.fit(inputs, targets, verbose=0)
    model.predict(inputs, verbose=0)
    if text is not None:
        keras_bert.build_text_model(model, text).predict(tf.constant(["a b", "c"]), verbose=0)


@pytest.mark.parametrize(
    ("hidden_act", "remat"),
    [("gelu", True), *(pytest.param(name, False, marks=pytest.mark.slow) for name in ("gelu", "gelu_new", "silu"))],
)
def test_no_graph_outlives_its_model(config, task, pieces, hidden_act, remat):
    config = dataclasses.replace(config, hidden_act=hidden_act)
    text = None if remat else keras_bert.TextPreprocessor(pieces, 12)
    before = graphs()
    fit_and_predict(config, task, remat, text)
    assert not graphs() - before


def test_nor_do_replicas_keep_it(mirrored):
    @tf.function(autograph=False)
    def step(x):
        return mirrored.run(lambda: all_reduce([x])[0])

    before = graphs()
    assert [float(value) for value in mirrored.experimental_local_results(step(np.float32(3)))] == [6.0, 6.0]
    del step
    assert not graphs() - before


@pytest.mark.slow
def test_memory_is_flat_over_many_models():
    """40 rounds in a process of their own: memory after the last is that after the tenth."""
    code = """
        import gc, keras, numpy as np, tensorflow as tf, keras_bert
        config = keras_bert.named_config("tiny")
        ids = np.ones((8, 16), "int32")
        inputs = {name: ids for name in ("token_ids", "segment_ids", "padding_mask")}
        targets = np.array([0, 1] * 4)
        rows = {name: tf.RaggedTensor.from_tensor(value) for name, value in inputs.items()}

        def build():
            return keras_bert.build_classifier(keras_bert.build_encoder(config, remat=True), 2)

        def resident():
            return int(open("/proc/self/statm").read().split()[1])

        for index in range(1, 41):
            model = build()
            model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            model.fit(inputs, targets, verbose=0)
            model.predict(inputs, verbose=0)
            trainer = keras_bert.Trainer(
                build, lambda model: keras_bert.create_optimizer(model, 1e-3, 10), keras_bert.classification_loss()
            )
            trainer.fit(keras_bert.Batches(rows, targets, 8), epochs=1)
            del model, trainer
            keras.utils.clear_session()
            gc.collect()
            if index in (10, 40):
                print("pages", resident())
    """
    output = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    tenth, last = (int(line.split()[1]) for line in output.stdout.splitlines() if line.startswith("pages"))
    print(f"{tenth * 4 // 1024} MB after 10 rounds, {last * 4 // 1024} MB after 40")  # noqa: T201
    assert last < 1.05 * tenth
