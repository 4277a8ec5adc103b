"""The feature-based tagger (BERT, section 5.3): a BiLSTM on the hidden states of a frozen encoder."""

import itertools
import re

import keras

from keras_bert.checks import is_count
from keras_bert.heads import answers
from keras_bert.heads.head import Head, classes_of
from keras_bert.layers import BiLSTM, Dense, Dropout, EncoderFeatures, WeightedSum
from keras_bert.models.description import built
from keras_bert.models.encoder import describe_encoder
from keras_bert.models.forward import run_encoder


def build_bilstm_tagger(
    encoder: keras.Model,
    num_classes: int,
    *,
    features: str = "concat_last_four",
    width: int = 768,
    num_layers: int = 2,
    dropout: float = 0.5,
) -> keras.Model:
    """Classifies each token by a randomly initialized BiLSTM on features from the encoder, which is not trained.

    The encoder's layers become non-trainable and are called without dropout, also in training. To train on features
    that are computed once, see `split_bilstm_tagger`.

    Args:
        encoder: a model from `build_encoder`.
        num_classes: int, number of tags.
        features: str, the hidden states that the BiLSTM reads: "embeddings", "second_to_last", "last",
            "concat_last_four", or "sum_last_four" or "sum_all" (all blocks), sums with learned weights. Defaults to
            "concat_last_four", the best of the paper.
        width: int, width of the output of each BiLSTM layer, half of it in each direction. Defaults to 768.
        num_layers: int, number of BiLSTM layers. Defaults to 2.
        dropout: float, dropout rate before each BiLSTM layer and before the last layer. Defaults to 0.5.

    Returns:
        A `keras.Model` with the output `logits`, float32 `(batch, length, num_classes)`.

    Example:
        model = build_bilstm_tagger(build_encoder(named_config("mini")), num_classes=9)
    """
    # Layers
    encoding = describe_encoder(encoder)
    if encoding.bilstm:
        raise ValueError("`encoder` must be a model from build_encoder. Received: an encoder with a BiLSTM on top")
    _check(num_classes=num_classes, width=width, num_layers=num_layers)
    dtype, frozen = encoding.dtype, encoding.layers
    for layer in frozen.values():
        layer.trainable = False
    select = EncoderFeatures(features, dtype=dtype, name="features")
    count = select.count(encoding.config.num_hidden_layers)
    # Differs from BERT: the paper gives no dropout rate.
    layers = {"weighted_sum": WeightedSum(count, dtype=dtype, name="weighted_sum")} if select.is_sum else {}
    for index in range(num_layers):
        layers[f"bilstm_dropout_{index}"] = Dropout(dropout, dtype=dtype, name=f"bilstm_dropout_{index}")
        layers[f"bilstm_{index}"] = BiLSTM(width // 2, dtype=dtype, name=f"bilstm_{index}")
    layers["head_dropout"] = Dropout(dropout, dtype=dtype, name="head_dropout")
    layers["token_classifier"] = Dense(num_classes, dtype="float32", name="token_classifier")

    # Wiring
    inputs = encoder.input
    selected = select(run_encoder(frozen, inputs, inference=True)[0])
    logits = tag(layers, selected, inputs["padding_mask"])

    # Model
    return built(keras.Model(inputs, {"logits": logits}, name="bert_bilstm_tagger"))


def _check(**numbers):
    for name, number in numbers.items():
        if not is_count(number) or (name == "width" and number % 2):
            kind = "a positive even integer" if name == "width" else "a positive integer"
            raise ValueError(f"`{name}` must be {kind}. Received: {name}={number!r}")


def tag(layers, features, padding_mask):
    """Returns the logits of the layers above the features."""
    hidden = layers["weighted_sum"](features) if "weighted_sum" in layers else features
    for index, bilstm in enumerate(_bilstms(layers)):
        hidden = bilstm(layers[f"bilstm_dropout_{index}"](hidden), padding_mask)
    return layers["token_classifier"](layers["head_dropout"](hidden))


def _bilstms(layers):
    names = itertools.takewhile(layers.__contains__, map("bilstm_{}".format, itertools.count()))
    return [layers[name] for name in names]


class BiLSTMTagging(Head):
    """A tag of each token, by a BiLSTM."""

    name, layer, reads = "bilstm_tagging", "features", ("sequence",)
    tensors = {
        "token_classifier": "classifier",
        "weighted_sum.weighting": "weighted_sum.weighting",
        "weighted_sum.scale": "weighted_sum.scale",
        "bilstm": "bilstm",
    }
    has_classes, has_prefix = True, False
    text_options, takes_words = ("stride",), True

    build, answer = staticmethod(build_bilstm_tagger), staticmethod(answers.entities)

    def described(self, layers):
        units, features = layers["token_classifier"].units, layers["features"].features
        # The width is a size, of which the smallest is enough to compare graphs.
        return {"num_classes": units, "features": features, "num_layers": len(_bilstms(layers)), "width": 2}

    def parts(self, layers):
        return {**super().parts(layers), "bilstm": _bilstms(layers)}

    def sizes(self, tensors):
        depth = sum(re.fullmatch(r"bilstm\.weight_hh_l\d+", name) is not None for name in tensors)
        width = 2 * tensors["bilstm.weight_hh_l0"].shape[1]
        return {**classes_of(tensors), "width": width, "num_layers": depth}

    def signature_builder(self, description):
        from keras_bert.heads.token_classification_signatures import tagger

        return tagger
