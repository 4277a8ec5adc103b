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
| special tokens in lists | see `_listed_tokens` |

With `added_tokens_decoder`, `special_tokens_map.json` and `added_tokens.json` are ignored; `PreTrainedTokenizerFast`
keeps the added tokens of `tokenizer.json` besides. All of this is as in transformers 5. `tokenizer_options` has the
options and their keys.
"""

import itertools

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
_OF_ALGORITHMS = tuple(file for algorithm in ALGORITHMS for file in algorithm.files)
_WRITTEN = {file for algorithm in ALGORITHMS for file in algorithm.written}
FILES = (FILE, SETTINGS, ADDED, _SPECIAL, *_OF_ALGORITHMS)
# Files that `write` does not write but other programs would still read.
STALE = (ADDED, _SPECIAL, *(file for file in _OF_ALGORITHMS if file not in _WRITTEN))
_FILE_CLASSES = {"PreTrained", "Tokenizers"}  # Those of transformers that do what `tokenizer.json` says.
_AUTO, _WORDS = "auto", "words"


@explaining
def read(folder, metadata, longest_word=None, words=False):
    """Returns the metadata with vocabulary and casing, which is inferred from the vocabulary if no file specifies it.

    `longest_word` is the maximum word length if no file specifies it, for folders that were not made for transformers;
    `words` tells that texts will be words separated by white space, which `BertJapaneseTokenizer` needs.
    """
    settings = _settings(folder)
    name = _class(folder, settings, words)
    path = _vocabulary_file(folder, settings, name)
    if path is None:
        return metadata
    config = TokenizerConfig(
        folder=str(folder),
        path=path,
        class_name=name,
        settings=settings,
        older_added_tokens={} if DECODER in settings else folder.json(ADDED),
        kept_special_tokens=tuple(metadata.keep_special_tokens or ()),
        longest_word=longest_word,
    )
    values = registry.read_folder(config)
    lowercase = values.pop(LOWERCASE.name, None)
    vocabulary = Vocabulary(values)
    return metadata.replace(
        vocabulary=vocabulary, lowercase=not vocabulary.cased if lowercase is None else bool(lowercase)
    )


def read_tokenizer(directory, metadata):
    """Returns a `Metadata` with the vocabulary and the casing of a directory that `keras_bert.save` wrote.

    Args:
        directory: path of the directory. Without a vocabulary in it, the metadata are returned as they are.
        metadata: a `Metadata`.

    Example:
        read_tokenizer("runs/reviews/model", Metadata()).vocabulary
    """
    return read(Folder(directory), metadata, LONGEST_WORD)


def _vocabulary_file(folder, settings, name):
    """Returns the path of the file with the vocabulary, or `None`."""
    files = (FILE, *_OF_ALGORITHMS)
    of_words = _word_algorithm(folder, settings, name)
    if of_words is not None:
        files = of_words.files
    return next((folder / file for file in files if folder.has(file)), None)


def _settings(folder):
    """Returns `tokenizer_config.json`, with the special tokens of `special_tokens_map.json`, an older file."""
    settings = folder.json(SETTINGS)
    older = {} if DECODER in settings else folder.json(_SPECIAL)
    named = {key: value for key, value in (settings | older).items() if key.endswith("_token")}
    return settings | named | {EXTRA: _listed_tokens(settings, older)}


def _listed_tokens(settings, older):
    """Returns the special tokens that have no key of their own, from all places that list them."""
    extra = settings.get(EXTRA, {})
    if isinstance(extra, dict):  # Tokens with names, beside a list.
        lists = [extra, settings.get(_ADDITIONAL, older.get(_ADDITIONAL))]
    else:  # A list, even an empty one, counts before that of the older file.
        lists = [extra or settings.get(_ADDITIONAL)]
    return [token for tokens in (*lists, older.get(EXTRA)) for token in entries(tokens or [])]


def _class(folder, settings, words):
    """Returns the name of the tokenizer class, without the endings that do not matter."""
    of_models = dict(itertools.chain.from_iterable(algorithm.class_of_model for algorithm in ALGORITHMS))
    name = settings.get("tokenizer_class") or folder.config.get("tokenizer_class")
    name = name or of_models.get(folder.config.get("model_type"), "BertTokenizer")
    short = str(name).removesuffix("Fast").removesuffix("Backend").removesuffix("Tokenizer")
    known = frozenset().union(*(algorithm.classes for algorithm in ALGORITHMS))
    if short in _FILE_CLASSES | known:
        return short
    # Texts are split by a dictionary, and words into pieces.
    has_words = _word_algorithm(folder, settings, short) is not None
    if words and has_words:
        return short
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


def _word_algorithm(folder, settings, name):
    """Returns the algorithm of a class that splits texts by a dictionary first, `None` for any other class."""
    for algorithm in ALGORITHMS:
        if algorithm.word_class(name, settings) and any(folder.has(file) for file in algorithm.files):
            return algorithm
    return None


def kept_special_tokens(vocabulary):
    """Returns BERT's special tokens that are recognized in texts, or None; Hugging Face's files cannot store this."""
    return [token.content for token in vocabulary.added_tokens if token.content in tokenizer_json.STANDARD] or None


def write(vocabulary, lowercase, max_length, directory):
    """Writes `tokenizer.json`, `tokenizer_config.json` and the files of the vocabulary's algorithm."""
    vocabulary.check_casing(lowercase)
    vocabulary.algorithm.write_files(vocabulary, directory)
    write_text(directory / FILE, tokenizer_json.to_json(vocabulary, lowercase))
    settings = {
        LOWERCASE.setting: bool(lowercase),
        **{option.setting: getattr(vocabulary, option.name) for option in VOCABULARY_OPTIONS if option.setting},
    }
    values = {
        # `BertTokenizer` of transformers ignores other steps, `PreTrainedTokenizerFast` has all from `tokenizer.json`.
        "tokenizer_class": "BertTokenizer" if vocabulary.is_berts else "PreTrainedTokenizerFast",
        **(settings if vocabulary.is_berts else {}),
        "model_max_length": max_length,
        **({SIDE: vocabulary.truncation_side} if vocabulary.truncation_side != "right" else {}),
        EXTRA: [token.content for token in vocabulary.added_tokens if token.special],
        INPUTS: ["input_ids", *([SEGMENTS] if vocabulary.pair_segments else []), "attention_mask"],
        **{key: vocabulary.special_tokens.get(role, role) for key, role in ROLES.items() if role in vocabulary},
    }
    write_json(directory / SETTINGS, values)


