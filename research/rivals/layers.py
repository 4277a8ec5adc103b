"""Layers of models that read the two parts of a pair separately, or a text in both directions."""

import keras
from keras import ops

from keras_bert.layers import Composite

_FORBIDDEN = -1e9  # Added to the float32 score of a masked position.


@keras.saving.register_keras_serializable(package="research")
class SplitPair(Composite):
    """Splits rows of BERT's inputs into their first and second part, each at the start of its own row: ids and mask of
    the first, ids and mask of the second, int32 `(batch, length)`. Ids after the end of a part are 0."""

    def call(self, token_ids, segment_ids, padding_mask):
        is_real = ops.not_equal(padding_mask, 0)
        has_second_id = ops.not_equal(segment_ids, 0)
        is_first = ops.logical_and(is_real, ops.logical_not(has_second_id))
        is_second = ops.logical_and(is_real, has_second_id)
        outputs = []
        for is_part in (is_first, is_second):
            start = _start(is_part)
            mask = ops.cast(is_part, "int32")
            outputs.append(_rotated(ops.cast(token_ids, "int32") * mask, start))
            outputs.append(_rotated(mask, start))
        return tuple(outputs)

    def compute_output_spec(self, token_ids, segment_ids, padding_mask):
        return tuple(keras.KerasTensor(token_ids.shape, "int32") for _ in range(4))


def _bias(mask):
    """Returns what is added to the attention scores for a boolean mask; a fully masked row stays finite."""
    return (1.0 - ops.cast(mask, "float32")) * _FORBIDDEN


def _start(is_part):
    """Returns the first position of a part in each row, int32 `(batch,)`; 0 if it is empty."""
    return ops.cast(ops.argmax(ops.cast(is_part, "int32"), axis=1), "int32")


def _rotated(values, start):
    """Rotates each row of `values`, `(batch, length)`, to the left, so that the value at `start` comes first."""
    batch, length = ops.shape(values)
    places = (ops.arange(length, dtype="int32")[None] + start[:, None]) % length
    rows = places + ops.arange(batch, dtype="int32")[:, None] * length
    return ops.take(ops.reshape(values, (-1,)), rows, axis=0)


@keras.saving.register_keras_serializable(package="research")
class PairAttention(Composite):
    """Summarizes the other part, `others`, for each position: dot-product attention (Wang et al., 2018, GLUE's
    baseline), `(batch, length, width)`; zeros if the other part is empty."""

    def call(self, states, others, others_mask):
        real = ops.not_equal(others_mask, 0)
        scores = ops.cast(ops.matmul(states, ops.transpose(others, (0, 2, 1))), "float32")
        weights = ops.softmax(scores + _bias(real[:, None]), axis=-1)
        weights = weights * ops.cast(ops.any(real, axis=1), "float32")[:, None, None]
        return ops.matmul(ops.cast(weights, states.dtype), others)

    def compute_output_shape(self, states_shape, others_shape, others_mask_shape):
        return states_shape


@keras.saving.register_keras_serializable(package="research")
class MaskedMax(Composite):
    """Takes the maximum over the real positions, `(batch, width)`; zeros for a row without any."""

    def call(self, states, padding_mask):
        real = ops.not_equal(padding_mask, 0)
        nothing = ops.full_like(states, float("-inf"))
        largest = ops.max(ops.where(real[..., None], states, nothing), axis=1)
        return ops.where(ops.any(real, axis=1)[:, None], largest, ops.zeros_like(largest))

    def compute_output_shape(self, states_shape, padding_mask_shape):
        return (states_shape[0], states_shape[-1])


