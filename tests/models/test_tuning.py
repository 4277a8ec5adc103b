"""What fine-tuning trains: upper layers alone, or low-rank adapters, with their weights, outputs and gradients."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert import layers
from tests.conftest import relative, to_numpy


@pytest.fixture
def build_deep(config):
    """Builds a classifier of two blocks on choices."""
    deep = dataclasses.replace(config, num_hidden_layers=2)
    return lambda: keras_bert.build_multiple_choice(keras_bert.build_encoder(deep))


def trained_paths(model):
    return {weight.path for weight in model.trainable_weights}


def test_trainable_weights_after_freezing(build_deep):
    model = build_deep()
    before = trained_paths(model)
    for count, frozen in ((0, ("embedding",)), (1, ("embedding", "block_0"))):
        keras_bert.freeze_layers(model, count)
        expected = set(before)
        for name in frozen:
            expected = {path for path in expected if name not in path}
        assert trained_paths(model) == expected
        assert len(expected) < len(before)
        assert any("block_1" in path for path in expected)


def test_frozen_layers_stay_frozen(build_deep, tmp_path):
    model = build_deep()
    keras_bert.freeze_layers(model, 1)
    keras_bert.describe(model).layers["block_1"].attention.trainable = False  # Only a sublayer.
    frozen = [weight.path for weight in model.non_trainable_weights]
    model.save(tmp_path / "model.keras")
    for copy in (keras.saving.load_model(tmp_path / "model.keras"), keras.models.clone_model(model)):
        assert [weight.path for weight in copy.non_trainable_weights] == frozen
        copy.trainable = False
        copy.trainable = True  # Reaches all layers only where it changes.
        assert len(copy.trainable_weights) == len(model.weights)


def test_freezing_under_a_custom_head(config):
    deep = dataclasses.replace(config, num_hidden_layers=2)
    first = keras_bert.build_encoder(deep, name="first")
    second = keras_bert.build_encoder(deep, name="second")
    vectors = [first.output["pooled_output"], second(first.input)["pooled_output"]]
    together = keras.layers.Concatenate()(vectors)
    model = keras.Model(first.input, keras.layers.Dense(1, name="own")(together))
    keras_bert.freeze_layers(model, 1)
    paths = trained_paths(model)
    for path in paths:
        assert "embedding" not in path
        assert "block_0" not in path
    owners = {path.split("/")[0] for path in paths}
    assert {"first_block_1", "second_block_1", "first_pooler", "own"} <= owners


class Unwired(keras.Model):
    """A model that is no graph of its layers."""

    def __init__(self):
        super().__init__()
        self.block = layers.TransformerBlock(8, 2, 16)


def test_models_that_cannot_be_frozen():
    stranger = keras.Sequential([keras.layers.Dense(1)], name="stranger")
    with pytest.raises(ValueError, match="`model` must contain an encoder from build_encoder. Rec.*'stranger'"):
        keras_bert.freeze_layers(stranger, 0)
    with pytest.raises(ValueError, match="set its `trainable` instead"):
        keras_bert.freeze_layers(Unwired(), 0)


@pytest.mark.parametrize("count", [-1, 3])
def test_blocks_that_there_are_not(build_deep, count):
    with pytest.raises(ValueError, match=f"`freeze_layers`: expected from 0 to 2, .* Received: {count}"):
        keras_bert.freeze_layers(build_deep(), count)


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
    inputs, _, _ = task("multiple_choice")
    before = to_numpy(model(inputs)["logits"])
    keras_bert.freeze_layers(model, 0)
    attention(model).trainable = False  # The encoder's state does not matter.
    keras_bert.enable_lora(model, 4)
    shapes = {}
    for weight in model.trainable_weights:
        _, _, name = weight.path.partition("/")
        shapes[name] = tuple(weight.shape)
    assert shapes == {
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


class Adapted:
    """An adapted classifier, and a plain one that has the sums, computed in NumPy, as its kernels."""

    def __init__(self, config, batch):
        self.model = keras_bert.build_classifier(keras_bert.build_encoder(config), 3)
        self.plain = keras.models.clone_model(self.model)
        self._batch = batch
        kernels = {}
        for name in ("query_key_value", "output_dense"):
            kernels[name] = to_numpy(getattr(attention(self.model), name).kernel)
        adapted(self.model)
        values = {weight.path: weight.numpy() for weight in self.model.weights}
        for weight in self.plain.weights:
            weight.assign(values[weight.path])
        self.without_adapters = self.logits(self.plain)
        for name, kernel in kernels.items():
            layer = getattr(attention(self.model), name)
            update = to_numpy(layer.lora_kernel_a) @ to_numpy(layer.lora_kernel_b)
            getattr(attention(self.plain), name).kernel.assign(kernel + 3 / 2 * update)
        self.expected = self.logits(self.plain)

    def logits(self, model):
        return to_numpy(model(self._batch)["logits"])

    def assert_equal(self, model):
        assert relative(self.logits(model), self.expected) < 1e-5


@pytest.fixture(scope="module")
def models(config, batch):
    """Models whose weights tests must not change."""
    return Adapted(config, batch)


def test_an_adapted_model_equals_a_plain_one_with_the_sums_as_kernels(models):
    assert relative(models.logits(models.model), models.without_adapters) > 0.05
    models.assert_equal(models.model)


def test_files_of_adapted_models(models, tmp_path):
    """The state of an optimizer does not fit the merged model."""
    models.model.compile(keras.optimizers.SGD(momentum=0.9))
    models.model.optimizer.build(models.model.trainable_weights)
    models.model.save(tmp_path / "model.keras")
    models.assert_equal(keras.saving.load_model(tmp_path / "model.keras", compile=False))


@pytest.mark.parametrize("source", ["model", "plain"])
def test_files_of_weights(models, tmp_path, source):
    """They contain the scale; those of a plain model leave the first part of the adapters as it is."""
    saved = getattr(models, source)
    saved.save_weights(tmp_path / "some.weights.h5")
    copy = adapted(keras.models.clone_model(models.plain), alpha=6)
    layer = attention(copy).output_dense
    part_a = to_numpy(layer.lora_kernel_a)
    part_b = np.zeros((2, 32))
    if source == "model":
        part_a = to_numpy(attention(saved).output_dense.lora_kernel_a)
        part_b = to_numpy(attention(saved).output_dense.lora_kernel_b)
    copy.load_weights(tmp_path / "some.weights.h5")
    models.assert_equal(copy)
    assert relative(layer.lora_kernel_a, part_a) < 1e-6
    np.testing.assert_allclose(to_numpy(layer.lora_kernel_b), part_b / 2, atol=1e-6)


def test_a_merged_model_is_a_plain_one(config, batch):
    models = Adapted(config, batch)
    model = models.model
    call = keras.Function(model.inputs, model.outputs)  # Stands for anything that was traced before.
    keras_bert.merge_lora(model)
    models.assert_equal(model)
    inputs = [batch[tensor.name] for tensor in model.inputs]
    assert relative(call(inputs)[0], models.expected) < 1e-5
    trained = [weight.path for weight in model.trainable_weights]
    assert trained == [weight.path for weight in models.plain.trainable_weights]
    keras_bert.enable_lora(model, 1)
    models.assert_equal(model)


@pytest.mark.tensorflow
@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-5), ("mixed_bfloat16", 0.02)])
def test_gradients_of_an_adapted_layer(policy, tolerance):
    """For a loss `sum(C * y)` with a constant C: of A `s x^T C B^T`, of B `s (x A)^T C`, of x `C (W + s A B)^T`."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    layer = layers.Dense(5, dtype=policy)
    layer.build((2, 3, 6))
    kernel = layer.kernel
    layer.enable_lora(2, lora_alpha=3)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape).astype("float32"))
    x = rng.normal(size=(2, 3, 6)).astype("float32")
    c = rng.normal(size=(2, 3, 5)).astype("float32")
    inputs = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = tf.reduce_sum(tf.cast(layer(inputs), "float32") * c)
    found = tape.gradient(loss, [layer.lora_kernel_a.value, layer.lora_kernel_b.value, inputs])
    a = to_numpy(layer.lora_kernel_a)
    b = to_numpy(layer.lora_kernel_b)
    w = to_numpy(kernel)
    rows = x.reshape(-1, 6)
    c = c.reshape(-1, 5)
    of_inputs = c @ (w + 1.5 * a @ b).T
    expected = [1.5 * rows.T @ c @ b.T, 1.5 * (rows @ a).T @ c, of_inputs.reshape(x.shape)]
    for value, correct in zip(found, expected, strict=True):
        assert relative(value, correct) < tolerance


