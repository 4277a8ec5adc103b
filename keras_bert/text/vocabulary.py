"""A vocabulary with its tokenization settings: reading, validation and writing. Does not use TensorFlow."""

import hashlib
import pathlib
import re
from collections.abc import Sequence
from typing import Any, Unpack

from keras_bert.checks import check_choice, check_count, is_count
from keras_bert.text import wordpiece
from keras_bert.text.pieces import check_any, check_special_tokens, is_special
from keras_bert.text.registry import algorithm_of, read_file
from keras_bert.text.tokenizer_json import AddedToken
from keras_bert.text.tokenizer_options import VOCABULARY_OPTIONS, VocabularySettings

_DEFAULTS = {option.name: option.default for option in VOCABULARY_OPTIONS}
_ALWAYS_STORED = 4  # Values of an `AddedToken`.
_UNUSED = re.compile(r"\[unused\d+\]")


class Vocabulary:
    """A BERT vocabulary: its pieces in the order of their ids, and tokenization settings.

    Args:
        pieces: a path to `vocab.txt` or `tokenizer.json`, a list of strings, a `Vocabulary`, a `TextPreprocessor`,
            whose kept tokens become added tokens, or the result of `get_config`. Duplicate pieces get the last id, as
            in Google's and Hugging Face's programs.
        added_tokens: list of `AddedToken`s or strings. This and the following arguments override the source.
        strip_accents: bool, whether to remove accents. Defaults to whether the tokenizer lower-cases.
        tokenize_chinese_chars: bool, whether each Chinese character is a word. Defaults to `True`.
        max_word_length: int, maximum characters of a word; longer words are `[UNK]`. Defaults to 200, as in Google's.
        pair_segments: bool, whether the second text of a pair has the segment id 1; if not, 0. Defaults to `True`.
        normalizer: dict, a normalizer as in `tokenizer.json`, which replaces BERT's, `strip_accents`,
            `tokenize_chinese_chars` and the tokenizer's `lowercase`. Defaults to `None`: BERT's.
        pre_tokenizer: dict, a pre-tokenizer as in `tokenizer.json`. Defaults to `None`: BERT's.
        truncation_side: str, "right" or "left": the side at which texts that are too long lose tokens. Defaults to
            "right".
        special_tokens: dict, the pieces in the place of BERT's special tokens, such as `{"[CLS]": "<s>"}`. BERT's names
            work in `id`, and so everywhere. Defaults to `{}`.
        pair_separators: int, how many `[SEP]` are between the texts of a pair. Defaults to 1.
        trim_offsets: bool, whether the place of a token is that of its characters alone, as in RoBERTa: without the
            white space that belongs to it, and without accents after it that were removed. Defaults to `False`.
        unigram: dict, for the pieces of a Unigram model of SentencePiece: `scores`, the logarithms of their
            probabilities. Defaults to `None`: WordPiece.
        merges: list of str, the merges of a byte-level BPE in the order of their ranks, such as "Ġ t". Defaults to
            `None`: WordPiece.

    Example:
        vocabulary = Vocabulary("vocab.txt")
        vocabulary.ids(["[CLS]", "hello", "[SEP]"])
    """

    def __init__(self, pieces: Any, added_tokens: Sequence | None = None, **settings: Unpack[VocabularySettings]):
        unknown = set(settings) - set(_DEFAULTS)
        if unknown:
            raise TypeError(f"`Vocabulary` has no argument {min(unknown)!r}. Expected one of: {', '.join(_DEFAULTS)}")
        given = {name: value for name, value in settings.items() if value is not None}
        if added_tokens is not None:
            given["added_tokens"] = added_tokens
        self.source, stored = _read_source(pieces)
        values = _DEFAULTS | stored | given
        self.pieces = tuple(values["pieces"])
        self.added_tokens = tuple(_added_token(token) for token in values["added_tokens"])
        self.strip_accents = values["strip_accents"]
        self.tokenize_chinese_chars = values["tokenize_chinese_chars"]
        self.pair_segments = values["pair_segments"]
        self.truncation_side = values["truncation_side"]
        self.normalizer = values["normalizer"]
        self.pre_tokenizer = values["pre_tokenizer"]
        self.special_tokens = dict(values["special_tokens"])
        self.pair_separators = values["pair_separators"]
        self.trim_offsets = values["trim_offsets"]
        self.max_word_length = values["max_word_length"]
        self.unigram = values["unigram"]
        self.merges = values["merges"]
        if is_count(self.max_word_length):
            self.max_word_length = int(self.max_word_length)
        if isinstance(pieces, Vocabulary) and not given:  # Checking 250,000 pieces takes half a second.
            self._ids: dict[str, int] = pieces._ids
            return
        self._ids = {piece: index for index, piece in enumerate(self.pieces)}
        # BERT's names are looked up before any of them is added: none stands for another name.
        ids_of_names = {name: self.id(piece) for name, piece in self.special_tokens.items()}
        self._ids.update(ids_of_names)
        self._check_values()
        by_id = sorted(self.added_tokens, key=lambda token: self._ids[token.content])
        self.added_tokens = tuple(by_id)

    def replace(self, **settings: Any):
        """Returns a vocabulary with other settings; `None` keeps one."""
        return Vocabulary(self, **settings)

    def _check_values(self):
        """Raises for pieces or settings that no tokenizer can have."""
        check_any(self.pieces, self.source)
        self.algorithm.check_pieces(self)
        check_special_tokens(self._ids, self.pieces, self.source)
        for token in self.added_tokens:
            self.id(token.content)
        check_count("max_word_length", self.max_word_length)
        check_count("pair_separators", self.pair_separators)
        check_choice("truncation_side", self.truncation_side, ("right", "left"))
        if self.normalizer is not None:
            for name in ("strip_accents", "tokenize_chinese_chars"):
                if getattr(self, name) != _DEFAULTS[name]:
                    self._refuse(name, getattr(self, name), _DEFAULTS[name])
        self.algorithm.check_steps(self)

    def check_casing(self, lowercase):
        """Raises if `lowercase` is not what the vocabulary's own normalizer does."""
        decided = self.algorithm.decided_case(self)
        if decided is not None and bool(lowercase) != decided:
            self._refuse("lowercase", lowercase, decided)

    def _refuse(self, name, value, expected):
        raise ValueError(
            f"{self.source}: the vocabulary has a `normalizer` of its own, which decides. Expected {name}={expected}. "
            f"Received: {name}={value!r}"
        )

    def __len__(self):
        return len(self.pieces)

    def __contains__(self, piece):
        return piece in self._ids

    def __eq__(self, other):
        return isinstance(other, Vocabulary) and self.get_config() == other.get_config()

    def __hash__(self):
        return hash(self.pieces)

    def __repr__(self):
        return f"Vocabulary({len(self)} pieces of {self.source})"

    def id(self, piece):
        """Returns the id of a piece."""
        if piece not in self._ids:
            raise ValueError(f"{self.source}: the vocabulary has no piece {piece!r}")
        return self._ids[piece]

    def ids(self, pieces):
        """Returns the ids of a list of pieces."""
        return [self.id(piece) for piece in pieces]

    @property
    def algorithm(self):
        """The subword algorithm, see `Algorithm`."""
        return algorithm_of(vars(self))

    @property
    def added_by_id(self):
        """The added tokens, a dict by id."""
        return {self.id(token.content): token for token in self.added_tokens}

    @property
    def is_continuation(self):
        """List of bools by id: whether the piece continues a word, as `##ing` does."""
        return self.algorithm.is_continuation(self)

    @property
    def cased(self):
        """Whether any piece other than special and added tokens has a capital letter."""
        added = {token.content for token in self.added_tokens}
        capitalized = (piece for piece in self.pieces if piece != piece.lower())
        return any(not is_special(piece) and piece not in added for piece in capitalized)

    @property
    def has_steps(self):
        """Whether the normalizer or the pre-tokenizer is another than BERT's."""
        return self.normalizer is not None or self.pre_tokenizer is not None

    @property
    def is_berts(self):
        """Whether the tokenizer is BERT's but for options: its algorithm, steps and special tokens."""
        return self.algorithm.bert_steps and self.has_bert_template and not self.has_steps

    @property
    def has_bert_template(self):
        """Whether sequences are packed with BERT's special tokens and separators."""
        return not self.special_tokens and self.pair_separators == 1

    @property
    def has_bert_normalizer(self):
        """Whether the normalizer is BERT's, so that the tokenizer's `lowercase` and `strip_accents` apply."""
        return self.normalizer is None and self.algorithm.bert_steps

    @property
    def lowercase(self):
        """Whether texts are changed to lower case: what the vocabulary decides, or else BERT's default, `True`."""
        decided = self.algorithm.decided_case(self)
        if decided is None:
            return True
        return decided

    @property
    def wordpieces(self):
        """The pieces by id for WordPiece, with placeholders for those that it must not match."""
        return wordpiece.matched_pieces(self)

    @property
    def shown_pieces(self):
        """The pieces by id as answers show them."""
        return self.algorithm.shown_pieces(self)

    def text(self, pieces):
        """Returns the text of pieces."""
        return self.algorithm.text(self, pieces)

    @property
    def sha256(self):
        """The SHA-256 hash of the pieces in order."""
        return hashlib.sha256("\n".join(self.pieces).encode()).hexdigest()

    def get_config(self):
        """Returns the list of pieces, or a dict of pieces and non-default settings."""
        settings = {}
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value != default:
                settings[name] = value
        if self.added_tokens:
            settings["added_tokens"] = [_stored(token) for token in self.added_tokens]
        pieces = list(self.pieces)
        if not settings:
            return pieces
        return {"pieces": pieces} | settings

    def save(self, path):
        """Writes a `vocab.txt`, as a whole or not at all: one piece per line, UTF-8."""
        wordpiece.write_lines(self.pieces, path)


