"""The tokenizer of a Hugging Face directory, read from up to six files. The first place that has a fact decides:

| fact | places, in order |
|---|---|
| class | `tokenizer_config.json`, `config.json`, else `BertTokenizer` |
| pieces | `tokenizer.json`, `vocab.txt`, or a `.model` of SentencePiece |
| options, with `tokenizer.json` and `BertTokenizer` | `tokenizer_config.json`, else the defaults of the class |
| options, with `tokenizer.json` and `PreTrainedTokenizerFast` | `tokenizer.json` |
| options, with `vocab.txt` | `tokenizer_config.json`, else inferred from the vocabulary, else BERT's defaults |
| added tokens | `added_tokens_decoder` in `tokenizer_config.json`, else `tokenizer.json` and `added_tokens.json` |
| special tokens by name, `bos_token` | `special_tokens_map.json`, `tokenizer_config.json` |
| special tokens in lists | see `_unnamed_special_tokens` |

With `added_tokens_decoder`, `special_tokens_map.json` and `added_tokens.json` are ignored; `PreTrainedTokenizerFast`
keeps the added tokens of `tokenizer.json` besides. All of this is as in transformers 5. `tokenizer_options` has the
options and their keys.
"""

from keras_bert.checkpoints import model_garden
from keras_bert.checkpoints.folder import Folder, find
from keras_bert.checks import explaining
from keras_bert.files import write_json, write_text
from keras_bert.text import registry, tokenizer_json
from keras_bert.text.registry import ALGORITHMS
from keras_bert.text.tokenizer_config import (
    ADDED,
    DECODER,
    EXTRA,
    INPUTS,
    ROLES,
    SEGMENTS,
    SETTINGS,
    SIDE,
    TokenizerConfig,
    entries,
)
from keras_bert.text.tokenizer_json import FILE
from keras_bert.text.tokenizer_options import LONGEST_WORD, LOWERCASE, VOCABULARY_OPTIONS
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece import WORDS

_SPECIAL = "special_tokens_map.json"
_ADDITIONAL = "additional_special_tokens"  # In the settings: special tokens.
_AUTO = "auto"
_WORDS = "words"
# Classes of transformers that do what `tokenizer.json` says, without the ending `Tokenizer`.
_FILE_CLASSES = {"PreTrained", "Tokenizers"}


def _files_of_algorithms():
    """Returns the names of the files that subword algorithms read and that `tokenizer_files` does not know."""
    names = []
    for algorithm in ALGORITHMS:
        names.extend(algorithm.files)
    return tuple(names)


def _files_never_written():
    """Returns the names of the files that `write` does not write but other programs would still read."""
    written = set()
    for algorithm in ALGORITHMS:
        written.update(algorithm.written)
    never_written = [name for name in _ALGORITHM_FILES if name not in written]
    return (ADDED, _SPECIAL, *never_written)


_ALGORITHM_FILES = _files_of_algorithms()
FILES = (FILE, SETTINGS, ADDED, _SPECIAL, *_ALGORITHM_FILES)
STALE = _files_never_written()


@explaining
def read(folder, metadata, longest_word=None, words=False):
    """Returns the metadata with vocabulary and casing, which is inferred from the vocabulary if no file specifies it.

    `longest_word` is the maximum word length if no file specifies it, for folders that were not made for transformers;
    `words` tells that texts will be words separated by white space, which `BertJapaneseTokenizer` needs.
    """
    settings = _read_settings(folder)
    class_name = _supported_class(folder, settings, words)
    path = _vocabulary_path(folder, settings, class_name)
    if path is None:
        return metadata

    older_added_tokens = {}
    if DECODER not in settings:
        older_added_tokens = folder.json(ADDED)
    config = TokenizerConfig(
        folder=str(folder),
        path=path,
        class_name=class_name,
        settings=settings,
        older_added_tokens=older_added_tokens,
        kept_special_tokens=tuple(metadata.keep_special_tokens or ()),
        longest_word=longest_word,
    )
    values = registry.read_folder(config)
    lowercase = values.pop(LOWERCASE.name, None)
    vocabulary = Vocabulary(values)
    if lowercase is None:
        lowercase = not vocabulary.cased
    return metadata.replace(vocabulary=vocabulary, lowercase=bool(lowercase))


