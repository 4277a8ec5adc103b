"""GLUE in small files of the official layout, in the real ones, and beside the published numbers."""

import sys
import types
import zipfile

import numpy as np
import pytest

import keras_bert
from keras_bert.tasks.classification import predict, score
from keras_bert.tasks.glue import data as glue
from keras_bert.tasks.glue import published as glue_published
from keras_bert.tasks.glue import submission
from keras_bert.tasks.glue.data import TASKS, read
from keras_bert.tasks.table import Examples

PARSES = "\t".join(["p"] * 7)
MNLI_HEADER = "index\tpromptID\tpairID\tgenre\tp1\tp2\tp3\tp4\tsentence1\tsentence2"
STSB_HEADER = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
MRPC_HEADER = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
# Task -> a train or dev file and a test file, two rows each: sentences "a", 'say "b', pairs "c", "d e".
OFFICIAL = {
    "cola": ('s\t1\t\ta\ns\t0\t*\tsay "b\n', 'index\tsentence\n0\ta\n1\tsay "b\n'),
    "sst2": ('sentence\tlabel\na\t1\nsay "b\t0\n', 'index\tsentence\n0\ta\n1\tsay "b\n'),
    "mrpc": (
        f'{MRPC_HEADER}\n1\t10\t11\ta\tc\n0\t12\t13\tsay "b\td e\n',
        'index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t10\t11\ta\tc\n1\t12\t13\tsay "b\td e\n',
    ),
    "stsb": (
        f'{STSB_HEADER}\tscore\n0\tg\tf\ty\to\tx\tx\ta\tc\t5.000\n1\tg\tf\ty\to\tx\tx\tsay "b\td e\t2.75\n',
        f'{STSB_HEADER}\n0\tg\tf\ty\to\tx\tx\ta\tc\n1\tg\tf\ty\to\tx\tx\tsay "b\td e\n',
    ),
    "qqp": (
        'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\ta\tc\t1\n1\t3\t4\tsay "b\td e\t0\n',
        'id\tquestion1\tquestion2\n0\ta\tc\n1\tsay "b\td e\n',
    ),
    "mnli": (
        f"{MNLI_HEADER}\tlabel1\tgold_label\n0\t{PARSES}\ta\tc\tneutral\tcontradiction\n"
        f'1\t{PARSES}\tsay "b\td e\tneutral\tentailment\n',
        f'{MNLI_HEADER}\n0\t{PARSES}\ta\tc\n1\t{PARSES}\tsay "b\td e\n',
    ),
    "qnli": (
        'index\tquestion\tsentence\tlabel\n0\ta\tc\tnot_entailment\n1\tsay "b\td e\tentailment\n',
        'index\tquestion\tsentence\n0\ta\tc\n1\tsay "b\td e\n',
    ),
    "rte": (
        'index\tsentence1\tsentence2\tlabel\n0\ta\tc\tnot_entailment\n1\tsay "b\td e\tentailment\n',
        'index\tsentence1\tsentence2\n0\ta\tc\n1\tsay "b\td e\n',
    ),
    "wnli": (
        'index\tsentence1\tsentence2\tlabel\n0\ta\tc\t1\n1\tsay "b\td e\t0\n',
        'index\tsentence1\tsentence2\n0\ta\tc\n1\tsay "b\td e\n',
    ),
    "ax": (None, 'index\tsentence1\tsentence2\n0\ta\tc\n1\tsay "b\td e\n'),
}
OFFICIAL["mnli_mismatched"] = OFFICIAL["mnli"]
FULL = (
    "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\tPremise\tHypothesis\tLabel\n"
    "\t\tNegation;Double negation\t\tNews\ta\tb\tentailment\n"
    "Quantifiers\t\tNegation\t\tNews\tc\td\tneutral\n"
    "Quantifiers\t\t\t\tNews\te\tf\tcontradiction\n"
)


def write(folder, name, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content.encode())
    return folder / name


