"""Eight texts of two classes, a sentence encoder for them, and the last layer of a classifier."""

import keras_bert

TEXTS = ["a b c", "d e", "a g h b", "j d", "a b b", "c d e f", "a g b", "h d j"]
CLASSES = ["x", "y"] * 4


def sentence_encoder(folder, config, pieces):
    """Saves a sentence encoder, with a projection and vectors of length 1, and loads it."""
    encoder = keras_bert.build_encoder(config)
    model = keras_bert.build_embedder(encoder, ("mean", "cls"), normalize=True, projection=16)
    keras_bert.save(model, folder, pieces)
    return keras_bert.load(folder)


def head_of(bert):
    """Returns kernel and bias of the last layer."""
    return keras_bert.describe(bert.model()).layers["sentence_classifier"].get_weights()
