"""Keras' format: a `.keras` file, or a folder with one and the other files of `keras_bert.save`."""

import keras

from keras_bert import other_models
from keras_bert.checkpoints import huggingface, sentence_transformers, tokenizer_files
from keras_bert.checkpoints.folder import CONFIG, Folder
from keras_bert.checkpoints.tensors import Checkpoint, Tensor, tensors_of
from keras_bert.checkpoints.weight_files import WEIGHTS
from keras_bert.checks import first_line
from keras_bert.heads.registry import describe, head_named
from keras_bert.metadata import Metadata

KERAS_FILE = "model.keras"


def fits(folder):
    """Returns whether a path is a `.keras` file, or a folder with one and no weights that are read before."""
    return _is_file(folder) or (folder.has(KERAS_FILE) and not folder.has(WEIGHTS))


def _is_file(folder):
    return folder.path.suffix == ".keras" and folder.path.is_file()


def read(folder, options):
    """Opens a file; casing, labels and task come from JSON files in its folder, if there are any."""
    file = folder.path if _is_file(folder) else folder / KERAS_FILE
    folder = Folder(folder.path.parent) if _is_file(folder) else folder
    model = open_keras(file)
    try:
        description = describe(model)
    except ValueError:
        if models := other_models.named(model.name):
            raise other_models.OtherModelError(file, models) from None
        raise
    metadata = huggingface.read_config(folder)[1] if folder.has(CONFIG) else Metadata()
    metadata = metadata.replace(
        head=description.head,
        causal=description.causal,
        positions=description.positions,
        tied=description.tied,
        multi_label=description.multi_label,
        score_activation=description.score_activation,
        head_options=head_named(description.head).options_to_store(description),
    )
    if embedding := description.embedding:
        length = metadata.sequence_length or embedding["sequence_length"]
        metadata = sentence_transformers.read_settings(folder, metadata)
        metadata = metadata.replace(**{**embedding, "sequence_length": length})
    arrays = tensors_of(description)
    tensors = {name: Tensor(name, array.shape, lambda array=array: array) for name, array in arrays.items()}
    checkpoint = Checkpoint(str(file), description.config, tensors, metadata)
    return tokenizer_files.with_tokenizer(checkpoint, folder, options.tokenizer)


def open_keras(file):
    """Returns the model of a `.keras` file."""
    try:
        return keras.saving.load_model(file, compile=False)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(f"{file}: Keras cannot load this file: {first_line(error)}") from error