@pytest.mark.parametrize(("nested", "line_end"), [(True, "\n"), (False, "\r\n"), (False, "\t\n")])
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_official_layout(tmp_path, task, nested, line_end):
    folder = tmp_path / task.title if nested else tmp_path
    for split, (name, *_) in task.files.items():
        write(folder, name, OFFICIAL[task.name][split == "test"].replace("\n", line_end))
        examples = read(task, tmp_path, split)
        labels = {"stsb": [5.0, 2.75], "mnli": [2, 0], "mnli_mismatched": [2, 0]}.get(task.name, [1, 0])
        pair = ["c", "d e"] if task.pair else None
        assert examples == Examples(["a", 'say "b'], pair, None if split == "test" else labels, [0, 1])


def test_tasks_are_those_of_the_server():
    files = {"CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm", "QNLI", "RTE", "WNLI", "AX"}
    assert {task.server_file for task in TASKS.values()} == {f"{name}.tsv" for name in files}
    assert {name: task.num_classes for name, task in TASKS.items() if task.num_classes != 2} == {
        "stsb": 1,
        "mnli": 3,
        "mnli_mismatched": 3,
        "ax": 3,
    }
    assert TASKS["stsb"].main_metric == "spearman"
    rows = [1063, 1821, 1725, 1379, 390965, 9796, 9847, 5463, 3000, 146, 1104]
    assert [task.test_rows for task in TASKS.values()] == rows
    assert {(task.epochs, task.batch_size) for task in TASKS.values()} == {(3, 32)}


@pytest.mark.tensorflow
def test_label_order_is_that_of_tensorflow_datasets():
    tfds = pytest.importorskip("tensorflow_datasets")
    configs = {config.name: config for config in tfds.text.Glue.BUILDER_CONFIGS}
    for task in TASKS.values():
        config = configs[task.tfds or task.name]
        assert tuple(config.label_classes or ()) == task.labels
        columns = task.tfds_columns or ((task.text, task.pair) if task.pair else (task.text,))
        assert tuple(config.text_features) == columns


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("cola", (8551, 1043, 1063)),
        ("sst2", (67349, 872, 1821)),
        ("mrpc", (3668, 408, 1725)),
        ("stsb", (5749, 1500, 1379)),
        ("wnli", (635, 71, 146)),
    ],
)
def test_real_files(data, name, rows):
    task = TASKS[name]
    train, dev, test = (read(task, data / "glue", split) for split in ("train", "dev", "test"))
    assert (len(train), len(dev), len(test)) == rows
    assert task.test_rows == rows[2]
    assert test.ids == list(range(rows[2]))
    if task.labels:
        assert np.bincount(train.labels).argmax() == task.majority
    else:
        assert np.mean(train.labels) == pytest.approx(task.majority, abs=5e-4)


def test_real_mnli(data):
    dev = read(TASKS["mnli"], data / "glue", "dev")
    assert np.bincount(dev.labels).tolist() == [3479, 3123, 3213]
    assert dev.text[0] == "The new rights are nice enough"


def test_mrpc_train_without_the_rows_of_dev(tmp_path):
    rows = f"{MRPC_HEADER}\n1\t10\t11\ta\tc\n0\t12\t13\tb\td\n"
    write(tmp_path, "msr_paraphrase_train.txt", rows)
    for split in ("train", "dev"):
        with pytest.raises(
            ValueError, match="holds train and dev together, and there is no dev.tsv. Put GLUE's dev_ids"
        ):
            read(TASKS["mrpc"], tmp_path, split)
    write(tmp_path, "dev.tsv", f"{MRPC_HEADER}\n1\t10\t11\ta\tc\n")
    assert read(TASKS["mrpc"], tmp_path, "train").text == ["b"]
    assert read(TASKS["mrpc"], tmp_path, "dev").text == ["a"]
    (tmp_path / "dev.tsv").unlink()
    write(tmp_path, "dev_ids.tsv", "12\t13\n")
    assert read(TASKS["mrpc"], tmp_path, "dev").text == ["b"]
    write(tmp_path, "dev_ids.tsv", "1\t2\n")
    with pytest.raises(ValueError, match="no rows of dev. The ids of the dev rows are those of other data"):
        read(TASKS["mrpc"], tmp_path, "dev")


