"""The vector of a text: pooling, a projection and a scale, in the one order that all heads of vectors have."""

import dataclasses

import keras

from keras_bert.checks import check_choice, is_count
from keras_bert.layers import Dense, SentencePooling, UnitLength
from keras_bert.models.encoder import describe_encoder


@dataclasses.dataclass(frozen=True)
class TextVectors:
    """Builds, runs and describes the layers of vectors, which have other names in each head.

    `checkpoints.sentence_transformers` reads and writes them as modules, in the same order. `normalize` promises
    vectors of length 1: whoever takes means of them, of windows, scales these again.

    Attributes:
        pooling, projection, unit_length: strings, the names of the layers, in their order. The last two may be missing.
    """

    pooling: str
    projection: str
    unit_length: str

    def build(self, encoder, pooling, normalize, projection, projection_activation, sequence_length=None):
        """Returns the layers by name; for the arguments see `build_embedder`."""
        config = describe_encoder(encoder).config  # Raises for what is no encoder, whether or not it is projected.
        layers = {}
        if projection is not None:
            if not is_count(projection):
                raise ValueError(
                    f"`projection` must be a positive integer or `None`. Received: projection={projection!r}"
                )
            check_choice("projection_activation", projection_activation, ("linear", "tanh"))
            layers[self.projection] = Dense(
                int(projection),
                projection_activation,
                kernel_initializer=keras.initializers.TruncatedNormal(stddev=config.initializer_range),
                dtype="float32",
                name=self.projection,
            )
            if normalize:
                layers[self.unit_length] = UnitLength(dtype="float32", name=self.unit_length)
        scales_pooled = bool(normalize) and projection is None
        layers[self.pooling] = SentencePooling(
            pooling,
            scales_pooled,
            sequence_length,
            dtype="float32",
            name=self.pooling,
        )
        return layers

    def run(self, layers, encoded, inputs):
        """Returns the vectors of texts, given what the encoder made of the inputs."""
        vectors = layers[self.pooling](encoded["sequence_output"], inputs["padding_mask"])
        for name in (self.projection, self.unit_length):
            if name in layers:
                vectors = layers[name](vectors)
        return vectors

    def described(self, layers):
        """Returns the arguments of `build` that layers were built with, but for the encoder and the length."""
        pool = layers[self.pooling]
        options = {
            "pooling": pool.pooling,
            "normalize": pool.normalize or self.unit_length in layers,
            "projection": None,
            "projection_activation": "linear",
        }
        dense = layers.get(self.projection)
        if dense is not None:
            options["projection"] = dense.units
            options["projection_activation"] = keras.activations.serialize(dense.activation)
        return options
