"""Flags that several commands share: parts of a training file that `fit` has too, groups, and lines of text."""

import shlex

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from keras_bert.runs import fit_data
from pipelines import common_flags, run_glue, run_tagging
from pipelines.arguments import help_page
from tests.pipelines.programs import flags_of, mistake, parsed, read_jsonl, write_jsonl

COUNT = 20
SHARE = 0.25
SEED = 3
TAGS = [["B-PER", "O"], ["O", "B-LOC"]]
NUMBERS = range(COUNT)
ANSWERS = {"text": ["Ada"], "answer_start": [0]}


def choices_row(number):
    return {
        "text": f"text {number}",
        "choices": [f"a {number}", f"b {number}"],
        "label": number % 2,
    }


def question_row(number):
    return {
        "id": f"id {number}",
        "question": f"who {number}?",
        "context": f"Ada {number}.",
        "answers": ANSWERS,
    }


LABELED = [{"text": f"text {number}", "label": ("good", "bad")[number % 2]} for number in NUMBERS]
SCORED = [{"text": f"text {number}", "label": number / 10} for number in NUMBERS]
CHOICES = list(map(choices_row, NUMBERS))
PAIRS = [{"query": f"query {number}", "passage": f"passage {number}"} for number in NUMBERS]
SENTENCES = [{"tokens": ["Ada", f"word{number}"], "tags": TAGS[number % 2]} for number in NUMBERS]
QUESTIONS = list(map(question_row, NUMBERS))


def first_choices(rows):
    return [choices[0] for choices in rows.choices]


def second_words(rows):
    return [words[1] for words in rows.words]


# The command, its rows, and the texts of what it has read.
COMMANDS = {
    "classification": ("run_glue", LABELED, lambda rows: rows.text),
    "regression": ("run_glue", SCORED, lambda rows: rows.text),
    "multiple_choice": ("run_multiple_choice", CHOICES, first_choices),
    "embedding": ("run_embedding", PAIRS, lambda rows: rows.queries),
    "tagging": ("run_tagging", SENTENCES, second_words),
    "questions": ("run_squad", QUESTIONS, lambda rows: rows.questions),
}
# The flags that differ between the two kinds of tasks of `run_glue`.
TASK_FLAGS = {
    "classification": {"task": "classification"},
    "regression": {"task": "regression"},
}


def parsed_flags(command, folder, **flags):
    """Returns the arguments of a command that trains in a folder."""
    given = {
        "train_file": folder / "train.jsonl",
        "model": "bert_tiny_books",
        "output_dir": folder / "out",
    }
    _, arguments = parsed(f"pipelines.{command}", *flags_of(given, **flags))
    return arguments


def data_of(command, arguments):
    """Returns the data that a command reads; `run_glue` has a list, for its tasks."""
    if command == "run_glue":
        return arguments.data[0]
    return arguments.data


def read_by(command, folder, **changes):
    """Returns the data that a command reads, with a share of the training file to select on."""
    flags = {"validation_split": SHARE, "seed": f"{SEED},4"} | changes
    arguments = parsed_flags(command, folder, **flags)
    arguments.check_conditions()
    return data_of(command, arguments)


def drawn_numbers():
    """Returns the numbers of the rows that the seed draws."""
    order = np.random.default_rng(SEED).permutation(COUNT)
    return sorted(order[: int(SHARE * COUNT)].tolist())


def texts_of(data, read):
    """Returns the texts to train on, and those to select on."""
    train = data.train
    if isinstance(train, list):
        (train,) = train
    dev = data.dev
    if isinstance(dev, dict):
        (dev,) = dev.values()
    return list(read(train)), list(read(dev))


@pytest.mark.parametrize("task", COMMANDS)
def test_the_split_is_that_of_fit(task, tmp_path):
    """Of several seeds, the first one draws."""
    command, rows, read = COMMANDS[task]
    write_jsonl(tmp_path / "train.jsonl", rows)
    train, dev = texts_of(read_by(command, tmp_path, **TASK_FLAGS.get(task, {})), read)
    fitted = fit_data.read_data(rows, None, task, None, SHARE, SEED)
    expected = fitted.task.rows.read(fitted.train, fitted.dev, fitted.task.Settings())
    assert (train, dev) == texts_of(expected, read)
    assert [number_in(text) for text in dev] == drawn_numbers()
    assert len({*train, *dev}) == COUNT


def number_in(text):
    return int("".join(filter(str.isdigit, text)))


