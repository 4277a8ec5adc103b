"""Tag schemes, by a hand-made table and compared with the TensorFlow version of conlleval's rules."""

import numpy as np
import pytest

from keras_bert.tasks.tagging import metrics, schemes
from keras_bert.tasks.tagging.schemes import EntitySpan

FOUND = [EntitySpan("PER", 0, 2), EntitySpan("LOC", 3, 4), EntitySpan("LOC", 4, 7), EntitySpan("PER", 7, 8)]
TAGS = {
    "iob1": "I-PER I-PER O I-LOC B-LOC I-LOC I-LOC I-PER",
    "iob2": "B-PER I-PER O B-LOC B-LOC I-LOC I-LOC B-PER",
    "iobes": "B-PER E-PER O S-LOC B-LOC I-LOC E-LOC S-PER",
    "bilou": "B-PER L-PER O U-LOC B-LOC I-LOC L-LOC U-PER",
    "bmes": "B-PER E-PER O S-LOC B-LOC M-LOC E-LOC S-PER",
    "io": "PER PER O LOC LOC LOC LOC PER",
}


@pytest.mark.parametrize("scheme", TAGS)
def test_tags_and_entities(scheme):
    tags = TAGS[scheme].split()
    assert schemes.to_tags(FOUND, 8, scheme) == tags
    assert schemes.recognize([["O"], tags]) == scheme
    assert schemes.violations(tags, scheme) == []
    adjacent = [EntitySpan("PER", 0, 2), EntitySpan("LOC", 3, 7), EntitySpan("PER", 7, 8)]
    assert schemes.entities(tags, scheme) == (adjacent if scheme == "io" else FOUND)


@pytest.mark.parametrize(
    ("tags", "scheme", "broken"),
    [
        ("B-X O I-X O B-X", "iob2", [2]),
        ("I-X O B-X I-X O I-X", "iob1", [2]),
        ("B-X I-X E-X S-X O E-X", "iobes", [5]),
        ("U-X I-X L-X O", "bilou", [1]),  # "I" starts an entity; it should be B.
        ("B-X S-X E-Y", "iobes", [0, 2]),
        ("B I O B", "iob2", []),  # Without types.
        ("O O", "iob2", []),
        ("DT NN VB", "words", []),
        ("N S V B E", "words", []),  # Parts of speech of one letter.
    ],
)
def test_recognition_and_violations(tags, scheme, broken):
    tags = tags.split()
    assert schemes.recognize([tags]) == scheme
    if scheme != "words":
        assert schemes.violations(tags, scheme) == broken


@pytest.mark.tensorflow
def test_any_tags_are_read_as_in_the_exported_model():
    """Random tags, most of them illegal, give the entities of `text.entities`."""
    import tensorflow as tf

    from keras_bert.text.entities import entities

    labels = ["O", "B", "I"]
    for prefix in "BIELMSU":
        labels.extend([f"{prefix}-X", f"{prefix}-Y"])
    ids = np.random.default_rng(0).integers(0, len(labels), (300, 8))
    expected = entities(tf.RaggedTensor.from_tensor(ids), labels)
    rows = zip(*(part.to_list() for part in expected), strict=True)
    for sentence, row in zip(ids, rows, strict=True):
        found = schemes.entities([labels[index] for index in sentence])
        assert found == [EntitySpan(kind.decode(), start, end) for kind, start, end in zip(*row, strict=True)]


def test_scores():
    """Two of three predictions are right, of four entities: precision 2/3, recall 1/2, F1 4/7."""
    golds = [FOUND, []]
    predictions = [[FOUND[0], EntitySpan("LOC", 3, 7), FOUND[3]], []]
    assert metrics.entity_scores(golds, predictions) == {"f1": 4 / 7, "precision": 2 / 3, "recall": 1 / 2}
    assert metrics.score_types(golds, predictions)[::2] == [("LOC", 0, 0, 0, 2, 1), ("all", 2 / 3, 1 / 2, 4 / 7, 4, 3)]
    assert metrics.entity_scores([[]], [[]]) == {"f1": 0.0, "precision": 0.0, "recall": 0.0}
    # Sentences have equal places: the same entity in another sentence is no hit.
    assert metrics.entity_scores([[FOUND[0]], []], [[], [FOUND[0]]])["f1"] == 0.0
    assert metrics.word_scores([["a", "b"], ["a"]], [["a", "a"], ["a"]]) == {"accuracy": 2 / 3, "macro_f1": 0.4}
