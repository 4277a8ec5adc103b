"""Products of int8 weights and activations equal integer arithmetic in NumPy."""

import numpy as np
import pytest
from scipy.special import erf

from tests.conftest import relative
from tests.pipelines import programs

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.kernels]

from keras_bert.exporting import int8, int8_products  # noqa: E402
from keras_bert.exporting.int8_products import Int8Product, Int8Weight  # noqa: E402

ACTIVATIONS = {
    "gelu": lambda x: x * (0.5 + 0.5 * erf(x / np.sqrt(2))),
    "gelu_new": lambda x: x * (0.5 + 0.5 * np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
}


def steps_of(rows, low=None, high=None):
    """The 8-bit values of rows, and the step: 0.0 is one of them, and 254 steps lie between the ends."""
    if low is None:
        low = rows.min()
    if high is None:
        high = rows.max()
    low = min(low, 0)
    high = max(high, 0)
    step = (np.float64(high) - low) / 254
    zero = np.rint(-low / step)
    return np.clip(np.rint(rows / step), -zero, 255 - zero), step


def product(rows, table, bias, **limits):
    """The product in integers, with a step for each column of the table."""
    values, step = steps_of(rows, **limits)
    scale = np.abs(table).max(0) / 64
    return values @ np.rint(table / scale) * (step * scale) + bias


def traced(function, *specs):
    signature = [tf.TensorSpec(spec) for spec in specs]
    return tf.function(function, input_signature=signature, autograph=False)


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
    for rows in (normal, many, 100 * normal, positive, -positive[:1], 1e-20 * normal):
        assert relative(run(rows), product(rows, table, bias)) < 1e-6
    assert relative(run(0 * normal), np.broadcast_to(bias, (6, 24))) < 1e-6
    assert run(normal[:0]).shape == (0, 24)
    assert 1e-3 < relative(run(normal), normal @ table + bias) < 3e-2


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_limits_and_factors(activation):
    """The activation is computed with the product."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(7, 32)).astype("float32")
    table = rng.normal(size=(32, 48)).astype("float32")
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
    cases = [(None, highest, rows), ((-1.0, 2.0), 2.0, rows - 2)]
    for limits, high, values in cases:
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
    with_outliers = traced(Int8Product(weight, **options), [None, 40])
    assert relative(with_outliers(rows), rows @ table) < 3e-3
    without_outliers = traced(Int8Product(weight, factors=options["factors"]), [None, 40])
    assert relative(without_outliers(rows), rows @ table) > 6e-3


def test_layer_norm_uses_epsilon():
    rng = np.random.default_rng(3)
    rows = 1e-3 * rng.normal(size=(5, 24)) + 0.1
    gamma, beta = rng.normal(size=(2, 24)).astype("float32")
    for epsilon in (1e-12, 1e-6):
        deviation = np.sqrt(rows.var(-1, keepdims=True) + epsilon)
        expected = (rows - rows.mean(-1, keepdims=True)) / deviation

        def normalize(rows, epsilon=epsilon):
            return int8_products.layer_norm(rows, gamma, beta, epsilon)

        run = traced(normalize, [None, 24])
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
