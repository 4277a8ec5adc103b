"""Readers of CoNLL and JSONL: every form gives the same entities, and every mistake names its line."""

import json

import pytest

from keras_bert.tasks.tagging import data
from keras_bert.tasks.tagging.data import read
from keras_bert.tasks.tagging.schemes import EntitySpan
from tests.tasks.files import write

CONLL = "-DOCSTART- -X- O\n\nAda N B-PER\nLove N I-PER\n# N O\n\n-DOCSTART- -X- O\n\nParis N B-LOC\n"
TEXT = "é Ada  Lovelace,\U0001f600 Paris"
SPANS = [(2, 15, "PER"), (18, 23, "LOC")]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("plain.txt", CONLL, {}),
        # Blank lines end a sentence.
        ("blank.conll", "\ufeff\n \n" + CONLL.replace("\n\n", "\n\t\n \n\n").replace("\n", "\r\n"), {}),
        ("tabs.tsv", "Ada\tN\tB-PER\nLove\tN\tI-PER\n#\tN\tO\n \t \nParis\tN\tB-LOC", {}),
        ("first.txt", "I-PER Ada\nI-PER Love\nO #\n\nI-LOC Paris\n", {"word_column": "2", "tag_column": "1"}),
        ("named.csv", 'tag,word\nS-LOC,"x"\n', {"word_column": "word", "tag_column": "tag"}),
        (
            "global.conll",
            "# global.columns = ID FORM NER MISC\n# text = Ada\n1\tAda\tB-PER\t_\n2\tLove\tL-PER\t_\n3\t#\tO\t_\n"
            "\n# id x domain=y\n1\tParis\tU-LOC\t_\n",
            {"word_column": "FORM", "tag_column": "NER"},
        ),
        ("bars.txt", "Ada|B-PER\nLove|E-PER\n#|O\n\nParis|S-LOC\n", {"separator": "bar"}),
        ("words.tsv", "Ada\tB-PER\nLove\tI-PER\n#\tO\n\n# a comment\n\n# Paris\tx\nParis\tB-LOC\n", {}),
        ("names.csv", 'token,ner\nAda,PER\nLove,PER\n#,O\n"",\nParis,LOC\n'.replace('"",', ""), {}),
        (
            "ud.conllu",
            "# text_en = Hi you\n1-2\tx\t_\n1\tAda\tPER\n2\tLove\tPER\n3\t#\tO\n\n1\tParis\tLOC\n",
            {"word_column": "2"},
        ),
        # The first cells are no numbers of words, and the tag of "#" occurs only after a word.
        ("lemmas.txt", "3.5 Ada PER\na-b Love PER\n# # HT\n\n# x y\n-1 Paris LOC\n", {"word_column": "2"}),
        ("quoted.csv", '"-DOCSTART-","O"\n\nAda,B-PER\nLove,I-PER\n#,O\n\n\ufeff-DOCSTART-,O\n\nParis,B-LOC\n', {}),
    ],
)
def test_conll_files(tmp_path, name, content, options):
    found = data.read(write(tmp_path / name, content), **options)
    if name == "named.csv":
        assert (found.words, found.entities) == ([["x"]], [[EntitySpan("LOC", 0, 1)]])
        return
    assert found.words == [["Ada", "Love", "#"], ["Paris"]]
    if name == "lemmas.txt":
        assert found.tags == [["PER", "PER", "HT"], ["LOC"]]
        return
    assert found.entities == [[EntitySpan("PER", 0, 2)], [EntitySpan("LOC", 0, 1)]]
    assert len(set(found.documents)) == (2 if "DOCSTART" in content else 1)


