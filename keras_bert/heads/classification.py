"""Classification and regression of texts and pairs (BERT, section 4)."""

from typing import Literal

import keras

from keras_bert.heads import answers
from keras_bert.heads.head import SINGLE_LABEL, Head, count_classes, dense_head, our_activation
from keras_bert.layers import Dense, MultiLabelDense, SigmoidDense
from keras_bert.models.description import built

# What sentence-transformers applies to the logits of a cross-encoder, and the keys of `config.json` for it.
_ACTIVATIONS = {
    "linear": "torch.nn.modules.linear.Identity",
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
}
_ACTIVATION = "activation_fn"
_OLD_ACTIVATION = "sbert_ce_default_activation_function"


def build_classifier(
    encoder: keras.Model,
    num_classes: int,
    *,
    dropout: float | None = None,
    multi_label: bool = False,
    score_activation: Literal["linear", "sigmoid"] = "linear",
) -> keras.Model:
    """Classifies a text or a pair of texts from the pooled [CLS] vector.

    Args:
        encoder: a model from `build_encoder`.
        num_classes: int, number of classes, 1 for regression.
        dropout: float, dropout rate before the head. Defaults to the encoder's `hidden_dropout_prob`.
        multi_label: bool, whether several classes may apply to one text; the outputs are sigmoid logits. Defaults to
            `False`.
        score_activation: str, what makes the logit of a regression model its score in answers: "linear", or "sigmoid",
            as in most cross-encoders of sentence-transformers. Defaults to "linear".

    Returns:
        A `keras.Model` with the output `logits`, float32 `(batch, num_classes)`.

    Example:
        model = build_classifier(build_encoder(named_config("tiny")), num_classes=3)
    """
    # Layers
    dense_layer = _layer_of_logits(num_classes, multi_label, score_activation)
    layers = dense_head(encoder, num_classes, dropout, "classifier", dense_layer)

    # Wiring
    outputs = classify(layers, encoder.output, encoder.input)

    # Model
    return built(keras.Model(encoder.input, outputs, name="bert_classifier"))


def classify(layers, encoded, inputs):
    """Runs the layers of a classifier, see `Head.run`."""
    return {"logits": layers["classifier"](layers["head_dropout"](encoded["pooled_output"]))}


def _layer_of_logits(num_classes, multi_label, score_activation):
    """Returns the class of the dense layer of a classifier's logits, from which `described` tells the arguments."""
    is_regression = num_classes == 1 and not multi_label
    is_sigmoid = score_activation == "sigmoid"
    if score_activation not in ("linear", "sigmoid") or (is_sigmoid and not is_regression):
        raise ValueError(
            f"`score_activation` must be 'linear', or 'sigmoid' for a model with one output. Received: "
            f"score_activation={score_activation!r}, num_classes={num_classes}, multi_label={multi_label}"
        )
    if multi_label:
        return MultiLabelDense
    return SigmoidDense if is_sigmoid else Dense


def stored_activation(config):
    """Returns the key and the value of the activation; the newer key comes first."""
    newer = config.get("sentence_transformers")
    if isinstance(newer, dict) and _ACTIVATION in newer:
        return _ACTIVATION, newer[_ACTIVATION]
    return _OLD_ACTIVATION, config.get(_OLD_ACTIVATION)


def default_activation(config):
    """Returns what sentence-transformers applies by default: a sigmoid to one logit, the identity to several."""
    activation = "sigmoid" if count_classes(config) == 1 else "linear"
    return _ACTIVATIONS[activation]


class Classification(Head):
    """Classes, several labels or a number of each text."""

    name = "classification"
    layer = "classifier"
    reads = ("pooled",)
    architectures = ("BertForSequenceClassification",)
    tensors = {"classifier": "classifier"}
    units = {"num_classes": "classifier"}
    packs = True
    has_classes = True
    google = "classifier.weight"
    peft = "SEQ_CLS"
    sentence_transformers = "CrossEncoder"
    text_options = ("rows_together", "logits", "thresholds", "confidence", "zero_shot")
    takes_pair = True
    build = staticmethod(build_classifier)
    run = staticmethod(classify)

    def described(self, layers):
        classifier = layers["classifier"]
        options = super().described(layers)
        options["multi_label"] = isinstance(classifier, MultiLabelDense)
        options["score_activation"] = "sigmoid" if isinstance(classifier, SigmoidDense) else "linear"
        return options

    def read_config(self, config, metadata):
        metadata = super().read_config(config, metadata)
        name, value = stored_activation(config)
        if value is None:
            return metadata
        try:
            activation = our_activation(name, value, _ACTIVATIONS)
        except ValueError as error:
            raise ValueError(f"{error}; load(..., head='encoder') loads the encoder without a head") from None
        if activation == "sigmoid" and config.get("problem_type") == SINGLE_LABEL:
            raise ValueError(
                f"`{name}` must be the identity for the problem_type {SINGLE_LABEL!r}. Received: {name}={value!r}"
            )
        if count_classes(config) == 1 and not metadata.multi_label:
            return metadata.replace(score_activation=activation)
        # Several sigmoids are those of independent labels.
        return metadata.replace(multi_label=metadata.multi_label or activation == "sigmoid")

    def to_config(self, description, labels):
        values = super().to_config(description, labels)
        if description.multi_label or description.num_classes == 1:
            activation = "sigmoid" if description.multi_label else description.score_activation
            values["sentence_transformers"] = {_ACTIVATION: _ACTIVATIONS[activation]}
        return values

    def is_regression(self, description):
        return description.num_classes == 1 and not description.multi_label

    def signature_builder(self, description):
        from keras_bert.heads import classification_signatures as classify

        if self.is_regression(description):
            return classify.regressor
        if description.multi_label:
            return classify.multi_label_classifier
        return classify.classifier

    def answer(self, output, row, n_best):
        if "labels" in output:
            return answers.classes(output, row, n_best)
        return answers.plain(output, row, n_best)

    def defaults(self, bert, n_best):
        options = Head.defaults(self, bert, n_best)
        if bert.multi_label:
            options["thresholds"] = bert.thresholds
        return options