def test_bad_rows(tmp_path, caplog):
    header = "index\tquestion\tsentence\tlabel"
    write(
        tmp_path, "train.tsv", f"{header}\n0\ta\tb\tentailment\n1\ta\n2\ta\tb\tc\tentailment\n3\tx\ty\tentailment\n\n"
    )
    with pytest.raises(ValueError, match=r"train\.tsv:3: expected 4 columns, got 2. Mend the file or raise"):
        read(TASKS["qnli"], tmp_path, "train")
    with pytest.raises(ValueError, match=r"train\.tsv:4: expected 4 columns, got 5"):
        read(TASKS["qnli"], tmp_path, "train", skip_bad_rows=1)
    assert read(TASKS["qnli"], tmp_path, "train", skip_bad_rows=2).ids == [0, 3]
    assert "left out 2 rows that cannot be read, first line 3" in caplog.text


def test_errors_of_files(tmp_path):
    stsb, mnli = f"{STSB_HEADER}\tscore\n0\tg\tf\ty\to\tx\tx\ta\tc\tx\n", f"{MNLI_HEADER}\tgold_label\n0\t{PARSES}"
    three = "index\tsentence1\tsentence2"
    for name, content, message in (
        ("cola", "s\t2\t\ta\n", r"train\.tsv:1: unknown label '2'. Expected one of: '0', '1'"),
        ("mnli", f"{mnli}\ta\tb\t-\n", r"train\.tsv:2: unknown label '-'.* 'entailment',"),
        ("stsb", stsb, r"train\.tsv:2: column `score` must be a finite"),
        ("rte", f"{three}\n0\ta\tb\n", r"train\.tsv:1: no column `label`. It has: 'index', 'sentence1'"),
        ("wnli", f"{three}\tlabel\nx\ta\tb\t1\n", r"train\.tsv:2: the index must be a whole number"),
        ("sst2", "sentence\tlabel\n", r"train\.tsv: no rows"),
        ("cola", "", r"train\.tsv: no rows"),
    ):
        write(tmp_path, "train.tsv", content)
        with pytest.raises(ValueError, match=message):
            read(TASKS[name], tmp_path, "train")


def test_missing_files_and_splits(tmp_path):
    with pytest.raises(ValueError, match=r"no train\.tsv of qqp: neither .*QQP.*https://gluebenchmark.com/tasks"):
        read(TASKS["qqp"], tmp_path, "train")
    with pytest.raises(ValueError, match="`split` of ax must be one of test. Received: split='dev'"):
        read(TASKS["ax"], tmp_path, "dev")
    with pytest.raises(ValueError, match=r"none\.tsv: no such file. Expected diagnostic-full"):
        glue.read_diagnostics(tmp_path / "none.tsv")


def test_diagnostics(tmp_path):
    examples, categories = glue.read_diagnostics(write(tmp_path, "diagnostic-full.tsv", FULL))
    assert (examples.text, examples.pair, examples.labels) == (["a", "c", "e"], ["b", "d", "f"], [0, 1, 2])
    assert categories[0] == ("Logic", "Logic: Negation", "Logic: Double negation")
    assert categories[1][:2] == ("Lexical Semantics", "Lexical Semantics: Quantifiers")
    scores = glue.score_diagnostics(examples.labels, np.eye(3)[[0, 1, 1]], categories)
    assert next(iter(scores)) == "all"
    # 2 of 3 right; labels one each, predictions 1, 2, 0: (3*2 - 3) / sqrt((9 - 3) * (9 - 5)).
    assert scores["all"] == pytest.approx(3 / np.sqrt(24))
    assert scores["Logic"] == scores["Logic: Negation"] == pytest.approx(1)
    assert scores["Logic: Double negation"] == scores["Lexical Semantics"] == 0


def test_scores():
    logits = np.array([[0.0, 1.0], [2.0, 1.0], [0.0, 3.0], [1.0, 2.0]])  # 1, 0, 1, 1
    assert score(TASKS["mrpc"], [1, 0, 1, 0], logits) == pytest.approx({"f1": 0.8, "accuracy": 0.75})
    assert score(TASKS["cola"], [1, 0, 1, 1], logits) == pytest.approx({"matthews_correlation": 1})
    scores = score(TASKS["stsb"], [0.0, 1.0, 4.0], np.array([[0.0], [1.0], [2.0]]))
    assert scores == pytest.approx({"spearman": 1, "pearson": 4 / np.sqrt(2 * 26 / 3)})
    assert list(scores) == ["spearman", "pearson"]


