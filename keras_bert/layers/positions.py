"""How a model knows the order of its tokens: what is added to embeddings or attention scores (BERT, section 3).

A `Positions` is one class and a line in `registry`. Layers and configs hold its name, all other code asks it.
"""

import keras
from keras import ops

from keras_bert.layers.composite import Composite
from keras_bert.layers.quantization import Unquantized

TABLE = "embeddings.position_embeddings.weight"  # Of a checkpoint.


class Positions:
    """How a model knows the order of its tokens.

    It has no state: `embeddings` is a layer with `hidden_size`, `max_length` and `initializer_range`, which owns the
    weights, and `layers` are those of an encoder by name.
    """

    name = ""  # The argument `positions` of `build_encoder`.
    is_plain = False  # Whether it is BERT's, the only one of formats without a place for `positions`.
    is_limited = True  # Whether no sequence may be longer than the table of positions.
    has_table = False  # Whether this table is among the weights.
    counts_from_padding = False  # Whether positions may be counted from the id of padding, see `PositionIds`.
    # That of transformers whose models have it, and no other model type; `None`: all others.
    model_type: str | None = None
    onnx = {}  # noqa: RUF012  As `Head.onnx`: writers by the names of the layers that `bias_layer` returns.

    def limit(self, config):
        """Returns the number of tokens that a model can read, `None` for any."""
        if self.is_limited:
            return config.max_position_embeddings
        return None

    def add_table(self, embeddings):
        """Adds a learned table to the weights of a layer, and returns it; `None` for positions without one."""
        return None

    def table(self, embeddings):
        """Returns what is added to the embeddings by position, `(max_length, hidden_size)`, or `None`."""
        return None

    def row(self, embeddings, position):
        """Returns what is added to the embeddings at one position, a scalar."""
        return ops.take(self.table(embeddings), position, axis=0)

    def fixed_table(self, embeddings):
        """Returns the table that a checkpoint has for other programs, although it is no weight, or `None`."""
        return None

    def bias_layer(self, config, **options):
        """Returns the `PositionBias` of the model of a config, or `None`; `options` are those of a layer."""
        return None

    def tensors(self, layers):
        """Returns the weights by their names in a checkpoint, variables or layers."""
        return {}


class LearnedPositions(Positions):
    """A table that is learned, as in BERT."""

    name = "learned"
    is_plain = True
    has_table = True
    counts_from_padding = True

    def add_table(self, embeddings):
        return embeddings.add_weight(
            shape=(embeddings.max_length, embeddings.hidden_size),
            initializer=keras.initializers.TruncatedNormal(stddev=embeddings.initializer_range),
            name="position_embeddings",
        )

    def table(self, embeddings):
        return embeddings.position_table

    def tensors(self, layers):
        return {TABLE: layers["embeddings"].position_table}


class SinusoidPositions(Positions):
    """Sines in even columns and cosines in odd ones (Vaswani et al., 2017, section 3.5)."""

    name = "sinusoid"

    def table(self, embeddings):
        return sinusoids(ops.arange(embeddings.max_length), embeddings.hidden_size)

    def row(self, embeddings, position):
        return sinusoids(ops.reshape(position, (1,)), embeddings.hidden_size)

    def fixed_table(self, embeddings):
        return self.table(embeddings)


class NoPositions(Positions):
    """Nothing: the model sees a set of tokens."""

    name = "none"
    is_limited = False

    def fixed_table(self, embeddings):
        return ops.zeros((embeddings.max_length, embeddings.hidden_size))


class PositionBias(Unquantized, Composite):
    """A layer whose output is added to the attention scores of all blocks, such as a relative bias.

    Call arguments:
        token_ids: `(batch, length)`.
        position_ids: `(batch, length)`, from 0 in each text of a row of several texts. Defaults to `None`, one text.

    Returns:
        `(1 or batch, heads, length, length)`.
    """


def sinusoids(positions, width):
    """Returns the embeddings of positions: sines in even columns, cosines in odd ones."""
    columns = ops.arange(width, dtype="float32")
    even = columns - columns % 2
    angles = ops.cast(positions, "float32")[:, None] / 10000 ** (even / width)
    return ops.where(columns % 2 == 0, ops.sin(angles), ops.cos(angles))
