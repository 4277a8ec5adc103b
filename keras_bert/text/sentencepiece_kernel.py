"""SentencePiece's op inside the graph: from strings to ids and byte offsets."""

import hashlib

import tensorflow as tf

# No samples, no tokens at the ends, not reversed.
_OPTIONS = {
    "nbest_size": 0,
    "alpha": 1.0,
    "add_bos": False,
    "add_eos": False,
    "reverse": False,
    "out_type": tf.int32,
    "return_nbest": False,
}


# TF-Text's class owns its model through a kernel in TensorFlow's eager cache, which `keras.utils.clear_session`
# empties: every tokenizer would fail after it. A model with a name of its own lives as long as the process. This class
# can go when TF-Text's own does that.
class SentencePieceKernel(tf.saved_model.experimental.TrackableResource):
    """SentencePiece's op, for the bytes of a model, see `sentencepiece_model`."""

    def __init__(self, model):
        from tensorflow_text.python.ops.sentencepiece_tokenizer import gen_sentencepiece_tokenizer

        super().__init__()
        self._model = model
        self._ops = gen_sentencepiece_tokenizer
        _ = self.resource_handle  # Creates it, outside of any graph.

    def _create_resource(self):
        name = hashlib.sha256(self._model).hexdigest()
        return self._ops.sentencepiece_op(model=self._model, shared_name=name)

    def tokenize(self, texts):
        """Returns ragged ids of strings `(texts,)`."""
        ids, splits = self._ops.sentencepiece_tokenize_op(self.resource_handle, texts, **_OPTIONS)
        return tf.RaggedTensor.from_row_splits(ids, splits, validate=False)

    def tokenize_with_offsets(self, texts):
        """Returns ragged ids, and the byte offsets where they start and end."""
        ids, splits, starts, ends = self._ops.sentencepiece_tokenize_with_offsets_op(
            self.resource_handle, texts, **_OPTIONS
        )
        values = (ids, tf.cast(starts, tf.int32), tf.cast(ends, tf.int32))
        return tuple(tf.RaggedTensor.from_row_splits(each, splits, validate=False) for each in values)
