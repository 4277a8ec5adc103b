"""The options of BERT's tokenizer, and where each format stores them: a new one is a row here, and an argument.

`Vocabulary` has all of them but `lowercase`, which `Metadata` and `TextPreprocessor` have. `strip_accents` of `save`
and of `TextPreprocessor` replaces that of the vocabulary. `keep_special_tokens` of `TextPreprocessor` is not a row: in
a folder, these are added tokens of the vocabulary, listed in `config.json` under `keras_bert`.
"""

import dataclasses
from typing import Any, Literal, TypedDict

LONGEST_WORD = 200  # In characters after normalization; a longer word is [UNK].


@dataclasses.dataclass(frozen=True)
class TokenizerOption:
    """An option, and its place in the files of each format.

    `google` is what happens to other values than the default in Google's format: "refused", "inferred" from the
    vocabulary when it is read, or "lost", as `save` documents.
    """

    name: str  # The argument of `Vocabulary`.
    default: Any
    _: dataclasses.KW_ONLY
    google: str
    file: tuple | None = None  # (section, key) in `tokenizer.json`; `None`: the option has code of its own.
    if_missing: Any = None  # Its value in a `tokenizer.json` without the key.
    setting: str | None = None  # Key in `tokenizer_config.json`; `None` as for `file`.
    of_class: Any = None  # What transformers' `BertTokenizer` applies without the key, whatever `tokenizer.json` says.
    keras_hub: str | None = None  # Attribute of KerasHub's tokenizer; `None`: KerasHub has no such option.
    is_large: bool = False  # Whether it may have as many values as there are pieces.


LOWERCASE = TokenizerOption(
    "lowercase",
    True,
    google="inferred",
    file=("normalizer", "lowercase"),
    setting="do_lower_case",
    of_class=True,
    keras_hub="lowercase",
)
VOCABULARY_OPTIONS = (
    TokenizerOption("added_tokens", (), google="refused"),
    TokenizerOption(
        "strip_accents",
        None,
        google="refused",
        file=("normalizer", "strip_accents"),
        setting="strip_accents",
        keras_hub="strip_accents",
    ),
    TokenizerOption(
        "tokenize_chinese_chars",
        True,
        google="refused",
        file=("normalizer", "handle_chinese_chars"),
        if_missing=True,
        setting="tokenize_chinese_chars",
        of_class=True,
        keras_hub="split_on_cjk",
    ),
    TokenizerOption(
        "max_word_length",
        LONGEST_WORD,
        google="lost",
        file=("model", "max_input_chars_per_word"),
        if_missing=100,
        of_class=100,
    ),
    TokenizerOption("pair_segments", True, google="refused"),
    TokenizerOption("normalizer", None, google="refused", is_large=True),
    TokenizerOption("pre_tokenizer", None, google="refused", is_large=True),
    TokenizerOption("truncation_side", "right", google="refused"),
    TokenizerOption("special_tokens", {}, google="refused"),
    TokenizerOption("pair_separators", 1, google="refused"),
    TokenizerOption("trim_offsets", False, google="lost"),
    TokenizerOption("unigram", None, google="refused", is_large=True),
    TokenizerOption("merges", None, google="refused", is_large=True),
)
FILE_OPTIONS = tuple(option for option in (LOWERCASE, *VOCABULARY_OPTIONS) if option.file)


class VocabularySettings(TypedDict, total=False):
    """The settings of a `Vocabulary`, which documents them; `None` means that of its source."""

    strip_accents: bool | None
    tokenize_chinese_chars: bool | None
    max_word_length: int | None
    pair_segments: bool | None
    normalizer: dict | None
    pre_tokenizer: dict | None
    truncation_side: Literal["right", "left"] | None
    special_tokens: dict | None
    pair_separators: int | None
    trim_offsets: bool | None
    unigram: dict | None
    merges: list | None
