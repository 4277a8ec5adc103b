"""The tokenizer of a loaded checkpoint: that of its folder, by default, or the one that the user of `load` chooses."""

from keras_bert.checkpoints import google, locations, tokenizer_files

_AUTO, _WORDS = "auto", "words"


def read(tokenizer, folder, metadata, longest_word=None):
    """Returns the metadata with vocabulary and casing of the checkpoint's own folder, unless `tokenizer` is another."""
    if tokenizer not in (_AUTO, _WORDS):
        return metadata
    try:
        return tokenizer_files.read(folder, metadata, longest_word, tokenizer == _WORDS)
    except ValueError as error:
        place = "" if str(folder) in str(error) else f"{folder}: "
        raise ValueError(f"{place}{error}; load(..., tokenizer=None) opens the weights alone") from None


def replaced(tokenizer, metadata):
    """Returns the metadata of a checkpoint of any format with the chosen tokenizer."""
    if tokenizer == _AUTO:
        return metadata
    if tokenizer is None:
        return metadata.replace(vocabulary=None)
    if tokenizer == _WORDS:
        if metadata.vocabulary is None or metadata.vocabulary.pre_tokenizer != tokenizer_files.WORDS:
            raise ValueError(
                "`tokenizer` must be 'auto' for a tokenizer that splits texts on its own. Received: tokenizer='words', "
                "which is for BertJapaneseTokenizer with a vocab.txt"
            )
        return metadata
    return _of_folder(tokenizer, metadata)


def _of_folder(tokenizer, metadata):
    folder = locations.find(tokenizer)
    if folder is None or not folder.is_dir():
        raise ValueError(
            f"`tokenizer` must be {_AUTO!r}, {_WORDS!r}, None, or a folder with a tokenizer. "
            f"Received: tokenizer={str(tokenizer)!r}"
        )
    if google.is_hub(folder):
        vocabulary, lowercase = google.read_preprocessing(folder)
        return metadata.replace(vocabulary=vocabulary, lowercase=lowercase)
    metadata = tokenizer_files.read(folder, metadata.replace(vocabulary=None))
    if metadata.vocabulary is None:
        raise FileNotFoundError(
            f"{folder}: no tokenizer. Expected vocab.txt, tokenizer.json or a SavedModel with assets/vocab.txt"
        )
    return metadata
