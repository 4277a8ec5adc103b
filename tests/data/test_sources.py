"""Data as other programs and the hub keep it: in files of each kind, and as data of Python."""

import gzip
import json
from collections.abc import Callable
from typing import NamedTuple

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
    labels = [data.task.labels[number] for number in data.train.labels]
    return data.train.text, data.train.pair, labels


def pair_layout(text, pair, **more):
    """A layout of pairs of texts with two classes, whose first row has more columns."""
    return Layout(
        rows=[{text: "a", pair: "b", "label": 1, **more}, {text: "c", pair: "d", "label": 0}],
        features={"label": CLASSES},
        task="classification",
        read=pairs,
        expected=(["a", "c"], ["b", "d"], ["equivalent", "not_equivalent"]),
    )


def tags(data):
    entities = []
    for row in data.train.entities:
        entities.append([(found.type, found.start) for found in row])
    return data.train.words, entities


def questions(data):
    (train,) = data.train
    return train.questions, train.golds, train.spans, train.version_2


class Layout(NamedTuple):
    """Rows as they are on the hub, the features of their columns, the task, and what is read."""

    rows: list
    features: dict
    task: str
    read: Callable
    expected: tuple


LAYOUTS = {
    "mrpc": pair_layout("sentence1", "sentence2", idx=0),
    "qqp": pair_layout("question1", "question2"),
    "mnli": pair_layout("premise", "hypothesis"),
    "sst2": Layout(
        rows=[{"sentence": "a", "label": 1}, {"sentence": "c", "label": 0}],
        features={"label": CLASSES},
        task="classification",
        read=pairs,
        expected=(["a", "c"], None, ["equivalent", "not_equivalent"]),
    ),
    "stsb": Layout(
        rows=[
            {"sentence1": "a", "sentence2": "b", "label": 4.5},
            {"sentence1": "c", "sentence2": "d", "label": 0.0},
        ],
        features={},
        task="regression",
        read=lambda data: (data.train.pair, data.train.labels),
        expected=(["b", "d"], [4.5, 0.0]),
    ),
    "squad": Layout(
        rows=[
            {"id": "x", "title": "T", "context": "a b", "question": "c", "answers": ANSWERED},
            {"id": "y", "title": "T", "context": "a b", "question": "d", "answers": {"text": [], "answer_start": []}},
        ],
        features={},
        task="questions",
        read=questions,
        expected=(["c", "d"], [["b"], []], [[(2, 3)], []], True),
    ),
    "conll": Layout(
        rows=[{"tokens": ["a", "b"], "ner_tags": [0, 1]}, {"tokens": ["c"], "ner_tags": [0]}],
        features={"ner_tags": TAGS},
        task="tagging",
        read=tags,
        expected=([["a", "b"], ["c"]], [[("PER", 1)], []]),
    ),
    "words": Layout(
        rows=[{"words": ["a", "b"], "ner": ["O", "B-PER"]}, {"words": ["c"], "ner": ["O"]}],
        features={},
        task="tagging",
        read=tags,
        expected=([["a", "b"], ["c"]], [[("PER", 1)], []]),
    ),
    "swag": Layout(
        rows=[
            {"startphrase": "a b", "sent1": "a", "sent2": "b", "ending0": "c", "ending1": "d", "label": 1},
            {"startphrase": "a b", "sent1": "e", "sent2": "f", "ending0": "g", "ending1": "h", "label": 0},
        ],
        features={"label": {"names": ["0", "1"], "_type": "ClassLabel"}},
        task="multiple_choice",
        read=lambda data: (data.train.text, data.train.choices, data.train.labels),
        expected=(["a", "e"], [["b c", "b d"], ["f g", "f h"]], [1, 0]),
    ),
}


def with_names(feature, value):
    """Returns the name of a class, or those of a list of classes; other values stay as they are."""
    names = feature.get("names") or feature.get("feature", {}).get("names")
    if not names:
        return value
    if isinstance(value, list):
        return [names[part] for part in value]
    return names[value]


def named(rows, features):
    """Returns rows with the names of their classes."""
    found = []
    for row in rows:
        found.append({name: with_names(features.get(name, {}), value) for name, value in row.items()})
    return found


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def table(rows, features):
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pyarrow.Table.from_pylist(rows).replace_schema_metadata(metadata)


NAMES = {task.name for task in TASKS}


LAYOUTS = {name: layout for name, layout in LAYOUTS.items() if layout.task in NAMES}


def write_form(form, layout, folder):
    """Writes the rows of a layout; returns the path."""
    if form == "parquet":
        parquet.write_table(table(layout.rows, layout.features), folder / "a.parquet")
        return folder / "a.parquet"
    rows = named(layout.rows, layout.features)
    if form == "lines":
        return write(folder / "a.jsonl", json_lines(rows))
    if form == "lines of another name":
        return write(folder / "lines.json", json_lines(rows))
    if form == "gzip":
        return write(folder / "a.jsonl.gz", gzip.compress(json_lines(rows).encode(), mtime=0))
    if form == "list":
        return write(folder / "list.json", json.dumps(rows, indent=1))
    return write(folder / "data.json", json.dumps({"version": "1", "data": rows}))


