"""The tokenizer of a Hugging Face directory: `tokenizer.json`, or `vocab.txt` and `added_tokens.json`; its settings."""

import json

from keras_bert.checkpoints.huggingface import CONFIG, read_json
from keras_bert.text import tokenizer_json
from keras_bert.text.vocabulary import Vocabulary

_VOCABULARY, _TOKENIZER, _SETTINGS, _ADDED = "vocab.txt", "tokenizer.json", "tokenizer_config.json", "added_tokens.json"
_OF_TRANSFORMERS = 100  # Its longest word, where no file says otherwise.
# Classes of transformers with BERT's algorithm.
_CLASSES = {"Bert", "DistilBert", "Electra", "MobileBert", "PreTrained", "Tokenizers"}
# Settings that change the ids, with the values that mean BERT.
_FIXED = {
    "do_basic_tokenize": (True, None),
    "never_split": (None, []),
    "padding_side": ("right", None),
    "truncation_side": ("right", None),
    **{f"{name}_token": (f"[{name.upper()}]", None) for name in ("unk", "sep", "pad", "cls", "mask")},
}
STALE = (_ADDED, "special_tokens_map.json")  # What would be read beside the files that `write` makes.


def read(directory, source, longest=_OF_TRANSFORMERS):
    """Puts vocabulary and casing into the source; where nothing says the casing, the vocabulary does.

    Args:
        directory: the folder.
        source: the `Source`.
        longest: int, the longest word where no file says it. Defaults to 100 characters, as in transformers.
    """
    settings = read_json(directory / _SETTINGS) if (directory / _SETTINGS).is_file() else {}
    if (directory / _TOKENIZER).is_file():
        path = directory / _TOKENIZER
        values = tokenizer_json.read(path, path.read_text(encoding="utf-8"))
    elif (directory / _VOCABULARY).is_file():
        path = directory / _VOCABULARY
        values = {"pieces": list(Vocabulary(path).pieces), "added_tokens": [], "max_word_length": longest}
    else:
        return
    _add_tokens(directory, values, settings)
    _check(directory, settings)
    strip_accents = settings.get("strip_accents", values.get("strip_accents"))
    chinese = settings.get("tokenize_chinese_chars")
    values["strip_accents"] = strip_accents
    values["tokenize_chinese_chars"] = values.get("tokenize_chinese_chars", True) if chinese is None else chinese
    for content in _ours(directory).get("keep_special_tokens", ()):
        values.setdefault("added_tokens", []).append(tokenizer_json.AddedToken(content, False, True, True))
    lowercase = values.pop("lowercase", None)
    source.vocabulary = Vocabulary(values)
    source.vocabulary.source = str(path)
    for value in (settings.get("do_lower_case"), lowercase, not source.vocabulary.cased):
        if value is not None:
            source.lowercase = bool(value)
            break


def _ours(directory):
    """What only this package writes."""
    return (read_json(directory / CONFIG) if (directory / CONFIG).is_file() else {}).get("keras_bert", {})


def _check(directory, settings):
    """Refuses another algorithm than BERT's."""
    config = read_json(directory / CONFIG) if (directory / CONFIG).is_file() else {}
    kind = settings.get("tokenizer_class") or config.get("tokenizer_class") or "BertTokenizer"
    name = kind.removesuffix("Fast").removesuffix("Backend").removesuffix("Tokenizer")
    if name not in _CLASSES:
        raise ValueError(
            f"{directory}: the tokenizer is of another kind. Expected BertTokenizer. Received: "
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
    """Adds the tokens that stand in other files than the vocabulary to its pieces and to its added tokens."""
    pieces, known = values["pieces"], set(values["pieces"])
    found = {token.content for token in values["added_tokens"]}
    tokens, extra = {}, _extra_special_tokens(directory, settings)
    if (directory / _ADDED).is_file():
        for content, index in read_json(directory / _ADDED).items():
            tokens[index] = {"content": content, "special": content in extra}
    tokens.update((int(index), token) for index, token in (settings.get("added_tokens_decoder") or {}).items())
    for index, token in sorted(tokens.items()):
        pieces += [f"[no piece {number}]" for number in range(len(pieces), index + 1)]
        if token["content"] not in known:
            pieces[index] = token["content"]
    for content in extra:
        if content not in pieces:
            pieces.append(content)
    told = [token["content"] for token in tokens.values()]
    for token in [*tokens.values(), *({"content": name, "special": True} for name in extra if name not in told)]:
        if token["content"] not in (*tokenizer_json.STANDARD, *found):
            values["added_tokens"].append(tokenizer_json.added_token(directory / _SETTINGS, token, known))


def _extra_special_tokens(directory, settings):
    """The special tokens beside BERT's five that the settings name."""
    old = read_json(directory / STALE[1]) if (directory / STALE[1]).is_file() else {}
    names = {}
    for value in (settings, old):
        for key in ("extra_special_tokens", "additional_special_tokens"):
            tokens = value.get(key) or []
            for token in tokens.values() if isinstance(tokens, dict) else tokens:
                names[token["content"] if isinstance(token, dict) else token] = None
    return list(names)


def kept_special_tokens(vocabulary):
    """The standard special tokens that texts may have literally, for which Hugging Face's files have no place."""
    found = [token.content for token in vocabulary.added_tokens if token.content in tokenizer_json.STANDARD]
    return found or None


def write(vocabulary, lowercase, max_length, directory):
    """Writes `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`."""
    vocabulary.save(directory / _VOCABULARY)
    (directory / _TOKENIZER).write_text(tokenizer_json.write(vocabulary, lowercase), encoding="utf-8")
    values = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": bool(lowercase),
        "strip_accents": vocabulary.strip_accents,
        "tokenize_chinese_chars": vocabulary.tokenize_chinese_chars,
        "model_max_length": max_length,
        "extra_special_tokens": [token.content for token in vocabulary.added_tokens if token.special],
        **{f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")},
    }
    (directory / _SETTINGS).write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
