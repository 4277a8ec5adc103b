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

import logging

from keras_bert.checkpoints import locations, model_garden
from keras_bert.checkpoints.folder import Folder
from keras_bert.checks import explaining
from keras_bert.files import write_json, write_text
from keras_bert.text import sentencepiece_model, tokenizer_json
from keras_bert.text.tokenizer_options import FILE_OPTIONS, LONGEST_WORD, LOWERCASE, VOCABULARY_OPTIONS
from keras_bert.text.vocabulary import Vocabulary

MODELS = "sentencepiece.bpe.model", "spiece.model"
_VOCABULARY, _TOKENIZER, _SETTINGS = "vocab.txt", "tokenizer.json", "tokenizer_config.json"
_ADDED, _SPECIAL = "added_tokens.json", "special_tokens_map.json"
_DECODER = "added_tokens_decoder"  # In the settings: all added tokens; older files are ignored then.
_EXTRA, _ADDITIONAL = "extra_special_tokens", "additional_special_tokens"  # In the settings: special tokens.
_LOG = logging.getLogger("keras_bert")
WORDS = {"type": "WhitespaceSplit"}  # The pre-tokenizer of texts whose words are separated by white space.
FILES = (_VOCABULARY, _TOKENIZER, _SETTINGS, _ADDED, _SPECIAL, *MODELS)
STALE = (_ADDED, _SPECIAL, *MODELS)  # Legacy files that `write` does not write but other programs would still read.
# Tokenizer classes of transformers with BERT's algorithm, and those that do what `tokenizer.json` says.
_BERT_CLASSES, _FILE_CLASSES = {"Bert", "DistilBert", "Electra", "MobileBert"}, {"PreTrained", "Tokenizers"}
_JAPANESE = "BertJapanese"  # Splits texts by a dictionary, and each word into pieces.
# Of these, BertTokenizer's relatives that give segment ids to the model; the others leave them at 0, also for pairs.
_WITH_SEGMENTS = (_BERT_CLASSES - {"DistilBert"}) | {_JAPANESE}
_UNIGRAM_CLASSES = {"XLMRoberta", "Camembert"}
_CLASSES = {"xlm-roberta": "XLMRobertaTokenizer", "camembert": "CamembertTokenizer"}  # By the `model_type` of a config.
_ROLES = {name: f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}  # By the names in settings.
_SIDE = "truncation_side"
_INPUTS, _SEGMENTS = "model_input_names", "token_type_ids"
# Settings that change the ids, with the values of BERT.
_FIXED = {
    "do_basic_tokenize": (True, None),
    "split_special_tokens": (False, None),
    **{f"{name}_token": (role, None) for name, role in _ROLES.items()},
}
_AUTO, _WORDS = "auto", "words"


@explaining
def read(folder, metadata, longest_word=None, words=False):
    """Returns the metadata with vocabulary and casing, which is inferred from the vocabulary if no file specifies it.

    `longest_word` is the maximum word length if no file specifies it, for folders that were not made for transformers;
    `words` tells that texts will be words separated by white space, which `BertJapaneseTokenizer` needs.
    """
    settings = _settings(folder)
    name = _class(folder, settings, words)
    files = (_VOCABULARY,) if name == _JAPANESE else (_TOKENIZER, _VOCABULARY, *MODELS)
    path = next((folder / file for file in files if folder.has(file)), None)
    if path is None:
        return metadata
    if path.name in MODELS:
        values = tokenizer_json.read_unigram(path, sentencepiece_model.to_tokenizer_json(path, name))
    elif path.name == _TOKENIZER:
        values = tokenizer_json.read(path, path.read_text(encoding="utf-8"), bert_defaults=name in _BERT_CLASSES)
    else:
        values = {"pieces": list(Vocabulary(path).pieces), "added_tokens": []}
    if settings.get(_SIDE):
        values[_SIDE] = settings[_SIDE]
    if "unigram" in values:
        _complete_unigram(folder, values, name, settings)
    else:
        _complete_wordpiece(folder, path, values, name, settings, longest_word)
        for content in metadata.keep_special_tokens or ():
            values["added_tokens"].append(tokenizer_json.AddedToken(content, False, True, True))
    lowercase = values.pop(LOWERCASE.name, None)
    vocabulary = Vocabulary(values)
    vocabulary.source = str(path)
    return metadata.replace(
        vocabulary=vocabulary, lowercase=not vocabulary.cased if lowercase is None else bool(lowercase)
    )


