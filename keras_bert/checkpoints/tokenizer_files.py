"""The tokenizer of a Hugging Face directory: `tokenizer.json`, or `vocab.txt` and `added_tokens.json`; its settings."""

from keras_bert.checkpoints.huggingface import CONFIG, read_json_if_exists
from keras_bert.files import write_json, write_text
from keras_bert.text import tokenizer_json
from keras_bert.text.vocabulary import Vocabulary

_VOCABULARY, _TOKENIZER, _SETTINGS = "vocab.txt", "tokenizer.json", "tokenizer_config.json"
_ADDED, _SPECIAL = "added_tokens.json", "special_tokens_map.json"
STALE = (_ADDED, _SPECIAL)  # Legacy files that `write` does not write but other programs would still read.
_LONGEST_WORD = 100  # The default of transformers.
# Tokenizer classes of transformers with BERT's algorithm.
_CLASSES = {"Bert", "DistilBert", "Electra", "MobileBert", "PreTrained", "Tokenizers"}
# Settings that change the ids, with the values of BERT.
_FIXED = {
    "do_basic_tokenize": (True, None),
    "never_split": (None, []),
    "padding_side": ("right", None),
    "truncation_side": ("right", None),
    **{f"{name}_token": (f"[{name.upper()}]", None) for name in ("unk", "sep", "pad", "cls", "mask")},
}


def read(directory, metadata, longest_word=_LONGEST_WORD):
    """Returns the metadata with vocabulary and casing, which is inferred from the vocabulary if no file specifies it.

    Args:
        directory: the folder.
        metadata: the `Metadata`.
        longest_word: int, maximum word length if no file specifies it. Defaults to 100, as in transformers.
    """
    settings = read_json_if_exists(directory / _SETTINGS)
    if (directory / _TOKENIZER).is_file():
        path = directory / _TOKENIZER
        values = tokenizer_json.read(path, path.read_text(encoding="utf-8"))
    elif (directory / _VOCABULARY).is_file():
        path = directory / _VOCABULARY
        values = {"pieces": list(Vocabulary(path).pieces), "added_tokens": [], "max_word_length": longest_word}
    else:
        return metadata
    _add_tokens(directory, values, settings)
    _check(directory, settings)
    values["strip_accents"] = settings.get("strip_accents", values.get("strip_accents"))
    if settings.get("tokenize_chinese_chars") is not None:
        values["tokenize_chinese_chars"] = settings["tokenize_chinese_chars"]
    for content in metadata.keep_special_tokens or ():
        values["added_tokens"].append(tokenizer_json.AddedToken(content, False, True, True))
    casings = [settings.get("do_lower_case"), values.pop("lowercase", None)]
    vocabulary = Vocabulary(values)
    vocabulary.source = str(path)
    lowercase = next((bool(value) for value in casings if value is not None), not vocabulary.cased)
    return metadata.replace(vocabulary=vocabulary, lowercase=lowercase)


def _check(directory, settings):
    """Raises if the algorithm is not BERT's."""
    config = read_json_if_exists(directory / CONFIG)
    kind = settings.get("tokenizer_class") or config.get("tokenizer_class") or "BertTokenizer"
    if kind.removesuffix("Fast").removesuffix("Backend").removesuffix("Tokenizer") not in _CLASSES:
        raise ValueError(
            f"{directory}: the tokenizer is not supported. Expected BertTokenizer. Received: "
            f"tokenizer_class={kind!r}; to use the weights alone, load a copy of the folder without its tokenizer files"
        )
    for key, allowed in _FIXED.items():
        value = settings.get(key)
        value = value.get("content") if isinstance(value, dict) else value
        if value not in allowed:
            raise ValueError(
                f"{directory / _SETTINGS}: `{key}` must be {allowed[0]!r}, as in BERT. Received: {key}={value!r}"
            )


def _add_tokens(directory, values, settings):
    """Adds tokens from files other than the vocabulary to its pieces and its added tokens."""
    pieces, known = values["pieces"], set(values["pieces"])
    found = {token.content for token in values["added_tokens"]}
    tokens, extra = {}, _extra_special_tokens(directory, settings)
    for content, index in read_json_if_exists(directory / _ADDED).items():
        tokens[index] = {"content": content, "special": content in extra}
    tokens.update((int(index), token) for index, token in (settings.get("added_tokens_decoder") or {}).items())
    for index, token in sorted(tokens.items()):
        pieces += [f"[no piece {number}]" for number in range(len(pieces), index + 1)]
        if token["content"] not in known:
            pieces[index] = token["content"]
    pieces += [content for content in extra if content not in pieces]
    listed = {token["content"] for token in tokens.values()}
    for token in [*tokens.values(), *({"content": name, "special": True} for name in extra if name not in listed)]:
        if token["content"] not in (*tokenizer_json.STANDARD, *found):
            values["added_tokens"].append(tokenizer_json.added_token(directory / _SETTINGS, token, known))


def _extra_special_tokens(directory, settings):
    """Returns the special tokens besides BERT's five that the settings list."""
    names = {}
    for values in (settings, read_json_if_exists(directory / _SPECIAL)):
        for key in ("extra_special_tokens", "additional_special_tokens"):
            tokens = values.get(key) or []
            for token in tokens.values() if isinstance(tokens, dict) else tokens:
                names[token["content"] if isinstance(token, dict) else token] = None
    return list(names)


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
        "extra_special_tokens": [token.content for token in vocabulary.added_tokens if token.special],
        **{f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")},
    }
    write_json(directory / _SETTINGS, values)