@pytest.mark.parametrize("task", COMMANDS)
def test_only_the_rows_to_train_on_are_limited(task, tmp_path):
    command, rows, read = COMMANDS[task]
    write_jsonl(tmp_path / "train.jsonl", rows)
    flags = TASK_FLAGS.get(task, {})
    train, dev = texts_of(read_by(command, tmp_path, **flags), read)
    limited = read_by(command, tmp_path, **flags, max_train_examples=4)
    assert texts_of(limited, read) == (train[:4], dev)


CONLL = ""
for NUMBER in range(COUNT):
    CONLL += f"Ada {TAGS[NUMBER % 2][0]}\nword{NUMBER} {TAGS[NUMBER % 2][1]}\n\n"
CSV = "text,label\n" + 5 * "a text,a\n" + 5 * "a text,b\n" + "a text,once\n"
SPLIT_MISTAKES = [
    ({"dev_file": "dev.csv"}, "^--validation_split: not with --dev_file. Received: both"),
    ({"folds": 5}, "^--validation_split: not with --folds. Received: both"),
    ({"validation_split": 20}, "^--validation_split must be a number from 0 to 1. Received: --valid"),
    ({"validation_split": 0.01}, "`validation_split` must be a fraction .* Received: 0.01 of 11"),
    ({"validation_split": None}, "either --dev_file, --validation_split=0.1 or --folds=5"),
    ({"seed": 5}, "train.csv: all rows with the label 'once' are drawn by `validation_split`"),
    ({"task": "clasification"}, "^--task must be .* Did you mean classification[?]$"),
    ({"task": "mrcp"}, "^--task must be .* Did you mean mrpc[?]$"),
]


@pytest.mark.parametrize(("flags", "message"), SPLIT_MISTAKES)
def test_mistakes_of_classification(flags, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.csv").write_text(CSV)
    given = {"train_file": "train.csv", "task": "classification"} | flags
    with pytest.raises(ValueError, match=message):
        read_by("run_glue", tmp_path, **given)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"validation_split": None}, "^--dev_file is required: .* or --validation_split"),
        ({"document_context": True}, "^--validation_split: not with --document_context"),
    ],
)
def test_mistakes_of_tagging(flags, message, tmp_path):
    (tmp_path / "train.conll").write_text(CONLL)
    with pytest.raises(ValueError, match=message):
        read_by("run_tagging", tmp_path, train_file=tmp_path / "train.conll", **flags)


@pytest.mark.parametrize("flag", ["validation_split", "folds"])
def test_parts_of_several_files(flag, tmp_path, monkeypatch):
    """The files of `run_squad` are trained on one after the other."""
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "a.jsonl", QUESTIONS)
    others = [row | {"id": f"other {row['id']}"} for row in QUESTIONS]
    write_jsonl(tmp_path / "b.jsonl", others)
    value = {"validation_split": SHARE, "folds": 2}[flag]
    flags = {"train_file": "a.jsonl,b.jsonl", flag: value}
    arguments = parsed_flags("run_squad", tmp_path, **flags)
    with pytest.raises(ValueError, match=f"^--{flag}: only with one --train_file. Received: a.jsonl"):
        _ = arguments.data


def test_sentences_of_conll(tmp_path):
    (tmp_path / "train.conll").write_text(CONLL)
    data = read_by("run_tagging", tmp_path, train_file=tmp_path / "train.conll")
    assert second_words(data.dev) == [f"word{number}" for number in drawn_numbers()]
    assert len(data.train) == COUNT - 5


def test_predictions_for_the_rows_of_json_that_are_drawn(tmp_path):
    """In the form of the file, without the others."""
    rows = [row | {"id": number} for number, row in enumerate(SENTENCES)]
    write_jsonl(tmp_path / "train.jsonl", rows)
    dev = read_by("run_tagging", tmp_path).dev
    dev.write(tmp_path / "predicted.jsonl", dev.entities)
    expected = []
    for number in drawn_numbers():
        expected.append(rows[number] | {"predicted": rows[number]["tags"]})
    assert read_jsonl(tmp_path / "predicted.jsonl") == expected


