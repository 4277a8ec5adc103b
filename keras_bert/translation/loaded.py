"""`keras_bert.translation.load`: an encoder-decoder, and its translations of texts."""

import os
import pathlib
from typing import Any

import keras

from keras_bert.checkpoints.folder import CONFIG, find
from keras_bert.checkpoints.load import download
from keras_bert.checks import check_count
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.translation import marian
from keras_bert.translation.decoding import Beam
from keras_bert.translation.model import describe
from keras_bert.translation.wing import answer


class LoadedTransformer:
    """An encoder-decoder in memory, see `load`.

    Attributes:
        config: the `TransformerConfig`.
        vocabulary: the reversible `Vocabulary`, or `None` if the directory has none.
        head: "translation".
    """

    head = "translation"

    def __init__(self, directory, dtype=None):
        self._directory = pathlib.Path(directory)
        self._model = marian.read(directory, dtype)
        self._signatures = {}
        self.config = marian.read_config(directory)
        file = self._directory / "vocab.txt"
        self.vocabulary = Vocabulary(file) if file.is_file() else None

    def __repr__(self):
        config = self.config
        layers = f"{config.num_encoder_layers} + {config.num_decoder_layers}"
        return f"LoadedTransformer({str(self._directory)!r}, L={layers} H={config.hidden_size})"

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

    def predict(self, texts, *, batch_size=32, n_best=None, beam_size=None, length_penalty=0.6):
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
            the end of the text was cut off; `tokens` and `tokens_read`, the number of tokens of the text, with its end,
            and how many of them the model read.

        Example:
            keras_bert.translation.load("runs/de_en/model").predict("Ein Hund rennt.")["translation"]
        """
        from keras_bert.answering.input_rows import check_rows, read_rows
        from keras_bert.answering.row_answers import answer_rows  # Needs TensorFlow.

        rows, is_single = read_rows(texts)
        check_rows(rows, [("text",)], "a translation model")
        if n_best is not None:
            check_count("n_best", n_best)
        count = n_best or 1
        if beam_size is None:
            beam_size = max(count, 4)
        signature = self._signature(Beam(beam_size, length_penalty), count)
        answers = answer_rows(answer, signature, ("text",), rows, batch_size, n_best)
        return answers[0] if is_single else answers

    def _signature(self, beam, n_best):
        """Returns the signature, traced once for each set of options."""
        if (beam, n_best) not in self._signatures:
            options = {"beam": beam, "n_best": n_best}
            signatures = describe(self._model).signatures(self._model, self.tokenizer(), **options)
            self._signatures[beam, n_best] = signatures["serving_default"]
        return self._signatures[beam, n_best]


def load(
    path_or_name: str | os.PathLike, *, revision: str | None = None, dtype: str | keras.DTypePolicy | None = None
) -> Any:
    """Loads an encoder-decoder of `run_translation` or Hugging Face's Marian.

    Args:
        path_or_name: a directory, or a name on a shelf or on the Hugging Face hub, see `keras_bert.load`.
        revision: str, branch, tag or commit on the Hugging Face hub. Defaults to `None`.
        dtype: dtype policy, such as "mixed_bfloat16". Defaults to Keras' global dtype policy.

    Returns:
        A `LoadedTransformer`.

    Example:
        keras_bert.translation.load("runs/de_en/model").predict("Ein Hund rennt.")["translation"]
    """
    path = find(path_or_name)
    if path is not None and revision is not None:
        raise ValueError(f"`revision` is for names on the Hugging Face hub. Received: revision={revision!r}")
    if path is None:
        path = download(str(path_or_name), revision)
    if not (path / CONFIG).is_file():
        raise FileNotFoundError(f"{path}: expected a folder with {CONFIG} and model.safetensors")
    return LoadedTransformer(path, dtype)
