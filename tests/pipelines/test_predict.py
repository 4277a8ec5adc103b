"""Predictions of the command: texts, files, and what it prints and writes."""

import csv
import io
import json
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
import scipy.special

import keras_bert
from pipelines.answering_models import AnsweringModel
from tests.conftest import eagerly
from tests.pipelines.programs import call, mistake, read_jsonl

tf = pytest.importorskip("tensorflow")

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
PROGRAM = "pipelines.predict"
LABELS = ["no", "yes", "may\tbe"]
TINY = "--model=bert_tiny_books"


@pytest.fixture(scope="module")
def classifier(config):
    return keras_bert.build_classifier(keras_bert.build_encoder(config), 3)


@pytest.fixture(scope="module")
def folder(classifier, pieces, tmp_path_factory):
    """The directory of the classifier."""
    directory = tmp_path_factory.mktemp("model")
    keras_bert.save(classifier, directory, pieces, labels=LABELS)
    return directory


@pytest.fixture(scope="module")
def probabilities(classifier, pieces):
    """A function from texts to the expected probabilities."""
    preprocessor = keras_bert.TextPreprocessor(pieces, 40, padding="longest")

    def expected(texts):
        logits = classifier(preprocessor(texts))["logits"]
        return scipy.special.softmax(logits, -1)

    return expected