def _complete_wordpiece(folder, path, values, name, settings, longest_word):
    """Adds options and tokens to the content of a vocabulary's file."""
    if name == _JAPANESE:
        values |= _word_options(settings)
    else:
        values |= _applied_options(path, values, settings, name in _BERT_CLASSES, longest_word)
    added = [] if name in _BERT_CLASSES and _DECODER in settings else values["added_tokens"]
    values["pieces"], values["added_tokens"] = _with_added_tokens(folder, values["pieces"], added, settings)
    inputs = settings.get(_INPUTS)
    values["pair_segments"] = name in _WITH_SEGMENTS if inputs is None else _SEGMENTS in inputs
    _check(folder, settings)


def _complete_unigram(folder, values, name, settings):
    """Adds names of special tokens, and added tokens, to a Unigram vocabulary, whose file has everything else."""
    special, size, expected = values["unigram"]["special_tokens"], len(values["pieces"]), {}
    for token, role in _ROLES.items():
        value = _content(settings.get(f"{token}_token"))
        if role in ("[PAD]", "[MASK]") and value in values["pieces"]:
            special[role] = value
        expected[f"{token}_token"] = special.get(role, role), None
    _check(folder, settings, _FIXED | expected)
    inputs = settings.get(_INPUTS)
    values["pair_segments"] &= name not in _UNIGRAM_CLASSES if inputs is None else _SEGMENTS in inputs
    values["pieces"], values["added_tokens"] = _with_added_tokens(
        folder, values["pieces"], values["added_tokens"], settings
    )
    values["unigram"]["scores"] += [0.0] * (len(values["pieces"]) - size)


def _settings(folder):
    """Returns `tokenizer_config.json`, with the special tokens of `special_tokens_map.json`, an older file."""
    settings = folder.json(_SETTINGS)
    older = {} if _DECODER in settings else folder.json(_SPECIAL)
    named = {key: value for key, value in (settings | older).items() if key.endswith("_token")}
    return settings | named | {_EXTRA: _listed_tokens(settings, older)}


def _listed_tokens(settings, older):
    """Returns the special tokens that have no key of their own, from all places that list them."""
    extra = settings.get(_EXTRA, {})
    if isinstance(extra, dict):  # Tokens with names, beside a list.
        lists = [extra, settings.get(_ADDITIONAL, older.get(_ADDITIONAL))]
    else:  # A list, even an empty one, counts before that of the older file.
        lists = [extra or settings.get(_ADDITIONAL)]
    return [token for tokens in (*lists, older.get(_EXTRA)) for token in _entries(tokens or [])]


def _entries(tokens):
    """Returns the entries of a list or a dict of special tokens, which may be strings."""
    values = tokens.values() if isinstance(tokens, dict) else tokens
    return [{**(token if isinstance(token, dict) else {"content": token}), "special": True} for token in values]