@pytest.mark.parametrize("form", ["parquet", "lines", "lines of another name", "gzip", "list", "object"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_files_of_each_layout(tmp_path, name, form):
    layout = LAYOUTS[name]
    cls = task_named(layout.task)
    origin = source(write_form(form, layout, tmp_path))
    data = cls.rows.read(origin, origin, cls.Settings())
    assert layout.read(data) == layout.expected
    assert task_choice.infer_rows([row for _, row in origin.values]) is cls


@pytest.mark.parametrize("form", [list, iter, table])
@pytest.mark.parametrize("name", LAYOUTS)
def test_python_data_of_each_layout(name, form):
    layout = LAYOUTS[name]
    if form is table:
        given = table(layout.rows, layout.features)
    else:
        given = form(named(layout.rows, layout.features))
    data = fit_data.read_data(given, None, None, None, None, 1)
    cls = task_named(layout.task)
    assert data.task is cls
    assert layout.read(cls.rows.read(data.train, data.dev, cls.Settings())) == layout.expected


TRANSLATED = [{"id": "0", "translation": {"en": "a", "ro": "x\ny"}}, {"translation": {"en": "b", "ro": "z"}}]


@pytest.fixture
def translated(tmp_path):
    """The layout of the hub's data sets of translations, in which each row has both sides, in all forms."""
    rows = [{"translation": row["translation"]} for row in TRANSLATED]
    features = {"translation": {"languages": ["en", "ro"]}}
    parquet.write_table(table(TRANSLATED, features), tmp_path / "a.parquet")
    return [
        tmp_path / "a.parquet",
        write(tmp_path / "a.jsonl", json_lines(TRANSLATED)),
        write(tmp_path / "a.json.gz", gzip.compress(json_lines(rows).encode())),
        write(tmp_path / "a.txt", json_lines(rows)),
        write(tmp_path / "b.json", json.dumps(TRANSLATED)),
        PythonRows("texts", TRANSLATED),
    ]


def test_translations(translated):
    fingerprints = set()
    for origin in translated:
        pairs = translation.read(origin)
        assert pairs.sources == ["a", "b"]
        assert pairs.targets == ["x y", "z"]
        assert len(pairs) == 2
        fingerprints.add(pairs.fingerprint())
    assert len(fingerprints) == 1


def test_translations_from_the_second_language(translated):
    for origin in translated:
        back = translation.read(origin, languages=["ro", "en"])
        assert back.sources == ["x y", "z"]
        assert back.targets == ["a", "b"]
        with back.files() as files:
            assert [path.read_text() for path in files] == ["x y\nz\n", "a\nb\n"]


def test_mistakes_of_translations(tmp_path):
    path = write(tmp_path / "a.jsonl", json_lines(TRANSLATED))
    with pytest.raises(ValueError, match="a.jsonl: its rows have the translations. Expected no other file"):
        translation.read(path, tmp_path / "a.txt")
    with pytest.raises(ValueError, match=r"a.jsonl:1: `translation` must be a dict with texts of en and de. Received"):
        translation.read(path, languages=["en", "de"])
    with pytest.raises(ValueError, match=r"`languages` must be two, .* Received: \['en'\] for "):
        translation.read(path, languages=["en"])
    with pytest.raises(ValueError, match=r"texts\[0\]: no column `translation`. It has: 'en'"):
        translation.read(PythonRows("texts", [{"en": "a"}]))
    with pytest.raises(ValueError, match="languages"):
        translation.read(write(tmp_path / "c.txt", "[a]\n"), languages=["en", "ro"])


@pytest.mark.skipif("tagging" not in NAMES, reason="no such task")
def test_numbers_of_tags_with_names(tmp_path):
    """The names may be given; without any, the error says so."""
    path = write(tmp_path / "a.jsonl", json_lines(LAYOUTS["conll"].rows))
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
    assert data.task.name == "classification"
    assert len(data.train.values) == 10
    assert len(data.dev.values) == 4


def test_a_share_of_the_rows_for_validation():
    rows = [{"sentence": "a", "stars": 1}, {"sentence": "b", "stars": 2}] * 5
    data = fit_data.read_data(table(rows, {}), "stars", None, None, 0.2, 1)
    assert len(data.train.values) == 8
    assert len(data.dev.values) == 2
    with pytest.raises(ValueError, match="the rows have no column 'star'. They have: 'sentence', 'stars'"):
        fit_data.read_data(table(rows, {}), "star", None, None, None, 1)


def test_rows_that_others_convert():
    origin = PythonRows("texts", [{"a": 1}, {"a": 2}]).mapped(lambda place, row: {"b": (place, row["a"])})
    assert [row for _, row in origin.rows(["b"])] == [{"b": ("texts[0]", 1)}, {"b": ("texts[1]", 2)}]


def test_rows_that_others_cannot_convert():
    (_, error), _ = PythonRows("texts", [{"a": 1}, {}]).mapped(lambda place, row: int("x")).rows()
    assert isinstance(error, ValueError)