def read_tokenizer(directory, metadata):
    """Returns a `Metadata` with the vocabulary and the casing of a directory that `keras_bert.save` wrote.

    Args:
        directory: path of the directory. Without a vocabulary in it, the metadata are returned as they are.
        metadata: a `Metadata`.

    Example:
        read_tokenizer("runs/reviews/model", Metadata()).vocabulary
    """
    return read(Folder(directory), metadata, LONGEST_WORD)


def _vocabulary_path(folder, settings, class_name):
    """Returns the path of the file with the vocabulary, or `None`."""
    names = (FILE, *_ALGORITHM_FILES)
    word_algorithm = _word_algorithm(folder, settings, class_name)
    if word_algorithm is not None:
        names = word_algorithm.files
    for name in names:
        if folder.has(name):
            return folder / name
    return None


def _read_settings(folder):
    """Returns `tokenizer_config.json`, with the special tokens of `special_tokens_map.json`, an older file."""
    newer = folder.json(SETTINGS)
    older = {}
    if DECODER not in newer:
        older = folder.json(_SPECIAL)

    settings = dict(newer)
    for key, token in older.items():
        if key.endswith("_token"):
            settings[key] = token
    settings[EXTRA] = _unnamed_special_tokens(newer, older)
    return settings


def _unnamed_special_tokens(newer, older):
    """Returns the special tokens that have no key of their own, from all places of both files that list them."""
    extra = newer.get(EXTRA, {})
    if isinstance(extra, dict):  # Tokens with names, beside a list.
        lists = [extra, newer.get(_ADDITIONAL, older.get(_ADDITIONAL))]
    else:  # A list, even an empty one, counts before that of the older file.
        lists = [extra or newer.get(_ADDITIONAL)]
    lists.append(older.get(EXTRA))

    tokens = []
    for listed in lists:
        tokens.extend(entries(listed or []))
    return tokens


def _supported_class(folder, settings, words):
    """Returns the name of the tokenizer class, without the endings that do not matter.

    Raises if it is unknown, or if its texts are split by a dictionary and `words` does not say that they are split.
    """
    name = _stored_class(folder, settings)
    short_name = str(name).removesuffix("Fast").removesuffix("Backend").removesuffix("Tokenizer")
    known = set()
    for algorithm in ALGORITHMS:
        known.update(algorithm.classes)
    if short_name in _FILE_CLASSES | known:
        return short_name

    # Texts are split by a dictionary, and words into pieces.
    has_words = _word_algorithm(folder, settings, short_name) is not None
    if words and has_words:
        return short_name

    others = "that of " + ", ".join(sorted(known - {"Bert"}))
    hint = ""
    if has_words:
        hint = (
            "; load(..., tokenizer='words') takes texts whose words are separated by spaces, and so does the folder "
            "that `convert_checkpoint --tokenizer=words` writes"
        )
    raise ValueError(
        f"{folder}: the tokenizer is not supported. Expected BertTokenizer, or {others}. "
        f"Received: tokenizer_class={name!r}{hint}"
    )


def _stored_class(folder, settings):
    """Returns the name of the tokenizer class as the files have it, by default that of the model type."""
    class_of_model = {}
    for algorithm in ALGORITHMS:
        class_of_model.update(algorithm.class_of_model)
    name = settings.get("tokenizer_class") or folder.config.get("tokenizer_class")
    if name:
        return name
    return class_of_model.get(folder.config.get("model_type"), "BertTokenizer")


def _word_algorithm(folder, settings, class_name):
    """Returns the algorithm of a class that splits texts by a dictionary first, `None` for any other class."""
    for algorithm in ALGORITHMS:
        has_file = any(folder.has(file) for file in algorithm.files)
        if has_file and algorithm.word_class(class_name, settings):
            return algorithm
    return None


def kept_special_tokens(vocabulary):
    """Returns BERT's special tokens that are recognized in texts, or None; Hugging Face's files cannot store this."""
    contents = [token.content for token in vocabulary.added_tokens]
    kept = [content for content in contents if content in tokenizer_json.STANDARD]
    return kept or None