def _class(folder, settings, words):
    """Returns the name of the tokenizer class, without the endings that do not matter."""
    name = settings.get("tokenizer_class") or folder.config.get("tokenizer_class")
    name = name or _CLASSES.get(folder.config.get("model_type"), "BertTokenizer")
    short = str(name).removesuffix("Fast").removesuffix("Backend").removesuffix("Tokenizer")
    # Texts are split by a dictionary, and words into pieces.
    has_words = settings.get("word_tokenizer_type") in ("mecab", "sudachi", "jumanpp") and folder.has(_VOCABULARY)
    has_words = has_words and (short, settings.get("subword_tokenizer_type", "wordpiece")) == (_JAPANESE, "wordpiece")
    if short not in _BERT_CLASSES | _FILE_CLASSES | _UNIGRAM_CLASSES and not (words and has_words):
        hint = "; load(..., tokenizer='words') takes texts whose words are separated by spaces, and so does the folder "
        hint = f"{hint}that `convert_checkpoint --tokenizer=words` writes" if has_words else ""
        raise ValueError(
            f"{folder}: the tokenizer is not supported. Expected BertTokenizer. Received: "
            f"tokenizer_class={name!r}{hint}"
        )
    return short


def _word_options(settings):
    """Returns the options of a `BertJapaneseTokenizer` for texts that are split into words."""
    kind, lowercase = settings["word_tokenizer_type"], bool(settings.get(LOWERCASE.setting))
    composed = (settings.get(f"{kind}_kwargs") or {}).get("normalize_text", True)
    steps = [{"type": "NFKC"}] * bool(composed) + [{"type": "Lowercase"}] * lowercase
    return {
        LOWERCASE.name: lowercase,
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": WORDS,
        "max_word_length": 100,
    }


def _applied_options(path, values, settings, is_bert_class, longest_word):
    """Returns the options that replace those of the vocabulary's file, `values`, see the table of this module.

    Warns if a value of `tokenizer.json` changes that `tokenizer_config.json` does not name.
    """
    if path.name == _VOCABULARY:
        applied = {
            option.name: settings.get(option.setting) if option.setting else option.of_class for option in FILE_OPTIONS
        }
        if longest_word is not None:
            applied["max_word_length"] = longest_word
        return {name: value for name, value in applied.items() if value is not None}
    if not is_bert_class:
        return {}
    # The class always has its own maximum word length, but not in a folder that was not made for transformers.
    options = [option for option in FILE_OPTIONS if longest_word is None or option.name != "max_word_length"]
    applied = {option.name: settings.get(option.setting, option.of_class) for option in options}
    unnamed = [option.name for option in options if option.setting not in settings]
    changed = [name for name in unnamed if values[name] not in (applied[name], None)]
    if changed:
        _LOG.warning(
            "%s and the tokenizer's class, BertTokenizer, disagree on %s. The class decides, as in transformers; "
            'for the file\'s settings, write "tokenizer_class": "PreTrainedTokenizerFast" into %s',
            path,
            ", ".join(f"{name} ({values[name]!r}, {applied[name]!r})" for name in changed),
            _SETTINGS,
        )
    return applied


def _check(folder, settings, fixed=_FIXED):
    """Raises if a setting differs from BERT's. The side of padding does not matter: it has no positions here."""
    if others := sorted(set(settings.get("never_split") or ()) - set(tokenizer_json.STANDARD)):
        _LOG.warning(
            "%s: `never_split` of %s is ignored, as in transformers 5: %s. Tokens of added_tokens.json are never split",
            folder,
            _SETTINGS,
            ", ".join(others),
        )
    for key, allowed in fixed.items():
        value = _content(settings.get(key))
        if value not in allowed:
            raise ValueError(
                f"{folder}: the tokenizer's `{key}` must be {allowed[0]!r}, as in BERT. Received: {key}={value!r}"
            )


def _content(token):
    """Returns the string of a setting that names a token, which may be an entry of an added token."""
    return token.get("content") if isinstance(token, dict) else token