def read_csv(path, delimiter=","):
    """Returns the rows of a table as dicts."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def printed_rows(printed):
    """Returns the cells of the lines that a command printed."""
    return list(csv.reader(io.StringIO(printed, newline=""), "excel-tab"))


def assert_table(printed, expected):
    """Asserts that a table of classes has the expected probabilities."""
    header, *rows = printed_rows(printed)
    assert header == ["label", *LABELS]
    for row, shares in zip(rows, expected, strict=True):
        label, *values = row
        assert label == LABELS[shares.argmax()]
        np.testing.assert_allclose(np.array(values, float), shares, atol=2e-4)


def test_pairs(folder, probabilities):
    """Blank lines are ignored."""
    given = "a b\tc d\r\n\r\n \na\t\r\n\r\n\n"
    printed = call(PROGRAM, f"--model={folder}", given=given)
    assert_table(printed, probabilities((["a b", "a"], ["c d", ""])))


def test_input_file(folder, probabilities, tmp_path):
    (tmp_path / "texts.txt").write_text("a b c\n\nf g\n")
    printed = call(PROGRAM, f"--model={folder}", f"--input={tmp_path}/texts.txt", "--batch_size=2")
    assert_table(printed, probabilities(["a b c", "", "f g"]))


CUT = (
    "2 of 3 texts were longer than the 4 tokens that the model reads; the rest of each was left out. "
    "The longest has 7; `sequence_length` may be up to 40"
)


@pytest.mark.parametrize("name", ["answers.csv", "answers.jsonl"])
def test_texts_that_are_cut(folder, tmp_path, caplog, name):
    """One line counts those of all batches; the file has the numbers of tokens of every text."""
    (tmp_path / "texts.txt").write_text("a b c d\na\nb c d e f\n")
    flags = [f"--input={tmp_path}/texts.txt", "--batch_size=1", "--sequence_length=4"]
    call(PROGRAM, f"--model={folder}", *flags, f"--output={tmp_path}/{name}")
    told = [record.message for record in caplog.records if "longer" in record.message]
    assert told == [CUT]
    if name.endswith(".csv"):
        rows = read_csv(tmp_path / name)
        scores = [f"score_{label}" for label in LABELS]
        assert list(rows[0]) == ["text", "label", "score", *scores, "tokens", "tokens_read"]
    else:
        rows = read_jsonl(tmp_path / name)
    counts = [(int(row["tokens"]), int(row["tokens_read"])) for row in rows]
    assert counts == [(6, 4), (3, 3), (7, 4)]


@pytest.fixture(scope="module")
def entailment(classifier, pieces, tmp_path_factory):
    """The directory of a model of natural language inference."""
    folder = tmp_path_factory.mktemp("nli")
    labels = ["entailment", "neutral", "contradiction"]
    keras_bert.save(classifier, folder, pieces, labels=labels, pair=True)
    return folder


def test_labels_of_ones_own(entailment):
    labels = "--candidate_labels=x,y z"
    printed = call(PROGRAM, f"--model={entailment}", labels, "--hypothesis=a {}.", "b c")
    bert = keras_bert.load(entailment)
    answer = bert.predict("b c", candidate_labels=["x", "y z"], hypothesis="a {}.")
    header, line = [line.split("\t") for line in printed.splitlines()]
    assert header == ["label", "x", "y z"]
    assert line == [answer["label"], *(f"{score:.4f}" for score in answer["scores"].values())]


def test_one_label_of_ones_own(entailment):
    """A single one can be right or wrong, where several may be right."""
    printed = call(PROGRAM, f"--model={entailment}", "--candidate_labels=x", "--multi_label", "b c")
    assert printed.splitlines()[0].split("\t") == ["labels", "x"]


def test_an_option_of_another_head(entailment):
    labels = "--candidate_labels=a,b"
    message = mistake(PROGRAM, f"--model={entailment}", labels, "--temperature=0.1", "a")
    assert message.startswith("--temperature is for sentence encoders.")


QUESTIONS = ["a b", "x y z"]
CONTEXT = "é a b c\n" * 20 + "k l, m! n o p"


@pytest.fixture(scope="module")
def labeler(config, pieces, tmp_path_factory):
    """A question answering model: one of `QUESTIONS` is above its threshold of no answer, one is below."""
    model = keras_bert.build_span_labeler(keras_bert.build_encoder(config))
    folder = tmp_path_factory.mktemp("labeler")
    keras_bert.save(model, folder, pieces, sequence_length=24)
    rows = [{"question": question, "context": CONTEXT} for question in QUESTIONS]
    with eagerly():
        answers = keras_bert.load(folder).predict(rows, null_threshold=1000.0)
    odds = [np.log(answer["null_score"] / answer["score"]) for answer in answers]
    threshold = float(np.mean(odds))
    keras_bert.save(model, folder, pieces, sequence_length=24, null_threshold=threshold)
    return folder, answers, int(np.argmin(odds))


def test_questions_about_a_long_context(labeler, tmp_path):
    """The answers equal those of the model without a threshold; one has none."""
    folder, answers, answered = labeler
    (tmp_path / "context.txt").write_text(CONTEXT)
    flags = [f"--question={question}" for question in QUESTIONS]
    flags += [f"--context_file={tmp_path}/context.txt", "--batch_size=3"]
    rows = printed_rows(call(PROGRAM, f"--model={folder}", *flags))
    unanswered = rows.pop(0 if answered == 1 else -1)
    assert unanswered == ["no answer"]
    (shown, score), (marked,) = rows
    text = answers[answered]["answer"]
    assert shown == text
    assert float(score) == pytest.approx(answers[answered]["score"], abs=1e-4)
    # The answer is printed inside the surrounding context.
    assert f"[[{' '.join(text.split())}]]" in marked
    around = marked.strip(".").replace("[[", "").replace("]]", "")
    assert around in " ".join(CONTEXT.split())


def test_questions_in_a_table_with_other_names(labeler, tmp_path):
    folder, _, _ = labeler
    (tmp_path / "rows.csv").write_text("q,p\na b,a b c d\nx y z,k l\n")
    flags = [f"--input={tmp_path}/rows.csv", "--text_column=q", "--pair_column=p", "--n_best=2"]
    first, _ = call(PROGRAM, f"--model={folder}", *flags).splitlines()
    row = {"question": "a b", "context": "a b c d"}
    answer = keras_bert.load(folder).predict(row, n_best=2)
    assert json.loads(first) == {"question": "a b"} | approximate(answer)


def approximate(value):
    """Nested values to compare with, except for rounding."""
    if isinstance(value, dict):
        return {name: approximate(part) for name, part in value.items()}
    if isinstance(value, list):
        return [approximate(part) for part in value]
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-4)
    return value


@pytest.mark.parametrize("name", ["answers.csv", "answers.tsv"])
def test_a_table_of_answers(folder, probabilities, tmp_path, name):
    """The name tells the format; all columns are kept, and empty texts are allowed."""
    output = tmp_path / name
    (tmp_path / "texts.csv").write_text('id;label;review\n1;x;"a b; c"\n2;y;\n')
    flags = [f"--input={tmp_path}/texts.csv", "--text_column=review", "--batch_size=1"]
    printed = call(PROGRAM, f"--model={folder}", *flags, f"--output={output}")
    assert printed == f"wrote 2 answers to {output}\n"
    rows = read_csv(output, "," if name.endswith(".csv") else "\t")
    columns = [f"score_{label}" for label in LABELS]
    assert list(rows[0]) == [
        *("id", "label", "review", "predicted_label", "score"),
        *columns,
        *("tokens", "tokens_read"),
    ]
    texts = ["a b; c", ""]
    assert [row["review"] for row in rows] == texts
    for row, expected in zip(rows, probabilities(texts), strict=True):
        found = [float(row[column]) for column in columns]
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        assert row["predicted_label"] == LABELS[expected.argmax()]


def test_lines_of_json_with_answers(folder, probabilities, tmp_path):
    output = tmp_path / "answers.jsonl"
    lines = ['{"text": "a b", "pair": "c", "id": 1}', '{"text": "d", "pair": ""}']
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    flags = [f"--input={tmp_path}/texts.jsonl", f"--output={output}", "--batch_size=1"]
    printed = call(PROGRAM, f"--model={folder}", *flags)
    assert printed == f"wrote 2 answers to {output}\n"
    rows = read_jsonl(output)
    names = {"text", "pair", "id", "label", "score", "scores", "tokens", "tokens_read"}
    assert set(rows[0]) == names
    for row, expected in zip(rows, probabilities((["a b", "d"], ["c", ""])), strict=True):
        assert list(row["scores"]) == LABELS
        np.testing.assert_allclose(list(row["scores"].values()), expected, rtol=1e-4)
        assert row["label"] == LABELS[expected.argmax()]


@pytest.fixture(scope="module")
def reviews(classifier, pieces, tmp_path_factory):
    """The directory of a classifier that was trained on a column `review`."""
    folder = tmp_path_factory.mktemp("reviews")
    options = {"labels": ["a", "b", "c"], "pair": False, "columns": {"text": "review"}}
    keras_bert.save(classifier, folder, pieces, **options)
    return folder


def test_columns_of_training_are_saved(reviews, tmp_path):
    bert = keras_bert.load(reviews)
    bert.save(tmp_path / "again")
    stored = json.loads((tmp_path / "again" / "config.json").read_text())
    assert bert.columns == {"text": "review"}
    assert stored["keras_bert"]["columns"] == {"text": "review"}
    # Python reads them, too.
    (answer,) = bert.predict([{"id": 1, "review": "b c"}])
    assert answer["score"] == pytest.approx(bert.predict("b c")["score"], rel=1e-5)


@pytest.mark.parametrize(
    ("name", "flags", "text"),
    [
        ("new.csv", [], "b c"),
        ("new.csv", ["--text_column=text"], "a"),
        ("old.csv", [], "a"),
    ],
)
def test_columns_that_the_model_was_trained_on(reviews, tmp_path, caplog, name, flags, text):
    """They are found in a new file; flags win; a file without them is read as before, and a line says so."""
    (tmp_path / "new.csv").write_text("id,text,review\n1,a,b c\n")
    (tmp_path / "old.csv").write_text("id,text\n1,a\n")
    files = [f"--input={tmp_path / name}", f"--output={tmp_path}/answers.jsonl"]
    with caplog.at_level("INFO", "keras_bert"):
        call(PROGRAM, f"--model={reviews}", *files, *flags)
    (answer,) = read_jsonl(tmp_path / "answers.jsonl")
    expected = keras_bert.load(reviews).predict(text)
    assert answer["score"] == pytest.approx(expected["score"], rel=1e-4)
    told = f"{tmp_path}/old.csv: no `review`, which the model was trained on; read as `text`"
    assert (told in caplog.messages) == (name == "old.csv")


def stub(monkeypatch, predict):
    """Replaces the model by a function of rows."""
    model = AnsweringModel([("text",)], predict)
    monkeypatch.setattr("pipelines.predict.loaded_model", lambda arguments: model)


@pytest.mark.parametrize(
    ("name", "header", "line"),
    [
        ("texts.csv", "id,text\n", "{0},text {0}\n"),
        ("texts.jsonl", "", '{{"text": "text {0}"}}\n'),
    ],
    ids=["csv", "jsonl"],
)
def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch, name, header, line):
    """Ten times as many texts need the same memory."""
    monkeypatch.setattr("keras_bert.data.text_files.BLOCK_BYTES", 1 << 14)
    stub(monkeypatch, lambda rows: [{"value": float(len(row["text"]))} for row in rows])
    output = tmp_path / "answers.csv"
    flags = [f"--input={tmp_path / name}", f"--output={output}", "--batch_size=8"]
    peaks = []
    for count in (3000, 30000):
        texts = [f"text {number}" for number in range(count)]
        (tmp_path / name).write_text(header + "".join(map(line.format, range(count))))
        tracemalloc.start()
        printed = call(PROGRAM, TINY, *flags)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert printed.startswith(f"wrote {count:,} answers")
        rows = read_csv(output)
        assert [row["text"] for row in rows] == texts
        assert [float(row["value"]) for row in rows] == list(map(len, texts))
    assert peaks[1] < 1.3 * peaks[0]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_answers_are_written_as_they_come(tmp_path, monkeypatch, suffix):
    """Parts grow from one batch; before the next one is read, its answers are in the file, whole lines."""
    output = tmp_path / f"answers.{suffix}"
    header_lines = 1 if suffix == "csv" else 0
    seen = []

    def predict(rows):
        written = 0
        if output.exists():
            written = output.read_text().count("\n") - header_lines
        seen.append((len(rows), written))
        if len(seen) == 4:
            raise KeyboardInterrupt
        return [{"value": 1.0} for _ in rows]

    stub(monkeypatch, predict)
    (tmp_path / "texts.tsv").write_text("text\n" + "a\n" * 100)
    flags = [f"--input={tmp_path}/texts.tsv", f"--output={output}", "--batch_size=2"]
    with pytest.raises(KeyboardInterrupt):
        call(PROGRAM, TINY, *flags)
    assert seen == [(2, 0), (4, 2), (8, 6), (16, 14)]
    assert output.read_text().endswith("\n")
    assert output.read_text().count("\n") == 14 + header_lines


# The command, with a model whose answers are the rows.
ECHO = """
from pipelines import command, predict
from pipelines.answering_models import AnsweringModel
predict.loaded_model = lambda _: AnsweringModel([("text",)], lambda rows: rows)
command.run(
    predict.__doc__, predict.Arguments, predict.main, predict.check, True, tensorflow=False
)
"""


def test_a_pipe_is_answered_before_it_ends():
    """Lines of `--input=-` are answered while its writer waits for the answers."""
    arguments = [sys.executable, "-c", ECHO, TINY, "--batch_size=1", "--input=-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, **pipes) as program:
        timer = threading.Timer(100, program.kill)
        timer.start()
        program.stdin.write("a\n")
        program.stdin.flush()
        first = json.loads(program.stdout.readline())
        program.stdin.write("b\nc\n")
        program.stdin.close()
        rest = program.stdout.read()
    timer.cancel()
    assert first == {"text": "a", "predicted_text": "a"}
    assert rest.count("\n") == 2
    assert program.returncode == 0


def test_an_error_behind_the_first_parts(tmp_path, monkeypatch, capsys):
    """Answers before it stay; its place is that in the file."""
    stub(monkeypatch, lambda rows: [{"value": 1.0} for _ in rows])
    lines = ['{"text": "a"}'] * 2000
    lines[1500] = '{"text": 5}'
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    flags = [f"--input={tmp_path}/texts.jsonl", f"--output={tmp_path}/answers.jsonl"]
    message = mistake(PROGRAM, TINY, *flags)
    assert message == f"{tmp_path}/texts.jsonl:1501: column `text` must be a string. Received: 5"
    count = (tmp_path / "answers.jsonl").read_text().count("\n")
    assert 0 < count < 1500
    assert f"wrote the first {count:,} answers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        (["--question=a"], "b", "{folder} has no question-answering head. Expected a model from"),
        (["a", "b", "c"], "", "the arguments: expected text or text and pair. Received: 3 text(s)"),
        ([], "a\tb\nc\n", "standard input:2: expected text and pair. Received: 1 text(s)"),
        (["--input=texts.jsonl"], "", "texts.jsonl:2: column `text` must be a string."),
        (["--input=texts.csv"], "", "texts.csv:1: no column `text`. It has: 'title', "),
    ],
)
def test_user_errors(folder, tmp_path, monkeypatch, arguments, given, message):
    """Of models and rows; tests/pipelines/test_early_checks.py has those that are found before."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.jsonl").write_text('{"text": "a"}\n{"text": 1}\n')
    (tmp_path / "texts.csv").write_text("title,body\na,b\n")
    told = mistake(PROGRAM, f"--model={folder}", *arguments, given=given)
    assert told.startswith(message.format(folder=folder))


