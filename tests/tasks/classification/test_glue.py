"""GLUE in small files of the official layout and in the real files, compared with published statistics."""

import sys
import types
import zipfile

import numpy as np
import pytest

from keras_bert.tasks.classification import glue, leaderboard
from keras_bert.tasks.classification.examples import TextExamples
from keras_bert.tasks.classification.glue import TASKS, read
from tests.tasks.files import write

NLI = ["entailment", "neutral", "contradiction"]
TWO = ["entailment", "not_entailment"]
MNLI = "index,promptID,pairID,genre,p1,p2,p3,p4,sentence1,sentence2"
STSB = "index,genre,filename,year,old_index,source1,source2,sentence1,sentence2"
MRPC = "\ufeffQuality,#1 ID,#2 ID,#1 String,#2 String"
PAIR = "index,sentence1,sentence2"
# For each task: columns and fields of train and dev, labels of two rows, columns and fields of test.
# I is the index, T and P are the texts, L is the label.
OFFICIAL = {
    "cola": ("", "s,L,*,T", "10", "index,sentence", "I,T"),
    "sst2": ("sentence,label", "T,L", "10", "index,sentence", "I,T"),
    "mrpc": (MRPC, "L,10,11,T,P", "10", MRPC.replace("\ufeffQuality", "index"), "I,10,11,T,P"),
    "stsb": (f"{STSB},score", "I,g,f,y,o,x,x,T,P,L", ["5.000", "2.75"], STSB, "I,g,f,y,o,x,x,T,P"),
    "qqp": ("id,qid1,qid2,question1,question2,is_duplicate", "I,1,2,T,P,L", "10", "id,question1,question2", "I,T,P"),
    "mnli": (f"{MNLI},label1,gold_label", "I,p,p,p,p,p,p,p,T,P,neutral,L", NLI[::-2], MNLI, "I,p,p,p,p,p,p,p,T,P"),
    "qnli": ("index,question,sentence,label", "I,T,P,L", TWO[::-1], "index,question,sentence", "I,T,P"),
    "rte": (f"{PAIR},label", "I,T,P,L", TWO[::-1], PAIR, "I,T,P"),
    "wnli": (f"{PAIR},label", "I,T,P,L", "10", PAIR, "I,T,P"),
    "ax": (None, None, None, PAIR, "I,T,P"),
}
OFFICIAL["mnli_mismatched"] = OFFICIAL["mnli"]


def tabs(*rows):
    """Converts comma-separated rows to the lines of a file."""
    return "".join(row.replace(",", "\t") + "\n" for row in rows)


def official(name, split):
    """Returns the content of a file with two rows."""
    columns, fields, labels, test_columns, test_fields = OFFICIAL[name]
    if split == "test":
        columns = test_columns
        fields = test_fields
        labels = ["", ""]
    lines = []
    if columns:
        lines.append(columns)
    values = [
        {"I": "0", "T": "a", "P": "c", "L": labels[0]},
        {"I": "1", "T": 'say "b', "P": "d e", "L": labels[1]},
    ]
    for row in values:
        cells = [row.get(field, field) for field in fields.split(",")]
        lines.append(",".join(cells))
    return tabs(*lines)


FULL = (
    "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\tPremise\tHypothesis\tLabel\n"
    "\t\tNegation;Double negation\t\tNews\ta\tb\tentailment\n"
    "Quantifiers\t\tNegation\t\tNews\tc\td\tneutral\n"
    "Quantifiers\t\t\t\tNews\te\tf\tcontradiction\n"
)


# As numbers, where these are not 1 and 0.
LABELS = {"stsb": [5.0, 2.75], "mnli": [2, 0], "mnli_mismatched": [2, 0]}


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\t\n", "\n \n\n"])
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_official_layout(tmp_path, task, line_end):
    folder = tmp_path
    if line_end == "\n":  # In a folder of the task, too.
        folder = tmp_path / task.title
    pair = ["c", "d e"] if task.pair else None
    for split, (name, *_) in task.files.items():
        write(folder / name, official(task.name, split).replace("\n", line_end))
        labels = None
        if split != "test":
            labels = LABELS.get(task.name, [1, 0])
        expected = TextExamples(["a", 'say "b'], pair, labels, [0, 1])
        assert read(task, tmp_path, split) == expected


