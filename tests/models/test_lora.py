"""Low-rank adapters: their weights, outputs and gradients."""

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert import layers
from tests.conftest import relative, to_numpy


def adapted(model, rank=2, alpha=3):
    """Adapts a model, with random weights to train."""
    keras_bert.enable_lora(model, rank, alpha=alpha)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(scale=0.3, size=weight.shape).astype("float32"))
    return model


def attention(model):
    return keras_bert.describe(model).layers["block_0"].attention


def test_only_adapters_and_head_are_trained(build, task):
    """The numbers of the encoder are 32 for hidden_size and 96 for query, key and value; the outputs do not change."""
    model = build("multiple_choice")
    inputs = task("multiple_choice")[0]
    before = to_numpy(model(inputs)["logits"])
    keras_bert.freeze_layers(model, 0)
    keras_bert.describe(model).layers["block_0"].attention.trainable = False  # The encoder's state does not matter.
    keras_bert.enable_lora(model, 4)
    names = {weight.path.partition("/")[2]: tuple(weight.shape) for weight in model.trainable_weights}
    assert names == {
        "attention/query_key_value/lora_kernel_a": (32, 4),
        "attention/query_key_value/lora_kernel_b": (4, 96),
        "attention/output/lora_kernel_a": (32, 4),
        "attention/output/lora_kernel_b": (4, 32),
        "dense/kernel": (32, 32),
        "dense/bias": (32,),
        "kernel": (32, 1),
        "bias": (1,),
    }
    assert attention(model).output_dense.lora_alpha == 8
    np.testing.assert_array_equal(to_numpy(model(inputs)["logits"]), before)


def test_an_adapted_model_equals_a_plain_one_with_the_sums_as_kernels(build, batch, tmp_path):
    """The sums are computed in NumPy; also after merging, and in files of models and weights."""
    model = adapted(build("classification"))
    plain = keras.models.clone_model(model)
    kernels = {}
    for name in ("query_key_value", "output_dense"):
        layer = getattr(attention(model), name)
        a, b = to_numpy(layer.lora_kernel_a), to_numpy(layer.lora_kernel_b)
        kernels[name] = to_numpy(layer._kernel) + 3 / 2 * a @ b
    values = {weight.path: weight.numpy() for weight in model.weights}
    for weight in plain.weights:
        weight.assign(values[weight.path])
    expected = to_numpy(plain(batch)["logits"])
    found = to_numpy(model(batch)["logits"])
    assert relative(found, expected) > 0.05
    for name, kernel in kernels.items():
        getattr(attention(plain), name).kernel.assign(kernel)
    expected = to_numpy(plain(batch)["logits"])
    assert relative(found, expected) < 1e-5
    model.compile(keras.optimizers.SGD(momentum=0.9))
    model.optimizer.build(model.trainable_weights)  # Its state does not fit the merged model.
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    assert relative(loaded(batch)["logits"], expected) < 1e-5
    model.save_weights(tmp_path / "adapted.weights.h5")
    plain.save_weights(tmp_path / "plain.weights.h5")
    for file, part_b in (("adapted", to_numpy(layer.lora_kernel_b)), ("plain", np.zeros((2, 32)))):
        again = adapted(keras.models.clone_model(plain), alpha=6)  # The files contain the scale.
        found = attention(again).output_dense
        random = to_numpy(found.lora_kernel_a)
        again.load_weights(tmp_path / f"{file}.weights.h5")
        assert relative(again(batch)["logits"], expected) < 1e-5
        assert relative(found.lora_kernel_a, random if file == "plain" else to_numpy(layer.lora_kernel_a)) < 1e-6
        np.testing.assert_allclose(to_numpy(found.lora_kernel_b), part_b / 2, atol=1e-6)
    call = keras.Function(model.inputs, model.outputs)  # Stands for anything that was traced before.
    keras_bert.merge_lora(model)
    assert relative(model(batch)["logits"], expected) < 1e-5
    assert relative(call([batch[tensor.name] for tensor in model.inputs])[0], expected) < 1e-5
    assert [weight.path for weight in model.trainable_weights] == [weight.path for weight in plain.weights]
    keras_bert.enable_lora(model, 1)  # A merged model is a plain one.
    assert relative(model(batch)["logits"], expected) < 1e-5


