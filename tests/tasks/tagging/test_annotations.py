"""Rows of JSON with words and tags, or texts and spans, in the forms of several programs, and mistakes in them."""

import json

import pytest

from keras_bert.tasks.tagging import data
from keras_bert.tasks.tagging.schemes import EntitySpan
from tests.tasks.files import write

TEXT = "é Ada  Lovelace,\U0001f600 Paris"
ENTITIES = [EntitySpan("PER", 2, 15), EntitySpan("LOC", 18, 23)]
LISTS = [[2, 15, "PER"], [18, 23, "LOC"]]
DICTS = [{"start": 2, "end": 15, "label": "PER"}, {"start": 18, "end": 23, "label": "LOC"}]
OFFSETS = [
    {"start_offset": 18, "end_offset": 23, "label": "LOC"},
    {"start_offset": 2, "end_offset": 15, "label": "PER"},
]
# With white space at the start of a span, and in a name.
PRODIGY = [{"start": 1, "end": 15, "label": "PER"}, {"start": 18, "end": 23, "label": " LOC"}]
REGIONS = [
    {"value": {"start": 2, "end": 15, "labels": ["PER"]}},
    {"value": {"start": 18, "end": 23, "labels": ["LOC"]}},
]
RECORDS = {
    "doccano": {"text": TEXT, "label": LISTS},
    "spaCy's documents": {"tokens": [{"text": "x"}], "text": TEXT, "ents": DICTS},
    "Prodigy": {"text": TEXT, "spans": PRODIGY},
    "doccano with relations": {"text": TEXT, "entities": OFFSETS},
    "spaCy": [TEXT, {"entities": LISTS}],
    "Label Studio": {"data": {"text": TEXT}, "annotations": [{"result": REGIONS}]},
}