def shapes_of_products(model):
    """The shapes of the matrix products that the gradients of a block depend on."""
    import tensorflow as tf

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
    return {tuple(operation.outputs[0].shape) for operation in seen if operation.type == "MatMul"}


@pytest.mark.tensorflow
def test_no_gradient_of_a_frozen_kernel_is_computed(build):
    """Its shape would be that of the kernel."""
    frozen = {(32, 96), (32, 64), (64, 32)}  # Attention, and both layers of the feed-forward network.
    model = build("encoder", remat=True)
    assert frozen < shapes_of_products(model)
    keras_bert.enable_lora(model, 2)
    products = shapes_of_products(model)
    assert not frozen & products
    assert {(32, 2), (2, 96)} < products


@pytest.mark.parametrize(
    ("name", "options"), [("rank", {"rank": 0}), ("rank", {"rank": 1.5}), ("alpha", {"rank": 2, "alpha": 0})]
)
def test_ranks_and_scales_out_of_range(build, name, options):
    model = build("classification")
    with pytest.raises(ValueError, match=f"`{name}` must be .* Received: {name}={options[name]}"):
        keras_bert.enable_lora(model, **options)
    assert len(model.trainable_weights) == len(model.weights)


def test_models_that_cannot_be_adapted(build):
    stranger = keras.Sequential([keras.layers.Dense(1)], name="stranger")
    config = keras_bert.translation.TransformerConfig(313, 16, 1, 1, 2, 32)
    quantized = build("classification")
    attention(quantized).output_dense.quantize("int8")
    twice = build("encoder")
    keras_bert.enable_lora(twice, 2)
    for model, message in (
        (stranger, "`model` must contain an encoder from build_encoder"),
        (keras_bert.translation.build_transformer(config), "`model` must contain an encoder from build_encoder"),
        (twice, "must not have LoRA adapters; merge_lora .* an adapter of rank 2 on 'block_0/attention/"),
        (quantized, "`model` must not be quantized: .* 'block_0/attention/output' in int8"),
    ):
        with pytest.raises(ValueError, match=message):
            keras_bert.enable_lora(model, 2)


def test_a_model_without_adapters_is_not_merged(build):
    with pytest.raises(ValueError, match="`model` must have LoRA adapters, see enable_lora"):
        keras_bert.merge_lora(build("classification"))
