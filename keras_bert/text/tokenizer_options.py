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

    Args:
        name: str, the argument of `Vocabulary`.
        default: its default.
        file: (section, key) in `tokenizer.json`. Defaults to `None`: the option has code of its own.
        if_missing: its value in a `tokenizer.json` without the key. Defaults to `None`.
        setting: str, key in `tokenizer_config.json`. Defaults to `None`, as for `file`.
        of_class: what transformers' `BertTokenizer` applies without the key, whatever `tokenizer.json` says. Defaults
            to `None`.
        keras_hub: str, attribute of KerasHub's tokenizer. Defaults to `None`: KerasHub has no such option.
        google: str, what happens to other values than the default in Google's format: "refused", "inferred" from the
            vocabulary when it is read, or "lost", as `save` documents. Defaults to "refused".
    """

    name: str
    default: Any
    file: tuple | None = None
    if_missing: Any = None
    setting: str | None = None
    of_class: Any = None
    keras_hub: str | None = None
    google: str = "refused"


LOWERCASE = TokenizerOption(
    "lowercase", True, ("normalizer", "lowercase"), None, "do_lower_case", True, "lowercase", google="inferred"
)
VOCABULARY_OPTIONS = (
    TokenizerOption("added_tokens", ()),
    TokenizerOption(
        "strip_accents", None, ("normalizer", "strip_accents"), None, "strip_accents", None, "strip_accents"
    ),
    TokenizerOption(
        "tokenize_chinese_chars",
        True,
        ("normalizer", "handle_chinese_chars"),
        True,
        "tokenize_chinese_chars",
        True,
        "split_on_cjk",
    ),
    TokenizerOption(
        "max_word_length", LONGEST_WORD, ("model", "max_input_chars_per_word"), 100, of_class=100, google="lost"
    ),
    TokenizerOption("pair_segments", True),
    TokenizerOption("normalizer", None),
    TokenizerOption("pre_tokenizer", None),
    TokenizerOption("truncation_side", "right"),
    TokenizerOption("unigram", None),
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
    unigram: dict | None