def test_tasks_match_the_server():
    rows = {"CoLA": 1063, "SST-2": 1821, "MRPC": 1725, "STS-B": 1379, "QQP": 390965, "MNLI-m": 9796, "MNLI-mm": 9847}
    rows |= {"QNLI": 5463, "RTE": 3000, "WNLI": 146, "AX": 1104}
    found = {task.server_file: task.test_rows for task in TASKS.values()}
    assert found == {f"{name}.tsv": count for name, count in rows.items()}


@pytest.mark.tensorflow
def test_label_order_matches_tensorflow_datasets():
    tfds = pytest.importorskip("tensorflow_datasets")
    configs = {config.name: config for config in tfds.text.Glue.BUILDER_CONFIGS}
    for task in TASKS.values():
        config = configs[task.tfds or task.name]
        assert tuple(config.label_classes or ()) == task.labels
        columns = task.tfds_columns
        if not columns:
            columns = tuple(filter(None, [task.text, task.pair]))
        assert tuple(config.text_features) == columns


REAL = {"cola": (8551, 1043), "sst2": (67349, 872), "mrpc": (3668, 408), "stsb": (5749, 1500), "wnli": (635, 71)}


@pytest.mark.parametrize(("name", "rows"), REAL.items())
def test_real_files(data, name, rows):
    task = TASKS[name]
    train = read(task, data / "glue", "train")
    assert (len(train), len(read(task, data / "glue", "dev"))) == rows
    assert read(task, data / "glue", "test").ids == list(range(task.test_rows))
    if task.labels:
        assert np.bincount(train.labels).argmax() == task.majority
    else:
        assert np.mean(train.labels) == pytest.approx(task.majority, abs=5e-4)


def test_mrpc_train_excludes_dev_rows(tmp_path):
    def texts(split):
        return read(TASKS["mrpc"], tmp_path, split).text

    write(tmp_path / "msr_paraphrase_train.txt", tabs(MRPC, "1,10,11,a,c", "0,12,13,b,d"))
    for split in ("train", "dev"):
        with pytest.raises(ValueError, match="contains train and dev rows together. Add GLUE's dev_ids"):
            texts(split)
    write(tmp_path / "dev.tsv", tabs(MRPC, "1,10,11,a,c"))
    assert texts("train") == ["b"]
    assert texts("dev") == ["a"]
    (tmp_path / "dev.tsv").unlink()
    write(tmp_path / "dev_ids.tsv", "12\t13\n")
    assert texts("dev") == ["b"]
    write(tmp_path / "dev_ids.tsv", "1\t2\n")
    with pytest.raises(ValueError, match="no dev rows"):
        texts("dev")


def test_bad_rows(tmp_path):
    rows = ["index,question,sentence,label", "0,a,b,entailment", "1,a", "2,a,b,c,entailment", "3,x,y,entailment", ""]
    write(tmp_path / "train.tsv", tabs(*rows))
    with pytest.raises(ValueError, match=r"train\.tsv:3: .*`skip_bad_rows=2`"):
        read(TASKS["qnli"], tmp_path, "train", skip_bad_rows=1)
    assert read(TASKS["qnli"], tmp_path, "train", skip_bad_rows=2).ids == [0, 3]


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("cola", ["s,2,,a"], r"train\.tsv:1: unknown label '2'. Expected one of: '0', '1'"),
        ("mnli", [f"{MNLI},gold_label", "0,p,p,p,p,p,p,p,a,b,-"], r"train\.tsv:2: unknown label '-'.* 'entailment',"),
        ("wnli", [f"{PAIR},label", "x,a,b,1"], r"train\.tsv:2: the index must be a whole number"),
        ("cola", [], r"train\.tsv: no rows"),
    ],
)
def test_invalid_files(tmp_path, name, rows, message):
    write(tmp_path / "train.tsv", tabs(*rows))
    with pytest.raises(ValueError, match=message):
        read(TASKS[name], tmp_path, "train")


