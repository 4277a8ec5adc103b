"""Probes suit every signature: a row of texts for each input of strings, numbers in the shape of the others."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.exporting.probes import longest_probe, probe_inputs, probes_of

pytestmark = pytest.mark.tensorflow


def signature(*specs):
    """A `tf.function` with these inputs, which returns them."""
    return tf.function(lambda *inputs: {str(number): value for number, value in enumerate(inputs)}, specs)


def test_texts_end_in_a_mask_and_cover_empty_ones():
    inputs = probe_inputs("serving_default", signature(tf.TensorSpec([None], tf.string, "text")))
    texts = [text.decode() for text in inputs["text"].numpy()]
    assert all(text.endswith("[MASK].") for text in texts)
    assert " [MASK]." in texts  # The empty text.
    assert any(not text.isascii() for text in texts)


@pytest.mark.parametrize("name", ["pair", "question", "choices", "labels", "context"])
def test_all_strings_have_the_rows_of_the_texts(name):
    axes = 2 if name in ("choices", "labels") else 1
    text = tf.TensorSpec([None], tf.string, "text")
    inputs = probe_inputs("serving_default", signature(text, tf.TensorSpec([None] * axes, tf.string, name)))
    assert inputs[name].shape.rank == axes
    assert len(inputs[name]) == len(inputs["text"])


def test_strings_of_another_shape_than_those_of_their_name():
    three_axes = tf.TensorSpec([None, None, 2], tf.string, "text")
    inputs = probe_inputs("serving_default", signature(three_axes))
    assert inputs["text"].shape == (4, 3, 2)


def test_masks_are_ones_and_segments_zeros():
    ids = [tf.TensorSpec([None, None], tf.int32, name) for name in ("token_ids", "padding_mask", "segment_ids")]
    inputs = probe_inputs("tokens", signature(*ids))
    assert {value.shape for value in inputs.values()} == {tf.TensorShape([2, 3])}
    assert np.unique(inputs["padding_mask"]).tolist() == [1]
    assert np.unique(inputs["segment_ids"]).tolist() == [0]
    assert np.unique(inputs["token_ids"]).tolist() == [0, 1, 2]


def test_numbers_beside_texts_have_a_row_for_each():
    text = tf.TensorSpec([None], tf.string, "text")
    inputs = probe_inputs("serving_default", signature(text, tf.TensorSpec([None], tf.float32, "weight")))
    assert inputs["weight"].shape == inputs["text"].shape
    assert inputs["weight"].dtype == tf.float32


def test_classify_takes_examples_of_texts_and_pairs():
    inputs = probe_inputs("classify", signature(tf.TensorSpec([None], tf.string, "inputs")))
    for row in inputs["inputs"].numpy():
        features = tf.train.Example.FromString(row).features.feature
        assert set(features) == {"text", "pair"}


@pytest.mark.parametrize("shape", [None, [], [3], [3, None]])
def test_a_signature_without_a_free_batch_is_refused(shape):
    with pytest.raises(ValueError, match="free first dimension.* Received: text of the signature answer with shape="):
        probe_inputs("answer", signature(tf.TensorSpec(shape, tf.string, "text")))


def test_answers_are_those_of_python_or_of_graphs():
    function = signature(tf.TensorSpec([None], tf.float32, "numbers"))
    _, answers = probes_of({"one": function})["one"]
    np.testing.assert_array_equal(answers["0"], [0, 0])
    _, answers = probes_of({"one": function}, {"one": lambda numbers: numbers + 5})["one"]
    np.testing.assert_array_equal(answers, [5, 5])


def test_the_longest_probe(pieces, preprocessor):
    """Alone, and with the longest of the pairs."""
    inputs = probe_inputs("a", signature(*(tf.TensorSpec([None], tf.string, name) for name in ("text", "pair"))))
    tokens_of_texts = preprocessor.tokenizer(inputs["text"]).row_lengths().numpy()
    tokens_of_pairs = preprocessor.tokenizer(inputs["pair"]).row_lengths().numpy()
    assert longest_probe(preprocessor, pair=False) == tokens_of_texts.max() + 2  # [CLS] and [SEP].
    assert longest_probe(preprocessor, pair=True) == (tokens_of_texts + tokens_of_pairs).max() + 3
