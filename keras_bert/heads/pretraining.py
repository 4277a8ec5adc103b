"""The two pre-training tasks (BERT, section 3.1): masked LM and next sentence prediction."""

import keras

from keras_bert.heads import answers
from keras_bert.heads.head import PAIR, TEXT, Head
from keras_bert.layers import Dense, MaskedLMTransform, OutputBias
from keras_bert.models.description import built
from keras_bert.models.encoder import describe_encoder
from keras_bert.text.long_texts import CUTS


def build_pretrainer(
    encoder: keras.Model,
    next_sentence: bool = True,
    *,
    tied: bool = True,
) -> keras.Model:
    """Adds the masked-LM head and the NSP head to the encoder's graph.

    Args:
        encoder: a model from `build_encoder`.
        next_sentence: bool, whether to predict whether B follows A. Defaults to `True`.
        tied: bool, whether the masked-LM head shares the token table, as in BERT. Defaults to `True`.

    Returns:
        A `keras.Model`. Inputs: the encoder's inputs and `mask_positions` `(batch, predictions)`, the positions to
        predict. Outputs, float32: `mlm_logits` `(batch, predictions, vocab_size)` and, with `next_sentence`,
        `nsp_logits` `(batch, 2)`, class 0 for "B follows A".

    Example:
        model = build_pretrainer(build_encoder(named_config("tiny")))
    """
    # Layers
    encoding = describe_encoder(encoder)
    config = encoding.config
    layers = {"token_embedding": encoding.layers["token_embedding"]}
    layers["mlm_transform"] = MaskedLMTransform(
        config.hidden_size,
        config.hidden_act,
        config.initializer_range,
        config.layer_norm_eps,
        config.embedding_size,
        dtype=encoding.dtype,
        name="mlm_transform",
    )
    initializer = keras.initializers.TruncatedNormal(stddev=config.initializer_range)
    if not tied:
        layers["mlm_decoder"] = Dense(
            config.vocab_size, use_bias=False, kernel_initializer=initializer, dtype=encoding.dtype, name="mlm_decoder"
        )
    layers["mlm_bias"] = OutputBias(dtype=encoding.dtype, name="mlm_bias")
    if next_sentence:
        layers["next_sentence"] = _next_sentence(config)

    # Wiring
    inputs = dict(encoder.input)
    inputs["mask_positions"] = keras.Input((None,), dtype="int32", name="mask_positions")
    outputs = pretrain(layers, encoder.output, inputs)

    # Model
    return built(keras.Model(inputs, outputs, name="bert_pretrainer"))


def pretrain(layers, encoded, inputs):
    """Runs the layers of a pre-trainer, see `Head.run`."""
    masked = layers["mlm_transform"](encoded["sequence_output"], inputs["mask_positions"])
    outputs = {"mlm_logits": predict_tokens(layers, masked)}
    if "next_sentence" in layers:
        outputs.update(follow(layers, encoded, inputs))
    return outputs


def predict_tokens(layers, hidden):
    """Returns the logits over the vocabulary of the vectors from the masked-LM transform."""
    if "mlm_decoder" in layers:
        logits = layers["mlm_decoder"](hidden)
    else:  # Tied to the token table.
        logits = layers["token_embedding"](hidden, reverse=True)
    return layers["mlm_bias"](logits)


def build_next_sentence(encoder: keras.Model) -> keras.Model:
    """Adds only the NSP head to the encoder's graph.

    Args:
        encoder: a model from `build_encoder`.

    Returns:
        A `keras.Model` with the output `nsp_logits`, float32 `(batch, 2)`, class 0 for "B follows A".

    Example:
        model = build_next_sentence(build_encoder(named_config("tiny")))
    """
    # Layers
    layers = {"next_sentence": _next_sentence(describe_encoder(encoder).config)}

    # Wiring
    outputs = follow(layers, encoder.output, encoder.input)

    # Model
    return built(keras.Model(encoder.input, outputs, name="bert_next_sentence"))


def follow(layers, encoded, inputs):
    """Runs the NSP head, see `Head.run`."""
    return {"nsp_logits": layers["next_sentence"](encoded["pooled_output"])}


def _next_sentence(config):
    initializer = keras.initializers.TruncatedNormal(stddev=config.initializer_range)
    return Dense(2, kernel_initializer=initializer, dtype="float32", name="next_sentence")


def _write_transform(graph, layer, hidden, places):
    indices = graph.add("Unsqueeze", graph.cast(places, "int64"), [2])
    masked = graph.add("GatherND", hidden, indices, batch_dims=1)
    transformed = graph.activate(graph.dense(masked, layer.dense, layer.name), layer.activation)
    return graph.layer_norm(transformed, layer.norm, f"{layer.name}/norm")


def _write_bias(graph, layer, logits):
    return graph.add("Add", logits, graph.weight(layer.bias, layer.name))


class NextSentence(Head):
    """Whether the second text follows the first one."""

    name = "next_sentence"
    layer = "next_sentence"
    reads = ("pooled",)
    architectures = ("BertForNextSentencePrediction",)
    tensors = {"next_sentence": "cls.seq_relationship"}
    packs = True
    google = "cls.seq_relationship.weight"
    peft = ""
    build = staticmethod(build_next_sentence)
    run = staticmethod(follow)
    long_texts = CUTS

    def signature_builder(self, description):
        from keras_bert.heads.token_signatures import follower

        return follower

    def inputs(self, bert):
        return [PAIR]


class Pretraining(Head):
    """The tokens at masked positions, and next sentence prediction."""

    name = "pretraining"
    layer = "mlm_bias"
    reads = ("pooled", "masked")
    architectures = ("BertForPreTraining", "BertForMaskedLM", "BertLMHeadModel")
    tensors = {
        "mlm_transform.dense": "cls.predictions.transform.dense",
        "mlm_transform.norm": "cls.predictions.transform.LayerNorm",
        "mlm_bias.bias": "cls.predictions.bias",
        "mlm_decoder": "cls.predictions.decoder",
        "next_sentence": "cls.seq_relationship",
    }
    packs = True
    google = "cls.predictions.bias"
    text_options = ("n_best",)
    long_texts = CUTS
    pair_signature = "next_sentence"
    keeps = ("[MASK]",)
    onnx = {"mlm_transform": _write_transform, "mlm_bias": _write_bias}
    build = staticmethod(build_pretrainer)
    run = staticmethod(pretrain)

    def described(self, layers):
        return {"next_sentence": "next_sentence" in layers, "tied": "mlm_decoder" not in layers}

    def sizes(self, tensors):
        return {"next_sentence": "cls.seq_relationship.weight" in tensors}

    def architecture(self, description):
        with_nsp, masked, causal = self.architectures
        if description.options["next_sentence"]:
            return with_nsp
        return causal if description.causal else masked

    def signature_builder(self, description):
        from keras_bert.heads.token_signatures import mask_filler

        return mask_filler

    def inputs(self, bert):
        if "nsp_logits" in bert.model().output:
            return [TEXT, PAIR]
        return [TEXT]

    def defaults(self, bert, n_best):
        return {"n_best": n_best or 5}

    def answer(self, output, row, n_best):
        if "mask_count" in output:
            return answers.fills(output, row, n_best)
        return answers.plain(output, row, n_best)

    def axes(self, name):
        if name in ("mask_positions", "mlm_logits"):
            return "batch", "predictions"
        return "batch", "length"
