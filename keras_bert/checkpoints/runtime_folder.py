"""What the folders of `export_onnx` and `export_litert` have in common: checks, tokenizer and settings."""

import contextlib
import pathlib

from keras_bert.checkpoints import sentence_transformers
from keras_bert.checkpoints.save import checked_metadata, write_settings
from keras_bert.files import check_replaceable, replacing
from keras_bert.heads.registry import HEADS, describe
from keras_bert.metadata import Metadata
from keras_bert.models.description import Description
from keras_bert.text.vocabulary import Vocabulary

_SETTINGS: tuple[str, ...] = ("config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json", "README.md")
_SETTINGS += sentence_transformers.FILES


def described(model, precision, precisions):
    """Returns the `Description` of a model that other runtimes can compute; raises for any other model."""
    if precision not in precisions:
        names = ", ".join(precisions)
        raise ValueError(f"`precision` must be one of {names}. Received: precision={precision!r}")
    description = describe(model)
    known = [head.name for head in HEADS if head.run is not None]
    if not isinstance(description, Description) or description.head not in known:
        raise ValueError(
            f"`model` must be a BERT with one of the heads {', '.join(known)}; SavedModels, of "
            f"`keras_bert.export` or `format=saved_model`, have no such limits. Received: model={model.name!r}"
        )
    if description.dtype != "float32":
        raise ValueError(
            "`model` must be in float32, `precision` is that of the file: load it with dtype='float32'. "
            f"Received: a model in {description.dtype}"
        )
    return description


def is_quantized(description):
    """Returns whether the Keras model rounds activations itself, which its file does not do."""
    return any(part.quantization_mode for layer in description.layers.values() for part in layer._flatten_layers())


@contextlib.contextmanager
def runtime_folder(description, preprocessor, directory, file, labels, settings):
    """Yields a temporary folder with the tokenizer and the settings, which replaces `directory` at the end.

    The directory is a new one, or has an older model, `file`; `settings` are more of those of `save`.
    """
    directory = pathlib.Path(directory).expanduser()
    check_replaceable(directory, [file, *_SETTINGS])
    vocabulary = Vocabulary(preprocessor)
    own = {"lowercase": preprocessor.lowercase, "sequence_length": preprocessor.sequence_length}
    metadata = Metadata.of_settings(**own, labels=labels, **settings)
    metadata = checked_metadata(description, metadata.replace(vocabulary=vocabulary))
    with replacing(directory) as temporary:
        temporary.mkdir()
        write_settings(description, metadata, temporary)
        yield temporary
