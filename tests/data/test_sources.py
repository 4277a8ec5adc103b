"""Data as other programs and the hub keep it: in files of each kind, and as data of Python."""

import gzip
import json

import pytest

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.data.formats import source  # noqa: E402
from keras_bert.data.sources import PythonRows  # noqa: E402
from keras_bert.runs import fit_data, task_choice  # noqa: E402
from keras_bert.tasks.registry import TASKS, task_named  # noqa: E402
from keras_bert.translation import data as translation  # noqa: E402
from tests.tasks.files import write  # noqa: E402

CLASSES = {"names": ["not_equivalent", "equivalent"], "_type": "ClassLabel"}
TAGS = {"feature": {"names": ["O", "B-PER"], "_type": "ClassLabel"}, "_type": "List"}
ANSWERED = {"text": ["b"], "answer_start": [2]}


def pairs(data):
    return data.train.text, data.train.pair, [data.task.labels[number] for number in data.train.labels]


def pair_layout(text, pair, **more):
    """A layout of pairs of texts with two classes, whose first row has more columns."""
    rows = [{text: "a", pair: "b", "label": 1, **more}, {text: "c", pair: "d", "label": 0}]
    return rows, {"label": CLASSES}, "classification", pairs, (["a", "c"], ["b", "d"], ["equivalent", "not_equivalent"])


def tags(data):
    return data.train.words, [[(found.type, found.start) for found in row] for row in data.train.entities]


# Rows as they are on the hub, the features of their columns, the task, and what is read.
LAYOUTS = {
    "mrpc": pair_layout("sentence1", "sentence2", idx=0),
    "qqp": pair_layout("question1", "question2"),
    "mnli": pair_layout("premise", "hypothesis"),
    "sst2": (
        [{"sentence": "a", "label": 1}, {"sentence": "c", "label": 0}],
        {"label": CLASSES},
        "classification",
        pairs,
        (["a", "c"], None, ["equivalent", "not_equivalent"]),
    ),
    "stsb": (
        [{"sentence1": "a", "sentence2": "b", "label": 4.5}, {"sentence1": "c", "sentence2": "d", "label": 0.0}],
        {},
        "regression",
        lambda data: (data.train.pair, data.train.labels),
        (["b", "d"], [4.5, 0.0]),
    ),
    "squad": (
        [
            {"id": "x", "title": "T", "context": "a b", "question": "c", "answers": ANSWERED},
            {"id": "y", "title": "T", "context": "a b", "question": "d", "answers": {"text": [], "answer_start": []}},
        ],
        {},
        "questions",
        lambda data: (data.train[0].questions, data.train[0].golds, data.train[0].spans, data.train[0].version_2),
        (["c", "d"], [["b"], []], [[(2, 3)], []], True),
    ),
    "conll": (
        [{"tokens": ["a", "b"], "ner_tags": [0, 1]}, {"tokens": ["c"], "ner_tags": [0]}],
        {"ner_tags": TAGS},
        "tagging",
        tags,
        ([["a", "b"], ["c"]], [[("PER", 1)], []]),
    ),
    "words": (
        [{"words": ["a", "b"], "ner": ["O", "B-PER"]}, {"words": ["c"], "ner": ["O"]}],
        {},
        "tagging",
        tags,
        ([["a", "b"], ["c"]], [[("PER", 1)], []]),
    ),
    "swag": (
        [
            {"startphrase": "a b", "sent1": "a", "sent2": "b", "ending0": "c", "ending1": "d", "label": 1},
            {"startphrase": "a b", "sent1": "e", "sent2": "f", "ending0": "g", "ending1": "h", "label": 0},
        ],
        {"label": {"names": ["0", "1"], "_type": "ClassLabel"}},
        "multiple_choice",
        lambda data: (data.train.text, data.train.choices, data.train.labels),
        (["a", "e"], [["b c", "b d"], ["f g", "f h"]], [1, 0]),
    ),
}


