"""Tags and entities, compared with plain loops over conlleval's rules."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.text.entities import entities, entity_spans  # noqa: E402

TYPES = ["PER", "LOC", "creative-work"]


def labels_of(prefixes):
    """Returns the labels of all types, with each of the prefixes."""
    labels = []
    for kind in TYPES:
        labels += [f"{prefix}-{kind}" for prefix in prefixes]
    return labels


SCHEMES = {
    "IOB": ["O", *labels_of("BI")],
    "IOBES": ["O", *labels_of("BIES")],
    "BILOU": [*labels_of("BILU"), "O"],
}


def starts_chunk(before, before_type, tag, kind):
    if tag in ("B", "S", "U"):
        return True
    if before in ("E", "L", "S", "U", "O") and tag in ("I", "E", "L"):
        return True
    return tag != "O" and before_type != kind


def ends_chunk(before, before_type, tag, kind):
    if before in ("E", "L", "S", "U"):
        return True
    if before in ("B", "I") and tag in ("B", "S", "U", "O"):
        return True
    return before != "O" and before_type != kind


def slow_entities(sentence):
    """Returns [(type, start, end)] for a list of labels, by conlleval's loop over one sentence."""
    found = []
    start = None
    before = "O"
    before_type = ""
    for word, label in enumerate([*sentence, "O"]):
        tag, _, kind = label.partition("-")
        if start is not None and ends_chunk(before, before_type, tag, kind):
            found.append((before_type, start, word))
            start = None
        if starts_chunk(before, before_type, tag, kind):
            start = word
        before = tag
        before_type = kind
    return found


def listed(found):
    """Converts `Entities` to [[(type, start, end)]]."""
    assert found.type.dtype == tf.string
    assert found.start.dtype == tf.int32
    assert found.end.dtype == tf.int32
    sentences = []
    for types, starts, ends in zip(found.type.to_list(), found.start.to_list(), found.end.to_list(), strict=True):
        names = [name.decode() for name in types]
        sentences.append(list(zip(names, starts, ends, strict=True)))
    return sentences


def read(sentence):
    """Returns the entities of a sentence such as "B-PER I-PER O"."""
    words = sentence.split()
    labels = sorted(set(words))
    tags = [labels.index(word) for word in words]
    return listed(entities(ragged([tags]), labels))[0]


def ragged(rows, dtype=tf.int32):
    return tf.ragged.constant(rows, dtype, ragged_rank=1)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("B-PER I-PER B-PER O B-LOC", [("PER", 0, 2), ("PER", 2, 3), ("LOC", 4, 5)]),
        # Labels without a prefix or without a type.
        ("PER PER LOC O geo-loc", [("PER", 0, 2), ("LOC", 2, 3), ("geo-loc", 4, 5)]),
        ("B I B O I", [("", 0, 2), ("", 2, 3), ("", 4, 5)]),
        ("PER I-PER", [("PER", 0, 2)]),
        ("P L L O S", [("P", 0, 1), ("L", 1, 3), ("S", 4, 5)]),  # Types, not prefixes.
    ],
)
def test_entities_of_known_tags(sentence, expected):
    assert read(sentence) == expected


@pytest.mark.parametrize("scheme", SCHEMES)
def test_entities_equal_reference_loop(scheme):
    labels = SCHEMES[scheme]
    rng = np.random.default_rng(0)
    tags = []
    expected = []
    for _ in range(600):
        sentence = rng.integers(0, len(labels), rng.integers(0, 15)).tolist()
        tags.append(sentence)
        expected.append(slow_entities([labels[tag] for tag in sentence]))
    assert listed(entities(ragged(tags), labels)) == expected


@pytest.mark.parametrize("rows", [[], [[]], [[], []]])
def test_no_words(rows):
    found = entities(ragged(rows), ["O", "B-PER"])
    assert listed(found) == rows
    starts, ends = entity_spans(found, ragged(rows), ragged(rows))
    assert starts.to_list() == rows
    assert ends.to_list() == rows


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_integer_types_of_row_splits_and_tags(dtype):
    tags = tf.ragged.constant([[1, 2], [], [2]], dtype, row_splits_dtype=dtype)
    found = entities(tags, ["O", "B-PER", "I-PER"])
    assert listed(found) == [[("PER", 0, 2)], [], [("PER", 0, 1)]]
    starts, ends = entity_spans(found, ragged([[0, 4], [], [2]]), ragged([[3, 9], [], [5]], tf.int64))
    assert starts.to_list() == [[0], [], [2]]
    assert ends.to_list() == [[9], [], [5]]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "`labels` must be a non-empty list of strings. Received: labels="),
        (["O", 1], "`labels` must be a non-empty list of strings"),
        (["O", "B", "O"], r"`labels` has O more than once. Received: labels=\['O', "),
    ],
)
def test_labels_that_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        entities(ragged([[0]]), labels)


@pytest.mark.parametrize(
    ("starts", "ends", "message"),
    [
        (
            [[0], [0]],
            [[1], [1, 2]],
            r"`word_starts` has fewer words than the tags. Expected one offset per word. Received: words=\[0 1\]",
        ),
        ([[0], [0, 0]], [[], []], "word_ends"),
    ],
)
def test_offsets_of_fewer_words(starts, ends, message):
    found = entities(ragged([[1], [0, 1]]), ["O", "B"])
    with pytest.raises(ValueError, match=message):
        entity_spans(found, ragged(starts), ragged(ends))
