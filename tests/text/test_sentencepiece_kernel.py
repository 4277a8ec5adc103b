"""SentencePiece's op: it outlives what `keras.utils.clear_session` removes, in eager code, in data sets and pickles."""

import pickle

import keras
import numpy as np
import tensorflow as tf

import keras_bert
from keras_bert.text.sentencepiece_kernel import SentencePieceKernel
from keras_bert.text.sentencepiece_model import serialized_merges
from tests.text.unigrams import SCORES, unigram


def test_the_model_outlives_a_session():
    """`keras.utils.clear_session` removes TensorFlow's resources without a name of their own."""
    preprocessor = keras_bert.TextPreprocessor(unigram(SCORES), 12)
    expected = preprocessor(["(cab)"])["token_ids"]
    keras.utils.clear_session()
    (mapped,) = tf.data.Dataset.from_tensors(["(cab)"]).map(preprocessor)
    unpickled = pickle.loads(pickle.dumps(preprocessor))
    np.testing.assert_array_equal(preprocessor(["(cab)"])["token_ids"], expected)
    np.testing.assert_array_equal(mapped["token_ids"], expected)
    np.testing.assert_array_equal(unpickled(["(cab)"])["token_ids"], expected)


def test_ids_and_offsets_in_bytes():
    """Of a model of merges, whose unknown characters have the id after the pieces."""
    kernel = SentencePieceKernel(serialized_merges(["é", "b", "éb"], [-3.0, -2.0, -1.0]))
    texts = tf.constant(["ébb", "", "zé"])
    assert kernel.tokenize(texts).to_list() == [[2, 1], [], [3, 0]]
    ids, starts, ends = kernel.tokenize_with_offsets(texts)
    assert ids.to_list() == [[2, 1], [], [3, 0]]
    assert starts.to_list() == [[0, 3], [], [0, 1]]
    assert ends.to_list() == [[3, 4], [], [1, 3]]