def _added_token(token):
    """Returns an `AddedToken` of a string, or of its values."""
    if isinstance(token, str):
        return AddedToken(token)
    return AddedToken(*token)


def _stored(token):
    """Returns the values of an `AddedToken` without the last ones that are defaults."""
    values = list(token)
    while len(values) > _ALWAYS_STORED and not values[-1]:
        values.pop()
    return values


def _read_source(pieces):
    """Returns the source of a vocabulary, for messages, and its values by argument name; see `Vocabulary`."""
    if isinstance(pieces, str | pathlib.Path):
        path = pathlib.Path(pieces).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"{path}: there is no such vocabulary file")
        return str(path), read_file(path)
    if isinstance(pieces, Vocabulary):
        return pieces.source, _values_of_config(pieces.get_config())
    if isinstance(getattr(pieces, "vocabulary", None), Vocabulary) and hasattr(pieces, "get_config"):
        # A `TextPreprocessor`, whose module needs TensorFlow.
        return pieces.vocabulary.source, _values_of_preprocessor(**pieces.get_config())
    if isinstance(pieces, dict) and "pieces" not in pieces:
        raise ValueError(
            "`pieces` must be a path, a list of strings, or a dict from `get_config`. Received: a dict without "
            "`pieces`; for ids by piece, pass `sorted(ids, key=ids.get)`"
        )
    values = _values_of_config(pieces)
    source = values.pop("source", "the list of pieces")
    return source, values


