"""Tags and entities, compared with plain loops over conlleval's rules."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.text.entities import entities, entity_spans  # noqa: E402

TYPES = ["PER", "LOC", "creative-work"]
SCHEMES = {
    "IOB": ["O", *(f"{prefix}-{kind}" for kind in TYPES for prefix in "BI")],
    "IOBES": ["O", *(f"{prefix}-{kind}" for kind in TYPES for prefix in "BIES")],
    "BILOU": [*(f"{prefix}-{kind}" for kind in TYPES for prefix in "BILU"), "O"],
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
    found, start = [], None
    before, before_type = "O", ""
    for word, label in enumerate([*sentence, "O"]):
        tag, _, kind = label.partition("-")
        if start is not None and ends_chunk(before, before_type, tag, kind):
            found.append((before_type, start, word))
            start = None
        if starts_chunk(before, before_type, tag, kind):
            start = word
        before, before_type = tag, kind
    return found


def listed(found):
    """Converts `Entities` to [[(type, start, end)]]."""
    assert (found.type.dtype, found.start.dtype, found.end.dtype) == (tf.string, tf.int32, tf.int32)
    rows = zip(*(field.to_list() for field in found), strict=True)
    return [[(kind.decode(), start, end) for kind, start, end in zip(*row, strict=True)] for row in rows]


def read(*sentences):
    """Returns the entities of sentences such as "B-PER I-PER O"."""
    sentences = [sentence.split() for sentence in sentences]
    labels = sorted({label for sentence in sentences for label in sentence})
    return listed(entities(ragged([[labels.index(label) for label in sentence] for sentence in sentences]), labels))


def ragged(rows):
    return tf.ragged.constant(rows, tf.int32, ragged_rank=1)


MAX = [("PER", 0, 2), ("PER", 2, 3), ("LOC", 4, 5)]


@pytest.mark.parametrize(
    ("sentences", "expected"),
    [
        (["B-PER I-PER B-PER O B-LOC"], [MAX]),
        # Labels without a prefix or without a type.
        (["PER PER LOC O geo-loc"], [[("PER", 0, 2), ("LOC", 2, 3), ("geo-loc", 4, 5)]]),
        (["B I B O I"], [[("", 0, 2), ("", 2, 3), ("", 4, 5)]]),
        (["PER I-PER"], [[("PER", 0, 2)]]),
        (["P L L O S"], [[("P", 0, 1), ("L", 1, 3), ("S", 4, 5)]]),  # Types, not prefixes.
    ],
)
def test_entities_of_known_tags(sentences, expected):
    assert read(*sentences) == expected


@pytest.mark.parametrize("scheme", SCHEMES)
def test_entities_equal_reference_loop(scheme):
    labels, rng = SCHEMES[scheme], np.random.default_rng(0)
    tags = [rng.integers(0, len(labels), rng.integers(0, 15)).tolist() for _ in range(600)]
    expected = [slow_entities([labels[tag] for tag in sentence]) for sentence in tags]
    assert listed(entities(ragged(tags), labels)) == expected


def test_no_words():
    for rows in ([], [[]], [[], []]):
        found = entities(ragged(rows), ["O", "B-PER"])
        assert listed(found) == rows
        starts, ends = entity_spans(found, ragged(rows), ragged(rows))
        assert starts.to_list() == ends.to_list() == rows


def test_integer_types_of_row_splits_and_tags():
    for dtype in (tf.int32, tf.int64):
        tags = tf.ragged.constant([[1, 2], [], [2]], dtype, row_splits_dtype=dtype)
        found = entities(tags, ["O", "B-PER", "I-PER"])
        assert listed(found) == [[("PER", 0, 2)], [], [("PER", 0, 1)]]
        starts, ends = entity_spans(found, ragged([[0, 4], [], [2]]), tf.ragged.constant([[3, 9], [], [5]], tf.int64))
        assert (starts.to_list(), ends.to_list()) == ([[0], [], [2]], [[9], [], [5]])


def two():
    return entities(ragged([[1], [0, 1]]), ["O", "B"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: entities(ragged([[0]]), []), "`labels` must be a non-empty list of strings. Received: labels="),
        (lambda: entities(ragged([[0]]), ["O", 1]), "`labels` must be a non-empty list of strings"),
        (lambda: entities(ragged([[0]]), ["O", "B", "O"]), r"`labels` has O more than once. Received: labels=\['O', "),
        (
            lambda: entity_spans(two(), ragged([[0], [0]]), ragged([[1], [1, 2]])),
            r"`word_starts` has fewer words than the tags. Expected one offset per word. Received: words=\[0 1\]",
        ),
        (
            lambda: entity_spans(two(), ragged([[0], [0, 0]]), ragged([[], []])),
            "`word_ends` has fewer words than the tags. Expected one offset per word. Received: words=",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
