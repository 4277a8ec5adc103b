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
    if _is_file(folder):
        file = folder.path
        around = Folder(file.parent)
    else:
        file = folder / KERAS_FILE
        around = folder
    description = _describe_file(file)
    metadata = _metadata(around, description)
    tensors = {}
    for name, array in tensors_of(description).items():
        tensors[name] = Tensor(name, array.shape, lambda array=array: array)
    checkpoint = Checkpoint(str(file), description.config, tensors, metadata)
    return tokenizer_files.with_tokenizer(checkpoint, around, options.tokenizer)


def _describe_file(file):
    """Returns the description of the model of a file; raises for a model of other builders than BERT's."""
    model = open_keras(file)
    try:
        return describe(model)
    except ValueError:
        models = other_models.named(model.name)
        if models:
            raise other_models.OtherModelError(file, models) from None
        raise


def _metadata(folder, description):
    """Returns the metadata of a described model with what the JSON files in its folder say."""
    metadata = Metadata()
    if folder.has(CONFIG):
        _, metadata = huggingface.read_config(folder)
    metadata = metadata.replace(
        head=description.head,
        causal=description.causal,
        positions=description.positions,
        tied=description.tied,
        multi_label=description.multi_label,
        score_activation=description.score_activation,
        head_options=head_named(description.head).options_to_store(description),
    )
    embedding = description.embedding
    if embedding:
        own = dict(embedding)
        own["sequence_length"] = metadata.sequence_length or embedding["sequence_length"]
        metadata = sentence_transformers.read_settings(folder, metadata).replace(**own)
    return metadata


def open_keras(file):
    """Returns the model of a `.keras` file."""
    try:
        return keras.saving.load_model(file, compile=False)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(f"{file}: Keras cannot load this file: {first_line(error)}") from error