def _values_of_config(config):
    """Returns the result of `get_config` as a dict, a list of pieces too."""
    if isinstance(config, dict):
        return dict(config)
    return {"pieces": config}


def _values_of_preprocessor(vocabulary, strip_accents, keep_special_tokens, **others):
    """Returns the values of the vocabulary of a `TextPreprocessor`, from its config: kept tokens are added tokens."""
    own = Vocabulary(vocabulary, strip_accents=strip_accents)
    added = {token.content for token in own.added_tokens}
    tokens = list(own.added_tokens)
    for content in keep_special_tokens:
        if content not in added:
            tokens.append(AddedToken(content, normalized=False, special=True, wordpiece=True))
    return _values_of_config(Vocabulary(own, tokens).get_config())


def check_extendable(vocabulary):
    """Raises unless pieces can be added."""
    vocabulary.algorithm.check_extendable(vocabulary)


def unused_ids(vocabulary):
    """Returns the ids of the pieces `[unused1]`, ..., but for added tokens."""
    added = {token.content for token in vocabulary.added_tokens}
    unused = [piece for piece in vocabulary.pieces if _UNUSED.fullmatch(piece)]
    return vocabulary.ids(piece for piece in unused if piece not in added)


def extend(vocabulary, pieces):
    """Returns a vocabulary with more pieces, in the place of unused ones first, then at the end."""
    unused = unused_ids(vocabulary)[: len(pieces)]
    extended = list(vocabulary.pieces)
    for index, piece in zip(unused, pieces, strict=False):
        extended[index] = piece
    extended.extend(pieces[len(unused) :])
    values = _values_of_config(vocabulary.get_config())
    values["pieces"] = extended
    return Vocabulary(values)
