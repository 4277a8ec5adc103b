"""Checkpoints whose vocabulary has words of one's own: the rows of the tables that belong to them."""

import dataclasses

import numpy as np

from keras_bert.checkpoints.layout import Checkpoint, Tensor
from keras_bert.imports import naming_extras

_TABLES = ("embeddings.word_embeddings.weight", "cls.predictions.decoder.weight", "cls.predictions.bias")


def with_words(checkpoint, words):
    """Returns a checkpoint with more words, see `LoadedBert.add_words`."""
    metadata = checkpoint.metadata
    if metadata.vocabulary is None:
        raise ValueError(
            f"{checkpoint.name} has no vocabulary. Expected a checkpoint with a vocab.txt or tokenizer.json"
        )
    with naming_extras("add_words"):
        from keras_bert.text.new_words import add_words  # Needs TensorFlow, unlike the models.

    vocabulary, before = add_words(metadata.vocabulary, words, metadata.lowercase)
    size = max(checkpoint.config.vocab_size, len(vocabulary))  # A table may have more rows than there are pieces.
    tables = {name: _extended(tensor, size, before) for name, tensor in checkpoint.tensors.items() if name in _TABLES}
    return Checkpoint(
        checkpoint.name,
        dataclasses.replace(checkpoint.config, vocab_size=size),
        {**checkpoint.tensors, **tables},
        metadata.replace(vocabulary=vocabulary),
    )


def _extended(tensor, size, before):
    """Returns a table of `size` rows, where new words have the mean of the rows of their pieces.

    So has the bias of masked LM: the logit of a new word starts as the mean of those of its pieces. That of an unused
    piece would exclude it, and 0 would favor it, since most words of a trained model have less.
    """
    old = np.asarray(tensor.read(), "float32")
    table = np.concatenate([old, np.zeros((size - len(old), *old.shape[1:]), "float32")])
    for index, ids in before.items():
        table[index] = old[ids].mean(axis=0)
    return Tensor(tensor.name, table.shape, lambda: table)
