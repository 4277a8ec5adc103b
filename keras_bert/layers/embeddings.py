"""Token, segment and position embeddings (BERT, section 3, "Input/Output Representations")."""

import keras
from keras import ops

from keras_bert.checks import check_choice
from keras_bert.layers.composite import Composite
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.graphs import expect_at_most
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.quantization import Quantizable, Unquantized
from keras_bert.layers.registry import positions_named


@keras.saving.register_keras_serializable(package="keras_bert")
class TokenEmbedding(Quantizable, keras.layers.ReversibleEmbedding):
    """Token embedding table; with `reverse=True`, multiplies by its transpose to get logits over the vocabulary.

    `keras.ops.take` wraps negative ids around to the end of the table. Here, an id outside the table raises an error
    on CPU, as in `tf.gather`; XLA and GPUs return zeros, JAX returns NaN.

    Example:
        table = TokenEmbedding(30522, 768)
        vectors = table(token_ids)
        logits = table(vectors, reverse=True)
    """

    table_name = "embeddings"
    scaled_axis = 0

    def add_weight(self, *args, **options):
        # Under mixed precision, the rows that are looked up are cast, not the whole table.
        options["autocast"] = False
        return super().add_weight(*args, **options)

    def call(self, inputs, reverse=False):
        if not reverse:
            inputs = _no_wrap(inputs, self.input_dim)
        return super().call(inputs, reverse=reverse)

    def quantized_call(self, inputs, reverse=False):
        if not reverse:
            inputs = _no_wrap(inputs, self.input_dim)
        return super().quantized_call(inputs, reverse=reverse)


@keras.saving.register_keras_serializable(package="keras_bert")
class BertEmbeddings(Composite):
    """Adds segment and position embeddings to token embeddings, then applies LayerNorm and dropout.

    Args:
        hidden_size: int, width of the embeddings.
        max_length: int, maximum sequence length, the number of rows of a learned position table.
        num_segments: int, number of rows of the segment table, 0 for none. Defaults to 2.
        positions: str, see `build_encoder`. Defaults to "learned".
        dropout: float, dropout rate of the sum. Defaults to 0.0.
        initializer_range: float, standard deviation of the tables' initializer. Defaults to 0.02.
        layer_norm_eps: float, epsilon of the LayerNorm. Defaults to 1e-12.
        output_size: int, width of the output, by a dense layer. Defaults to `None`, `hidden_size` without that layer.

    Call arguments:
        tokens: token embeddings, `(batch, length, hidden_size)`.
        segment_ids: `(batch, length)`.
        position_ids: `(batch, length)`, for rows of several texts. Defaults to `None`, which counts from 0.
        training: bool, whether to apply dropout.
        inference: bool, whether to never apply dropout, regardless of `training`. Defaults to `False`.

    Returns:
        `(batch, length, hidden_size)`.

    Example:
        embeddings = BertEmbeddings(hidden_size=768, max_length=512)
        hidden = embeddings(TokenEmbedding(30522, 768)(token_ids), segment_ids)
    """

    def __init__(
        self,
        hidden_size,
        max_length,
        num_segments=2,
        positions="learned",
        dropout=0.0,
        initializer_range=0.02,
        layer_norm_eps=1e-12,
        output_size=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        positions_named(positions)  # Raises an error.
        self.hidden_size = hidden_size
        self.max_length = max_length
        self.num_segments = num_segments
        self.positions = positions
        self.dropout = dropout
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps
        self.output_size = output_size
        self.norm = LayerNorm(layer_norm_eps, name="norm", **self.part_options)
        self.output_dropout = Dropout(dropout, name="dropout", **self.part_options)
        self.projection = output_size and self.make_dense(output_size, "projection")

    def build(self, tokens_shape):
        if self.num_segments:
            self.segment_table = self.add_weight(
                shape=(self.num_segments, self.hidden_size),
                initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_range),
                name="segment_embeddings",
            )
        self.position_table = positions_named(self.positions).add_table(self)
        self.norm.build((None, None, self.hidden_size))
        if self.projection:
            self.projection.build((None, None, self.hidden_size))

    def call(self, tokens, segment_ids, position_ids=None, training=None, inference=False):
        if position_ids is None and positions_named(self.positions).is_limited:
            tokens = check_length(tokens, self.max_length)
        hidden = self._with_segments(tokens, segment_ids)
        hidden = self._with_positions(hidden, tokens, position_ids)
        if inference:
            training = False
        hidden = self.output_dropout(self.norm(hidden), training=training)
        if self.projection:
            hidden = self.projection(hidden)
        return hidden

    def _with_segments(self, hidden, segment_ids):
        if self.num_segments == 0:
            return hidden
        if self.num_segments == 1:
            return hidden + self.segment_table[0]
        return hidden + ops.take(self.segment_table, _no_wrap(segment_ids, self.num_segments), axis=0)

    def _with_positions(self, hidden, tokens, position_ids):
        table = positions_named(self.positions).table(self)
        if table is None:
            return hidden
        if position_ids is None:
            rows = table[: ops.shape(tokens)[1]]
        else:
            rows = ops.take(table, _no_wrap(position_ids, self.max_length), axis=0)
        return hidden + ops.cast(rows, hidden.dtype)

    def compute_output_shape(self, tokens_shape, segment_ids_shape=None, position_ids_shape=None):
        return (*tokens_shape[:-1], self.output_size or self.hidden_size)

    def fixed_positions(self):
        """Returns the position embeddings that are no weights, or `None`: sinusoids, or all zeros for no positions."""
        return positions_named(self.positions).fixed_table(self)