@pytest.mark.tensorflow
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_gradients_of_an_adapted_layer(policy):
    """For a loss `sum(C * y)` with a constant C: of A `s x^T C B^T`, of B `s (x A)^T C`, of x `C (W + s A B)^T`."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    layer = layers.Dense(5, dtype=policy)
    layer.build((2, 3, 6))
    layer.enable_lora(2, lora_alpha=3)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape).astype("float32"))
    x = rng.normal(size=(2, 3, 6)).astype("float32")
    c = rng.normal(size=(2, 3, 5)).astype("float32")
    a = to_numpy(layer.lora_kernel_a)
    b = to_numpy(layer.lora_kernel_b)
    w = to_numpy(layer._kernel)
    inputs = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = tf.reduce_sum(tf.cast(layer(inputs), "float32") * c)
    found = tape.gradient(loss, [layer.lora_kernel_a.value, layer.lora_kernel_b.value, inputs])
    rows, c = x.reshape(-1, 6), c.reshape(-1, 5)
    expected = [1.5 * rows.T @ c @ b.T, 1.5 * (rows @ a).T @ c, (c @ (w + 1.5 * a @ b).T).reshape(x.shape)]
    for value, correct in zip(found, expected, strict=True):
        assert relative(value, correct) < (1e-5 if policy == "float32" else 0.02)


@pytest.mark.tensorflow
def test_no_gradient_of_a_frozen_kernel_is_computed(build):
    """Counts the matrix products that the gradients depend on, by the shapes of frozen kernels and their gradients."""
    import tensorflow as tf

    def shapes(model):
        block = keras_bert.describe(model).layers["block_0"]

        @tf.function(autograph=False)
        def gradients():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(block(tf.ones((3, 12, 32)), training=True))
            return tape.gradient(loss, [weight.value for weight in block.trainable_weights])

        graph = gradients.get_concrete_function().graph
        waiting = [tensor.op for tensor in graph.outputs]
        seen = set()
        while waiting:
            operation = waiting.pop()
            if operation not in seen:
                seen.add(operation)
                waiting += [tensor.op for tensor in operation.inputs]
        return [tuple(operation.outputs[0].shape) for operation in seen if operation.type == "MatMul"]

    frozen = {(32, 96), (32, 64), (64, 32)}  # Attention, and both layers of the feed-forward network.
    model = build("encoder", remat=True)
    assert frozen < set(shapes(model))
    keras_bert.enable_lora(model, 2)
    found = set(shapes(model))
    assert not frozen & found
    assert {(32, 2), (2, 96)} < found


def test_errors(build):
    stranger = keras.Sequential([keras.layers.Dense(1)], name="stranger")
    wing = keras_bert.translation
    transformer = wing.build_transformer(wing.TransformerConfig(313, 16, 1, 1, 2, 32))
    model, quantized = build("classification"), build("classification")
    attention(quantized).output_dense.quantize("int8")
    twice = build("encoder")
    keras_bert.enable_lora(twice, 2)
    for wrong, options, message in (
        (stranger, {"rank": 2}, "`model` must contain an encoder from build_encoder. Received: model='stranger'"),
        (transformer, {"rank": 2}, "`model` must contain an encoder from build_encoder"),
        (model, {"rank": 0}, "`rank` must be an integer of at least 1. Received: rank=0"),
        (model, {"rank": 1.5}, "`rank` must be an integer of at least 1. Received: rank=1.5"),
        (model, {"rank": 2, "alpha": 0}, "`alpha` must be above 0. Received: alpha=0"),
        (twice, {"rank": 2}, "must not have LoRA adapters; merge_lora .* an adapter of rank 2 on 'block_0/attention/"),
        (quantized, {"rank": 2}, "`model` must not be quantized: .* 'block_0/attention/output' in int8"),
    ):
        with pytest.raises(ValueError, match=message):
            keras_bert.enable_lora(wrong, **options)
    assert len(model.trainable_weights) == len(model.weights)
    with pytest.raises(ValueError, match="`model` must have LoRA adapters, see enable_lora. Received: model="):
        keras_bert.merge_lora(model)
