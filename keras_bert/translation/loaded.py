"""What `keras_bert.load` returns for an encoder-decoder."""

import pathlib

from keras_bert.checkpoints.huggingface import CONFIG, read_json
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.translation import marian


class LoadedTransformer:
    """An encoder-decoder in memory.

    Attributes:
        config: the `TransformerConfig`.
        vocabulary: the reversible `Vocabulary`, or `None` if the directory has none.
        head: "translation".
    """

    head = "translation"

    def __init__(self, directory, dtype=None):
        self._directory = pathlib.Path(directory)
        self._model = marian.read(directory, dtype)
        self.signatures = {}
        self.config = marian.read_config(directory)
        file = self._directory / "vocab.txt"
        self.vocabulary = Vocabulary(file) if file.is_file() else None

    def __repr__(self):
        layers = f"{self.config.num_encoder_layers} + {self.config.num_decoder_layers}"
        return f"LoadedTransformer({str(self._directory)!r}, L={layers} H={self.config.hidden_size})"

    def model(self):
        """Returns the model, the same one in each call."""
        return self._model

    def tokenizer(self):
        """Returns the `LosslessTokenizer` for the model."""
        from keras_bert.text.lossless import LosslessTokenizer  # Needs TensorFlow, unlike the model.

        if self.vocabulary is None:
            raise ValueError(
                f"{self._directory} has no vocab.txt of `train_vocab --reversible`. Call model() on token ids"
            )
        return LosslessTokenizer(self.vocabulary)

    def predict(self, texts, batch_size=32, n_best=None, beam_size=None, length_penalty=0.6):
        """Translates texts by beam search, as the SavedModel of `export` does. Needs TensorFlow.

        Args:
            texts: a string, or a list of strings.
            batch_size: int, number of texts to translate together. Defaults to 32.
            n_best: int, number of translations in the list `translations`. Defaults to `None`, no list.
            beam_size: int, number of beams. Defaults to 4, or to `n_best` if it is larger.
            length_penalty: float, see `Beam`. Defaults to 0.6.

        Returns:
            A list with a dict for each text; for one string, its dict: `translation` and `score`, the sum of the log
            probabilities divided by the length penalty; with `n_best` also `translations`, best first; `truncated` if
            the end of the text was cut off.

        Example:
            keras_bert.load("runs/de_en/model").predict("Ein Hund rennt.")["translation"]
        """
        from keras_bert.checkpoints.answers import translate

        return translate(self, texts, batch_size, n_best, beam_size, length_penalty)


def is_transformer(directory):
    """Returns whether a directory has an encoder-decoder."""
    path = pathlib.Path(directory, CONFIG)
    return path.is_file() and read_json(path).get("model_type") == marian.MODEL_TYPE