def write(vocabulary, lowercase, max_length, directory):
    """Writes `tokenizer.json`, `tokenizer_config.json` and the files of the vocabulary's algorithm.

    A setting is written here and read by `text/registry.py`; `tokenizer_options` lists those that a `Vocabulary`
    keeps, and a setting of `tokenizer_config.json` has its key in `text/tokenizer_config.py`. The side of the padding
    is not kept: no answer depends on it.
    """
    vocabulary.check_casing(lowercase)
    vocabulary.algorithm.write_files(vocabulary, directory)
    write_text(directory / FILE, tokenizer_json.to_json(vocabulary, lowercase))
    write_json(directory / SETTINGS, _settings_to_write(vocabulary, lowercase, max_length))


def _settings_to_write(vocabulary, lowercase, max_length):
    """Returns the content of `tokenizer_config.json`."""
    settings = {}
    # `BertTokenizer` of transformers ignores other steps, `PreTrainedTokenizerFast` has all from `tokenizer.json`.
    if vocabulary.is_berts:
        settings["tokenizer_class"] = "BertTokenizer"
        settings[LOWERCASE.setting] = bool(lowercase)
        for option in VOCABULARY_OPTIONS:
            if option.setting:
                settings[option.setting] = getattr(vocabulary, option.name)
    else:
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"

    settings["model_max_length"] = max_length
    if vocabulary.truncation_side != "right":
        settings[SIDE] = vocabulary.truncation_side
    settings[EXTRA] = [token.content for token in vocabulary.added_tokens if token.special]
    settings[INPUTS] = ["input_ids", "attention_mask"]
    if vocabulary.pair_segments:
        settings[INPUTS] = ["input_ids", SEGMENTS, "attention_mask"]
    for key, role in ROLES.items():
        if role in vocabulary:
            settings[key] = vocabulary.special_tokens.get(role, role)
    return settings


def with_tokenizer(checkpoint, folder, tokenizer, for_transformers=False):
    """Returns a checkpoint with vocabulary and casing of its own folder, unless `tokenizer` is another.

    `for_transformers` tells that the folder was made for it.
    """
    if tokenizer not in (_AUTO, _WORDS):
        return checkpoint
    longest_word = LONGEST_WORD
    if for_transformers:  # A file without a limit means transformers' own.
        longest_word = None
    try:
        metadata = read(folder, checkpoint.metadata, longest_word, words=tokenizer == _WORDS)
    except ValueError as error:
        message = str(error)
        if str(folder) not in message:
            message = f"{folder}: {message}"
        raise ValueError(f"{message}; load(..., tokenizer=None) opens the weights alone") from None
    return checkpoint.replace(metadata=metadata)


def with_chosen_tokenizer(metadata, tokenizer):
    """Returns the metadata of a checkpoint of any format with the tokenizer that `load` was asked for."""
    if tokenizer == _AUTO:
        return metadata
    if tokenizer is None:
        return metadata.replace(vocabulary=None)
    if tokenizer == _WORDS:
        _check_splits_words(metadata.vocabulary)
        return metadata

    path = find(tokenizer)
    if path is None or not path.is_dir():
        raise ValueError(
            f"`tokenizer` must be {_AUTO!r}, {_WORDS!r}, None, or a folder with a tokenizer. "
            f"Received: tokenizer={str(tokenizer)!r}"
        )
    return _with_tokenizer_of(Folder(path), metadata)


def _check_splits_words(vocabulary):
    """Raises unless texts are words separated by white space, which `tokenizer='words'` means."""
    if vocabulary is None or vocabulary.pre_tokenizer != WORDS:
        raise ValueError(
            "`tokenizer` must be 'auto' for a tokenizer that splits texts on its own. Received: tokenizer='words', "
            "which is for BertJapaneseTokenizer with a vocab.txt"
        )


def _with_tokenizer_of(folder, metadata):
    """Returns the metadata with the tokenizer of a folder; raises if it has none."""
    if model_garden.fits(folder):
        vocabulary, lowercase = model_garden.read_preprocessing(folder)
        return metadata.replace(vocabulary=vocabulary, lowercase=lowercase)
    replaced = read(folder, metadata.replace(vocabulary=None))
    if replaced.vocabulary is None:
        raise FileNotFoundError(
            f"{folder}: no tokenizer. Expected vocab.txt, tokenizer.json or a SavedModel with assets/vocab.txt"
        )
    return replaced