def test_predictions_are_one_more_column(tmp_path):
    found = data.read(write(tmp_path / "iob1.txt", CONLL.replace("B-", "I-")))
    assert (found.scheme, found.lines) == ("iob1", [3, 9])
    found.write(tmp_path / "out.txt", [[EntitySpan("LOC", 0, 1), EntitySpan("LOC", 1, 3)], []])
    assert (tmp_path / "out.txt").read_text() == (
        "-DOCSTART- -X- O O\n\nAda N I-PER I-LOC\nLove N I-PER B-LOC\n# N O I-LOC\n\n"
        "-DOCSTART- -X- O O\n\nParis N I-LOC O\n"
    )
    found = data.read(write(tmp_path / "x.csv", 'word,tag\n"New York",B-a\n#x,"B-b,c"\n'))
    assert found.words == [["New York", "#x"]]
    found.write(tmp_path / "out.csv", found.entities)
    assert (tmp_path / "out.csv").read_text() == ('word,tag,predicted\n"New York",B-a,B-a\n#x,"B-b,c","B-b,c"\n')


DICTS = [{"start": start, "end": end, "label": kind} for start, end, kind in SPANS]
OFFSETS = [{"start_offset": start, "end_offset": end, "label": kind} for start, end, kind in SPANS[::-1]]
REGIONS = [{"value": {"start": start, "end": end, "labels": [kind]}} for start, end, kind in SPANS]
RECORDS = {
    "doccano": {"text": TEXT, "label": [list(span) for span in SPANS]},
    "spaCy's documents": {"tokens": [{"text": "x"}], "text": TEXT, "ents": DICTS},
    "Prodigy": {"text": TEXT, "spans": [{"start": 1, "end": 15, "label": "PER"}, {**DICTS[1], "label": " LOC"}]},
    "doccano with relations": {"text": TEXT, "entities": OFFSETS},
    "spaCy": [TEXT, {"entities": SPANS}],
    "Label Studio": {"data": {"text": TEXT}, "annotations": [{"result": REGIONS}]},
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_spans(tmp_path, record):
    found = data.read(write(tmp_path / "x.jsonl", json.dumps(record) + "\n \n\n" + json.dumps({"text": ""}) + "\n"))
    assert (found.texts, found.lines) == ([TEXT, ""], [1, 4])
    assert found.entities == [[EntitySpan(kind, start, end) for start, end, kind in SPANS], []]
    assert data.read(write(tmp_path / "x.json", json.dumps([record]))).entities == found.entities[:1]
    found.write(tmp_path / "out.jsonl", [found.entities[0], []])
    first, second = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    first = first[1] if isinstance(first, list) else first
    assert (len(first["predicted"]), second) == (2, {"text": "", "predicted": []})
    data.read(tmp_path / "x.json").write(tmp_path / "out.json", found.entities[:1])
    assert len(json.loads((tmp_path / "out.json").read_text())) == 1
    again = data.read(tmp_path / "out.jsonl", tag_column="predicted")
    assert again.entities == found.entities


def test_tokens_and_tags(tmp_path):
    rows = [{"tokens": ["Ada", "x"], "ner_tags": ["U-PER", "O"], "id": 7}, {"tokens": ["y"], "ner_tags": ["O"]}]
    path = write(tmp_path / "x.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = data.read(path)
    assert (found.scheme, found.entities) == ("bilou", [[EntitySpan("PER", 0, 1)], []])
    found.write(tmp_path / "out.jsonl", [[EntitySpan("PER", 0, 2)], []])
    first = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert first == {**rows[0], "predicted": ["B-PER", "L-PER"]}


def test_files_without_tags_and_plain_tags(tmp_path):
    train = data.read(write(tmp_path / "pos.txt", "Ada NN\nis VB\n"))
    assert (train.scheme, train.tags, train.entities) == ("words", [["NN", "VB"]], None)
    assert data.read(write(tmp_path / "dev.txt", "oh O\n"), like=train).tags == [["O"]]
    found = data.read(write(tmp_path / "test.txt", "Ada\nx\n\ny\n"), like=train, labeled=False)
    assert (found.words, found.is_labeled) == ([["Ada", "x"], ["y"]], False)
    found.write(tmp_path / "out.txt", [["NN", "VB"], ["O"]])
    assert (tmp_path / "out.txt").read_text() == "Ada NN\nx VB\n\ny O\n"
    for words in (",", "1,000", "a;b", "|"):
        assert data.read(write(tmp_path / "x.txt", f"{words}\nb\n"), like=train, labeled=False).words == [[words, "b"]]
    for like in (write(tmp_path / "named.tsv", "word\ttag\na b\tX\n"), write(tmp_path / "tabs.tsv", "a b\tX\nc\tX\n")):
        like = data.read(like)
        named = {"word_column": "word", "tag_column": "tag"} if like.names else {}
        content = f"{'word' if named else '# id 1'}\nAda\n\n# id 2\nx y\n"
        for text in (content, content.partition("\n")[2]):
            found = data.read(write(tmp_path / "x.txt", text), like=like, labeled=False, **named)
            assert found.words == [["Ada"], ["x y"]]


def test_a_file_like_another_one_has_its_separator(tmp_path):
    """As a whole: a word may contain a part of it."""
    train = data.read(write(tmp_path / "train.txt", "Ada::B-PER\nis::O\n"), separator="::")
    found = data.read(write(tmp_path / "dev.txt", "a:b::O\nc::B-PER\n"), like=train)
    assert found.words == [["a:b", "c"]]
    assert found.entities == [[EntitySpan("PER", 1, 2)]]


def test_hashtags_are_words_and_doubtful_lines_are_reported(tmp_path, caplog):
    found = data.read(
        write(tmp_path / "x.txt", "#win HT\n#now HT\nyes UH\n\n# a b\nsee V\n#win HT\n\n#z rare\n#now V\n")
    )
    assert found.words == [["#win", "#now", "yes"], ["see", "#win"], ["#now"]]
    assert "x.txt: 1 line(s) that start with # have all columns, but a tag of no other word" in caplog.text
    assert "the first is line 9" in caplog.text
    assert data.read(write(tmp_path / "x.txt", "#x B-E\ny I-E\n\n#z I-F\n")).words == [["#x", "y"], ["#z"]]


def test_broken_tags_are_counted_by_line(tmp_path, caplog):
    data.read(write(tmp_path / "x.txt", "a B-X\nb I-Y\n\nc I-X\nd B-Y\n"), scheme="iob2")
    assert "x.txt: 2 tag(s) break the scheme IOB2 and are read as conlleval does: I-Y in line 2, I-X in line 4" in (
        caplog.text
    )


BYTES = '{"text": "é ab", "spans": [{"start": 3, "end": 4, "text": "a", "label": "X"}]}'
TWO_KEYS = '{"text": "a", "label": [[0, 1, "X"]]}\n{"text": "a", "spans": [[0, 1, "X"]]}'


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("x.txt", "a B-X\nb I-X O\nc O\n", {}, r"x.txt:2: expected 2 columns, like most lines. Received: 3"),
        ("x.txt", "a B-X\nb I-X\nc OUT\n", {}, r"x.txt:3: the tag 'OUT' has no prefix of IOB2.*`scheme=io`"),
        ("x.txt", "a\tB-X\n\tO\n", {}, r"x.txt:2: the word is empty"),
        ("x.txt", "a\tB-X\nb\t\n", {}, r"x.txt:2: the tag is empty. Expected O"),
        ("x.txt", "a O\n", {"tag_column": "3"}, r"x.txt: `tag_column` must be from 1 to 2.*Received: 3"),
        ("x.txt", "w t\na O\n", {"tag_column": "ner"}, r"x.txt: no column `ner`. It has: w, t"),
        ("x.txt", "a b t t\na b O O\n", {"tag_column": "t"}, r"x.txt: 2 columns are named `t`. Give its number"),
        ("x.txt", "w a b t\na b O\nb c O\n", {"tag_column": "t"}, r"x.txt: `t` is column 4, but most lines have"),
        ("x.txt", "a B_PER\nb I_PER\nc O\n", {}, r"x.txt: the tags 'B_PER' and 'I_PER' seem to have prefixes"),
        ("x.json", '[{"data": {"text": "a"}, "annotations": [12]}]', {}, r"x.json:1: `annotations` must be a list"),
        ("x.ndjson", '{"text": "a", "label": [], "label": []}', {}, r"x.ndjson:1: .*the key 'label' occurs twice"),
        ("x.txt", "a O\n", {"tag_column": "1"}, r"x.txt: words and tags are in the same column, 1 of 2"),
        ("x.jsonl", '{"text": "ab", "spans": [[0, 2, "X"], [1, 2, "Y"]]}', {}, r"x.jsonl:1: overlapping spans: X"),
        ("x.jsonl", '{"text": "ab"}\n{"text": "ab", "spans": [[1, 3, "X"]]}', {}, r"x.jsonl:2: the span 1 to 3 is"),
        ("x.jsonl", '{"text": "ab", "spans": [[1, "X"]]}', {}, r"x.jsonl:1: a span must be \[start, end, label\]"),
        ("x.jsonl", '{"text": "a b", "spans": [[1, 2, "X"]]}', {}, r"x.jsonl:1: the span 1 to 2 contains only white"),
        ("x.jsonl", BYTES, {}, r"x.jsonl:1: the span 3 to 4 is 'b', not 'a'. Expected offsets in characters"),
        ("x.jsonl", '{"tokens": ["a", "b"], "tags": ["O"]}', {}, r"x.jsonl:1: expected a tag for each of 2 words"),
        ("x.jsonl", '{"tokens": ["a"], "tags": [3]}', {}, r"x.jsonl:1: `tags` must be names of tags, such as B-PER"),
        ("x.jsonl", '{"words": "a"}\nx', {}, r"x.jsonl:2: not JSON"),
        ("x.jsonl", '{"sentence": "a"}', {}, r"x.jsonl:1: expected the key `tokens` with `tags`, or `text` with spans"),
        ("x.jsonl", '{"text": "a", "x": []}', {"tag_column": "y"}, r"x.jsonl: no tags or spans `y`. It has: 'text',"),
        (
            "x.jsonl",
            TWO_KEYS,
            {},
            r"x.jsonl:1: spans in `label`, but in `spans` elsewhere. Choose one with `tag_column`",
        ),
        ("x.jsonl", '{"text": "a", "spans": [], "answer": "reject"}', {}, r"x.jsonl:1: the answer is 'reject'"),
        ("x.jsonl", '{"text": "a"}', {"scheme": "iob1"}, r"x.jsonl: spans have no scheme"),
    ],
)
def test_mistakes(tmp_path, name, content, options, message):
    with pytest.raises(ValueError, match=message):
        data.read(write(tmp_path / name, content), **options)