def _with_added_tokens(folder, pieces, added_tokens, settings):
    """Returns the pieces and the added tokens of the vocabulary's file, with those of all other files."""
    decoder = {int(index): token for index, token in (settings.get(_DECODER) or {}).items()}
    special, by_id = _special_tokens(settings), decoder
    if _DECODER not in settings:
        older = folder.json(_ADDED)
        by_id = {index: {"content": content, "special": content in special} for content, index in older.items()}
    contents = {index: token["content"] for index, token in by_id.items()}
    path = folder / (_SETTINGS if _DECODER in settings else _ADDED)
    tokenizer_json.check_ids(path, {**dict(enumerate(pieces)), **contents})
    ids = {piece: index for index, piece in enumerate(pieces) if piece != tokenizer_json.no_piece(index)}
    tokenizer_json.check_added_ids(path, ids, {content: index for index, content in contents.items()})
    extended, known = list(pieces), set(pieces)
    for index, content in sorted(contents.items()):
        extended += map(tokenizer_json.no_piece, range(len(extended), index + 1))
        if content not in known:
            extended[index] = content
    present, named = set(extended), set(contents.values())
    extended += [content for content in special if content not in present]
    replaced = {token["content"] for token in decoder.values()}
    added = [token for token in added_tokens if token.content not in replaced]
    others = {*tokenizer_json.STANDARD, *(token.content for token in added)}
    tokens = [*by_id.values(), *(token for name, token in special.items() if name not in named)]
    added += [tokenizer_json.added_token(token, known) for token in tokens if token["content"] not in others]
    return extended, added


def _special_tokens(settings):
    """Returns the special tokens besides BERT's five: those with a name, such as `bos_token`, and those in a list."""
    named = {key: token for key, token in settings.items() if key.endswith("_token") and key not in _FIXED}
    named = {key: token for key, token in named.items() if isinstance(token, str | dict)}
    return {token["content"]: token for token in [*_entries(named), *settings[_EXTRA]]}


def kept_special_tokens(vocabulary):
    """Returns BERT's special tokens that are recognized in texts, or None; Hugging Face's files cannot store this."""
    return [token.content for token in vocabulary.added_tokens if token.content in tokenizer_json.STANDARD] or None


def write(vocabulary, lowercase, max_length, directory):
    """Writes `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`."""
    vocabulary.check_casing(lowercase)
    if vocabulary.unigram is None:
        vocabulary.save(directory / _VOCABULARY)
    write_text(directory / _TOKENIZER, tokenizer_json.to_json(vocabulary, lowercase))
    settings = {
        LOWERCASE.setting: bool(lowercase),
        **{option.setting: getattr(vocabulary, option.name) for option in VOCABULARY_OPTIONS if option.setting},
    }
    values = {
        # `BertTokenizer` of transformers ignores other steps, `PreTrainedTokenizerFast` has all from `tokenizer.json`.
        "tokenizer_class": "PreTrainedTokenizerFast" if vocabulary.has_steps else "BertTokenizer",
        **({} if vocabulary.has_steps else settings),
        "model_max_length": max_length,
        **({_SIDE: vocabulary.truncation_side} if vocabulary.truncation_side != "right" else {}),
        _EXTRA: [token.content for token in vocabulary.added_tokens if token.special],
        _INPUTS: ["input_ids", *([_SEGMENTS] if vocabulary.pair_segments else []), "attention_mask"],
        **{
            f"{name}_token": vocabulary.special_tokens.get(role, role)
            for name, role in _ROLES.items()
            if role in vocabulary
        },
    }
    write_json(directory / _SETTINGS, values)


def read_chosen(tokenizer, folder, metadata, for_transformers=False):
    """Returns the metadata with vocabulary and casing of the checkpoint's own folder, unless `tokenizer` is another.

    `for_transformers` tells that the folder was made for it.
    """
    if tokenizer not in (_AUTO, _WORDS):
        return metadata
    try:
        return read(folder, metadata, None if for_transformers else LONGEST_WORD, tokenizer == _WORDS)
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
        if metadata.vocabulary is None or metadata.vocabulary.pre_tokenizer != WORDS:
            raise ValueError(
                "`tokenizer` must be 'auto' for a tokenizer that splits texts on its own. Received: tokenizer='words', "
                "which is for BertJapaneseTokenizer with a vocab.txt"
            )
        return metadata
    path = locations.find(tokenizer)
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
