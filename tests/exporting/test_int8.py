"""Int8 products equal integer arithmetic in NumPy; a model in int8 answers like the float model, which is unchanged."""

import dataclasses
import warnings

import keras
import numpy as np
import pytest
from scipy.special import erf

import keras_bert
from tests.conftest import relative
from tests.pipelines import programs

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.kernels]

from keras_bert.exporting import int8, int8_products  # noqa: E402
from keras_bert.exporting.export import build_signatures  # noqa: E402
from keras_bert.exporting.int8 import in_int8, observed  # noqa: E402
from keras_bert.exporting.int8_products import Int8Product, Int8Weight  # noqa: E402
from keras_bert.exporting.int8_ranges import calibrated, probed  # noqa: E402

ACTIVATIONS = {
    "gelu": lambda x: x * (0.5 + 0.5 * erf(x / np.sqrt(2))),
    "gelu_new": lambda x: x * (0.5 + 0.5 * np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
}


def steps_of(rows, low=None, high=None):
    """The 8-bit values of rows, and the step: 0.0 is one of them, and 254 steps lie between the ends."""
    low, high = min(rows.min() if low is None else low, 0), max(rows.max() if high is None else high, 0)
    step = (np.float64(high) - low) / 254
    zero = np.rint(-low / step)
    return np.clip(np.rint(rows / step), -zero, 255 - zero), step


def product(rows, table, bias, **limits):
    """The product in integers, with a step for each column of the table."""
    values, step = steps_of(rows, **limits)
    scale = np.abs(table).max(0) / 64
    return values @ np.rint(table / scale) * (step * scale) + bias


def traced(function, *specs):
    return tf.function(function, input_signature=[tf.TensorSpec(spec) for spec in specs], autograph=False)


def test_weights_are_within_half_a_step():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(9, 5)) * 10.0 ** rng.integers(-6, 6, (9, 1))
    table[3] = 0
    weight = Int8Weight(table, axis=0)
    ids = tf.constant([[8, 3], [0, 0]])
    error = np.abs(weight.rows(ids) - table[ids.numpy()])
    assert (error <= np.abs(table[ids.numpy()]).max(-1, keepdims=True) / 128 * (1 + 1e-5)).all()
    assert weight.values.dtype == tf.qint8
    with pytest.raises(ValueError, match="weights that are not finite"):
        Int8Weight([[1.0, np.nan]], axis=0)


@pytest.mark.parametrize("axis", [0, 1])
def test_products_equal_integer_arithmetic(axis):
    """One traced function, whose ranges change from batch to batch."""
    rng = np.random.default_rng(1)
    table = rng.normal(size=(40, 24)).astype("float32")
    bias = rng.normal(size=24).astype("float32")
    whole = Int8Product(Int8Weight(table if axis else table.T, axis), tf.constant(bias))
    run = traced(whole, [None, 40])
    normal = rng.normal(size=(6, 40)).astype("float32")
    many = np.tile(normal, (50, 1))
    positive = np.abs(normal)
    for rows in (normal, many, 100 * normal, positive, -positive[:1], 1e-20 * normal, 0 * normal):
        expected = product(rows, table, bias) if rows.any() else np.broadcast_to(bias, (len(rows), 24))
        assert relative(run(rows), expected) < 1e-6
    assert run(normal[:0]).shape == (0, 24)
    assert 1e-3 < relative(run(normal), normal @ table + bias) < 3e-2


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_limits_and_factors(activation):
    """The activation is computed with the product."""
    rng = np.random.default_rng(2)
    rows, table = rng.normal(size=(7, 32)).astype("float32"), rng.normal(size=(32, 48)).astype("float32")
    plain = Int8Product(Int8Weight(table, 1))
    got = traced(lambda rows: plain(rows, activation), [None, 32])(rows)
    expected = ACTIVATIONS[activation](product(rows, table, 0.0))
    assert relative(got, expected) < 1e-5
    assert int8.LOWEST[activation] <= expected.min()

    bounded = traced(lambda rows: plain(rows, low=-9.0), [None, 32])(rows)
    assert relative(bounded, product(rows, table, 0.0, low=-9.0)) < 1e-5
    assert rows.max() > 2.0  # Clipped.
    limited = Int8Product(Int8Weight(table, 1), limits=(-1.0, 2.0))
    assert relative(traced(limited, [None, 32])(rows), product(rows, table, 0.0, low=-1.0, high=2.0)) < 1e-5
    factors = rng.uniform(0.1, 10, 32).astype("float32")
    scaled = Int8Product(Int8Weight(table, 1), factors=tf.constant(factors))
    assert relative(traced(scaled, [None, 32])(rows), product(rows * factors, table, 0.0)) < 1e-5


