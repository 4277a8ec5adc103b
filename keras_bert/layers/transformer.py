"""The post-norm blocks of encoder and decoder (Vaswani et al., 2017, section 3.1; BERT, section 3)."""

import keras
from keras import ops

from keras_bert.layers.activations import activate, check_activation
from keras_bert.layers.attention import MultiHeadAttention
from keras_bert.layers.composite import Composite
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.graphs import remat
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.masks import take_positions


@keras.saving.register_keras_serializable(package="keras_bert")
class FeedForward(Composite):
    """Position-wise feed-forward network: two dense layers with an activation between them.

    Args:
        hidden_size: int, width of the input and the output.
        intermediate_size: int, width between the two layers.
        activation: str, a `hidden_act` of `BertConfig`. Defaults to "gelu_new".
        initializer_range: float, standard deviation of the kernel initializer. Defaults to 0.02.

    Call arguments:
        hidden: `(batch, length, hidden_size)`.
        training: bool, whether gradients will be computed.

    Returns:
        `(batch, length, hidden_size)`.

    Example:
        y = FeedForward(hidden_size=768, intermediate_size=3072)(x)
    """

    def __init__(self, hidden_size, intermediate_size, activation="gelu_new", initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.activation = check_activation(activation)
        self.initializer_range = initializer_range
        self.intermediate_dense = self.make_dense(intermediate_size, "intermediate")
        self.output_dense = self.make_dense(hidden_size, "output")

    def build(self, hidden_shape):
        self.intermediate_dense.build((None, None, self.hidden_size))
        self.output_dense.build((None, None, self.intermediate_size))

    def call(self, hidden, training=None):
        # On flattened rows, TensorFlow fuses matrix product, bias and activation.
        rows = ops.reshape(hidden, (-1, self.hidden_size))
        rows = activate(self.intermediate_dense(rows), self.activation, training)
        return ops.reshape(self.output_dense(rows), ops.shape(hidden))


@keras.saving.register_keras_serializable(package="keras_bert")
class TransformerBlock(Composite):
    """Self-attention and feed-forward network, each followed by dropout, residual connection and LayerNorm.

    Args:
        hidden_size: int, width of the block.
        num_heads: int, number of attention heads.
        intermediate_size: int, inner width of the feed-forward network.
        activation: str, a `hidden_act` of `BertConfig`. Defaults to "gelu_new".
        dropout: float, dropout rate of the output of both sublayers. Defaults to 0.0.
        attention_dropout: float, dropout rate of the attention probabilities. Defaults to 0.0.
        initializer_range: float, standard deviation of the kernel initializer. Defaults to 0.02.
        layer_norm_eps: float, epsilon of both LayerNorms. Defaults to 1e-12.
        remat: bool, whether to recompute the activations in the backward pass. Defaults to `False`.

    Call arguments:
        hidden: `(batch, length, hidden_size)`.
        attention_mask: boolean, see `AttentionMask`.
        positions: integers `(batch, count)`, the only positions to compute, which see all others; `None`, the default,
            for all of them.
        return_attention_scores: bool, whether to also return the attention probabilities. Defaults to `False`.
        score_bias: added to the attention scores, see `MultiHeadAttention`. Defaults to `None`.
        training: bool, whether to apply dropout.
        inference: bool, whether to never apply dropout, regardless of `training`. Defaults to `False`.

    Returns:
        `(batch, length, hidden_size)`, or a pair of that and `(batch, num_heads, length, length)`. With `positions`,
        `count` instead of the first `length`.

    Example:
        block = TransformerBlock(hidden_size=768, num_heads=12, intermediate_size=3072)
        y = block(x, attention_mask=AttentionMask()(padding_mask))
    """

    def __init__(
        self,
        hidden_size,
        num_heads,
        intermediate_size,
        activation="gelu_new",
        dropout=0.0,
        attention_dropout=0.0,
        initializer_range=0.02,
        layer_norm_eps=1e-12,
        remat=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.intermediate_size = intermediate_size
        self.activation = activation
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps
        self.remat = remat
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: hidden_size})

        options = self.part_options
        self.attention = MultiHeadAttention(
            hidden_size,
            num_heads,
            attention_dropout,
            initializer_range=initializer_range,
            name="attention",
            **options,
        )
        self.attended_dropout = Dropout(dropout, name="attended_dropout", **options)
        self.attention_norm = LayerNorm(layer_norm_eps, name="attention_norm", **options)
        self.feed_forward = FeedForward(
            hidden_size, intermediate_size, activation, initializer_range, name="feed_forward", **options
        )
        self.output_dropout = Dropout(dropout, name="output_dropout", **options)
        self.output_norm = LayerNorm(layer_norm_eps, name="output_norm", **options)

    def build(self, hidden_shape):
        shape = (None, None, self.hidden_size)
        for part in (self.attention, self.attention_norm, self.feed_forward, self.output_norm):
            part.build(shape)

    def call(
        self,
        hidden,
        attention_mask=None,
        positions=None,
        return_attention_scores=False,
        score_bias=None,
        training=None,
        inference=False,
    ):
        if inference:
            training = False
        # Drawn outside `remat`, which would draw different seeds in the backward pass.
        attention_seed = None
        attended_seed = None
        output_seed = None
        if training:
            attention_seed = self.attention.probability_dropout.next_seed()
            attended_seed = self.attended_dropout.next_seed()
            output_seed = self.output_dropout.next_seed()

        def forward(hidden, score_bias=None):
            attended, scores = self.attention(
                hidden,
                attention_mask=attention_mask,
                positions=positions,
                score_bias=score_bias,
                seed=attention_seed,
                return_probabilities=return_attention_scores,
                training=training,
            )
            attended = self.attended_dropout(attended, seed=attended_seed, training=training)
            if positions is not None:
                hidden = take_positions(hidden, positions)
            attended = self.attention_norm(hidden + attended)
            output = self.feed_forward(attended, training=training)
            output = self.output_dropout(output, seed=output_seed, training=training)
            output = self.output_norm(attended + output)
            if return_attention_scores:
                return output, scores
            return output

        run = forward
        if self.remat:
            run = remat(forward)
        if score_bias is None:
            return run(hidden)
        return run(hidden, score_bias)

    def compute_output_spec(
        self,
        hidden,
        attention_mask=None,
        positions=None,
        return_attention_scores=False,
        score_bias=None,
        training=None,
        inference=False,
    ):
        batch, length, width = hidden.shape
        count = length
        if positions is not None:
            count = positions.shape[1]
        output = keras.KerasTensor((batch, count, width), self.compute_dtype)
        if not return_attention_scores:
            return output
        return output, keras.KerasTensor((batch, self.num_heads, count, length), self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_bert")
class DecoderBlock(Composite):
    """Self-attention, attention to the encoder and feed-forward network, each with dropout, residual and LayerNorm.

    Args:
        hidden_size: int, width of the block.
        num_heads: int, number of attention heads.
        intermediate_size: int, inner width of the feed-forward network.
        activation: str, a `hidden_act` of `TransformerConfig`. Defaults to "relu".
        dropout: float, dropout rate of the output of the sublayers. Defaults to 0.0.
        attention_dropout: float, dropout rate of the attention probabilities. Defaults to 0.0.
        initializer_range: float, standard deviation of the kernel initializer. Defaults to 0.02.
        layer_norm_eps: float, epsilon of the LayerNorms. Defaults to 1e-6.

    Call arguments:
        hidden: `(batch, length, hidden_size)`.
        memory: `(batch, source length, hidden_size)`, the encoder's output.
        attention_mask: boolean, see `AttentionMask`; must be causal.
        memory_mask: boolean, see `AttentionMask`.
        return_attention_scores: bool, whether to also return the attention probabilities. Defaults to `False`.
        training: bool, whether to apply dropout.

    Returns:
        `(batch, length, hidden_size)`, or a triple of that, the probabilities of self-attention
        `(batch, num_heads, length, length)` and of cross-attention `(batch, num_heads, length, source length)`.

    Example:
        block = DecoderBlock(hidden_size=512, num_heads=8, intermediate_size=2048)
        y = block(x, memory, AttentionMask(causal=True)(target_mask), AttentionMask()(source_mask))
    """

    def __init__(
        self,
        hidden_size,
        num_heads,
        intermediate_size,
        activation="relu",
        dropout=0.0,
        attention_dropout=0.0,
        initializer_range=0.02,
        layer_norm_eps=1e-6,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.intermediate_size = intermediate_size
        self.activation = activation
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps

        options = self.part_options
        heads = {
            "hidden_size": hidden_size,
            "num_heads": num_heads,
            "dropout": attention_dropout,
            "initializer_range": initializer_range,
        }
        heads.update(options)
        self.attention = MultiHeadAttention(name="attention", **heads)
        self.attended_dropout = Dropout(dropout, name="attended_dropout", **options)
        self.attention_norm = LayerNorm(layer_norm_eps, name="attention_norm", **options)
        self.cross_attention = MultiHeadAttention(cross_attention=True, name="cross_attention", **heads)
        self.read_dropout = Dropout(dropout, name="read_dropout", **options)
        self.cross_attention_norm = LayerNorm(layer_norm_eps, name="cross_attention_norm", **options)
        self.feed_forward = FeedForward(
            hidden_size, intermediate_size, activation, initializer_range, name="feed_forward", **options
        )
        self.output_dropout = Dropout(dropout, name="output_dropout", **options)
        self.output_norm = LayerNorm(layer_norm_eps, name="output_norm", **options)

    def build(self, hidden_shape, memory_shape=None):
        parts = (
            self.attention,
            self.attention_norm,
            self.cross_attention,
            self.cross_attention_norm,
            self.feed_forward,
            self.output_norm,
        )
        for part in parts:
            part.build((None, None, self.hidden_size))

    def call(self, hidden, memory, attention_mask=None, memory_mask=None, return_attention_scores=False, training=None):
        own = self.attention.project(hidden)
        read = self.cross_attention.project_memory(memory)
        output, scores, read_scores = self._attend(hidden, own, read, attention_mask, memory_mask, training)
        if return_attention_scores:
            return output, scores, read_scores
        return output

    def step(self, hidden, append, memory, attention_mask=None, memory_mask=None):
        """Returns the outputs of new tokens.

        Args:
            hidden: `(batch, rows, hidden_size)`, the new tokens.
            append: callable that takes key and value of the new tokens, `(batch * rows, heads, size)` in any shape, and
                returns those of all tokens so far, `(batch * rows, heads, tokens so far, size)`.
            memory: key and value of the encoder's output, from `cross_attention.project_memory`.
            attention_mask: boolean, broadcasts to `(batch * rows, heads, 1, tokens so far)`.
            memory_mask: boolean, see `AttentionMask`.
        """
        batch, rows, width = ops.shape(hidden)
        query, key, value = self.attention.project(ops.reshape(hidden, (batch * rows, 1, width)))
        key, value = append(key, value)
        own = (query, ops.transpose(key, (0, 1, 3, 2)), value)
        output, _, _ = self._attend(hidden, own, memory, attention_mask, memory_mask)
        return output

    def _attend(self, hidden, own, memory, attention_mask, memory_mask, training=None):
        attended, scores = self.attention.attend(*own, hidden, attention_mask, training=training)
        hidden = self.attention_norm(hidden + self.attended_dropout(attended, training=training))
        query = self.cross_attention.project_query(hidden)
        read, read_scores = self.cross_attention.attend(query, *memory, hidden, memory_mask, training=training)
        hidden = self.cross_attention_norm(hidden + self.read_dropout(read, training=training))
        output = self.feed_forward(hidden, training=training)
        output = self.output_dropout(output, training=training)
        return self.output_norm(hidden + output), scores, read_scores

    def compute_output_spec(
        self, hidden, memory, attention_mask=None, memory_mask=None, return_attention_scores=False, training=None
    ):
        output = keras.KerasTensor(hidden.shape, self.compute_dtype)
        if not return_attention_scores:
            return output
        batch, length, _ = hidden.shape
        scores = keras.KerasTensor((batch, self.num_heads, length, length), self.compute_dtype)
        read_shape = (batch, self.num_heads, length, memory.shape[1])
        return output, scores, keras.KerasTensor(read_shape, self.compute_dtype)