@pytest.fixture
def mnli(tmp_path):
    for name in ("train", "dev_matched", "dev_mismatched"):
        write(tmp_path / f"{name}.tsv", tabs(f"{PAIR},gold_label", f"0,a,{name},neutral"))
    write(tmp_path / "test_matched.tsv", tabs(PAIR, "0,a,test"))
    return tmp_path


def test_mnli_includes_mismatched_and_diagnostics(mnli, caplog):
    data = glue.read_all(TASKS["mnli"], mnli, diagnostics=write(mnli / "diagnostic-full.tsv", FULL))
    pairs = {name: part.pair for name, part in data.dev.items()}
    assert pairs == {"mnli": ["dev_matched"], "mnli_mismatched": ["dev_mismatched"], "ax": ["b", "d", "f"]}
    assert list(data.test) == ["mnli"]
    assert " has no test file for mnli_mismatched, so this split is skipped" in caplog.text


def test_invalid_test_files_are_errors(mnli):
    write(mnli / "test_matched.tsv", tabs(PAIR, "0,a"))
    with pytest.raises(ValueError, match=r"test_matched.tsv:2"):
        glue.read_all(TASKS["mnli"], mnli, skip_bad_rows=1)


def test_missing_files(tmp_path):
    with pytest.raises(ValueError, match=r"no train\.tsv of qqp: neither .*QQP.*https://gluebenchmark.com/tasks"):
        read(TASKS["qqp"], tmp_path, "train")
    with pytest.raises(ValueError, match=r"none\.tsv: no such file. Expected diagnostic-full"):
        glue.read_diagnostics(tmp_path / "none.tsv")


def test_diagnostics_have_one_split(tmp_path):
    with pytest.raises(ValueError, match="`split` of ax"):
        read(TASKS["ax"], tmp_path, "dev")


def test_diagnostics(tmp_path):
    examples, categories = glue.read_diagnostics(write(tmp_path / "diagnostic-full.tsv", FULL))
    assert examples == TextExamples(["a", "c", "e"], ["b", "d", "f"], [0, 1, 2], examples.ids)
    assert categories[0] == ("Logic", "Logic: Negation", "Logic: Double negation")
    assert categories[1][:2] == ("Lexical Semantics", "Lexical Semantics: Quantifiers")
    scores = glue.score_diagnostics(examples.labels, np.eye(3)[[0, 1, 1]], categories)
    assert next(iter(scores)) == "all"
    # 2 of 3 are correct; one label each, predictions 1, 2, 0: (3*2 - 3) / sqrt((9 - 3) * (9 - 5)).
    assert scores["all"] == pytest.approx(3 / np.sqrt(24))
    assert scores["Logic"] == scores["Logic: Negation"] == pytest.approx(1)
    assert scores["Logic: Double negation"] == scores["Lexical Semantics"] == 0


def test_submission_files(tmp_path):
    two = [*TWO, "entailment"]
    for name, predictions, expected in (
        ("cola", np.array([1, 0, 1]), "101"),
        ("mnli", [0, 1, 2], NLI),
        ("ax", [0, 1, 2], NLI),
        ("qnli", [0, 1, 0], two),
        ("rte", [0, 1, 0], two),
        ("wnli", [0, 1, 0], "010"),
        ("stsb", [-0.1, 2.71828, 7.0], ["0.000", "2.718", "5.000"]),
    ):
        path = leaderboard.write_submission(TASKS[name], predictions, tmp_path / "out")
        assert path.name == TASKS[name].server_file
        rows = "".join(f"{index}\t{value}\n" for index, value in enumerate(expected))
        assert path.read_bytes() == f"index\tprediction\n{rows}".encode()
        reordered = leaderboard.write_submission(TASKS[name], predictions[::-1], tmp_path / "other", ids=[2, 1, 0])
        assert reordered.read_bytes() == path.read_bytes()
    for name, predictions, ids, message in (
        ("rte", [0, 2], None, "`predictions` of rte must be class numbers below 2. Received: 2"),
        ("stsb", [np.nan], None, "`predictions` must be finite. Received: nan"),
        ("rte", [0, 1], [0], "`ids` and `predictions` must be equally long. Received: 1 and 2"),
    ):
        with pytest.raises(ValueError, match=message):
            leaderboard.write_submission(TASKS[name], predictions, tmp_path, ids)


