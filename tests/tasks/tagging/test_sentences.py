"""What sentences of all formats have in common."""

import dataclasses

import pytest

from keras_bert.data.sources import PythonRows
from keras_bert.tasks.tagging.schemes import PLAIN, EntitySpan
from keras_bert.tasks.tagging.sentences import Sentences


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kept(Sentences):
    """Sentences whose file is a list in memory."""

    written: list

    def write_tags(self, path, predicted):
        self.written.extend(predicted)


def sentences(**fields):
    return Kept(origin=PythonRows("texts", []), lines=[1, 4], documents=[0, 0], written=[], **fields)


WORDS = [["Ada", "Love"], ["x"]]
ENTITIES = [[EntitySpan("PER", 0, 2)], []]


def test_types_are_those_of_entities_or_plain_tags():
    assert sentences(words=WORDS, entities=ENTITIES).types() == [["PER"], []]
    assert sentences(words=WORDS, tags=[["N", "N"], ["V"]], scheme=PLAIN).types() == [["N", "N"], ["V"]]


def test_words_without_tags_are_not_labeled():
    assert not sentences(words=WORDS).is_labeled
    assert sentences(words=WORDS, entities=[[], []]).is_labeled
    assert sentences(words=WORDS, tags=[["N", "N"], ["V"]]).is_labeled


@pytest.mark.parametrize(
    ("scheme", "tags"), [("iob2", [["B-PER", "I-PER"], ["O"]]), ("bilou", [["B-PER", "L-PER"], ["O"]])]
)
def test_entities_are_written_as_tags_of_the_scheme(tmp_path, scheme, tags):
    found = sentences(words=WORDS, entities=ENTITIES, scheme=scheme)
    found.write(tmp_path / "out.txt", ENTITIES)
    assert found.written == tags


def test_plain_tags_and_spans_of_texts_are_written_as_they_are(tmp_path):
    tags = [["N", "V"], ["V"]]
    found = sentences(words=WORDS, tags=tags, scheme=PLAIN)
    found.write(tmp_path / "out.txt", tags)
    assert found.written == tags
    found = sentences(texts=["Ada", "x"], entities=ENTITIES)
    found.write(tmp_path / "out.jsonl", ENTITIES)
    assert found.written == ENTITIES


def test_a_fingerprint_changes_with_words_entities_and_documents():
    first = sentences(words=WORDS, entities=ENTITIES)
    others = [
        sentences(words=[["Ada", "Love"], ["y"]], entities=ENTITIES),
        sentences(words=WORDS, entities=[[], []]),
        dataclasses.replace(first, documents=[0, 1]),
    ]
    fingerprints = {first.fingerprint()}
    fingerprints.update(other.fingerprint() for other in others)
    assert len(fingerprints) == 4
    assert dataclasses.replace(first, lines=[2, 5]).fingerprint() == first.fingerprint()