def test_files_that_do_not_fit(tmp_path):
    """Found before training."""
    words, plain = write(tmp_path / "x.txt", "a B-X\n\nb O\n"), write(tmp_path / "pos.txt", "a N\n\nb V\n")
    texts = write(tmp_path / "x.jsonl", '{"text": "a", "spans": [[0, 1, "X"]]}')
    found = {path.name: data.read(path) for path in (words, plain, texts)}
    for second, message in (
        ("pos.txt", "pos.txt has plain tags, but .*x.txt has words with entities. Expected the same"),
        ("x.jsonl", "x.jsonl has texts, but .*x.txt has words with entities"),
    ):
        with pytest.raises(ValueError, match=message):
            data.check(found["x.txt"], found[second])
    with pytest.raises(ValueError, match="x.txt: one document. `document_context` requires a CoNLL file with -DOC"):
        data.check(found["x.txt"], found["x.txt"], document_context=True)
    with pytest.raises(ValueError, match="x.txt: one sentence of 2 words. Expected several, with blank lines"):
        data.check(data.read(write(words, "a B-X\nb O\n")), found["x.txt"])
    with pytest.raises(ValueError, match="x.txt: nothing to learn. Expected at least an entity"):
        data.check(data.read(write(words, "a O\n\nb O\n")), found["x.txt"])


def test_official_files(data):
    """CoNLL-2003 in both schemes has the same entities, and the published numbers of them."""
    iob1, iob2 = (read(data / "ner" / name) for name in ("conll2003_iob1/eng.testa", "conll2003_iob2/valid.txt"))
    assert (iob1.scheme, iob2.scheme) == ("iob1", "iob2")
    assert (iob1.words, iob1.entities) == (iob2.words, iob2.entities)
    assert (len(iob1), sum(map(len, iob1.words)), sum(map(len, iob1.entities))) == (3250, 51362, 5942)
