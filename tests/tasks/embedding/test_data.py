"""Files of sentence encoders: which kind they are, and mistakes in them."""

import json

import numpy as np
import pytest

from keras_bert.data.splits import Folds
from keras_bert.tasks.embedding.data import EmbeddingExamples, read
from tests.tasks.files import write

QAS = [{"id": id, "question": id + "?", "answers": [{"text": "cat", "answer_start": 2}]} for id in ("x", "y")]
SQUAD = json.dumps({"data": [{"title": "t", "paragraphs": [{"context": "A cat.", "qas": QAS}]}]})
NLI = "premise\thypothesis\tlabel\np\tyes\tentailment\np\tno\tcontradiction\np\tmaybe\tneutral\n"
NLI += "p\tnever\tcontradiction\nq\tsure\tEntailment\nr\tno\tcontradiction\np\tyes\tcontradiction\n"
LISTS = '{"query": "e", "passage": "f"}\n{"query": "a", "passage": "b", "negatives": ["c", "", "d"]}\n'
LISTS += '{"query": "g", "passage": "h", "negatives": null}\n'
LATE = '{"query": "a", "passage": "b", "negative": "c"}\n'
LATE += '{"query": "d", "passage": "e", "negative": "f", "negative2": "g"}\n'
CONTEXTS = '{"question": "q", "context": "c"}\n{"question": "r", "context": "c"}\n'
STS = "sentence1\tsentence2\tscore\nA b.\tC d.\t5.0\nE.\tF.\t1.25\n"
NUMBERED = "anchor,positive,negative2,negative1\na,b,z,y\nc,d,,x\n"
# Name, content, kind, queries, passages and scores.
FILES = [
    ("sts.tsv", STS, "scored", ["A b.", "E."], [["C d."], ["F."]], [1.0, 0.25]),
    ("semicolons.csv", "query;passage;score\na, b;c;0\nd;e;1\n", "scored", ["a, b", "d"], [["c"], ["e"]], [0.0, 1.0]),
    ("tabs.csv", "query\tpassage\tnegative\na\tb\tc\n", "triplets", ["a"], [["b", "c"]], None),
    ("faq.csv", "question,answer\na,b\n", "pairs", ["a"], [["b"]], None),
    ("pairs.jsonl", CONTEXTS, "pairs", ["q", "r"], [["c"], ["c"]], None),
    ("triplets.csv", NUMBERED, "triplets", ["a", "c"], [["b", "y", "z"], ["d", "x"]], None),
    ("lists.jsonl", LISTS, "triplets", ["e", "a", "g"], [["f"], ["b", "c", "d"], ["h"]], None),
    ("late.jsonl", LATE, "triplets", ["a", "d"], [["b", "c"], ["e", "f", "g"]], None),
    ("nli.tsv", NLI, "triplets", ["p", "q"], [["yes", "no", "never"], ["sure"]], None),
    ("numbers.csv", "premise,hypothesis,label\np,yes,0.0\np,no,2.0\n", "triplets", ["p"], [["yes", "no"]], None),
    ("squad.json", SQUAD, "pairs", ["x?", "y?"], [["A cat."], ["A cat."]], None),
]
BAD = [
    ("a.csv", "sentence1,sentence2,score\na,b,7\n", {}, "scores from 7 to 7. Expected 0 to 1 or 0 to 5"),
    ("a.csv", "sentence1,sentence2,score\na,b,7\n", {"score_range": (1, 5)}, "a.csv:2: column `score` must be between"),
    ("a.csv", "sentence1,sentence2,score\na,b,x\n", {}, "a.csv:2: column `score` must be a finite number"),
    ("a.csv", "query,passage\na, \n", {}, "a.csv:2: column `passage` is empty"),
    ("a.csv", "text,other\na,b\n", {}, "a.csv:1: no column `passage`. It has: 'text', 'other'. Name another one with"),
    ("a.csv", "premise,hypothesis,label\na,b,yes\n", {}, "a.csv:2: column `label` must be entailment, neutral or"),
    ("a.csv", "premise,hypothesis,label\na,b,neutral\n", {}, "no rows with the label entailment"),
    ("a.jsonl", '{"query": "a", "passage": "b", "negatives": [1]}', {}, "column `negatives` must be a text or a list"),
    ("a.jsonl", '{"query": "a", "passage": "b"}\n{"score": 1}', {}, "a.jsonl:1: no column `score`"),
    ("a.jsonl", '{"query": "a", "passage": "b", "score": null}', {}, "a.jsonl:1: column `score` must be a finite"),
    ("a.csv", "query,passage,negative,score\na,b,c,1\n", {}, "a.csv:1: the columns `score` and `negative` exclude"),
    ("a.csv", "sentence1,sentence2,label\na,b,1\nc,d,0\n", {}, "column `label` has only 0 and 1. In NLI, 0 is entailm"),
]


@pytest.mark.parametrize(("name", "content", "kind", "queries", "passages", "scores"), FILES)
def test_the_columns_tell_what_a_file_is(tmp_path, name, content, kind, queries, passages, scores):
    examples = read(write(tmp_path / name, content))
    assert (examples.kind, examples.queries, examples.passages, examples.scores) == (kind, queries, passages, scores)
    assert examples.unused == (2 if name == "nli.tsv" else 0)  # The neutral row, and the premise that entails nothing.
    assert len(examples.first(1)) == 1
    assert examples.first(1).fingerprint() != examples.fingerprint() or len(examples) == 1


def test_columns_and_ranges_by_name(tmp_path):
    path = write(tmp_path / "a.csv", "left,right,how\na,b,-1\nc,d,1\n")
    examples = read(path, "left", "right", "how", (-1, 1))
    assert (examples.kind, examples.scores, examples.score_range) == ("scored", [0.0, 1.0], (-1, 1))


@pytest.mark.parametrize(("name", "content", "options", "message"), BAD)
def test_mistakes(tmp_path, name, content, options, message):
    with pytest.raises(ValueError) as error:
        read(write(tmp_path / name, content), **options)
    assert message in str(error.value)


def test_bad_rows_are_skipped_and_counted(tmp_path):
    path = write(tmp_path / "a.csv", "query,passage\na,b\n,c\n")
    examples = read(path, skip_bad_rows=1)
    assert (examples.queries, examples.skipped) == (["a"], 1)


def test_official_sts(data):
    examples = read(data / "glue" / "STS-B" / "dev.tsv")
    assert (examples.kind, len(examples), examples.score_range) == ("scored", 1500, (0.0, 5.0))
    assert examples.scores[:2] == [1.0, 0.95]
    assert np.mean(examples.scores) == pytest.approx(0.4728, abs=1e-3)


def test_rows_that_share_a_text_are_in_one_fold():
    """A query or a right passage, also by way of other rows; wrong passages do not count."""
    queries = ["a", "b", "c", "d", "e", "x"]
    rights = ["u", "v", "v", "a", "w", "x"]
    rows = EmbeddingExamples("triplets", queries, [[right, "n"] for right in rights])
    assert rows.groups() == [0, 1, 1, 0, 2, 3]
    folds = Folds(3).assign(rows, 1)
    assert folds[0] == folds[3]
    assert folds[1] == folds[2]
    with pytest.raises(ValueError, match="different groups of rows that share a text, 4: expected fewer folds"):
        Folds(5).assign(rows, 1)
    scored = EmbeddingExamples("scored", list("abc"), [["d"], ["e"], ["f"]], [0.0, 0.5, 1.0])
    with pytest.raises(ValueError, match="a fold of one row has no correlation"):
        Folds(2).assign(scored, 1)