def with_tokenizer(checkpoint, folder, tokenizer, for_transformers=False):
    """Returns a checkpoint with vocabulary and casing of its own folder, unless `tokenizer` is another.

    `for_transformers` tells that the folder was made for it.
    """
    if tokenizer not in (_AUTO, _WORDS):
        return checkpoint
    longest_word = None if for_transformers else LONGEST_WORD
    try:
        metadata = read(folder, checkpoint.metadata, longest_word, words=tokenizer == _WORDS)
    except ValueError as error:
        place = "" if str(folder) in str(error) else f"{folder}: "
        raise ValueError(f"{place}{error}; load(..., tokenizer=None) opens the weights alone") from None
    return checkpoint.replace(metadata=metadata)


def replaced(tokenizer, metadata):
    """Returns the metadata of a checkpoint of any format with the chosen tokenizer."""
    if tokenizer == _AUTO:
        return metadata
    if tokenizer is None:
        return metadata.replace(vocabulary=None)
    if tokenizer == _WORDS:
        if metadata.vocabulary is None or metadata.vocabulary.pre_tokenizer != WORDS:
            raise ValueError(
                "`tokenizer` must be 'auto' for a tokenizer that splits texts on its own. Received: tokenizer='words', "
                "which is for BertJapaneseTokenizer with a vocab.txt"
            )
        return metadata
    path = find(tokenizer)
    if path is None or not path.is_dir():
        raise ValueError(
            f"`tokenizer` must be {_AUTO!r}, {_WORDS!r}, None, or a folder with a tokenizer. "
            f"Received: tokenizer={str(tokenizer)!r}"
        )
    folder = Folder(path)
    if model_garden.fits(folder):
        vocabulary, lowercase = model_garden.read_preprocessing(folder)
        return metadata.replace(vocabulary=vocabulary, lowercase=lowercase)
    metadata = read(folder, metadata.replace(vocabulary=None))
    if metadata.vocabulary is None:
        raise FileNotFoundError(
            f"{folder}: no tokenizer. Expected vocab.txt, tokenizer.json or a SavedModel with assets/vocab.txt"
        )
    return metadata
