"""Files of sentences: schemes of their tags, and whether files fit together. The formats have tests of their own."""

import pytest

from keras_bert.tasks.tagging import data
from keras_bert.tasks.tagging.data import read
from tests.tasks.files import write


def test_broken_tags_are_counted_by_line(tmp_path, caplog):
    data.read(write(tmp_path / "x.txt", "a B-X\nb I-Y\n\nc I-X\nd B-Y\n"), scheme="iob2")
    assert "x.txt: 2 tag(s) break the scheme IOB2" in caplog.text
    assert "I-Y in line 2, I-X in line 4" in caplog.text


SPANS = '{"text": "a", "spans": [[0, 1, "X"]]}'


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("x.txt", "a B-X\nb I-X\nc OUT\n", {}, r"x.txt:3: the tag 'OUT' has no prefix of IOB2.*`scheme=io`"),
        ("x.txt", "a B_PER\nb I_PER\nc O\n", {}, r"x.txt: the tags 'B_PER' and 'I_PER' seem to have prefixes"),
        ("x.txt", "a O\n", {"scheme": "iob"}, "`scheme` must be one of"),
        ("x.jsonl", SPANS, {"scheme": "iob1"}, r"x.jsonl: spans have no scheme"),
        ("x.txt", "a\nb\n", {}, r"x.txt: no tags or spans"),
    ],
)
def test_mistakes_in_schemes(tmp_path, name, content, options, message):
    with pytest.raises(ValueError, match=message):
        data.read(write(tmp_path / name, content), **options)


@pytest.fixture
def words(tmp_path):
    """Two sentences of words with entities."""
    return data.read(write(tmp_path / "x.txt", "a B-X\n\nb O\n"))


def test_files_of_different_content_do_not_fit(words, tmp_path):
    """Found before training."""
    tags = data.read(write(tmp_path / "pos.txt", "a N\n\nb V\n"))
    with pytest.raises(ValueError, match="pos.txt has plain tags, but .*x.txt has words with entities"):
        data.check(words, tags)
    texts = data.read(write(tmp_path / "x.jsonl", SPANS))
    with pytest.raises(ValueError, match="x.jsonl has texts, but .*x.txt"):
        data.check(words, texts)
    with pytest.raises(ValueError, match="x.jsonl has texts, but .*x.txt"):
        data.check(words, words, texts)


def test_words_to_predict_fit_files_with_tags(words, tmp_path):
    untagged = data.read(write(tmp_path / "test.txt", "a\nb\n"), like=words, labeled=False)
    data.check(words, words, untagged)


def test_documents_are_required_for_their_context(words):
    with pytest.raises(ValueError, match="x.txt: one document. `document_context` requires"):
        data.check(words, words, document_context=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a B-X\nb O\n", "x.txt: one sentence of 2 words"),
        ("a O\n\nb O\n", "x.txt: nothing to learn. Expected at least an entity"),
        ("a N\n\nb N\n", "x.txt: nothing to learn. Expected at least two different tags"),
    ],
)
def test_training_data_that_teach_nothing(tmp_path, content, message):
    train = data.read(write(tmp_path / "x.txt", content))
    with pytest.raises(ValueError, match=message):
        data.check(train, train)


def test_official_files(data):
    """CoNLL-2003 in both schemes has the same entities, and the published numbers of them."""
    iob1 = read(data / "ner" / "conll2003_iob1/eng.testa")
    iob2 = read(data / "ner" / "conll2003_iob2/valid.txt")
    assert iob1.scheme == "iob1"
    assert iob2.scheme == "iob2"
    assert iob1.words == iob2.words
    assert iob1.entities == iob2.entities
    assert len(iob1) == 3250
    assert sum(map(len, iob1.words)) == 51362
    assert sum(map(len, iob1.entities)) == 5942
