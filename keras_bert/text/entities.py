"""Named entities: from tags of pieces to tags of words, entities and positions in the text."""

import re
from typing import NamedTuple

import tensorflow as tf

from keras_bert.text.graph_checks import require
from keras_bert.text.packing import select

# IOB1, IOB2, IOBES, BILOU, BMES. A prefix without a type is allowed: entities of a single type, without a name.
_LABEL = re.compile(r"([BIMELSU])(?:-(.*))?", re.DOTALL)


class Entities(NamedTuple):
    """The entities of a batch of sentences; ragged `(batch, entities)` each."""

    type: tf.RaggedTensor  # Strings.
    start: tf.RaggedTensor  # Index of the first word, int32.
    end: tf.RaggedTensor  # Index of the last word + 1, int32.


def entities(tags, labels):
    """Finds the entities in the tags of words, as CoNLL's `conlleval` does.

    An entity starts at B, S and U, and at any other tag that follows "O", another type, or E, L, S and U. It ends
    before the next entity and before "O". A label without a prefix counts as I; a prefix alone is such a label if there
    are others. If no label is "O" or has a prefix, as for parts of speech, each word is an entity.

    Args:
        tags: ragged integer `(batch, words)`, label ids.
        labels: list of strings, the label of each id: "O", "B-PER", "I-PER", ...

    Returns:
        `Entities`.
    """
    prefixes, types = parse(labels)
    inside = tf.gather(_are_among("BIMELSU", prefixes), tags.values)
    opens = tf.gather(_are_among("BSU", prefixes), tags.values)
    closes = tf.gather(_are_among("ELSU", prefixes), tags.values)
    names = tf.gather(types, tags.values)
    word = tf.ragged.range(tf.cast(tags.row_lengths(), tf.int32)).values

    no = tf.zeros_like(inside[:1])  # One False, or empty if there are no words.
    continues = inside[:-1] & ~closes[:-1] & ~opens[1:] & inside[1:] & (names[:-1] == names[1:])
    is_joined = tf.concat([no, continues], 0) & (word > 0)  # To the previous word.
    is_first = inside & ~is_joined
    is_last = inside & ~tf.concat([is_joined[1:], no], 0)

    type_of_entity, start = select(is_first, tags.with_values(names), tags.with_values(word))
    (end,) = select(is_last, tags.with_values(word + 1))
    return Entities(type_of_entity, start, end)


def _are_among(wanted, prefixes):
    """Returns by label whether its prefix is among the wanted ones."""
    return [prefix in wanted for prefix in prefixes]


def parse(labels):
    """Returns the prefixes and the types of the labels."""
    is_list = isinstance(labels, list | tuple) and len(labels) > 0
    if not is_list or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"`labels` must be a non-empty list of strings. Received: labels={labels!r}")
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"`labels` has {', '.join(twice)} more than once. Received: labels={labels}")
    if "O" not in labels and not any("-" in label and _LABEL.fullmatch(label) for label in labels):
        return ["S"] * len(labels), list(labels)
    # Beside types without prefixes, single letters are types too.
    has_types = any(label != "O" and not _LABEL.fullmatch(label) for label in labels)
    prefixes = []
    types = []
    for label in labels:
        prefix, entity_type = _prefix_and_type(label, has_types)
        prefixes.append(prefix)
        types.append(entity_type)
    return prefixes, types


def _prefix_and_type(label, has_types):
    """Returns the two parts of a label; with `has_types`, a prefix alone is a type."""
    if label == "O":
        return "O", ""
    match = _LABEL.fullmatch(label)
    if match is None or (has_types and match[2] is None):
        return "I", label
    return match[1], match[2] or ""


def entity_spans(entities, word_starts, word_ends):
    """Returns the byte offsets of entities: two ragged tensors `(batch, entities)`, starts and ends.

    Args:
        entities: `Entities`.
        word_starts, word_ends: ragged `(batch, words)`, the byte offsets of the words.
    """
    starts = _pick(word_starts, entities.start, "word_starts")
    ends = _pick(word_ends, entities.end.with_values(entities.end.values - 1), "word_ends")
    return starts, ends


def _pick(offsets, words, name):
    """Looks up the offsets of words by their indices."""
    rows = words.value_rowids()
    index = tf.cast(words.values, offsets.row_splits.dtype)
    has_offset = index < tf.gather(offsets.row_lengths(), rows)
    index = require(has_offset, f"`{name}` has fewer words than the tags. Expected one offset per word", words=index)
    place = tf.gather(offsets.row_starts(), rows) + index
    return words.with_values(tf.gather(offsets.values, place))
