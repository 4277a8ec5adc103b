"""Our AdamW against Keras'."""

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import to_numpy

pytestmark = pytest.mark.tensorflow

OPTIONS = {"weight_decay": 0.1, "beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-6}


def numpy_adamw(weight, gradients, learning_rate, weight_decay, beta_1, beta_2, epsilon):
    """The algorithm as its paper has it, with bias correction."""
    m = v = np.zeros_like(weight)
    for step, gradient in enumerate(gradients, 1):
        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient**2
        corrected = (m / (1 - beta_1**step)) / (np.sqrt(v / (1 - beta_2**step)) + epsilon)
        weight = weight - learning_rate * (corrected + weight_decay * weight)
    return weight


def test_equals_numpy():
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=(5, 7)), rng.normal(size=(6, 5, 7))
    options = {"learning_rate": 0.01, "weight_decay": 0.1, "beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-8}
    variable = keras.Variable(start.astype("float32"))
    optimizer = keras_bert.AdamW(**options)
    for gradient in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(gradient.astype("float32"))], [variable])
    np.testing.assert_allclose(variable.numpy(), numpy_adamw(start, gradients, **options), atol=1e-6)


def train(optimizer, build, inputs, targets, losses, steps=5):
    keras.utils.set_random_seed(5)
    model = build("pretraining")
    model.compile(optimizer, losses)
    losses = [model.train_on_batch(inputs, targets) for _ in range(steps)]
    return losses, {weight.path: to_numpy(weight) for weight in model.trainable_weights}


def test_trains_as_keras_adamw_does(build, task):
    data = task("pretraining")
    schedule = keras.optimizers.schedules.PolynomialDecay(3e-3, 10)
    # A clip that never bites makes Keras' gradients of embeddings dense, see the test of repeated tokens.
    expected_losses, expected = train(keras.optimizers.AdamW(schedule, global_clipnorm=1e9, **OPTIONS), build, *data)
    losses, got = train(keras_bert.AdamW(schedule, **OPTIONS), build, *data)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    for name, value in expected.items():
        if "query_key_value/bias" not in name:  # The key's gradient is rounding alone, which Adam blows up.
            np.testing.assert_allclose(got[name], value, atol=2e-5, err_msg=name)


def test_repeated_tokens_are_added_before_they_are_squared():
    """Keras' own AdamW squares the rows of a lookup one by one."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    start, ids, rows = rng.normal(size=(4, 3)), np.array([1, 1, 3, 1]), rng.normal(size=(5, 4, 3))
    dense = np.zeros((5, 4, 3))
    for step in range(5):
        np.add.at(dense[step], ids, rows[step])
    options = {"learning_rate": 0.01, "weight_decay": 0.1, "beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-8}
    variable = keras.Variable(start.astype("float32"))
    optimizer = keras_bert.AdamW(**options)
    for values in rows:
        gradient = tf.IndexedSlices(tf.constant(values, "float32"), tf.constant(ids), tf.constant([4, 3]))
        optimizer.apply([gradient], [variable])
    np.testing.assert_allclose(variable.numpy(), numpy_adamw(start, dense, **options), atol=1e-6)


def test_the_norm_is_that_of_the_whole_gradient():
    import tensorflow as tf

    table = tf.Variable(tf.zeros((4, 2)))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [1, 1, 1, 2]) * [[3.0, 4.0]])
    gradient = tape.gradient(loss, table)
    assert isinstance(gradient, tf.IndexedSlices)
    (clipped, nothing) = keras_bert.AdamW(1.0, global_clipnorm=1.0)._clip_gradients([gradient, None])
    # Rows 1 and 2 of the whole gradient are (9, 12) and (3, 4): its norm is the root of 225 + 25.
    np.testing.assert_allclose(clipped, np.array([[0, 0], [9, 12], [3, 4], [0, 0]]) / 250**0.5, rtol=1e-6)
    assert nothing is None


def test_excluded_variables_do_not_decay(build):
    model = build("encoder")
    optimizer = keras_bert.AdamW(0.1, weight_decay=0.5)
    kept = [weight for weight in model.trainable_variables if weight.path.endswith(("bias", "gamma", "beta"))]
    optimizer.exclude_from_weight_decay(var_list=kept)
    before = {weight.path: to_numpy(weight) for weight in model.trainable_variables}
    optimizer.apply([keras.ops.zeros(weight.shape) for weight in model.trainable_variables], model.trainable_variables)
    for weight in model.trainable_variables:
        factor = 1.0 if any(weight is other for other in kept) else 0.95
        np.testing.assert_allclose(to_numpy(weight), factor * before[weight.path], rtol=1e-6)


def test_two_replicas(mirrored, build, task):
    import tensorflow as tf

    inputs, targets, losses = task("classification", copies=2)
    weights = {}
    for name, scope in (("one", tf.distribute.get_strategy().scope), ("two", mirrored.scope)):
        with scope():
            keras.utils.set_random_seed(5)
            model = build("classification")
            for layer in model._flatten_layers():
                if isinstance(layer, keras_bert.layers.Dropout):
                    layer.rate = 0
            model.compile(keras_bert.AdamW(1e-3, weight_decay=0.1), losses)
        dataset = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(6)
        model.fit(dataset, epochs=3, shuffle=False, verbose=0)
        weights[name] = {weight.path: to_numpy(weight) for weight in model.trainable_weights}
    for name, value in weights["one"].items():
        if "query_key_value/bias" not in name:
            np.testing.assert_allclose(weights["two"][name], value, atol=1e-4, err_msg=name)


def test_saved_and_loaded(build, task, tmp_path):
    inputs, targets, losses = task("classification")
    model = build("classification")
    model.compile(keras_bert.AdamW(1e-3, global_clipnorm=0.5, **OPTIONS), losses)
    model.fit(inputs, targets, verbose=0)
    model.save(tmp_path / "model.keras")
    copy = keras.saving.load_model(tmp_path / "model.keras")
    assert isinstance(copy.optimizer, keras_bert.AdamW)
    assert copy.optimizer.get_config() == model.optimizer.get_config()
    for left, right in zip(copy.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(to_numpy(left), to_numpy(right))


def test_amsgrad():
    with pytest.raises(ValueError, match="`amsgrad` is not supported"):
        keras_bert.AdamW(1e-3, amsgrad=True)
