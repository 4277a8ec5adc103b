"""Multi-head attention (Vaswani et al., 2017, section 3.2; the blocks of BERT, section 3)."""

import keras
from keras import ops

from keras_bert.checks import check_heads
from keras_bert.layers.composite import Composite
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.masks import attention_bias, take_positions

_FUSED = keras.config.backend() == "jax"


@keras.saving.register_keras_serializable(package="keras_bert")
class MultiHeadAttention(Composite):
    """Attention with `num_heads` heads and its own dropout on the probabilities.

    A single projection computes query, key and value. The columns of its kernel are all heads of the query, then
    all heads of the key, then all heads of the value.

    On JAX, one fused kernel computes the attention where the probabilities are neither dropped nor returned: that of
    cuDNN on GPUs in 16 bits. For pre-training with it, set the dropout of the probabilities to 0.

    Args:
        hidden_size: int, width of the input and the output, a multiple of `num_heads`.
        num_heads: int, number of heads.
        dropout: float, dropout rate of the attention probabilities. Defaults to 0.0.
        cross_attention: bool, whether key and value come from `memory`, as in a decoder. Defaults to `False`.
        initializer_range: float, standard deviation of the kernel initializer. Defaults to 0.02.

    Call arguments:
        hidden: `(batch, length, hidden_size)`.
        attention_mask: boolean, broadcasts to `(batch, num_heads, length, key length)`, true where attention is
            allowed. Defaults to `None`.
        memory: `(batch, key length, hidden_size)`, only with `cross_attention`.
        positions: integers `(batch, count)`, the only positions to compute; `None`, the default, for all of them.
        score_bias: `(1 or batch, num_heads, length, key length)`, added to the scores, such as a `PositionBias`.
            Defaults to `None`.
        seed: dropout seed, see `Dropout`. Defaults to `None`.
        return_probabilities: bool, whether the probabilities are needed. Defaults to `True`.
        training: bool, whether to apply dropout.

    Returns:
        A pair: `(batch, length, hidden_size)` and the probabilities `(batch, num_heads, length, key length)`, or `None`
        if they are not needed.

    Example:
        attention = MultiHeadAttention(hidden_size=768, num_heads=12, dropout=0.1)
        y, scores = attention(x, attention_mask=AttentionMask()(padding_mask))
    """

    def __init__(self, hidden_size, num_heads, dropout=0.0, cross_attention=False, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        check_heads(hidden_size, num_heads=num_heads)
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.dropout = dropout
        self.cross_attention = cross_attention
        self.initializer_range = initializer_range

        if cross_attention:
            self.query = self.make_dense(hidden_size, "query")
            self.key_value = self.make_dense(2 * hidden_size, "key_value")
        else:
            self.query_key_value = self.make_dense(3 * hidden_size, "query_key_value")
        self.probability_dropout = Dropout(dropout, name="dropout", **self.part_options)
        self.output_dense = self.make_dense(hidden_size, "output")

    def build(self, hidden_shape):
        if self.cross_attention:
            parts = [self.query, self.key_value]
        else:
            parts = [self.query_key_value]
        for part in (*parts, self.output_dense):
            part.build((None, None, self.hidden_size))

    def call(
        self,
        hidden,
        attention_mask=None,
        memory=None,
        positions=None,
        score_bias=None,
        seed=None,
        return_probabilities=True,
        training=None,
    ):
        query, key, value = self.project(hidden, memory)
        if positions is not None:
            query, hidden, attention_mask = self._at(positions, query, hidden, attention_mask)
            score_bias = self._bias_at(positions, score_bias)
        drops = training and self.dropout
        # XLA cannot compute the kernel in float16 on CPUs.
        if _FUSED and self.compute_dtype != "float16" and not return_probabilities and not drops:
            return self._fused(query, key, value, hidden, attention_mask, score_bias), None
        return self.attend(query, key, value, hidden, attention_mask, seed, training, score_bias)

    def _at(self, positions, query, hidden, attention_mask):
        """Returns query, input and mask of some positions."""
        batch, length, _ = ops.shape(hidden)
        size = self.hidden_size // self.num_heads
        of_heads = ops.reshape(query, (batch * self.num_heads, length, size))
        of_heads = take_positions(of_heads, ops.repeat(positions, self.num_heads, axis=0))
        if attention_mask is not None and attention_mask.shape[2] != 1:
            attention_mask = ops.expand_dims(take_positions(attention_mask[:, 0], positions), 1)
        query = ops.reshape(of_heads, (batch, self.num_heads, ops.shape(positions)[1], size))
        return query, take_positions(hidden, positions), attention_mask

    def _bias_at(self, positions, score_bias):
        """Returns the rows of `score_bias` for some positions."""
        if score_bias is None:
            return None
        if score_bias.shape[0] == 1:  # That of all rows, of which no copies are made.
            of_heads = ops.take(score_bias[0], positions, axis=1)  # (heads, batch, count, key length)
            return ops.transpose(of_heads, (1, 0, 2, 3))
        batch, count = ops.shape(positions)
        _, heads, length, keys = ops.shape(score_bias)
        of_heads = ops.broadcast_to(score_bias, (batch, heads, length, keys))
        of_heads = ops.reshape(of_heads, (batch * heads, length, keys))
        of_heads = take_positions(of_heads, ops.repeat(positions, heads, axis=0))
        return ops.reshape(of_heads, (batch, heads, count, keys))

    def _fused(self, query, key, value, hidden, attention_mask, score_bias):
        batch, length, _ = ops.shape(hidden)
        # (batch, length, heads, size)
        query = ops.transpose(query, (0, 2, 1, 3))
        value = ops.transpose(value, (0, 2, 1, 3))
        key = ops.transpose(key, (0, 3, 1, 2))
        if attention_mask is not None:  # cuDNN does not broadcast the mask along the query.
            attention_mask = ops.broadcast_to(attention_mask, (batch, 1, length, ops.shape(key)[1]))
        if score_bias is not None:
            score_bias = ops.cast(score_bias, query.dtype)
        context = ops.dot_product_attention(query, key, value, bias=score_bias, mask=attention_mask, scale=self._scale)
        return self.output_dense(ops.reshape(context, ops.shape(hidden)))

    def attend(self, query, key, value, hidden, attention_mask=None, seed=None, training=None, score_bias=None):
        """Returns the result of `call` for `hidden`, the input of the query, from the results of `project`."""
        scores = ops.matmul(query * self._scale, key)
        scores = ops.cast(scores, "float32")
        if score_bias is not None:
            scores = scores + ops.cast(score_bias, "float32")
        if attention_mask is not None:
            scores = scores + attention_bias(attention_mask)
        # Keras warns about a softmax over a single value, which occurs for a sequence of one token.
        if scores.shape[-1] == 1:
            probabilities = ops.ones_like(scores)
        else:
            probabilities = ops.softmax(scores)
        probabilities = ops.cast(probabilities, self.compute_dtype)
        dropped = self.probability_dropout(probabilities, seed=seed, training=training)
        context = ops.transpose(ops.matmul(dropped, value), (0, 2, 1, 3))
        return self.output_dense(ops.reshape(context, ops.shape(hidden))), probabilities

    @property
    def _scale(self):
        return (self.hidden_size // self.num_heads) ** -0.5

    def project(self, hidden, memory=None):
        """Returns query and value, `(batch, heads, length, size)`, and between them the key, transposed."""
        if self.cross_attention:
            return self.project_query(hidden), *self.project_memory(memory)
        query, key, value = self._split_heads(self.query_key_value(hidden), hidden, 3)
        return query, ops.transpose(key, (0, 1, 3, 2)), value

    def project_query(self, hidden):
        """Returns the query of cross-attention."""
        return self._split_heads(self.query(hidden), hidden, 1)[0]

    def project_memory(self, memory):
        """Returns key and value of cross-attention, which do not depend on the query."""
        key, value = self._split_heads(self.key_value(memory), memory, 2)
        return ops.transpose(key, (0, 1, 3, 2)), value

    def _split_heads(self, projected, source, parts):
        # Use the input's shape: converters cannot infer the shape of the projection, which is itself reshaped.
        batch, length, _ = ops.shape(source)
        heads = ops.reshape(projected, (batch, length, parts, self.num_heads, self.hidden_size // self.num_heads))
        return ops.unstack(ops.transpose(heads, (2, 0, 3, 1, 4)), parts)  # (parts, batch, heads, length, size)
