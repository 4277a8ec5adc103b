"""The head of the feature-based tagger (BERT, section 5.3): a BiLSTM on the hidden states of a frozen encoder."""

import keras

import keras_bert
from keras_bert.heads import TokenClassification
from keras_bert.layers import Dense, Dropout
from keras_bert.models import run_encoder
from research.recurrent import BiLSTM, EncoderFeatures, WeightedSum

_MOST_LAYERS = 8
_SIDES = ("forward", "backward")
_LSTM_WEIGHTS = ("kernel", "recurrent_kernel", "bias")


def build_bilstm_tagger(encoder, num_classes, features="concat_last_four", width=768, num_layers=2, dropout=0.5):
    """Classifies each token by a randomly initialized BiLSTM on features from the encoder, which is not trained.

    The encoder's layers become non-trainable and are called without dropout, also in training. To train on features
    that are computed once, see `split_bilstm_tagger`.

    Args:
        features: str, the hidden states that the BiLSTM reads, one of `FEATURES`; sums have learned weights. Defaults
            to "concat_last_four", the best of the paper.
        width: int, width of the output of each BiLSTM layer, half of it in each direction. Defaults to 768.
        dropout: float, dropout rate before each BiLSTM layer and before the last layer. Defaults to 0.5.

    Returns:
        A `keras.Model` with the output `logits`, float32 `(batch, length, num_classes)`.

    Example:
        model = build_bilstm_tagger(build_encoder(named_config("mini")), num_classes=9)
    """
    # Layers
    encoding = keras_bert.describe(encoder)
    _check_sizes(num_classes=num_classes, width=width, num_layers=num_layers)
    dtype = encoding.dtype
    for layer in encoding.layers.values():
        layer.trainable = False
    select = EncoderFeatures(features, dtype=dtype, name="features")
    count = select.count(encoding.config.num_hidden_layers)
    # Differs from BERT: the paper gives no dropout rate.
    layers = {}
    if features.startswith("sum_"):
        layers["weighted_sum"] = WeightedSum(count, dtype=dtype, name="weighted_sum")
    for index in range(num_layers):
        layers[f"bilstm_dropout_{index}"] = Dropout(dropout, dtype=dtype, name=f"bilstm_dropout_{index}")
        layers[f"bilstm_{index}"] = BiLSTM(width // 2, dtype=dtype, name=f"bilstm_{index}")
    layers["head_dropout"] = Dropout(dropout, dtype=dtype, name="head_dropout")
    layers["token_classifier"] = Dense(num_classes, dtype="float32", name="token_classifier")

    # Wiring
    inputs = encoder.input
    states, _ = run_encoder(encoding.layers, inputs, inference=True)
    selected = select(states)
    logits = _tag(layers, selected, inputs["padding_mask"])

    # Model
    return keras.Model(inputs, {"logits": logits}, name="bert_bilstm_tagger")


def split_bilstm_tagger(model):
    """Splits a tagger into its encoder and its BiLSTM, two models that share its layers.

    Returns:
        Two `keras.Model`s. The extractor maps the inputs of `model` to `features`, `(batch, length, width)`; for sums,
        these are the concatenated hidden states. The tagger maps `features` and `padding_mask` to `logits`; training it
        trains `model`.

    Example:
        extractor, tagger = split_bilstm_tagger(model)
        features = extractor.predict(inputs)["features"]
        tagger.predict({"features": features, "padding_mask": inputs["padding_mask"]})["logits"]
    """
    # Layers
    description = keras_bert.describe(model)
    if description.head != BiLSTMTagging.name:
        raise ValueError(
            f"`model` must come from build_bilstm_tagger. Received: a model with head={description.head!r}"
        )
    selected = description.layers["features"].output

    # Wiring
    inputs = {
        "features": keras.Input((None, selected.shape[-1]), dtype=selected.dtype, name="features"),
        "padding_mask": keras.Input((None,), dtype="int32", name="padding_mask"),
    }
    logits = _tag(description.layers, **inputs)

    # Model
    extractor = keras.Model(model.input, {"features": selected}, name="bert_features")
    return extractor, keras.Model(inputs, {"logits": logits}, name="bilstm_tagger")


def _check_sizes(**numbers):
    """Raises an error for numbers that are not positive, or too large, by name."""
    for name, number in numbers.items():
        wrong = type(number) is not int or number < 1 or (name == "width" and number % 2)
        if wrong or (name == "num_layers" and number > _MOST_LAYERS):
            expected = "a positive even integer" if name == "width" else "a positive integer"
            expected += f", at most {_MOST_LAYERS}" if name == "num_layers" else ""
            raise ValueError(f"`{name}` must be {expected}. Received: {name}={number!r}")


def _tag(layers, features, padding_mask):
    """Returns the logits of the layers above the features."""
    hidden = features
    if "weighted_sum" in layers:
        hidden = layers["weighted_sum"](hidden)
    for index in range(_depth(layers)):
        hidden = layers[f"bilstm_dropout_{index}"](hidden)
        hidden = layers[f"bilstm_{index}"](hidden, padding_mask)
    return layers["token_classifier"](layers["head_dropout"](hidden))


def _depth(layers):
    """Returns the number of BiLSTM layers."""
    return sum(f"bilstm_{index}" in layers for index in range(_MOST_LAYERS))


def _names_of_tensors():
    """Returns the names of the tensors in a file by those of the weights."""
    names = {
        "token_classifier": "classifier",
        "weighted_sum.weighting": "weighted_sum.weighting",
        "weighted_sum.scale": "weighted_sum.scale",
    }
    for index in range(_MOST_LAYERS):
        for side in _SIDES:
            for weight in _LSTM_WEIGHTS:
                names[f"bilstm_{index}.{side}.cell.{weight}"] = f"bilstm.{index}.{side}.cell.{weight}"
    return names


@keras_bert.register_head
class BiLSTMTagging(TokenClassification):
    """A tag of each token, by a BiLSTM."""

    name = "bilstm_tagging"
    layer = "features"
    saved = ("features",)
    tensors = _names_of_tensors()
    architectures = ()  # type: ignore[assignment]
    has_prefix = False
    packs = False
    peft = None  # type: ignore[assignment]
    run = None  # type: ignore[assignment]
    build = staticmethod(build_bilstm_tagger)

    def described(self, layers):
        """Returns the options of `build_bilstm_tagger`, with a size that is enough to compare graphs."""
        return super().described(layers) | {
            "features": layers["features"].features,
            "num_layers": _depth(layers),
            "width": 2,
        }

    def sizes(self, tensors):
        """Returns the options that the tensors of a file have, by their sizes."""
        kernels = [f"bilstm.{index}.forward.cell.recurrent_kernel" for index in range(_MOST_LAYERS)]
        return {
            "num_classes": tensors["classifier.weight"].shape[0],
            "width": 2 * tensors[kernels[0]].shape[0],
            "num_layers": sum(name in tensors for name in kernels),
        }