def test_a_text_for_a_model_that_answers_questions(checkpoint):
    told = mistake(PROGRAM, f"--model={checkpoint}", "a")
    assert told.startswith(f"{checkpoint} answers questions. Use --question=... with --context_file=")


def test_windows_of_a_long_text(folder, tmp_path):
    """The logits of a text are the log-sum-exp of those of its windows."""
    output = tmp_path / "answers.jsonl"
    flags = ["--sequence_length=4", "--long_texts=windows", "--overlap=0", f"--output={output}"]
    call(PROGRAM, f"--model={folder}", *flags, given="a b c d\n")
    answer = json.loads(output.read_text())
    assert (answer["tokens"], answer["tokens_read"], answer["windows"]) == (6, 6, 2)
    windows = keras_bert.load(folder).predict(["a b", "c d"], logits=True)
    logits = scipy.special.logsumexp([window["logits"] for window in windows], 0)
    scores = [answer["scores"][label] for label in LABELS]
    np.testing.assert_allclose(scores, scipy.special.softmax(logits), atol=1e-6)


def test_the_end_of_a_long_text(folder, probabilities, tmp_path):
    output = tmp_path / "answers.jsonl"
    flags = ["--sequence_length=4", "--long_texts=tail", f"--output={output}"]
    call(PROGRAM, f"--model={folder}", *flags, given="a b c d\n")
    answer = json.loads(output.read_text())
    scores = [answer["scores"][label] for label in LABELS]
    np.testing.assert_allclose(scores, probabilities(["c d"])[0], atol=1e-6)


def test_an_overlap_without_windows(folder):
    message = mistake(PROGRAM, f"--model={folder}", "--overlap=1", given="a b c d\n")
    assert "overlap=1" in message