def lines_of(*rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_spans(tmp_path, record):
    path = write(tmp_path / "x.jsonl", lines_of(record) + " \n\n" + lines_of({"text": ""}))
    found = data.read(path)
    assert found.texts == [TEXT, ""]
    assert found.lines == [1, 4]
    assert found.entities == [ENTITIES, []]


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_predicted_spans_are_one_more_key(tmp_path, record):
    found = data.read(write(tmp_path / "x.jsonl", lines_of(record, {"text": ""})))
    found.write(tmp_path / "out.jsonl", [ENTITIES, []])
    first, second = read_lines(tmp_path / "out.jsonl")
    fields = first[1] if isinstance(first, list) else first
    assert len(fields["predicted"]) == 2
    assert second == {"text": "", "predicted": []}
    again = data.read(tmp_path / "out.jsonl", tag_column="predicted")
    assert again.entities == [ENTITIES, []]


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_a_list_of_rows(tmp_path, record):
    found = data.read(write(tmp_path / "x.json", json.dumps([record])))
    assert found.entities == [ENTITIES]
    found.write(tmp_path / "out.json", found.entities)
    assert len(json.loads((tmp_path / "out.json").read_text())) == 1


def test_tokens_and_tags(tmp_path):
    first = {"tokens": ["Ada", "x"], "ner_tags": ["U-PER", "O"], "id": 7}
    second = {"tokens": ["y"], "ner_tags": ["O"]}
    found = data.read(write(tmp_path / "x.jsonl", lines_of(first, second)))
    assert found.scheme == "bilou"
    assert found.entities == [[EntitySpan("PER", 0, 1)], []]
    found.write(tmp_path / "out.jsonl", [[EntitySpan("PER", 0, 2)], []])
    written = read_lines(tmp_path / "out.jsonl")[0]
    assert written == {"tokens": ["Ada", "x"], "ner_tags": ["U-PER", "O"], "id": 7, "predicted": ["B-PER", "L-PER"]}


def test_numbered_tags_have_names(tmp_path):
    path = write(tmp_path / "x.jsonl", lines_of({"tokens": ["Ada", "x"], "ner_tags": [1, 0]}))
    found = data.read(path, labels=["O", "B-PER"])
    assert found.entities == [[EntitySpan("PER", 0, 1)]]
    with pytest.raises(ValueError, match="x.jsonl:1: `ner_tags` must be from 0 to 0"):
        data.read(path, labels=["O"])


def test_texts_without_the_key_of_the_spans_have_none(tmp_path, caplog):
    path = write(tmp_path / "x.jsonl", lines_of({"text": "ab", "spans": [[0, 1, "X"]]}, {"text": "c"}))
    assert data.read(path).entities == [[EntitySpan("X", 0, 1)], []]
    assert "1 of 2 text(s) have no `spans`" in caplog.text


BYTES = {"text": "é ab", "spans": [{"start": 3, "end": 4, "text": "a", "label": "X"}]}
OVERLAPPING = {"text": "ab", "spans": [[0, 2, "X"], [1, 2, "Y"]]}
OUTSIDE = {"text": "ab", "spans": [[1, 3, "X"]]}
STUDIO = {"data": {"text": "a"}, "annotations": [12]}
TWO = {"data": {"text": "a"}, "annotations": [{"result": []}, {"result": []}]}
OF_LABEL = {"text": "a", "label": [[0, 1, "X"]]}
OF_SPANS = {"text": "a", "spans": [[0, 1, "X"]]}
# Rows, options, and what tells the mistake.
MISTAKES = [
    ([OVERLAPPING], {}, r"x.jsonl:1: overlapping spans: X 'ab' at 0 and Y"),
    ([{"text": "ab"}, OUTSIDE], {}, r"x.jsonl:2: the span 1 to 3 is not within"),
    ([{"text": "ab", "spans": [[1, "X"]]}], {}, r"x.jsonl:1: a span must be \[start, end, label\]"),
    ([{"text": "a b", "spans": [[1, 2, "X"]]}], {}, r"x.jsonl:1: the span 1 to 2 contains only white"),
    ([BYTES], {}, r"x.jsonl:1: the span 3 to 4 is 'b', not 'a'"),
    ([{"tokens": ["a", "b"], "tags": ["O"]}], {}, r"x.jsonl:1: expected a tag for each of 2 words"),
    ([{"tokens": ["a"], "tags": [3]}], {}, r"x.jsonl:1: `tags` must be names of tags"),
    ([{"tokens": ["a"], "tags": [""]}], {}, r"x.jsonl:1: `tags` must be a list of strings"),
    ([{"sentence": "a"}], {}, r"x.jsonl:1: expected the key `tokens`"),
    ([{"text": "a", "x": []}], {"tag_column": "y"}, r"x.jsonl: no tags or spans `y`"),
    ([OF_LABEL, OF_SPANS], {}, r"x.jsonl:1: spans in `label`, but in `spans` elsewhere"),
    ([{"text": "a", "spans": [], "answer": "reject"}], {}, r"x.jsonl:1: the answer is 'reject'"),
    ([STUDIO], {}, r"x.jsonl:1: `annotations` must be a list"),
    ([TWO], {}, r"x.jsonl:1: 2 annotations of one text"),
    ([3], {}, r"x.jsonl:1: expected an object"),
]


@pytest.mark.parametrize(("rows", "options", "message"), MISTAKES)
def test_mistakes(tmp_path, rows, options, message):
    with pytest.raises(ValueError, match=message):
        data.read(write(tmp_path / "x.jsonl", lines_of(*rows)), **options)


def test_invalid_json(tmp_path):
    with pytest.raises(ValueError, match=r"x.jsonl:2: not JSON"):
        data.read(write(tmp_path / "x.jsonl", '{"words": "a"}\nx'))
    with pytest.raises(ValueError, match=r"x.ndjson:1: .*the key 'label' occurs twice"):
        data.read(write(tmp_path / "x.ndjson", '{"text": "a", "label": [], "label": []}'))