def test_wrong_logits():
    for shape in ((4,), (4, 3)):
        with pytest.raises(ValueError, match=r"`logits` must have shape \(rows, 2\). Received: shape"):
            predict(TASKS["rte"], np.zeros(shape))
    with pytest.raises(ValueError, match="`logits` must be finite. Received: NaN or infinity"):
        score(TASKS["rte"], [1], [[np.nan, 0.0]])


@pytest.mark.parametrize(("config", "expected"), [(keras_bert.BERT_BASE, "79.6"), (keras_bert.BERT_LARGE, "82.1")])
def test_the_average_of_the_paper(config, expected):
    scores = {name: {task.main_metric: 0.5} for name, task in TASKS.items() if name not in ("wnli", "ax")}
    assert f"| {expected} |" in glue_published.comparison_table(scores, config).splitlines()[-1]


def test_the_average_of_the_leaderboard():
    names = ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "mnli_mismatched", "qnli", "rte", "wnli", "ax"]
    for expected, columns in {  # Google's miniatures Mini, Small and Medium.
        65.8: "0.0 85.9 81.1,71.8 75.4,73.3 66.4,86.2 74.8 74.3 84.1 57.9 62.3 26.1",
        71.2: "27.8 89.7 83.4,76.2 78.8,77.0 68.1,87.0 77.6 77.0 86.4 61.8 62.3 28.6",
        73.5: "38.0 89.6 86.6,81.6 80.4,78.4 69.6,87.9 80.0 79.1 87.7 62.2 62.3 30.5",
    }.items():
        scores = [dict(enumerate(map(float, column.split(",")))) for column in columns.split()]
        with_wnli, without = glue_published.average(dict(zip(names, scores, strict=True)))
        assert round(with_wnli, 1) == expected
        assert without == pytest.approx((9 * with_wnli - 62.3) / 8)


def test_server_files(tmp_path):
    nli, two = ["entailment", "neutral", "contradiction"], ["entailment", "not_entailment", "entailment"]
    for name, predictions, expected in (
        ("cola", np.array([1, 0, 1]), "101"),
        ("mnli", [0, 1, 2], nli),
        ("ax", [0, 1, 2], nli),
        ("qnli", [0, 1, 0], two),
        ("rte", [0, 1, 0], two),
        ("wnli", [0, 1, 0], "010"),
        ("stsb", [-0.1, 2.71828, 7.0], ["0.000", "2.718", "5.000"]),
    ):
        path = submission.write_submission(TASKS[name], predictions, tmp_path / "out")
        assert path.name == TASKS[name].server_file
        rows = "".join(f"{index}\t{value}\n" for index, value in enumerate(expected))
        assert path.read_bytes() == f"index\tprediction\n{rows}".encode()
        reordered = submission.write_submission(TASKS[name], predictions[::-1], tmp_path / "other", ids=[2, 1, 0])
        assert reordered.read_bytes() == path.read_bytes()


def test_predictions_that_no_file_takes(tmp_path):
    with pytest.raises(ValueError, match="`predictions` of rte must be class numbers below 2. Received: 2"):
        submission.write_submission(TASKS["rte"], [0, 2], tmp_path)
    with pytest.raises(ValueError, match="`predictions` must be finite. Received: nan"):
        submission.write_submission(TASKS["stsb"], [np.nan], tmp_path)
    with pytest.raises(ValueError, match="`ids` must be as many as `predictions`. Received: 1 and 2"):
        submission.write_submission(TASKS["rte"], [0, 1], tmp_path, ids=[0])


def test_the_archive(tmp_path, caplog):
    rows = dict.fromkeys(TASKS, 3)
    present = {name: task for name, task in TASKS.items() if name not in ("qqp", "stsb", "ax", "qnli")}
    for task in present.values():
        submission.write_submission(task, [0, 1, 1], tmp_path)
    assert submission.zip_submission(tmp_path, tmp_path / "all.zip", rows) == ["stsb", "qqp", "qnli", "ax"]
    assert "filled with the majority label: stsb, qqp, qnli, ax" in caplog.text
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(files) == {task.server_file for task in TASKS.values()}
    assert files["RTE.tsv"] == "index\tprediction\n0\tentailment\n1\tnot_entailment\n2\tnot_entailment\n"
    assert files["QQP.tsv"] == "index\tprediction\n0\t0\n1\t0\n2\t0\n"
    assert files["STS-B.tsv"] == "index\tprediction\n0\t2.701\n1\t2.701\n2\t2.701\n"
    assert files["AX.tsv"].count("contradiction") == files["QNLI.tsv"].count("not_entailment") == 3