def test_outliers_are_multiplied_in_float32():
    """Two inputs are a hundred times as large as the others, also negative ones with `limits`."""
    rng = np.random.default_rng(6)
    rows = rng.uniform(0, 1, (7, 40)).astype("float32")
    table = rng.normal(size=(40, 24)).astype("float32")
    rows[:, [3, 30]] *= 100
    factors = rng.uniform(0.5, 2, 40).astype("float32")
    outliers = int8_products.Outliers([3, 30], table / factors[:, None])
    options = {"factors": tf.constant(factors), "outliers": outliers}
    weight = Int8Weight(table / factors[:, None], 1)
    scaled = rows * factors
    highest = np.delete(scaled, [3, 30], axis=1).max()
    for limits, high, values in ((None, highest, rows), ((-1.0, 2.0), 2.0, rows - 2)):
        split = Int8Product(weight, limits=limits, **options)
        run = traced(split, [None, 40])
        scaled = values * factors
        low = 0.0 if limits is None else -1.0
        step = np.float64(high - low) / 254
        bottom = np.rint(-low / step) * -step
        excess = scaled - np.clip(scaled, bottom, bottom + 255 * step)
        expected = product(scaled, table / factors[:, None], 0.0, low=low, high=high)
        expected += excess[:, [3, 30]] @ (table / factors[:, None])[[3, 30]]
        assert relative(run(values), expected) < 1e-5
    assert run(rows[:0]).shape == (0, 24)
    assert relative(traced(Int8Product(weight, **options), [None, 40])(rows), rows @ table) < 3e-3
    assert relative(traced(Int8Product(weight, factors=options["factors"]), [None, 40])(rows), rows @ table) > 6e-3


def test_layer_norm_uses_epsilon():
    rng = np.random.default_rng(3)
    rows = 1e-3 * rng.normal(size=(5, 24)) + 0.1
    gamma, beta = rng.normal(size=(2, 24)).astype("float32")
    for epsilon in (1e-12, 1e-6):
        expected = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + epsilon)
        run = traced(lambda rows, epsilon=epsilon: int8_products.layer_norm(rows, gamma, beta, epsilon), [None, 24])
        assert relative(run(rows.astype("float32")), expected * gamma + beta) < 1e-4
    assert run(np.zeros((0, 24), "float32")).shape == (0, 24)


