"""Flags that several commands share: `--validation_split`, which draws the rows that `fit` draws; messages."""

import json
import shlex

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from keras_bert.runs import fit_data
from pipelines import run_glue, run_tagging
from pipelines.arguments import help_page
from tests.pipelines.programs import flags_of, mistake, parsed

COUNT = 20
SHARE = 0.25
SEED = 3
TAGS = [["B-PER", "O"], ["O", "B-LOC"]]
LABELLED = [{"text": f"text {n}", "label": ("good", "bad")[n % 2]} for n in range(COUNT)]
SCORED = [{"text": f"text {n}", "label": n / 10} for n in range(COUNT)]
CHOICES = [{"text": f"text {n}", "choices": [f"a {n}", f"b {n}"], "label": n % 2} for n in range(COUNT)]
PAIRS = [{"query": f"query {n}", "passage": f"passage {n}"} for n in range(COUNT)]
SENTENCES = [{"tokens": ["Ada", f"word{n}"], "tags": TAGS[n % 2]} for n in range(COUNT)]
ANSWERS = {"text": ["Ada"], "answer_start": [0]}
QUESTIONS = [
    {"id": f"id {n}", "question": f"who {n}?", "context": f"Ada {n}.", "answers": ANSWERS} for n in range(COUNT)
]
# The command, its rows, and the texts of what it has read.
COMMANDS = {
    "classification": ("run_glue", LABELLED, lambda rows: rows.text),
    "regression": ("run_glue", SCORED, lambda rows: rows.text),
    "multiple_choice": ("run_multiple_choice", CHOICES, lambda rows: [first for first, _ in rows.choices]),
    "embedding": ("run_embedding", PAIRS, lambda rows: rows.queries),
    "tagging": ("run_tagging", SENTENCES, lambda rows: [words[1] for words in rows.words]),
    "questions": ("run_squad", QUESTIONS, lambda rows: rows.questions),
}


def read_by(command, folder, **changes):
    """Returns the data that a command reads."""
    flags = {"train_file": folder / "train.jsonl", "model": "bert_tiny_books", "output_dir": folder / "out"}
    flags |= {"validation_split": SHARE, "seed": f"{SEED},4"}
    arguments = parsed(f"pipelines.{command}", *flags_of(flags, **changes))[1]
    arguments.check_conditions()
    return arguments.data[0] if command == "run_glue" else arguments.data


def texts_of(data, read):
    """Returns the texts to train on, and those to select on."""
    train = data.train[0] if isinstance(data.train, list) else data.train
    dev = next(iter(data.dev.values())) if isinstance(data.dev, dict) else data.dev
    return list(read(train)), list(read(dev))