def test_predictions_for_the_sentences_of_conll_that_are_drawn(tmp_path):
    (tmp_path / "train.conll").write_text(CONLL)
    dev = read_by("run_tagging", tmp_path, train_file=tmp_path / "train.conll").dev
    dev.write(tmp_path / "predicted.conll", dev.entities)
    expected = []
    for number in drawn_numbers():
        for word, tag in zip(["Ada", f"word{number}"], TAGS[number % 2], strict=True):
            expected.append([word, tag, tag])
    lines = (tmp_path / "predicted.conll").read_text().splitlines()
    assert [line.split() for line in lines if line] == expected


@pytest.mark.parametrize("command", [run_glue, run_tagging])
def test_the_flag_is_among_those_of_data(command):
    sections = help_page("", command.Arguments, "").split("\n\n")
    (section,) = [text for text in sections if "--validation_split=" in text]
    assert section.strip().startswith("data:\n")


@pytest.mark.parametrize("column", ["Kommentar (frei)", "it's a text", "text"])
def test_a_flag_that_a_message_proposes_can_be_pasted(column, tmp_path):
    """Into a shell, with the name of a column of the user's."""
    (tmp_path / "train.csv").write_text(f"{column},label\na,0\nb,1\n")
    files = {"train_file": tmp_path / "train.csv", "output_dir": tmp_path / "out"}
    flags = {
        "task": "classification",
        "text_column": column[:-1].upper(),  # Misspelled.
        "validation_split": 0.5,
        "model": "bert_tiny_books",
    }
    message = mistake("pipelines.run_glue", *flags_of(files, **flags))
    proposed = message.partition("Did you mean ")[2].removesuffix("?")
    assert shlex.split(proposed) == [f"--text_column={column}"]


AUTHORS = [f"author {number // 2}" for number in NUMBERS]


def with_authors(rows):
    """Returns rows with a column of authors, who have two rows each."""
    return [row | {"author": author} for row, author in zip(rows, AUTHORS, strict=True)]


@pytest.mark.parametrize("task", COMMANDS)
def test_groups_of_a_column(tmp_path, task):
    """Each row has its own group."""
    command, rows, texts = COMMANDS[task]
    grouped = with_authors(rows)
    write_jsonl(tmp_path / "train.jsonl", grouped)
    flags = {"folds": 2, "group_column": "author", "max_train_examples": 9}
    arguments = parsed_flags(command, tmp_path, **flags, **TASK_FLAGS.get(task, {}))
    divided = data_of(command, arguments).divided
    assert [number_in(text) for text in texts(divided)] == list(range(9))
    assert arguments.create_folds(divided).groups == AUTHORS[:9]


@pytest.mark.parametrize("task", ["classification", "regression", "multiple_choice"])
def test_groups_behind_a_row_that_cannot_be_read(tmp_path, task):
    """The bad row, and its group, are left out."""
    command, rows, texts = COMMANDS[task]
    grouped = with_authors(rows)
    grouped[2]["text"] = ""
    write_jsonl(tmp_path / "train.jsonl", grouped)
    flags = {"folds": 2, "group_column": "author", "max_train_examples": 9, "skip_bad_rows": 1}
    arguments = parsed_flags(command, tmp_path, **flags, **TASK_FLAGS.get(task, {}))
    divided = data_of(command, arguments).divided
    assert [number_in(text) for text in texts(divided)] == [0, 1, *range(3, 10)]
    assert arguments.create_folds(divided).groups == [*AUTHORS[:2], *AUTHORS[3:10]]


def test_groups_of_rows_that_are_joined(tmp_path):
    row = {"premise": "a", "hypothesis": "b", "author": "c"}
    rows = [row | {"label": label} for label in ("entailment", "contradiction")]
    write_jsonl(tmp_path / "train.jsonl", rows)
    arguments = parsed_flags("run_embedding", tmp_path, folds=2, group_column="author")
    with pytest.raises(ValueError, match=r"^--group_column: .* 2 rows"):
        _ = arguments.data


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("\ufeffa\r\n\nb é\n".encode(), ["a", "", "b é"]),
        (b"a\rb\r", ["a", "b"]),
        (b"", []),
    ],
)
def test_text_lines(content, lines):
    assert common_flags.text_lines(content, "x") == lines


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_lines_in_utf_16(encoding):
    with pytest.raises(ValueError, match="^x: the file is UTF-16. Save it as UTF-8"):
        common_flags.text_lines("a\n".encode(encoding), "x")


def test_lines_in_another_encoding():
    with pytest.raises(ValueError, match="^x:2: not UTF-8, byte 0xe9 at position 3"):
        common_flags.text_lines(b"a\ncaf\xe9\n", "x")