def named(rows, features):
    """Returns rows with the names of their classes."""

    def convert(name, value):
        feature = features.get(name, {})
        names = feature.get("names") or feature.get("feature", {}).get("names")
        if not names:
            return value
        return [names[part] for part in value] if isinstance(value, list) else names[value]

    return [{name: convert(name, value) for name, value in row.items()} for row in rows]


def table(rows, features):
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pyarrow.Table.from_pylist(rows).replace_schema_metadata(metadata)


NAMES = {task.name for task in TASKS}


@pytest.mark.parametrize("name", [name for name, (_, _, task, *_) in LAYOUTS.items() if task in NAMES])
def test_layouts(tmp_path, name):
    rows, features, task, read, expected = LAYOUTS[name]
    lines = "".join(json.dumps(row) + "\n" for row in named(rows, features))
    parquet.write_table(table(rows, features), tmp_path / "a.parquet")
    files = [
        tmp_path / "a.parquet",
        write(tmp_path / "a.jsonl", lines),
        write(tmp_path / "lines.json", lines),
        write(tmp_path / "a.jsonl.gz", gzip.compress(lines.encode(), mtime=0)),
        write(tmp_path / "list.json", json.dumps(named(rows, features), indent=1)),
        write(tmp_path / "data.json", json.dumps({"version": "1", "data": named(rows, features)})),
    ]
    cls = task_named(task)
    for path in files:
        origin = source(path)
        data = cls.rows.read(origin, origin, cls.Settings())
        assert read(data) == expected, path
        assert task_choice.infer_rows([row for _, row in origin.values]) is cls
    for given in (named(rows, features), iter(named(rows, features)), table(rows, features)):
        data = fit_data.read_data(given, None, None, None, None, 1)
        assert data.task is cls
        assert read(cls.rows.read(data.train, data.dev, cls.Settings())) == expected


def test_translations(tmp_path):
    """The layout of the hub's data sets of translations, in which each row has both sides."""
    rows = [{"id": "0", "translation": {"en": "a", "ro": "x\ny"}}, {"translation": {"en": "b", "ro": "z"}}]
    lines = "".join(json.dumps({"translation": row["translation"]}) + "\n" for row in rows)
    parquet.write_table(table(rows, {"translation": {"languages": ["en", "ro"]}}), tmp_path / "a.parquet")
    given = [tmp_path / "a.parquet", write(tmp_path / "a.jsonl", json.dumps(rows[0]) + "\n" + json.dumps(rows[1]))]
    given += [write(tmp_path / "a.json.gz", gzip.compress(lines.encode())), write(tmp_path / "a.txt", lines)]
    given += [write(tmp_path / "b.json", json.dumps(rows)), PythonRows("texts", rows)]
    for origin in given:
        pairs = translation.read(origin)
        assert (pairs.sources, pairs.targets, len(pairs)) == (["a", "b"], ["x y", "z"], 2)
        assert pairs.fingerprint() == translation.read(given[0]).fingerprint()
        back = translation.read(origin, languages=["ro", "en"])
        assert (back.sources, back.targets) == (pairs.targets, pairs.sources)
        with back.files() as files:
            assert [path.read_text() for path in files] == ["x y\nz\n", "a\nb\n"]
    with pytest.raises(ValueError, match="a.jsonl: its rows have the translations. Expected no other file"):
        translation.read(tmp_path / "a.jsonl", tmp_path / "a.txt")
    with pytest.raises(ValueError, match=r"a.jsonl:1: `translation` must be a dict with texts of en and de. Received"):
        translation.read(tmp_path / "a.jsonl", languages=["en", "de"])
    with pytest.raises(ValueError, match=r"`languages` must be two, .* Received: \['en'\] for "):
        translation.read(tmp_path / "a.jsonl", languages=["en"])
    with pytest.raises(ValueError, match=r"texts\[0\]: no column `translation`. It has: 'en'"):
        translation.read(PythonRows("texts", [{"en": "a"}]))
    with pytest.raises(ValueError, match=r'`languages` are those of rows such as {"translation": {"en": ...}}. '):
        translation.read(write(tmp_path / "c.txt", "[a]\n"), languages=["en", "ro"])


