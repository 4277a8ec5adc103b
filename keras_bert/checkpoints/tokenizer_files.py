"""The tokenizer of a Hugging Face directory: `tokenizer.json`, or `vocab.txt` and `added_tokens.json`; its settings.

The class of the tokenizer decides which file counts, as in transformers 5: `PreTrainedTokenizerFast` takes everything
from `tokenizer.json`; `BertTokenizer` takes its pieces alone, and all settings from `tokenizer_config.json`.
"""

import logging

from keras_bert.checkpoints.huggingface import CONFIG, read_json_if_exists
from keras_bert.files import write_json, write_text
from keras_bert.text import tokenizer_json
from keras_bert.text.vocabulary import Vocabulary

_VOCABULARY, _TOKENIZER, _SETTINGS = "vocab.txt", "tokenizer.json", "tokenizer_config.json"
_ADDED, _SPECIAL = "added_tokens.json", "special_tokens_map.json"
_DECODER = "added_tokens_decoder"  # In the settings: all added tokens; older files are ignored then.
_EXTRA, _ADDITIONAL = "extra_special_tokens", "additional_special_tokens"  # In the settings: special tokens.
_LOG = logging.getLogger("keras_bert")
STALE = (_ADDED, _SPECIAL)  # Legacy files that `write` does not write but other programs would still read.
_LONGEST_WORD = 100  # The default of transformers.
# Tokenizer classes of transformers with BERT's algorithm.
_BERT_CLASSES = {"Bert", "DistilBert", "Electra", "MobileBert"}
# Those that do what `tokenizer.json` says.
_FILE_CLASSES = {"PreTrained", "Tokenizers"}
# What BertTokenizer takes from the settings, with its defaults; the arguments of `Vocabulary`, and `lowercase`.
_BERT_SETTINGS = {
    "lowercase": ("do_lower_case", True),
    "strip_accents": ("strip_accents", None),
    "tokenize_chinese_chars": ("tokenize_chinese_chars", True),
}
# Of these, BertTokenizer's relatives that give segment ids to the model; the others leave them at 0, also for pairs.
_WITH_SEGMENTS = _BERT_CLASSES - {"DistilBert"}
_INPUTS, _SEGMENTS = "model_input_names", "token_type_ids"
# Settings that change the ids, with the values of BERT.
_FIXED = {
    "do_basic_tokenize": (True, None),
    "never_split": (None, []),
    "split_special_tokens": (False, None),
    "padding_side": ("right", None),
    "truncation_side": ("right", None),
    **{f"{name}_token": (f"[{name.upper()}]", None) for name in ("unk", "sep", "pad", "cls", "mask")},
}


def read(directory, metadata, longest_word=None):
    """Returns the metadata with vocabulary and casing, which is inferred from the vocabulary if no file specifies it.

    Args:
        directory: the folder.
        metadata: the `Metadata`.
        longest_word: int, maximum word length if no file specifies it, for folders that were not made for
            transformers. Defaults to `None`: what transformers applies.
    """
    settings = _settings(directory)
    name = _class(directory, settings)
    is_bert_class = name in _BERT_CLASSES
    if (directory / _TOKENIZER).is_file():
        path = directory / _TOKENIZER
        values = tokenizer_json.read(path, path.read_text(encoding="utf-8"), bert_defaults=is_bert_class)
        if is_bert_class:
            values |= _settings_of_class(directory, values, settings, longest_word)
    elif (directory / _VOCABULARY).is_file():
        path = directory / _VOCABULARY
        values = {"pieces": list(Vocabulary(path).pieces), "added_tokens": []}
        values["max_word_length"] = longest_word or _LONGEST_WORD
        values |= {name: settings[key] for name, (key, _) in _BERT_SETTINGS.items() if settings.get(key) is not None}
    else:
        return metadata
    inputs = settings.get(_INPUTS)
    values["pair_segments"] = name in _WITH_SEGMENTS if inputs is None else _SEGMENTS in inputs
    _add_tokens(directory, values, settings)
    _check(directory, settings)
    for content in metadata.keep_special_tokens or ():
        values["added_tokens"].append(tokenizer_json.AddedToken(content, False, True, True))
    lowercase = values.pop("lowercase", None)
    vocabulary = Vocabulary(values)
    vocabulary.source = str(path)
    return metadata.replace(
        vocabulary=vocabulary, lowercase=not vocabulary.cased if lowercase is None else bool(lowercase)
    )


def _settings(directory):
    """Returns `tokenizer_config.json`, with the special tokens of `special_tokens_map.json`, an older file."""
    settings = read_json_if_exists(directory / _SETTINGS)
    older = {} if _DECODER in settings else read_json_if_exists(directory / _SPECIAL)
    named = {key: value for key, value in (settings | older).items() if key.endswith("_token")}
    return settings | named | {_EXTRA: _listed_tokens(settings, older)}


def _listed_tokens(settings, older):
    """Returns the special tokens that have no key of their own, from all places that list them."""
    extra = settings.get(_EXTRA, {})
    if isinstance(extra, dict):  # Tokens with names, beside a list.
        lists = [extra, settings.get(_ADDITIONAL, older.get(_ADDITIONAL))]
    else:  # A list, even an empty one, counts before that of the older file.
        lists = [extra or settings.get(_ADDITIONAL)]
    return [token for tokens in (*lists, older.get(_EXTRA)) for token in _special(tokens or [])]


