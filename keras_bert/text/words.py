"""The words of texts, as a tokenizer finds them, and the word of each position of the sequences that a model reads."""

from typing import NamedTuple

import tensorflow as tf

from keras_bert.text import packing

NO_WORD = -1  # The number at positions of [CLS], [SEP] and padding.


class Words(NamedTuple):
    """The words of texts. All fields are ragged int32; words are numbered from 0 in each text."""

    tokens: tf.RaggedTensor  # (texts, tokens): ids.
    number: tf.RaggedTensor  # (texts, tokens): the number of the word of each token.
    starts: tf.RaggedTensor  # (texts, words): byte offsets.
    ends: tf.RaggedTensor

    def count(self):
        """Returns the number of words of each text, `(texts,)`."""
        return tf.cast(self.starts.row_lengths(), tf.int32)

    def of_rows(self, row):
        """Returns the words of some texts, given their numbers."""
        return Words(*(tf.gather(part, row) for part in self))


def words_of(tokenizer, texts):
    """Returns the `Words` of strings `(texts,)`, which white space and punctuation separate."""
    tokens, starts, ends = tokenizer.with_offsets(texts)
    is_first = tokenizer.word_starts(tokens)
    counted = tf.cumsum(tf.cast(is_first, tf.int32))
    counted_before = tf.gather(counted, tf.gather(tokens.row_starts(), tokens.value_rowids()))
    number = counted - counted_before  # Each first token starts a word.
    word_starts, word_ends = tokenizer.word_places(tokens, starts, ends)
    return Words(
        tokens,
        number=tokens.with_values(number),
        starts=tf.cast(word_starts, tf.int32),
        ends=tf.cast(word_ends, tf.int32),
    )


def given_words(tokenizer, texts):
    """Returns the `Words` of strings `(texts,)` that single spaces separate, as in CoNLL's files."""
    words = tf.strings.split(texts, " ")
    pieces = words.with_values(tokenizer.of_words(words.values))
    tokens = pieces.merge_dims(1, 2)
    numbers = tf.ragged.range(tf.cast(words.row_lengths(), tf.int32)).values
    number = tokens.with_values(tf.repeat(numbers, pieces.values.row_lengths()))
    sizes = words.with_values(tf.strings.length(words.values))
    limits = tf.cumsum(sizes.values + 1)  # With the space behind each word, over all texts.
    first_word = tf.gather(words.row_starts(), words.value_rowids())  # Of the text of each word.
    before = tf.gather(tf.pad(limits, [[1, 0]]), first_word)
    ends = limits - 1 - before
    starts = ends - sizes.values
    return Words(tokens, number, words.with_values(starts), words.with_values(ends))


def packed(preprocessor, first, second=None):
    """Packs the `Words` of texts, or of pairs of them, as the preprocessor packs their tokens.

    Returns the model inputs, and the number of the word at each of their positions, int32 `(texts, length)`. Those of
    a second text continue those of the first one.
    """
    tokens = [first.tokens]
    codes = [_codes(first.number)]
    if second is not None:
        tokens.append(second.tokens)
        codes.append(_codes(behind(first, second)))
    packed_codes = preprocessor.pack(*codes)
    return preprocessor.pack(*tokens), _decoded(packed_codes["token_ids"])


def packed_choices(preprocessor, text, choices, chosen):
    """Same as `packed`, for texts with the same number of choices, `Words` of `(texts * choices,)`.

    Only the words of the choices with the numbers `chosen`, int32 `(texts,)`, are numbered, behind those of their text.
    """
    count = _choices_of_text(choices, chosen)
    repeated = _repeated(text, count)
    inputs = preprocessor.pack(repeated.tokens, choices.tokens)
    is_there = choices.tokens.row_lengths() > 0
    inputs["padding_mask"] = tf.where(is_there[:, None], inputs["padding_mask"], 0)
    codes = _codes_of_chosen(repeated, choices, chosen)
    packed_codes = preprocessor.pack(_codes(repeated.number), codes)
    numbers = _decoded(packed_codes["token_ids"])
    shape = tf.stack([tf.size(chosen), count, tf.shape(numbers)[1]])
    inputs_of_texts = {name: tf.reshape(ids, shape) for name, ids in inputs.items()}
    return inputs_of_texts, tf.reshape(numbers, shape)


def of_chosen(choices, chosen):
    """Returns the `Words` of the chosen choice of each text, given those of all choices of all texts."""
    count = _choices_of_text(choices, chosen)
    return choices.of_rows(tf.range(tf.size(chosen)) * count + chosen)


def of_choice_views(viewed, text, choices, chosen):
    """Returns the number of the word at each position of the sequences of `ViewedChoices`, numbered as above."""
    repeated = _repeated(text, _choices_of_text(choices, chosen))
    codes = _codes_of_chosen(repeated, choices, chosen)
    return _decoded(viewed.packed_values(_codes(text.number), codes))


def of_views(preprocessor, viewed, first, second=None):
    """Returns the number of the word at each position of the sequences of `ViewedTexts`, int32 `(views, length)`."""
    number = first.number if second is None else behind(first, second)
    inside = viewed.values(number.values)
    dtype = inside.row_splits.dtype
    column = tf.fill([tf.size(viewed.offset), 1], NO_WORD)
    none = tf.RaggedTensor.from_tensor(column).with_row_splits_dtype(dtype)
    # [CLS], the part of a first text that was kept, each [SEP]; then the view, and [SEP].
    parts = [none]
    if second is not None:
        separators = preprocessor.vocabulary.pair_separators
        of_first = tf.gather(first.number, viewed.views.row)
        kept = packing.cut(of_first, viewed.offset - 1 - separators)
        parts.append(kept.with_row_splits_dtype(dtype))
        parts += [none] * separators
    parts += [inside, none]
    return tf.concat(parts, 1).to_tensor(NO_WORD)


def behind(first, second):
    """Returns the numbers of the words of second texts, which continue those of the first ones."""
    number = second.number
    return number.with_values(number.values + tf.gather(first.count(), number.value_rowids()))


def _codes(number):
    """Returns the numbers of words as a preprocessor packs them in the place of ids.

    Codes are negative, so that no special token that it adds is one of them.
    """
    return number.with_values(-1 - number.values)


def _choices_of_text(choices, chosen):
    """Returns the number of the choices of each text."""
    return tf.size(choices.count()) // tf.maximum(tf.size(chosen), 1)


def _repeated(text, count):
    """Returns the `Words` of texts, each of them a number of times."""
    return text.of_rows(tf.repeat(tf.range(tf.size(text.count())), count))


def _codes_of_chosen(repeated, choices, chosen):
    """Returns the codes of the words of the chosen choices, and zeros for the words of the others."""
    is_chosen = tf.one_hot(chosen, _choices_of_text(choices, chosen), True, False, dtype=tf.bool)
    is_chosen = tf.reshape(is_chosen, [-1])
    codes = _codes(behind(repeated, choices))
    return codes.with_values(tf.where(tf.gather(is_chosen, codes.value_rowids()), codes.values, 0))


def _decoded(codes):
    """Returns the numbers of codes, `NO_WORD` for the ids between them."""
    return tf.where(codes < 0, -1 - codes, NO_WORD)