def test_submission_archive(tmp_path, caplog):
    rows = dict.fromkeys(TASKS, 3)
    present = {name: task for name, task in TASKS.items() if name not in ("qqp", "stsb", "ax", "qnli")}
    for task in present.values():
        leaderboard.write_submission(task, [0, 1, 1], tmp_path)
    assert leaderboard.zip_submission(tmp_path, tmp_path / "all.zip", rows) == ["stsb", "qqp", "qnli", "ax"]
    assert "filled with the majority label: stsb, qqp, qnli, ax" in caplog.text
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(files) == {task.server_file for task in TASKS.values()}
    assert files["RTE.tsv"] == "index\tprediction\n0\tentailment\n1\tnot_entailment\n2\tnot_entailment\n"
    assert files["QQP.tsv"] == "index\tprediction\n0\t0\n1\t0\n2\t0\n"
    assert files["STS-B.tsv"] == "index\tprediction\n0\t2.701\n1\t2.701\n2\t2.701\n"
    assert files["AX.tsv"].count("contradiction") == files["QNLI.tsv"].count("not_entailment") == 3


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("rte", ["index,prediction", "0,entailment"], r"RTE\.tsv: expected 2 predictions, got 1"),
        ("rte", ["index,prediction", "0,entailment", "2,entailment"], r"RTE\.tsv:3: expected index 1, got 2"),
        ("rte", ["index,prediction", "0,1"], r"RTE\.tsv:2: unknown label '1'. Expected one of: entailment, not_ent"),
        ("rte", [], r"RTE\.tsv:1: expected the columns index and prediction"),
        ("stsb", ["index,prediction", "0,5.1"], r"STS-B\.tsv:2: expected a score from 0 to 5, got 5\.1"),
    ],
)
def test_archive_rejects_invalid_files(tmp_path, name, rows, message):
    write(tmp_path / TASKS[name].server_file, tabs(*rows))
    with pytest.raises(ValueError, match=message):
        leaderboard.zip_submission(tmp_path, tmp_path / "all.zip", dict.fromkeys(TASKS, 2))
    assert not (tmp_path / "all.zip").exists()


def test_tensorflow_datasets(monkeypatch):
    """Uses a fake `load`, to run without a network."""
    asked = []

    def examples(name, split, rows, names=None, prepared=True):
        def load(*arguments, split, with_info):
            asked[:] = *arguments, split
            return rows, types.SimpleNamespace(features={"label": types.SimpleNamespace(names=names)})

        builder = types.SimpleNamespace(is_prepared=lambda: prepared)
        fake = types.SimpleNamespace(load=load, as_numpy=lambda rows: rows, builder=lambda name: builder)
        monkeypatch.setitem(sys.modules, "tensorflow_datasets", fake)
        return glue.read_tfds(TASKS[name], split)

    rows = [
        {"premise": b"b", "hypothesis": "é".encode(), "label": np.int64(2), "idx": np.int32(1)},
        {"premise": b"a", "hypothesis": b"c", "label": np.int64(0), "idx": np.int32(0)},
    ]
    assert examples("mnli_mismatched", "dev", rows, NLI) == TextExamples(["a", "b"], ["c", "é"], [0, 2], [0, 1])
    assert asked == ["glue/mnli", "validation_mismatched"]
    assert examples("ax", "test", rows, NLI).labels is None
    assert asked == ["glue/ax", "test"]
    with pytest.raises(ValueError, match=r"glue/mnli numbers its labels differently: \['contradiction'"):
        examples("mnli", "train", rows, NLI[::-1])
    assert examples("sst2", "train", [{"sentence": b"a", "label": 1, "idx": 0}], ["negative", "positive"]).pair is None
    with pytest.raises(ValueError, match="glue/rte could not be loaded .*: 'idx'. Download .* as `data_dir`"):
        examples("rte", "train", [{}])
    monkeypatch.setattr(glue, "_SOURCE", "http://localhost:9")  # Nothing listens there: one try, before any download.
    with pytest.raises(ValueError, match="could not be loaded .*, http://localhost:9: .*refused.* as `data_dir`"):
        examples("rte", "train", [], prepared=False)
