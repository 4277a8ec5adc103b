"""GPT's auxiliary objective (Radford et al., 2018, section 3.2): a language model on the texts of the task."""

import keras

from keras_bert.heads.describe import describe
from keras_bert.heads.pretraining import predict_tokens


def add_language_model_loss(classifier, pretrainer):
    """Adds the loss of a left-to-right language model to the outputs of a classifier.

    Both models are built on the same left-to-right encoder; the masked-LM head of the pretrainer predicts the next
    token. The output `language_model_loss`, float32 `(batch,)`, is the mean cross-entropy of the tokens of each row but
    the first.

    Example:
        model = add_language_model_loss(build_classifier(encoder, 2), build_pretrainer(encoder, next_sentence=False))
    """
    # Layers
    layers, description = describe(pretrainer).layers, describe(classifier)
    if not description.causal or layers["block_0"] is not description.layers["block_0"]:
        raise ValueError("`classifier` and `pretrainer` must be built on the same encoder with `causal=True`")
    transform = layers["mlm_transform"]

    # Wiring
    inputs = classifier.input
    labels = inputs["token_ids"][:, 1:]
    real = keras.ops.cast(keras.ops.not_equal(inputs["padding_mask"][:, 1:], 0), "float32")
    positions = keras.ops.cumsum(keras.ops.ones_like(labels), axis=1) - 1
    logits = predict_tokens(layers, transform(_below(transform), positions))
    losses = keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    loss = keras.ops.sum(losses * real, axis=1) / keras.ops.maximum(keras.ops.sum(real, axis=1), 1.0)

    # Model
    outputs = {"logits": classifier.output["logits"], "language_model_loss": loss}
    return keras.Model(inputs, outputs, name="bert_classifier_with_language_model")


def without_language_model_loss(model):
    """Returns the classifier of a model from `add_language_model_loss`."""
    return keras.Model(model.input, {"logits": model.output["logits"]}, name="bert_classifier")


def _below(transform):
    """Returns the sequence output of the encoder, the first argument of the transform."""
    node = transform._inbound_nodes[0]
    return node.arguments.args[0]
