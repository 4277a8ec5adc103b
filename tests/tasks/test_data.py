"""A task with all its examples: a user's own tables, and what belongs to MNLI."""

import logging

import pytest

from keras_bert.tasks.classification import own_data
from keras_bert.tasks.glue import data as glue


def write(path, text):
    path.write_text(text)
    return path


def test_own_classes(tmp_path):
    train = write(tmp_path / "train.csv", "text,label\na,10\nb,9\nc,9\n")
    dev = write(tmp_path / "dev.jsonl", '{"text": "d", "label": 10}\n')
    test = write(tmp_path / "test.tsv", "id\ttext\nx\te\n")
    data = own_data("classification", train, dev, test)
    assert data.task.labels == ("9", "10")
    assert (data.task.num_classes, data.task.main_metric) == (2, "accuracy")
    assert data.train.labels == [1, 0, 0]
    assert data.dev["classification"].labels == [1]
    assert data.test["classification"].labels is None
    assert data.balance() == "9: 2 (66.7%), 10: 1 (33.3%)"


def test_own_scores(tmp_path):
    table = write(tmp_path / "all.csv", "a,b,score\nx,y,1.5\nz,w,2\n")
    data = own_data("regression", table, table, table, text="a", pair="b", label="score")
    assert (data.task.num_classes, data.task.main_metric) == (1, "spearman")
    assert data.train.pair == ["y", "w"]
    assert data.test["regression"].labels == [1.5, 2.0]
    assert data.balance() == "2 numbers from 1.5 to 2, mean 1.75"


def test_errors_of_own_data(tmp_path):
    train = write(tmp_path / "train.csv", "text,label\na,no\nb,yes\n")
    other = write(tmp_path / "other.csv", "text,label\na,maybe\n")
    for files in ((train, other), (train, train, other)):
        with pytest.raises(ValueError, match=r"other.csv:2: unknown label 'maybe'. Expected one of: 'no', 'yes'"):
            own_data("classification", *files)
    with pytest.raises(ValueError, match="`kind` must be one of classification, regression. Received: kind='tagging'"):
        own_data("tagging", "a.csv", "b.csv")


HEADER = "index\tsentence1\tsentence2"


@pytest.fixture
def mnli(tmp_path):
    for name in ("train", "dev_matched", "dev_mismatched"):
        write(tmp_path / f"{name}.tsv", f"{HEADER}\tgold_label\n0\ta\t{name}\tneutral\n")
    write(tmp_path / "test_matched.tsv", f"{HEADER}\n0\ta\ttest\n")
    return tmp_path


def test_mnli_brings_its_other_tests(mnli, caplog):
    columns = "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tPremise\tHypothesis\tLabel"
    diagnostics = write(mnli / "diagnostic-full.tsv", f"{columns}\nQuantifiers\t\tNegation\t\tp\th\tentailment\n")
    with caplog.at_level(logging.WARNING):
        data = glue.read_all(glue.TASKS["mnli"], mnli, diagnostics=diagnostics)
    pairs = {name: part.pair for name, part in data.dev.items()}
    assert pairs == {"mnli": ["dev_matched"], "mnli_mismatched": ["dev_mismatched"], "ax": ["h"]}
    assert list(data.test) == ["mnli"]
    assert "Logic: Negation" in data.categories[0]
    for name, record in zip(("mnli_mismatched", "ax"), caplog.records, strict=True):
        assert record.getMessage().endswith(f" has no test file of {name}: nothing is predicted for it")


def test_a_broken_test_file_is_an_error(mnli):
    write(mnli / "test_matched.tsv", f"{HEADER}\n0\ta\n")
    with pytest.raises(ValueError, match=r"test_matched.tsv:2: expected 3 columns, got 2"):
        glue.read_all(glue.TASKS["mnli"], mnli)
    with pytest.raises(ValueError, match=r"test_matched.tsv: no row can be read, first line 2"):
        glue.read_all(glue.TASKS["mnli"], mnli, skip_bad_rows=1)