@pytest.mark.skipif("tagging" not in NAMES, reason="no such task")
def test_numbers_of_tags_with_names(tmp_path):
    """The names may be given; without any, the error says so."""
    path = write(
        tmp_path / "a.jsonl", '{"tokens": ["a", "b"], "ner_tags": [0, 1]}\n{"tokens": ["c"], "ner_tags": [0]}\n'
    )
    cls = task_named("tagging")
    data = cls.rows.read(source(path), source(path), cls.Settings(labels=["O", "B-PER"]))
    assert [len(row) for row in data.train.entities] == [1, 0]
    with pytest.raises(ValueError, match="a.jsonl:1: `ner_tags` must be names of tags, .* their names in `labels`"):
        cls.rows.read(source(path), source(path), cls.Settings())
    with pytest.raises(ValueError, match=r"a.jsonl:1: `ner_tags` must be from 0 to 0, as `labels` say. Received: 1"):
        cls.rows.read(source(path), source(path), cls.Settings(labels=["O"]))


def test_another_column_of_labels_and_validation():
    rows = [{"sentence": "a", "stars": 1}, {"sentence": "b", "stars": 2}] * 5
    data = fit_data.read_data(iter(rows), "stars", None, iter(rows[:4]), None, 1)
    assert (data.task.name, len(data.train.values), len(data.dev.values)) == ("classification", 10, 4)
    data = fit_data.read_data(table(rows, {}), "stars", None, None, 0.2, 1)
    assert (len(data.train.values), len(data.dev.values)) == (8, 2)
    with pytest.raises(ValueError, match="the rows have no column 'star'. They have: 'sentence', 'stars'"):
        fit_data.read_data(table(rows, {}), "star", None, None, None, 1)


def test_rows_that_others_convert():
    origin = PythonRows("texts", [{"a": 1}, {"a": 2}]).mapped(lambda place, row: {"b": (place, row["a"])})
    assert [row for _, row in origin.rows(["b"])] == [{"b": ("texts[0]", 1)}, {"b": ("texts[1]", 2)}]
    (_, error), _ = PythonRows("texts", [{"a": 1}, {}]).mapped(lambda place, row: int("x")).rows()
    assert isinstance(error, ValueError)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.parquet", "a,b", "a.parquet: not Parquet, whose files start with PAR1. Received: b'a,b'"),
        ("a.json", "", "a.json: JSON that cannot be read: Expecting value"),
        ("a.json", '{"a": 1', "a.json: JSON that cannot be read: Expecting ',' delimiter"),
        ("a.json", "3", "a.json:1: expected one JSON object per line. Received: 3"),
        ("a.jsonl", '{"a": 1\n', "a.jsonl:1: not JSON: Expecting ',' delimiter at column 8"),
        ("a.json", '{"a": 1}\n{"a":', "a.json:2: not JSON: Expecting value at column 6"),
        ("a.xlsx", "PK", "a.xlsx: the name must end in .csv, .tsv, .jsonl, .ndjson, .json, .parquet"),
    ],
)
def test_mistakes(tmp_path, name, content, message):
    def read():
        errors = [row for _, row in source(write(tmp_path / name, content)).rows(["a"]) if isinstance(row, ValueError)]
        raise errors[0]

    with pytest.raises(ValueError, match=message) as error:
        read()
    assert "\n" not in str(error.value)


def test_lists_in_lines_and_tables_in_gzip(tmp_path):
    listed = source(write(tmp_path / "a.jsonl", '[{"a": 1},\n{"a": 2}]'))
    assert listed.rows(["a"]) == [(1, {"a": 1}), (2, {"a": 2})]
    for name, text in (("a.csv.gz", "a;b\nx;y\n"), ("a.tsv.gz", "a\tb\nx\ty\n")):
        path = write(tmp_path / name, gzip.compress(text.encode(), mtime=0))
        assert source(path).rows(["a"]) == [(2, {"a": "x", "b": "y"})]
