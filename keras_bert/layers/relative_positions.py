"""Relative positions: a bias of the attention scores by distance, as in T5, beside learned positions, as in MPNet.

Section 2.1 of Raffel et al., 2020 (T5); section 2.3 of Song et al., 2020 (MPNet).
"""

import bisect

import keras
from keras import ops

from keras_bert.layers.positions import LearnedPositions, PositionBias

# The distances at which the buckets of one direction begin, after that of distance 0: up to 8 each one, then
# 8 * 16 ** (step / 8), rounded up. The last bucket has all longer ones. Integers, so that no runtime needs a logarithm.
_THRESHOLDS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91)
_FARTHEST = _THRESHOLDS[-1]
_DIRECTION = len(_THRESHOLDS) + 1  # The number of buckets of one direction; the second one is for tokens on the right.
NUM_BUCKETS = 2 * _DIRECTION


def bucket(distance):
    """Returns the bucket of a distance, the position of a key minus that of a query."""
    reached = bisect.bisect_right(_THRESHOLDS, abs(distance))
    if distance > 0:
        reached += _DIRECTION
    return reached


# The buckets of the distances from `-_FARTHEST` to `_FARTHEST`; others have that of the nearest one.
_BUCKETS = [bucket(distance) for distance in range(-_FARTHEST, _FARTHEST + 1)]


@keras.saving.register_keras_serializable(package="keras_bert")
class RelativeBias(PositionBias):
    """A number for each head and bucket of distances, which all blocks add to their attention scores.

    Tokens on the left and on the right have 16 buckets each, as in T5: short distances one each, longer ones one
    together with their neighbors, and all from 91 the last one.

    Args:
        num_heads: int, number of heads.
        initializer_range: float, standard deviation of the table's initializer. Defaults to 0.02.

    Call arguments:
        token_ids: `(batch, length)`.
        position_ids: not used: in rows of several texts, the distances within a text are those in the row.

    Returns:
        `(1, num_heads, length, length)`.

    Example:
        bias = RelativeBias(num_heads=12)(token_ids)
        y, scores = MultiHeadAttention(hidden_size=768, num_heads=12)(x, score_bias=bias)
    """

    def __init__(self, num_heads, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.initializer_range = initializer_range

    def build(self, token_ids_shape, position_ids_shape=None):
        self.table = self.add_weight(
            shape=(NUM_BUCKETS, self.num_heads),
            initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_range),
            name="relative_attention_bias",
        )

    def call(self, token_ids, position_ids=None):
        positions = ops.arange(ops.shape(token_ids)[1], dtype="int32")
        distances = ops.clip(positions[None, :] - positions[:, None], -_FARTHEST, _FARTHEST)
        rows = ops.take(self.by_distance(), distances + _FARTHEST, axis=0)
        return ops.expand_dims(ops.transpose(rows, (2, 0, 1)), 0)

    def by_distance(self):
        """Returns the rows of the table by distance, from the farthest one on the left to that on the right."""
        return ops.take(self.table, ops.convert_to_tensor(_BUCKETS, "int32"), axis=0)

    def compute_output_spec(self, token_ids, position_ids=None):
        length = token_ids.shape[1]
        return keras.KerasTensor((1, self.num_heads, length, length), self.compute_dtype)


def _write_bias(graph, layer, token_ids, position_ids=None):
    """A `RelativeBias` in ONNX."""
    positions = graph.positions(token_ids)
    distances = graph.add("Sub", positions, graph.add("Unsqueeze", positions, [1]))
    indices = graph.add("Add", graph.add("Clip", distances, -_FARTHEST, _FARTHEST), _FARTHEST)
    rows = graph.add("Gather", graph.weight(layer.by_distance(), "position_bias/by_distance"), indices)
    return graph.add("Unsqueeze", graph.add("Transpose", rows, perm=[2, 0, 1]), [0])


class RelativePositions(LearnedPositions):
    """A table that is learned and a bias by distance, as in MPNet."""

    name = "relative"
    is_plain = False
    model_type = "mpnet"
    onnx = {"position_bias": _write_bias}  # noqa: RUF012

    def bias_layer(self, config, **options):
        return RelativeBias(config.num_attention_heads, config.initializer_range, **options)

    def tensors(self, layers):
        tensors = super().tensors(layers)
        tensors["encoder.relative_attention_bias.weight"] = layers["position_bias"].table
        return tensors
