"""Pre-tokenizers other than BERT's, equal to those of Hugging Face's tokenizers, inside the graph."""

import tensorflow as tf

from keras_bert.text.literals import Parts
from keras_bert.text.tokenizer_steps import pre_tokenizer_steps

# Character classes without brackets.
_WHITE = r"\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_PUNCTUATION = r"!-/:-@\[-`{-~\p{P}"
_WORD = r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}Ⓐ-ⓩ🄰-🅉🅐-🅩🅰-🆉"
_BEHAVIORS = {
    "Isolated": f"[{_PUNCTUATION}]",
    "Contiguous": f"[{_PUNCTUATION}]+",
    "MergedWithPrevious": f"[^{_PUNCTUATION}]*[{_PUNCTUATION}]",
    "MergedWithNext": f"[{_PUNCTUATION}][^{_PUNCTUATION}]*",
}


class PreTokenizer:
    """Splits normalized texts, strings `(texts,)`, into words: `Parts` without tokens.

    `values` is the pre-tokenizer in `tokenizer.json`.
    """

    def __init__(self, values: dict):
        self._patterns = list(map(_patterns, pre_tokenizer_steps(values)))

    def __call__(self, texts):
        import tensorflow_text

        splits, words = tf.range(tf.size(texts, tf.int64) + 1), texts
        starts, ends = tf.zeros_like(splits[1:]), tf.cast(tf.strings.length(texts), tf.int64)
        for delimiter, kept in self._patterns:
            found, begin, end = tensorflow_text.regex_split_with_offsets(words, delimiter, kept)
            offset = tf.gather(starts, found.value_rowids())
            splits, words = tf.gather(found.row_splits, splits), found.values
            starts, ends = begin.values + offset, end.values + offset
        return Parts(splits, words, tf.zeros_like(words, tf.bool), tf.zeros([0], tf.int32), starts, ends)


def _patterns(step):
    """Returns the regular expressions of what ends a word, and of what is then a word itself."""
    kind = step["type"]
    if kind == "BertPreTokenizer":
        return rf"[{_WHITE}]+|[{_PUNCTUATION}]", rf"[{_PUNCTUATION}]"
    if kind == "WhitespaceSplit":
        return rf"[{_WHITE}]+", ""
    if kind == "Whitespace":
        return rf"[{_WHITE}]+|[^{_WORD}{_WHITE}]+", rf"[^{_WORD}{_WHITE}]+"
    if kind == "Digits":
        return (r"\p{N}" if step.get("individual_digits") else r"\p{N}+",) * 2
    behavior = step.get("behavior", "Isolated")
    return (f"[{_PUNCTUATION}]", "") if behavior == "Removed" else (_BEHAVIORS[behavior],) * 2
