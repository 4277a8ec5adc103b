"""The feature-based tagger (BERT, section 5.3): a BiLSTM on the hidden states of a frozen encoder."""

import keras

from keras_bert.checks import is_count
from keras_bert.layers import BiLSTM, Dense, Dropout, EncoderFeatures, WeightedSum
from keras_bert.models.description import describe, describe_encoder


def build_bilstm_tagger(encoder, num_classes, features="concat_last_four", width=768, num_layers=2, dropout=0.5):
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
    selected = select(_states(frozen, inputs))
    logits = _logits(layers, selected, inputs["padding_mask"])

    # Model
    return keras.Model(inputs, {"logits": logits}, name="bert_bilstm_tagger")


def split_bilstm_tagger(model):
    """Splits a tagger into its encoder and its BiLSTM, two models that share its layers.

    Args:
        model: a model from `build_bilstm_tagger`.

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
    description = describe(model)
    if description.head != "bilstm_tagging":
        raise ValueError(
            f"`model` must come from build_bilstm_tagger. Received: a model with head={description.head!r}"
        )
    selected = description.layers["features"].output

    # Wiring
    inputs = {
        "features": keras.Input((None, selected.shape[-1]), dtype=selected.dtype, name="features"),
        "padding_mask": keras.Input((None,), dtype="int32", name="padding_mask"),
    }
    logits = _logits(description.layers, **inputs)

    # Model
    extractor = keras.Model(model.input, {"features": selected}, name="bert_features")
    return extractor, keras.Model(inputs, {"logits": logits}, name="bilstm_tagger")


def _check(**numbers):
    for name, number in numbers.items():
        if not is_count(number) or (name == "width" and number % 2):
            kind = "a positive even integer" if name == "width" else "a positive integer"
            raise ValueError(f"`{name}` must be {kind}. Received: {name}={number!r}")


def _states(layers, inputs):
    """Returns the outputs of the embeddings and of all blocks, computed without dropout."""
    mask, tokens = layers["attention_mask"](inputs["padding_mask"]), layers["token_embedding"](inputs["token_ids"])
    states = [layers["embeddings"](tokens, inputs["segment_ids"], inference=True)]
    for name, block in layers.items():
        if name.startswith("block_"):
            states.append(block(states[-1], attention_mask=mask, inference=True))
    return states


def _logits(layers, features, padding_mask):
    """Applies the layers above the features."""
    hidden = layers["weighted_sum"](features) if "weighted_sum" in layers else features
    for index in range(sum(isinstance(layer, BiLSTM) for layer in layers.values())):
        hidden = layers[f"bilstm_{index}"](layers[f"bilstm_dropout_{index}"](hidden), padding_mask)
    return layers["token_classifier"](layers["head_dropout"](hidden))
