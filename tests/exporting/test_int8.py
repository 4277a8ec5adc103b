"""A model in int8 answers like the float model, which is unchanged."""

import dataclasses
import warnings

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import relative

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.kernels]

from keras_bert.exporting.export import build_signatures  # noqa: E402
from keras_bert.exporting.int8 import in_int8, observed  # noqa: E402
from keras_bert.exporting.int8_ranges import calibrated, probed  # noqa: E402


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
    specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in inputs}
    return run.get_concrete_function(specs)


def test_a_model_is_close_and_unchanged(classifier):
    model, _, inputs = classifier
    before = model(inputs)
    weights = model.get_weights()
    with in_int8(model) as variables:
        run = in_graph(model, inputs)
    outputs = run(inputs)
    assert set(outputs) == set(before)
    for name, expected in before.items():
        values = tf.nest.flatten(outputs[name])
        for value, wanted in zip(values, tf.nest.flatten(expected), strict=True):
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
    texts = []
    for _ in range(40):
        words = rng.integers(0, 55, rng.integers(1, 9))
        texts.append(" ".join(f"w{word}" for word in words))
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


def check_refused(model, pieces, folder, message, **options):
    """Checks that a model is not exported, and that nothing is written."""
    preprocessor = keras_bert.TextPreprocessor(pieces, 12)
    with pytest.raises(ValueError, match=message):
        keras_bert.export(model, preprocessor, folder / "1", **options)
    assert not list(folder.iterdir())


def test_an_unknown_precision_is_refused(classifier, pieces, tmp_path):
    _, model, _ = classifier
    check_refused(model, pieces, tmp_path, "precision='int4'", precision="int4")


def test_calibration_without_int8_is_refused(classifier, pieces, tmp_path):
    _, model, _ = classifier
    message = '`calibration` needs `precision="int8"`. Received: precision=None'
    check_refused(model, pieces, tmp_path, message, calibration=["a"])


def test_a_model_in_16_bits_is_refused(config, pieces, tmp_path):
    encoder = keras_bert.build_encoder(config, dtype="mixed_bfloat16")
    model = keras_bert.build_classifier(encoder, 2)
    message = "must be in float32, such as from `keras_bert.load"
    check_refused(model, pieces, tmp_path, message, precision="int8")


def test_a_quantized_model_is_refused(config, pieces, tmp_path):
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # About input layers.
        model.quantize("int8")
    check_refused(model, pieces, tmp_path, " in int8", precision="int8")