@pytest.mark.parametrize("task", COMMANDS)
def test_the_split_is_that_of_fit(task, tmp_path):
    """Of several seeds, the first one draws. Only the rows that are left to train on are limited in number."""
    command, rows, read = COMMANDS[task]
    (tmp_path / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    flags = {"task": task} if command == "run_glue" else {}
    train, dev = texts_of(read_by(command, tmp_path, **flags), read)
    expected = fit_data.read_data(rows, None, task, None, SHARE, SEED)
    settings = expected.task.Settings()
    assert (train, dev) == texts_of(expected.task.rows.read(expected.train, expected.dev, settings), read)
    drawn = sorted(np.random.default_rng(SEED).permutation(COUNT)[:5].tolist())
    assert [int("".join(filter(str.isdigit, text))) for text in dev] == drawn
    assert len({*train, *dev}) == COUNT
    assert texts_of(read_by(command, tmp_path, **flags, max_train_examples=4), read) == (train[:4], dev)


CONLL = "\n".join(f"Ada {TAGS[n % 2][0]}\nword{n} {TAGS[n % 2][1]}\n" for n in range(COUNT))
CSV = "text,label\n" + "".join(f"a text,{label}\n" for label in "aaaaabbbbb") + "a text,once\n"
MISTAKES = [
    ("run_glue", {"dev_file": "dev.csv"}, "^--validation_split: not with --dev_file. Received: both"),
    ("run_glue", {"folds": 5}, "^--validation_split: not with --folds. Received: both"),
    ("run_glue", {"validation_split": 20}, "^--validation_split must be a number from 0 to 1. Received: --valid"),
    ("run_glue", {"validation_split": 0.01}, "`validation_split` must be a fraction .* Received: 0.01 of 11 rows"),
    ("run_glue", {"validation_split": None}, "either --dev_file, --validation_split=0.1 or --folds=5 for cross-val"),
    ("run_glue", {"seed": 5}, "train.csv: all rows with the label 'once' are drawn by `validation_split`. Expected"),
    ("run_glue", {"task": "clasification"}, "^--task must be one or more of .* Did you mean classification[?]$"),
    ("run_glue", {"task": "mrcp"}, "^--task must be .* Received: --task=mrcp. Did you mean mrpc[?]$"),
    ("run_tagging", {"validation_split": None}, "^--dev_file is required: File to select the best run on; or --valid"),
    ("run_tagging", {"document_context": True}, "--validation_split: not with --document_context, which reads sent"),
    (
        "run_squad",
        {"train_file": "a.jsonl,b.jsonl"},
        "^--validation_split: only with one --train_file. Received: a.jsonl,b.jsonl",
    ),
]


@pytest.mark.parametrize(("command", "flags", "message"), MISTAKES)
def test_mistakes(command, flags, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.csv").write_text(CSV)
    for name in "ab":
        row = {**QUESTIONS[0], "id": name}
        (tmp_path / f"{name}.jsonl").write_text(f"{json.dumps(row)}\n")
    given = {"train_file": "train.csv"} | ({"task": "classification"} if command == "run_glue" else {})
    with pytest.raises(ValueError, match=message):
        read_by(command, tmp_path, **given | flags)


def test_sentences_of_conll(tmp_path):
    (tmp_path / "train.conll").write_text(CONLL)
    data = read_by("run_tagging", tmp_path, train_file=tmp_path / "train.conll")
    drawn = sorted(np.random.default_rng(SEED).permutation(COUNT)[:5].tolist())
    assert [words[1] for words in data.dev.words] == [f"word{number}" for number in drawn]
    assert len(data.train) == 15


def test_predictions_for_the_sentences_that_are_drawn(tmp_path):
    """In the form of the file, without the others."""
    rows = [{**row, "id": number} for number, row in enumerate(SENTENCES)]
    (tmp_path / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "train.conll").write_text(CONLL)
    found = {}
    for name in ("train.jsonl", "train.conll"):
        dev = read_by("run_tagging", tmp_path, train_file=tmp_path / name).dev
        dev.write(tmp_path / f"predicted_{name}", dev.entities)
        found[name] = (tmp_path / f"predicted_{name}").read_text()
    drawn = sorted(np.random.default_rng(SEED).permutation(COUNT)[:5].tolist())
    lines = [json.loads(line) for line in found["train.jsonl"].splitlines()]
    assert lines == [{**rows[number], "predicted": rows[number]["tags"]} for number in drawn]
    words = [line.split() for line in found["train.conll"].splitlines()]
    assert [cells[0] for cells in words if cells and cells[0] != "Ada"] == [f"word{number}" for number in drawn]
    assert all(cells[-1] == cells[-2] for cells in words if cells)


@pytest.mark.parametrize("command", [run_glue, run_tagging])
def test_the_flag_is_among_those_of_data(command):
    sections = help_page("", command.Arguments, "").split("\n\n")
    assert next(text for text in sections if "--validation_split=" in text).strip().startswith("data:\n")


@pytest.mark.parametrize("column", ["Kommentar (frei)", "it's a text", "text"])
def test_a_flag_that_a_message_proposes_can_be_pasted(column, tmp_path):
    """Into a shell, with the name of a column of the user's."""
    (tmp_path / "train.csv").write_text(f"{column},label\na,0\nb,1\n")
    flags = flags_of({"task": "classification", "train_file": tmp_path / "train.csv", "output_dir": tmp_path / "out"})
    flags += [f"--text_column={column[:-1].upper()}", "--validation_split=0.5", "--model=bert_tiny_books"]
    proposed = mistake("pipelines.run_glue", *flags).partition("Did you mean ")[2].removesuffix("?")
    assert shlex.split(proposed) == [f"--text_column={column}"]


def write_rows(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.mark.parametrize("name", COMMANDS)
def test_groups_of_a_column(tmp_path, name):
    """Each row has its own group, also where rows before it cannot be read."""
    command, rows, texts = COMMANDS[name]
    rows = [{**row, "author": f"author {number // 2}"} for number, row in enumerate(rows)]
    skips = command in ("run_glue", "run_multiple_choice")
    if skips:
        rows[2] = {**rows[2], "text": ""}
    write_rows(tmp_path / "train.jsonl", rows)
    flags = {"train_file": tmp_path / "train.jsonl", "model": "bert_tiny_books", "output_dir": tmp_path / "out"}
    flags |= {"folds": 2, "group_column": "author", "max_train_examples": 9}
    flags |= {"skip_bad_rows": 1} if skips else {}
    flags |= {"task": name} if command == "run_glue" else {}
    _, arguments = parsed(f"pipelines.{command}", *flags_of(flags))
    data = arguments.data[0] if command == "run_glue" else arguments.data
    divided = data.divided
    numbers = [number for number in range(COUNT) if not (skips and number == 2)][:9]
    assert len(divided) == 9
    assert [text.split()[-1].strip("?word") for text in texts(divided)] == list(map(str, numbers))
    assert arguments.create_folds(divided).groups == [f"author {number // 2}" for number in numbers]


def test_groups_of_rows_that_are_joined(tmp_path):
    rows = [{"premise": "a", "hypothesis": "b", "label": label} for label in ("entailment", "contradiction")]
    write_rows(tmp_path / "train.jsonl", [{**row, "author": "c"} for row in rows])
    flags = {"train_file": tmp_path / "train.jsonl", "model": "bert_tiny_books", "output_dir": tmp_path / "out"}
    _, arguments = parsed("pipelines.run_embedding", *flags_of({**flags, "folds": 2, "group_column": "author"}))
    with pytest.raises(ValueError, match=r"--group_column: only for files with a row for each example. .* 2 rows"):
        _ = arguments.data


def test_folds_of_several_files(tmp_path):
    for name in ("a", "b"):
        write_rows(tmp_path / f"{name}.jsonl", QUESTIONS)
    flags = {"train_file": f"{tmp_path}/a.jsonl,{tmp_path}/b.jsonl", "model": "bert_tiny_books", "folds": 2}
    _, arguments = parsed("pipelines.run_squad", *flags_of({**flags, "output_dir": tmp_path / "out"}))
    with pytest.raises(ValueError, match="--folds: only with one --train_file"):
        _ = arguments.data
