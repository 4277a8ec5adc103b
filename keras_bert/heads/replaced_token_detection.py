"""Detection of replaced tokens (ELECTRA, Clark et al., 2020)."""

import keras

from keras_bert.heads import answers
from keras_bert.heads.head import Head
from keras_bert.layers import Discriminator
from keras_bert.models.description import built
from keras_bert.models.encoder import describe_encoder


def build_replaced_token_detector(encoder: keras.Model) -> keras.Model:
    """Tells of each token whether it was replaced, as ELECTRA's discriminator.

    Args:
        encoder: a model from `build_encoder`.

    Returns:
        A `keras.Model` with the output `logits`, float32 `(batch, length)`, positive for replaced tokens.

    Example:
        model = build_replaced_token_detector(build_encoder(named_config("tiny")))
    """
    # Layers
    encoding = describe_encoder(encoder)
    settings = encoding.config.hidden_size, encoding.config.hidden_act, encoding.config.initializer_range
    layers = {"discriminator": Discriminator(*settings, dtype=encoding.dtype, name="discriminator")}

    # Wiring
    outputs = detect_replaced_tokens(layers, encoder.output, encoder.input)

    # Model
    return built(keras.Model(encoder.input, outputs, name="bert_replaced_token_detector"))


def detect_replaced_tokens(layers, encoded, inputs):
    """Runs the layers of a discriminator, see `Head.run`."""
    return {"logits": layers["discriminator"](encoded["sequence_output"])}


def _write_discriminator(graph, layer, hidden):
    hidden = graph.activate(graph.dense(hidden, layer.dense, f"{layer.name}/dense"), layer.activation)
    return graph.add("Squeeze", graph.dense(hidden, layer.output_dense, f"{layer.name}/output"), [2])


class ReplacedTokenDetection(Head):
    """Whether each token was replaced."""

    name, layer, reads = "replaced_token_detection", "discriminator", ("sequence",)
    architectures = ("ElectraForPreTraining",)
    tensors = {
        "discriminator.dense": "discriminator_predictions.dense",
        "discriminator.output_dense": "discriminator_predictions.dense_prediction",
    }
    packs = True
    text_options = ("stride",)
    onnx = {"discriminator": _write_discriminator}
    build, run = staticmethod(build_replaced_token_detector), staticmethod(detect_replaced_tokens)
    answer = staticmethod(answers.replaced)

    def signature_builder(self, description):
        from keras_bert.heads.token_signatures import replaced_token_detector

        return replaced_token_detector