def test_the_archive_takes_no_wrong_file(tmp_path):
    for name, content, message in (
        ("rte", "index\tprediction\n0\tentailment\n", r"RTE\.tsv: expected 2 predictions, got 1"),
        ("rte", "index\tprediction\n0\tentailment\n2\tentailment\n", r"RTE\.tsv:3: expected index 1, got 2"),
        ("rte", "index\tprediction\n0\t1\n", r"RTE\.tsv:2: unknown label '1'. Expected one of: entailment, not_ent"),
        ("rte", "index\tlabel\n0\t1\n", r"RTE\.tsv:1: expected the columns index and prediction, got index, label"),
        ("rte", "", r"RTE\.tsv:1: expected the columns index and prediction"),
        ("rte", "index\tprediction\n0\n", r"RTE\.tsv:2: expected 2 columns, got 1"),
        ("stsb", "index\tprediction\n0\t5.1\n", r"STS-B\.tsv:2: expected a score from 0 to 5, got 5\.1"),
        ("stsb", "index\tprediction\n0\thigh\n", r"STS-B\.tsv:2: column `prediction` must be a finite number"),
    ):
        file = write(tmp_path, TASKS[name].server_file, content)
        with pytest.raises(ValueError, match=message):
            submission.zip_submission(tmp_path, tmp_path / "all.zip", dict.fromkeys(TASKS, 2))
        file.unlink()
    assert not (tmp_path / "all.zip").exists()


@pytest.fixture
def fake_tfds(monkeypatch):
    """TensorFlow Datasets without a network: what `load` was asked for, and what it gives."""
    fake = types.SimpleNamespace(asked=None, rows=[], names=None, as_numpy=lambda rows: rows)

    def load(name, split, with_info):
        assert with_info
        fake.asked = name, split
        return fake.rows, types.SimpleNamespace(features={"label": types.SimpleNamespace(names=fake.names)})

    fake.load = load
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", fake)
    return fake


def test_tensorflow_datasets(fake_tfds):
    fake_tfds.rows = [
        {"premise": b"b", "hypothesis": "é".encode(), "label": np.int64(2), "idx": np.int32(1)},
        {"premise": b"a", "hypothesis": b"c", "label": np.int64(0), "idx": np.int32(0)},
    ]
    fake_tfds.names = ["entailment", "neutral", "contradiction"]
    examples = glue.read_tfds(TASKS["mnli_mismatched"], "dev")
    assert fake_tfds.asked == ("glue/mnli", "validation_mismatched")
    assert (examples.text, examples.pair) == (["a", "b"], ["c", "é"])
    assert (examples.labels, examples.ids) == ([0, 2], [0, 1])
    assert glue.read_tfds(TASKS["ax"], "test").labels is None
    assert fake_tfds.asked == ("glue/ax", "test")
    fake_tfds.names = ["contradiction", "entailment", "neutral"]
    with pytest.raises(ValueError, match=r"glue/mnli numbers its labels differently: \['contradiction'"):
        glue.read_tfds(TASKS["mnli"], "train")
    fake_tfds.rows, fake_tfds.names = [{"sentence": b"a", "label": 1, "idx": 0}], ["negative", "positive"]
    assert glue.read_tfds(TASKS["sst2"], "train").pair is None
    fake_tfds.rows = [{"sentence1": b"a", "sentence2": b"b", "label": np.float32(2.5), "idx": 0}]
    assert glue.read_tfds(TASKS["stsb"], "dev").labels == [2.5]
    fake_tfds.load = lambda *_, **__: 1 / 0
    with pytest.raises(
        ValueError, match="glue/rte could not be loaded .*: division by zero. Download .* by --data_dir"
    ):
        glue.read_tfds(TASKS["rte"], "train")
