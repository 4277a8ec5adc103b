"""Parts a feature-based tagger, so that features are computed once."""

import keras

from keras_bert.heads.bilstm_tagging import tag
from keras_bert.heads.describe import describe


def split_bilstm_tagger(model: keras.Model) -> tuple[keras.Model, keras.Model]:
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
    if description.features is None:
        raise ValueError(
            f"`model` must come from build_bilstm_tagger. Received: a model with head={description.head!r}"
        )
    selected = description.layers["features"].output

    # Wiring
    inputs = {
        "features": keras.Input((None, selected.shape[-1]), dtype=selected.dtype, name="features"),
        "padding_mask": keras.Input((None,), dtype="int32", name="padding_mask"),
    }
    logits = tag(description.layers, **inputs)

    # Model
    extractor = keras.Model(model.input, {"features": selected}, name="bert_features")
    return extractor, keras.Model(inputs, {"logits": logits}, name="bilstm_tagger")