# With the largest values, pairs of products exceed 16 bits unless weights have 7 bits. oneDNN reads the variable at its
# first use, after the fork.
SATURATING = """
import os, numpy as np, tensorflow as tf
from keras_bert.exporting.int8_products import Int8Product, Int8Weight
for instructions in {names}:
    if not os.fork():
        os.environ["ONEDNN_MAX_CPU_ISA"] = instructions
        table = np.where(np.arange(64 * 32).reshape(64, 32) % 3, 1.0, -1.0)
        run = tf.function(Int8Product(Int8Weight(table, 1)), autograph=False)
        rows = np.random.default_rng(0).choice([-1.0, 1.0], (5, 64)).astype("float32")
        rows[0] = 1.0
        print(instructions, np.abs(run(rows) - rows @ table).max(), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.slow
def test_processors_without_vnni_do_not_overflow():
    names = ["AVX512_CORE", "AVX2", "SSE41"]
    printed, _ = programs.run("keras_bert.version", before=SATURATING.format(names=names))
    differences = dict(line.split() for line in printed.splitlines())
    assert list(differences) == names
    assert max(map(float, differences.values())) < 1e-3


@pytest.fixture(scope="module")
def classifier(config):
    """An encoder that is wide enough to have typical activations, a classifier of it, and inputs."""
    keras.utils.set_random_seed(4)
    sizes = {"vocab_size": 60, "hidden_size": 64, "intermediate_size": 128}
    config = dataclasses.replace(config, **sizes, max_position_embeddings=16, initializer_range=0.1)
    rng = np.random.default_rng(4)
    encoder = keras_bert.build_encoder(config, attention_scores=True)
    ids = rng.integers(5, 50, (8, 12), "int32")
    mask = (np.arange(12) < rng.integers(2, 13, (8, 1))).astype("int32")
    inputs = {"token_ids": ids * mask, "segment_ids": 0 * ids, "padding_mask": mask}
    inputs = {name: tf.constant(np.tile(value, (3, 1)), tf.int32) for name, value in inputs.items()}
    return encoder, keras_bert.build_classifier(encoder, 3), inputs


def in_graph(model, inputs):
    run = tf.function(lambda inputs: model(inputs, training=False), autograph=False)
    return run.get_concrete_function({name: tf.TensorSpec([None, None], tf.int32, name) for name in inputs})


def test_a_model_is_close_and_unchanged(classifier):
    model, _, inputs = classifier
    before = model(inputs)
    weights = model.get_weights()
    with in_int8(model) as variables:
        run = in_graph(model, inputs)
    outputs = run(inputs)
    assert set(outputs) == set(before)
    for name, expected in before.items():
        for value, wanted in zip(tf.nest.flatten(outputs[name]), tf.nest.flatten(expected), strict=True):
            assert 1e-4 < relative(value, wanted.numpy()) < 5e-2
    for old, new in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    np.testing.assert_array_equal(model(inputs)["pooled_output"], before["pooled_output"])
    read = {id(variable.handle) for variable in run.variables}
    assert read <= {id(variable.handle) for variable in variables}
    # The kernels and the table take a byte for each number.
    size = sum(variable.shape.num_elements() * variable.dtype.size for variable in variables)
    assert size < 0.4 * sum(weight.nbytes for weight in weights)


def test_narrow_networks(config, classifier):
    _, _, inputs = classifier
    sizes = {"intermediate_size": 1, "vocab_size": 60, "max_position_embeddings": 16}
    model = keras_bert.build_classifier(keras_bert.build_encoder(dataclasses.replace(config, **sizes)), 3)
    with observed(model) as limits:
        model(inputs)
    with in_int8(model, limits):
        run = in_graph(model, inputs)
    assert relative(run(inputs)["logits"], model(inputs)["logits"].numpy()) < 0.1


def test_with_calibration_a_row_does_not_depend_on_the_others(classifier):
    _, model, _ = classifier
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(55))]
    preprocessor = keras_bert.TextPreprocessor(pieces, 12, padding="longest")
    rng = np.random.default_rng(5)
    texts = [" ".join(f"w{word}" for word in rng.integers(0, 55, rng.integers(1, 9))) for _ in range(40)]
    signature = build_signatures(model, preprocessor, pair=True)["serving_default"]
    limits = calibrated(model, signature, [(text, "w1") for text in texts[:30]])
    assert set(probed(model, signature)) == set(limits)
    inputs = preprocessor((texts[30:], ["w1"] * 10))
    alone = {name: value[:1] for name, value in inputs.items()}
    expected = model(inputs)["logits"].numpy()
    differences = []
    for dynamic in (True, False):
        with in_int8(model, limits, dynamic):
            run = in_graph(model, inputs)
        logits = run(inputs)["logits"]
        assert relative(logits, expected) < 5e-2
        differences.append(float(np.abs(run(alone)["logits"] - logits[:1]).max()))
    dynamic, static = differences
    assert static < 1e-6 < dynamic


def test_calibration_of_a_head_that_reads_no_rows(model_of):
    """Texts without [MASK]."""
    model = model_of("mlm")
    ids = np.full((2, 4), 7, "int32")
    places = np.array([[1], [2]], "int32")
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 1 + 0 * ids, "mask_positions": places}
    with observed(model) as limits:
        model({**inputs, "mask_positions": places[:, :0]})
    assert limits
    with in_int8(model, limits, dynamic=False):
        run = in_graph(model, inputs)
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    assert relative(run(tensors)["mlm_logits"], model(inputs)["mlm_logits"].numpy()) < 0.1


def test_bad_arguments(classifier, config, pieces, tmp_path):
    _, model, _ = classifier
    narrow = keras_bert.build_classifier(keras_bert.build_encoder(config, dtype="mixed_bfloat16"), 2)
    quantized = keras_bert.build_classifier(keras_bert.build_encoder(config), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # About input layers.
        quantized.quantize("int8")
    for wrong, options, message in (
        (model, {"precision": "int4"}, "Received: precision='int4'"),
        (model, {"calibration": ["a"]}, '`calibration` needs `precision="int8"`. Received: precision=None'),
        (model, {"calibration": ["a", ("a", "b")]}, "text of each text. Received: ('a', 'b') at index 1"),
        (model, {"calibration": []}, "Received: no texts"),
        (narrow, {}, "must be in float32, such as from `keras_bert.load(path)`. Received: a layer"),
        (quantized, {}, " in int8"),
    ):
        precision = {} if "None" in message else {"precision": "int8"}
        with pytest.raises(ValueError) as error:
            keras_bert.export(
                wrong, keras_bert.TextPreprocessor(pieces, 12), tmp_path / "1", **{**precision, **options}
            )
        assert message in str(error.value)
    assert not list(tmp_path.iterdir())
