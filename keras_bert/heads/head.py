"""What the package knows about a kind of head, in one class."""

from typing import Any

import keras

from keras_bert.checks import check_count
from keras_bert.layers import Dense, Dropout
from keras_bert.models.encoder import describe_encoder


class Head:
    """A kind of head. A subclass states what differs, `HEADS` has an instance of each.

    Attributes:
        name: str.
        layer: str, the layer that only models with this head have; of several, the last one in `HEADS` counts.
        reads: tuple of what it reads of the encoder: "pooled", the "masked" positions, or the whole "sequence".
        run: function from the layers by name, the outputs of the encoder and the inputs of the model to its outputs;
            `None` if it is more than a head on top of the encoder. Defaults to `None`.
        architectures: tuple of transformers' classes, first the one that is written.
        tensors: dict of the names of its dense layers, also "layer.part", and of their tensors in a checkpoint.
        packs: bool, whether its model can be trained on packed rows. Defaults to `False`.
        has_classes: bool, whether it has labels. Defaults to `False`.
        settings: tuple of the arguments of `save` that only models with this head have.
        has_prefix: bool, whether the names of the encoder's tensors begin with `bert.` in transformers. Defaults to
            `True`.
        google: str, the tensor that tells this head in Google's format, "" for none; `None` if the format has no place
            for it. Defaults to `None`.
        peft: str, peft's task, "" for none; `None` if its adapters are not saved. Defaults to `None`.
        sentence_transformers: str, the class of sentence-transformers that opens the model. Defaults to `None`.
    """

    name: str
    layer: str
    reads: tuple
    run: Any = None
    architectures: tuple = ()
    tensors: dict = {}
    packs = has_classes = False
    settings: tuple = ()
    has_prefix = True
    google: str | None = None
    peft: str | None = None
    sentence_transformers: str | None = None

    def build(self, encoder: keras.Model, options: Any) -> keras.Model:
        """Returns the model of an encoder; `options` has `num_classes`, `dropout` and the fields of `Metadata`."""
        raise NotImplementedError

    def sizes(self, tensors: dict) -> dict:
        """Returns those options that only the tensors of a checkpoint tell."""
        return {}


def classes_of(tensors):
    """The `sizes` of a head whose last layer is `classifier` in a checkpoint."""
    return {"num_classes": tensors["classifier.weight"].shape[0]}


def dense_head(encoder, units, dropout, name, kind=Dense):
    """Returns the dropout layer and the float32 dense layer of a head by name."""
    check_count("num_classes", units)
    encoding = describe_encoder(encoder)
    rate = encoding.config.hidden_dropout_prob if dropout is None else dropout
    initializer = keras.initializers.TruncatedNormal(stddev=encoding.config.initializer_range)
    return {
        "head_dropout": Dropout(rate, dtype=encoding.dtype, name="head_dropout"),
        name: kind(int(units), kernel_initializer=initializer, dtype="float32", name=name),
    }