@keras.saving.register_keras_serializable(package="research")
class AttentionFlow(Composite):
    """Attention between context and question in both directions (Seo et al., 2017, section 2, layer 4).

    From H and U in the paper to G, `(batch, context length, 4 * width)`: the context, the attended question, and the
    products of the context with the attended question and with the attended context.
    """

    def __init__(self, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.initializer_range = initializer_range

    def build(self, context_shape, *shapes):
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        self.similarity = self.add_weight(shape=(3, context_shape[-1]), initializer=initializer, name="similarity")

    def call(self, context, question, context_mask, question_mask):
        of_context, of_question, of_product = ops.unstack(ops.cast(self.similarity, context.dtype), 3)
        # S: the similarity w * [h; u; h * u] of each pair, without a tensor of all pairs of vectors.
        scores = ops.matmul(context * of_product, ops.transpose(question, (0, 2, 1)))
        scores = scores + ops.sum(context * of_context, axis=-1)[:, :, None]
        scores = scores + ops.sum(question * of_question, axis=-1)[:, None]
        scores = ops.cast(scores, "float32") + _bias(ops.not_equal(question_mask, 0)[:, None])
        to_question = ops.cast(ops.softmax(scores, axis=-1), context.dtype)
        attended = ops.matmul(to_question, question)
        best = ops.max(scores, axis=-1) + _bias(ops.not_equal(context_mask, 0))
        to_context = ops.cast(ops.softmax(best, axis=-1), context.dtype)
        summary = ops.sum(context * to_context[..., None], axis=1, keepdims=True)
        return ops.concatenate([context, attended, context * attended, context * summary], axis=-1)

    def compute_output_shape(self, context_shape, *shapes):
        return (*context_shape[:-1], 4 * context_shape[-1])


@keras.saving.register_keras_serializable(package="research")
class JoinLogits(Composite):
    """Moves the logits of the second part of `SplitPair` to its positions in the row, float32 `(batch, length)`.

    [CLS] has a learned logit, of no answer; those of other positions make their probability zero.
    """

    def build(self, logits_shape, *shapes):
        self.no_answer = self.add_weight(shape=(1,), initializer="zeros", name="no_answer")

    def call(self, logits, segment_ids, padding_mask):
        is_second = ops.logical_and(ops.not_equal(padding_mask, 0), ops.not_equal(segment_ids, 0))
        length = ops.shape(logits)[1]
        moved = _rotated(ops.cast(logits, "float32"), length - _start(is_second))
        is_first = ops.arange(length, dtype="int32")[None] == 0
        outside = ops.where(is_first, ops.cast(self.no_answer, "float32"), _FORBIDDEN)
        return ops.where(is_second, moved, outside)

    def compute_output_spec(self, logits, segment_ids, padding_mask):
        return keras.KerasTensor(logits.shape, "float32")


@keras.saving.register_keras_serializable(package="research")
class Highway(Composite):
    """A highway layer (Srivastava et al., 2015): a gate mixes the input with its transform."""

    def __init__(self, width, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.initializer_range = initializer_range
        self.transform = self.make_dense(width, "transform", activation="relu")
        self.gate = self.make_dense(width, "gate", activation="sigmoid")

    def build(self, inputs_shape):
        self.transform.build(inputs_shape)
        self.gate.build(inputs_shape)

    def call(self, inputs):
        gate = self.gate(inputs)
        return gate * self.transform(inputs) + (1 - gate) * inputs

    def compute_output_shape(self, inputs_shape):
        return inputs_shape


@keras.saving.register_keras_serializable(package="research")
class BothDirections(Composite):
    """Repeats embeddings for the two directions of a `BiLSTM` with `separate`."""

    def call(self, embeddings):
        return ops.concatenate([embeddings, embeddings], axis=-1)

    def compute_output_shape(self, embeddings_shape):
        return (*embeddings_shape[:-1], 2 * embeddings_shape[-1])


@keras.saving.register_keras_serializable(package="research")
class NextAndPrevious(Composite):
    """Selects the states of a `BiLSTM` that predict a token: left-to-right without the last, then right-to-left without
    the first, `(batch, 2 * (length - 1), width)`."""

    def call(self, states):
        left, right = ops.split(states, 2, axis=-1)
        return ops.concatenate([left[:, :-1], right[:, 1:]], axis=1)

    def compute_output_shape(self, states_shape):
        batch, length, width = states_shape
        return (batch, None if length is None else 2 * (length - 1), width // 2)