@keras.saving.register_keras_serializable(package="keras_bert")
class PositionIds(Unquantized, keras.layers.Layer):
    """Counts positions from the id of padding, as RoBERTa does; padding, wherever it is, has this id as its position.

    Args:
        padding_id: int.
        max_length: int, maximum sequence length.

    Call arguments:
        token_ids: `(batch, length)`.
        position_ids: `(batch, length)`, from 0 in each text of a row of several texts. Defaults to `None`, one text.

    Returns:
        int32 `(batch, length)`.

    Example:
        position_ids = PositionIds(padding_id=1, max_length=512)([[0, 5, 1, 7, 2, 1]])  # 2, 3, 1, 4, 5, 1
    """

    def __init__(self, padding_id, max_length, **kwargs):
        super().__init__(**kwargs)
        self.padding_id = padding_id
        self.max_length = max_length
        self.built = True

    def call(self, token_ids, position_ids=None):
        if position_ids is None:
            token_ids = check_length(token_ids, self.max_length)
        is_token = ops.cast(ops.not_equal(token_ids, self.padding_id), "int32")
        count = ops.cumsum(is_token, axis=1)
        if position_ids is not None:
            starts = ops.arange(ops.shape(token_ids)[1]) - ops.cast(position_ids, "int32")
            count -= ops.take_along_axis(count - is_token, starts, axis=1)
        return count * is_token + self.padding_id

    def compute_output_spec(self, token_ids, position_ids=None):
        return keras.KerasTensor(token_ids.shape, "int32")


@keras.saving.register_keras_serializable(package="keras_bert")
class ScaledEmbeddings(Composite):
    """Scales token embeddings by the square root of their width, adds positions, then applies dropout.

    The embeddings of Vaswani et al., 2017, sections 3.4, 3.5 and 5.4, for encoder and decoder.

    Args:
        hidden_size: int, width of the embeddings.
        max_length: int, maximum sequence length, the number of rows of a learned position table.
        positions: str, "sinusoid" or "learned". Defaults to "sinusoid".
        dropout: float, dropout rate of the sum. Defaults to 0.0.
        initializer_range: float, standard deviation of the learned table's initializer. Defaults to 0.02.

    Call arguments:
        tokens: token embeddings, `(batch, length, hidden_size)`.
        training: bool, whether to apply dropout.

    Returns:
        `(batch, length, hidden_size)`.

    Example:
        hidden = ScaledEmbeddings(hidden_size=512, max_length=512)(TokenEmbedding(37000, 512)(token_ids))
    """

    def __init__(self, hidden_size, max_length, positions="sinusoid", dropout=0.0, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        check_choice("positions", positions, ("learned", "sinusoid"))
        self.hidden_size = hidden_size
        self.max_length = max_length
        self.positions = positions
        self.dropout = dropout
        self.initializer_range = initializer_range
        self.output_dropout = Dropout(dropout, name="dropout", **self.part_options)

    def build(self, tokens_shape):
        self.position_table = positions_named(self.positions).add_table(self)

    def call(self, tokens, training=None):
        tokens = check_length(tokens, self.max_length)
        positions = self.table()[: ops.shape(tokens)[1]]
        return self.output_dropout(self._sum(tokens, positions), training=training)

    def step(self, tokens, position):
        """Returns the embeddings of tokens `(batch, rows, hidden_size)` that are all at one position."""
        return self._sum(tokens, positions_named(self.positions).row(self, position))

    def table(self):
        """Returns the position embeddings, `(max_length, hidden_size)`."""
        return positions_named(self.positions).table(self)

    def _sum(self, tokens, positions):
        return tokens * self.hidden_size**0.5 + ops.cast(positions, tokens.dtype)

    def compute_output_shape(self, tokens_shape):
        return tokens_shape


def check_length(tokens, limit):
    """Returns `(batch, length, ...)` tokens; raises an error if `length` exceeds the position table."""
    message = (
        f"the sequence is longer than the position table. Expected at most {limit} positions "
        "(max_position_embeddings); truncate it. Received: length="
    )
    length = tokens.shape[1]
    # An unknown length is `None`, or a symbolic dimension in JAX.
    if not isinstance(length, int):
        return expect_at_most(tokens, ops.shape(tokens)[1], limit, message)
    if length > limit:
        raise ValueError(f"{message}{length}")
    return tokens


def _no_wrap(ids, size):
    """Moves negative ids past the end of the table; `ops.take` would wrap them around."""
    # Differs from BERT: its one-hot product maps an unknown segment id to a zero vector.
    ids = ops.convert_to_tensor(ids)
    return ops.where(ids < 0, ops.cast(size, ids.dtype), ids)