def _special(tokens):
    """Returns the entries of a list or a dict of special tokens, which may be strings."""
    values = tokens.values() if isinstance(tokens, dict) else tokens
    return [{**(token if isinstance(token, dict) else {"content": token}), "special": True} for token in values]


def _class(directory, settings):
    """Returns the name of the tokenizer class, without the endings that do not matter."""
    config = read_json_if_exists(directory / CONFIG)
    name = settings.get("tokenizer_class") or config.get("tokenizer_class") or "BertTokenizer"
    short = str(name).removesuffix("Fast").removesuffix("Backend").removesuffix("Tokenizer")
    if short not in _BERT_CLASSES | _FILE_CLASSES:
        raise ValueError(
            f"{directory}: the tokenizer is not supported. Expected BertTokenizer. Received: "
            f"tokenizer_class={name!r}; to use the weights alone, load a copy of the folder without its tokenizer files"
        )
    return short


def _settings_of_class(directory, values, settings, longest_word):
    """Returns what BertTokenizer applies in place of `values`, those of `tokenizer.json`.

    Warns if a value changes that `tokenizer_config.json` does not name.
    """
    applied = {name: settings.get(key, default) for name, (key, default) in _BERT_SETTINGS.items()}
    named = {name for name, (key, _) in _BERT_SETTINGS.items() if key in settings}
    if longest_word is None:
        applied["max_word_length"] = _LONGEST_WORD
    changed = [name for name in applied if name not in named and values[name] not in (applied[name], None)]
    if changed:
        _LOG.warning(
            "%s and the tokenizer's class, BertTokenizer, disagree on %s. The class decides, as in transformers; "
            'for the file\'s settings, write "tokenizer_class": "PreTrainedTokenizerFast" into %s',
            directory / _TOKENIZER,
            ", ".join(f"{name} ({values[name]!r}, {applied[name]!r})" for name in changed),
            _SETTINGS,
        )
    return applied | ({"added_tokens": []} if _DECODER in settings else {})


def _check(directory, settings):
    """Raises if a setting differs from BERT's."""
    for key, allowed in _FIXED.items():
        value = settings.get(key)
        value = value.get("content") if isinstance(value, dict) else value
        if value not in allowed:
            raise ValueError(
                f"{directory}: the tokenizer's `{key}` must be {allowed[0]!r}, as in BERT. Received: {key}={value!r}"
            )


def _add_tokens(directory, values, settings):
    """Adds tokens from files other than the vocabulary to its pieces and its added tokens."""
    pieces, known, extra = values["pieces"], set(values["pieces"]), _extra_special_tokens(settings)
    tokens = {int(index): token for index, token in (settings.get(_DECODER) or {}).items()}
    replaced = {token["content"] for token in tokens.values()}
    values["added_tokens"] = [token for token in values["added_tokens"] if token.content not in replaced]
    if _DECODER not in settings:
        for content, index in read_json_if_exists(directory / _ADDED).items():
            tokens[index] = {"content": content, "special": content in extra}
    places = {index: token["content"] for index, token in tokens.items()}
    tokenizer_json.check_ids(directory / _SETTINGS, {**dict(enumerate(pieces)), **places})
    for index, token in sorted(tokens.items()):
        pieces += [f"[no piece {number}]" for number in range(len(pieces), index + 1)]
        if token["content"] not in known:
            pieces[index] = token["content"]
    pieces += [content for content in extra if content not in pieces]
    listed = {token["content"] for token in tokens.values()}
    found = {token.content for token in values["added_tokens"]}
    for token in [*tokens.values(), *(token for name, token in extra.items() if name not in listed)]:
        if token["content"] not in (*tokenizer_json.STANDARD, *found):
            values["added_tokens"].append(tokenizer_json.added_token(directory / _SETTINGS, token, known))


def _extra_special_tokens(settings):
    """Returns the special tokens besides BERT's five: those with a name, such as `bos_token`, and those in a list."""
    named = {key: token for key, token in settings.items() if key.endswith("_token") and key not in _FIXED}
    named = {key: token for key, token in named.items() if isinstance(token, str | dict)}
    return {token["content"]: token for token in [*_special(named), *settings[_EXTRA]]}


def kept_special_tokens(vocabulary):
    """Returns BERT's special tokens that are recognized in texts, or None; Hugging Face's files cannot store this."""
    return [token.content for token in vocabulary.added_tokens if token.content in tokenizer_json.STANDARD] or None


def write(vocabulary, lowercase, max_length, directory):
    """Writes `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`."""
    vocabulary.save(directory / _VOCABULARY)
    write_text(directory / _TOKENIZER, tokenizer_json.write(vocabulary, lowercase))
    values = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": bool(lowercase),
        "strip_accents": vocabulary.strip_accents,
        "tokenize_chinese_chars": vocabulary.tokenize_chinese_chars,
        "model_max_length": max_length,
        _EXTRA: [token.content for token in vocabulary.added_tokens if token.special],
        _INPUTS: ["input_ids", *([_SEGMENTS] if vocabulary.pair_segments else []), "attention_mask"],
        **{f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")},
    }
    write_json(directory / _SETTINGS, values)
