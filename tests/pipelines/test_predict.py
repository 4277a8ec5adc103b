"""Tests of the command-line program."""

import csv
import json
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
import scipy.special

import keras_bert
from keras_bert.answering import prediction_files
from keras_bert.data.formats import source
from keras_bert.metadata import Metadata
from pipelines import common_flags
from pipelines.answering_models import AnsweringModel, rectangles
from tests.pipelines.programs import call, mistake

tf = pytest.importorskip("tensorflow")

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
PROGRAM = "pipelines.predict"
LABELS = ["no", "yes", "may\tbe"]


@pytest.fixture(scope="module")
def model(config, pieces, tmp_path_factory):
    """The directory of a classifier, and a function that computes the expected probabilities."""
    directory = tmp_path_factory.mktemp("model")
    classifier = keras_bert.build_classifier(keras_bert.build_encoder(config), 3)
    keras_bert.save(classifier, directory, pieces, labels=LABELS)
    preprocessor = keras_bert.TextPreprocessor(pieces, 40, padding="longest")
    return directory, lambda texts: scipy.special.softmax(classifier(preprocessor(texts))["logits"], -1)


def assert_lines(printed, expected):
    header, *rows = csv.reader(printed.splitlines(keepends=True), "excel-tab")
    assert header == ["label", *LABELS]
    for (label, *values), probabilities in zip(rows, expected, strict=True):
        assert label == LABELS[probabilities.argmax()]
        np.testing.assert_allclose(np.array(values, float), probabilities, atol=2e-4)


def test_pairs(model):
    directory, expected = model
    assert prediction_files.from_parts("the arguments", ["a b", "c d"], [("text",), ("text", "pair")])["pair"] == "c d"
    # Blank lines are ignored.
    given = "a b\tc d\r\n\r\n \na\t\r\n\r\n\n"
    assert_lines(call(PROGRAM, f"--model={directory}", given=given), expected((["a b", "a"], ["c d", ""])))


def test_text_lines():
    assert common_flags.text_lines("\ufeffa\r\n\nb é\n".encode(), "x") == ["a", "", "b é"]
    assert common_flags.text_lines(b"a\rb\r", "x") == ["a", "b"]
    assert common_flags.text_lines(b"", "x") == []
    for encoding in ("utf-16", "utf-16-le"):
        with pytest.raises(ValueError, match="x: the file is UTF-16. Save it as UTF-8"):
            common_flags.text_lines("a\n".encode(encoding), "x")
    with pytest.raises(ValueError, match="x:2: not UTF-8, byte 0xe9 at position 3. Save the file as UTF-8"):
        common_flags.text_lines(b"a\ncaf\xe9\n", "x")


def test_input_file(model, tmp_path):
    directory, expected = model
    (tmp_path / "texts.txt").write_text("a b c\n\nf g\n")
    printed = call(PROGRAM, f"--model={directory}", f"--input={tmp_path}/texts.txt", "--batch_size=2")
    assert_lines(printed, expected(["a b c", "", "f g"]))
    (tmp_path / "texts.tsv").write_text("id\ttext\n1\ta b c\n2\tf g\n")
    assert [row["text"] for row in prediction_files.read_texts(tmp_path / "texts.tsv", [("text",)])] == ["a b c", "f g"]


@pytest.mark.parametrize("name", ["answers.csv", "answers.jsonl"])
def test_texts_that_are_cut(model, tmp_path, caplog, monkeypatch, name):
    """One line counts those of all batches; the file has the numbers of tokens of every text."""
    monkeypatch.setattr("pipelines.predict._CHUNK", 1)
    (tmp_path / "texts.txt").write_text("a b c d\na\nb c d e f\n")
    flags = [f"--model={model[0]}", f"--input={tmp_path}/texts.txt", "--batch_size=1", "--sequence_length=4"]
    call(PROGRAM, *flags, f"--output={tmp_path}/{name}")
    told = [record.message for record in caplog.records if "longer" in record.message]
    assert told == [
        "2 of 3 texts were longer than the 4 tokens that the model reads; the rest of each was left out. "
        "The longest has 7; `sequence_length` may be up to 40"
    ]
    if name.endswith(".csv"):
        with open(tmp_path / name, newline="") as file:
            rows = list(csv.DictReader(file))
        assert [*rows[0]] == [
            "text",
            "label",
            "score",
            *(f"score_{label}" for label in LABELS),
            "tokens",
            "tokens_read",
        ]
    else:
        rows = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
    assert [(int(row["tokens"]), int(row["tokens_read"])) for row in rows] == [(6, 4), (3, 3), (7, 4)]


def test_numbers_that_are_not_finite_in_files(tmp_path):
    """JSON has `null` for them, tables nothing."""
    parts = [(None, {"text": "a"}, {"value": value, "scores": [value, 1.0]}) for value in (np.nan, -np.inf, 0.5)]
    prediction_files.write(tmp_path / "answers.jsonl", parts)
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [(line["value"], line["scores"]) for line in lines] == [(None, [None, 1])] * 2 + [(0.5, [0.5, 1])]
    prediction_files.write(tmp_path / "answers.csv", parts, ",")
    assert (tmp_path / "answers.csv").read_text().splitlines()[1:] == [
        'a,,"[null, 1.0]"',
        'a,,"[null, 1.0]"',
        'a,0.5,"[0.5, 1.0]"',
    ]


def test_labels_of_ones_own(build, pieces, tmp_path):
    labels = ["entailment", "neutral", "contradiction"]
    keras_bert.save(build("classification"), tmp_path / "nli", pieces, labels=labels, pair=True)
    flags = [f"--model={tmp_path}/nli", "--candidate_labels=x,y z", "--hypothesis=a {}."]
    lines = call(PROGRAM, *flags, "b c").splitlines()
    answer = keras_bert.load(tmp_path / "nli").predict("b c", candidate_labels=["x", "y z"], hypothesis="a {}.")
    assert lines[0].split("\t") == ["label", "x", "y z"]
    assert lines[1].split("\t") == [answer["label"], *(f"{score:.4f}" for score in answer["scores"].values())]
    # One label alone, and several.
    lines = call(PROGRAM, *flags[:1], "--candidate_labels=x", "--multi_label", "b c").splitlines()
    assert lines[0].split("\t") == ["labels", "x"]
    message = "--temperature is for sentence encoders."
    assert mistake(PROGRAM, flags[0], "--candidate_labels=a,b", "--temperature=0.1", "a").startswith(message)


class ServedModels:
    """A client of models with the signature `zero_shot`, for one or for several labels per text, and without it."""

    def __init__(self, *_):
        self.requests = []

    def about(self, model):
        return {}

    def metadata(self, model):
        found = {"serving_default": {"inputs": ["text"], "outputs": ["embedding"]}}
        if model != "without":
            found["zero_shot"] = {"outputs": ["label" if model == "one" else "predicted", "labels", "probabilities"]}
        return {"signatures": found}

    def predict(self, model, inputs, signature):
        assert signature == "zero_shot"
        shares = np.array([[0.25, 0.75, 0.5][: len(labels)] for labels in inputs["labels"]], "float32")
        rest = {"predicted": shares >= 0.5} if model == "several" else {"label": [row[1] for row in inputs["labels"]]}
        assert inputs["text"] == ["b", "c"]
        return {"labels": np.array(inputs["labels"]), "probabilities": shares, **rest}


def test_labels_of_ones_own_for_a_served_model(monkeypatch):
    monkeypatch.setattr("pipelines.answering_models.Client", ServedModels)
    flags = ["--server=localhost:1", "--candidate_labels=x,y z,w"]
    lines = call(PROGRAM, *flags, "--model=one", "b", "c").splitlines()
    assert [line.split("\t") for line in lines] == [
        ["label", "x", "y z", "w"],
        *[["y z", "0.2500", "0.7500", "0.5000"]] * 2,
    ]
    lines = call(PROGRAM, *flags, "--model=several", given="b\nc\n").splitlines()
    assert lines[1].split("\t") == ["y z|w", "0.2500", "0.7500", "0.5000"]
    message = mistake(PROGRAM, "--server=localhost:1", "--candidate_labels=x", "--model=one", "b")
    assert message.endswith("except with a model that was exported with multi_label=True. Received: 'x'")
    message = mistake(PROGRAM, *flags, "--model=without", "b")
    assert message.startswith("--candidate_labels: the served without has no signature zero_shot. Export it with")
    message = mistake(PROGRAM, "--server=localhost:1", "--n_best=2", "--model=one", "b")
    assert message.startswith("--n_best: the served one has one answer to each text. Expected no --n_best")


class ServedNumbers(ServedModels):
    """A client of a regression model: the export of an earlier version tells no numbers of tokens."""

    def metadata(self, model):
        outputs = {"value": {}} if model == "old" else {"value": {}, "tokens": {}, "tokens_read": {}}
        return {"signatures": {"serving_default": {"inputs": {"text": {}}, "outputs": outputs}}}

    def predict(self, model, inputs, signature):
        tokens = np.array([len(text) + 2 for text in inputs["text"]], "int32")
        counts = {} if model == "old" else {"tokens": tokens, "tokens_read": np.minimum(tokens, 5)}
        return {"value": tokens / 2, **counts}


def test_texts_that_a_served_model_cuts(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr("pipelines.answering_models.Client", ServedNumbers)
    for name, expected in (
        ("new", [{"tokens": 7, "tokens_read": 5}, {"tokens": 3, "tokens_read": 3}]),
        ("old", [{}, {}]),
    ):
        flags = ["--server=localhost:1", f"--model={name}", "--batch_size=1"]
        assert call(PROGRAM, *flags, given="abcde\nf\n").split() == ["value", "3.5", "1.5"]
        call(PROGRAM, *flags, f"--output={tmp_path}/{name}.jsonl", given="abcde\nf\n")
        rows = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        texts = [{"text": "abcde", "value": 3.5}, {"text": "f", "value": 1.5}]
        assert rows == [{**text, **counts} for text, counts in zip(texts, expected, strict=True)]
    told = [record.message for record in caplog.records if "longer" in record.message]
    assert told == 2 * [
        "1 of 2 texts was longer than the 5 tokens that the model reads; the rest of each was left out. "
        "The longest has 7"
    ]


def test_questions_about_a_long_context(build, pieces, tmp_path):
    """The answers equal those of the exported model, one above and one below the no-answer threshold."""
    labeler = build("question_answering")
    context = "é a b c\n" * 20 + "k l, m! n o p"
    keras_bert.save(labeler, tmp_path / "model", pieces, sequence_length=24)
    bert = keras_bert.load(tmp_path / "model")
    asked = ["a b", "x y z"]
    found = bert.predict([{"question": one, "context": context} for one in asked], null_threshold=1000.0)
    odds = [np.log(one["null_score"] / one["score"]) for one in found]
    keras_bert.save(labeler, tmp_path / "model", pieces, sequence_length=24, null_threshold=sum(odds) / 2)
    (tmp_path / "context.txt").write_text(context)
    flags = [f"--question={one}" for one in asked]
    context_file = f"--context_file={tmp_path}/context.txt"
    printed = call(PROGRAM, f"--model={tmp_path}/model", *flags, context_file, "--batch_size=3")
    rows = list(csv.reader(printed.splitlines(keepends=True), "excel-tab"))
    answered = int(np.argmin(odds))
    text = found[answered]["answer"]
    assert rows.pop(0 if answered else -1) == ["no answer"]
    (shown, probability), (marked,) = rows
    assert shown == text
    assert float(probability) == pytest.approx(found[answered]["score"], abs=1e-4)
    # The answer is printed inside the surrounding context.
    inside = marked.strip(".").replace("[[", "").replace("]]", "")
    assert f"[[{' '.join(text.split())}]]" in marked
    assert inside in " ".join(context.split())
    # As a table with other names of the columns.
    (tmp_path / "rows.csv").write_text("q,p\na b,a b c d\nx y z,k l\n")
    flags = [f"--input={tmp_path}/rows.csv", "--text_column=q", "--pair_column=p", "--n_best=2"]
    (first, _) = call(PROGRAM, f"--model={tmp_path}/model", *flags).splitlines()
    expected = keras_bert.load(tmp_path / "model").predict({"question": "a b", "context": "a b c d"}, n_best=2)
    assert json.loads(first) == {"question": "a b", **approximate(expected)}


def approximate(value):
    """Nested values to compare with, except for rounding."""
    if isinstance(value, dict):
        return {name: approximate(part) for name, part in value.items()}
    if isinstance(value, list):
        return [approximate(part) for part in value]
    return pytest.approx(value, rel=1e-4) if isinstance(value, float) else value


def test_files(model, tmp_path):
    """The format of the output is that of its name; all columns are kept, and empty texts are allowed."""
    directory, expected = model
    (tmp_path / "texts.csv").write_text('id;label;review\n1;x;"a b; c"\n2;y;\n')
    (tmp_path / "texts.jsonl").write_text('{"text": "a b", "pair": "c", "id": 1}\n{"text": "d", "pair": ""}\n')
    for name, output, columns, given in (
        ("texts.csv", "answers.csv", ["id", "label", "review"], ["a b; c", ""]),
        ("texts.csv", "answers.tsv", ["id", "label", "review"], ["a b; c", ""]),
        ("texts.jsonl", "answers.jsonl", ["text", "pair", "id"], (["a b", "d"], ["c", ""])),
    ):
        flags = [f"--input={tmp_path / name}", f"--output={tmp_path / output}", "--batch_size=1"]
        flags += ["--text_column=review"] if "review" in columns else []
        assert call(PROGRAM, f"--model={directory}", *flags) == f"wrote 2 answers to {tmp_path / output}\n"
        with open(tmp_path / output, newline="") as file:
            if output.endswith(".jsonl"):
                rows = [json.loads(line) for line in file]
                scores = [list(row.pop("scores").values()) for row in rows]
            else:
                rows = list(csv.DictReader(file, delimiter="," if output.endswith(".csv") else "\t"))
                scores = [[float(row.pop(f"score_{label}")) for label in LABELS] for row in rows]
                assert [row["review"] for row in rows] == given
        label = "predicted_label" if "label" in columns else "label"
        assert list(rows[0]) == [*columns, label, "score", "tokens", "tokens_read"]
        np.testing.assert_allclose(scores, expected(given), rtol=1e-4)
        assert [row[label] for row in rows] == [LABELS[index] for index in expected(given).argmax(-1)]


@pytest.mark.parametrize(
    ("lines", "allowed", "expected"),
    [
        (["text", "a"], [("text",)], [{"text": "a"}]),
        (["text\tpair", "a\tb"], [("text", "pair")], [{"text": "a", "pair": "b"}]),
        (["text"], [("text",)], [{"text": "text"}]),
        (["text", "", "a"], [("text",)], [{"text": ""}, {"text": "a"}]),
    ],
)
def test_a_line_with_the_names_of_columns_is_no_text(lines, allowed, expected):
    assert list(prediction_files.from_lines("stdin", lines, allowed)) == expected


def test_nested_answers_in_a_table(tmp_path):
    answer = {"entities": [{"text": "ü", "score": 0.12345678}], "count": 1}
    prediction_files.write(tmp_path / "a.csv", [(None, {"text": "a,b"}, answer)], ",")
    assert (tmp_path / "a.csv").read_text() == (
        'text,entities,count\n"a,b","[{""text"": ""ü"", ""score"": 0.123457}]",1\n'
    )


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_answers_are_no_formulas_in_spreadsheets(tmp_path, delimiter):
    """An apostrophe precedes them; the user's own columns, numbers and JSON stay as they are."""
    names = ["=1+1", "-a", "@b", "\tc", "\rd", "'e", "plain", " +f", "-1.5"]
    parts = [
        ({"=id": "=1+1"}, {"text": "=1+1"}, {"label": name, "score": -0.5, "scores": dict.fromkeys(names, 0.25)})
        for name in names
    ]
    prediction_files.write(tmp_path / "a.csv", parts, delimiter)
    with open(tmp_path / "a.csv", newline="") as file:
        header, *rows = csv.reader(file, delimiter=delimiter)
    assert header == ["=id", "label", "score", *(f"score_{name}" for name in names)]
    marked = ["'=1+1", "'-a", "'@b", "'\tc", "'\rd", "''e", "plain", "' +f", "-1.5"]
    assert [row[:4] for row in rows] == [["=1+1", label, "-0.5", "0.25"] for label in marked]
    prediction_files.write(tmp_path / "b.csv", [(None, {"text": "-a"}, {"answer": "-a", "=x": ["=y"]})], delimiter)
    assert (tmp_path / "b.csv").read_text().replace("\t", ",") == 'text,answer,\'=x\n-a,\'-a,"[""=y""]"\n'
    prediction_files.write(tmp_path / "c.jsonl", parts[:1])
    assert json.loads((tmp_path / "c.jsonl").read_text())["label"] == "=1+1"


@pytest.mark.parametrize("delimiter", [None, ","])
def test_columns_of_the_user_are_kept(tmp_path, delimiter):
    """Numbers with all digits, the answers of an earlier model, line ends within cells, and names that repeat."""
    record = {"text": "a\r\nb", "time": 1690000123.456, "label": "gold", "predicted_label": "mine"}
    prediction_files.write(tmp_path / "a.csv", [(record, {"text": "a"}, {"label": "pos", "score": 1 / 3})], delimiter)
    expected = {**record, "predicted_predicted_label": "pos", "score": 0.333333}
    if delimiter is None:
        assert json.loads((tmp_path / "a.csv").read_text()) == expected
        return
    with open(tmp_path / "a.csv", newline="") as file:
        assert list(csv.DictReader(file)) == [{name: str(value) for name, value in expected.items()}]
    (tmp_path / "b.csv").write_bytes(b"text,x,x,,\r\na,1,2,3,4\r\n")
    rows = [(2, {"text": "a", "x": "1", "x.1": "2", "": "3", ".1": "4"})]
    assert source(tmp_path / "b.csv").rows(["text"]) == rows


def test_lines_to_read():
    """One form for each kind of answer; the rest of the test shows them."""
    entity = {"text": "Ada\tB", "label": "PER", "start": 0, "end": 5, "score": 0.5}
    assert prediction_files.readable({"text": "Ada\tB!"}, {"entities": [entity]}) == ['0.5000\tPER\t"Ada\tB"']
    assert prediction_files.readable({"text": ""}, {"entities": []}) == ["no entities"]
    fills = [{"token": "a", "score": 0.75}, {"token": "b", "score": 0.25}]
    assert prediction_files.readable({"text": "[MASK]"}, {"fills": [fills]}) == ["a 0.7500\tb 0.2500"]
    choices = {"text": "a", "choices": ["b", "c"]}
    assert prediction_files.readable(choices, {"choice": 1, "scores": [0.25, 0.75]}) == ["0.7500\tc", "0.2500\tb"]
    vector = np.array([0.5, 1.0], "float32")
    assert prediction_files.readable({"text": "ü\ud800"}, {"embedding": vector}) == [
        '{"text": "ü?", "embedding": [0.5, 1.0]}'
    ]
    assert prediction_files.readable({"text": "a"}, {"fills": []}) == ["no [MASK]; write [MASK] in the text"]
    cut = "the [MASK] is beyond the longest text that the model takes"
    assert prediction_files.readable({"text": "a [MASK]"}, {"fills": []}) == [cut]
    assert prediction_files.table([{"probability": 0.5}]) == ["probability", "0.5"]
    answers = [{"labels": ["a"], "scores": {"a": 0.75, "b": 0.25}}, {"labels": [], "scores": {"a": 0.0, "b": 0.0}}]
    assert prediction_files.table(answers) == ["labels\ta\tb", "a\t0.7500\t0.2500", '""\t0.0000\t0.0000']


def test_a_table_on_a_terminal_shows_the_texts():
    answers = [{"label": "bad", "score": 0.75, "scores": {"good": 0.25, "bad": 0.75}}] * 2
    rows = [{"text": "a\tb"}, {"text": "c" * 50}]
    assert prediction_files.with_texts(prediction_files.table(answers), rows) == [
        "label  good    bad     text",
        "bad    0.2500  0.7500  a b",
        f"bad    0.2500  0.7500  {'c' * 37}...",
    ]
    answers = [{"labels": [], "scores": {"a": 0.25}}]
    assert prediction_files.with_texts(prediction_files.table(answers), rows[:1]) == [
        "labels  a       text",
        "(none)  0.2500  a b",
    ]
    line = prediction_files.json_line({"text": "a"}, {"score": 1 / 3, "start": 1})
    assert line == '{"text": "a", "score": 0.333333, "start": 1}'


def test_words_of_a_tagger(tmp_path):
    """Lists of words, in the columns of data sets or in that of training; other values are refused."""
    path = tmp_path / "a.jsonl"
    for name, known in (("tokens", None), ("words", {"text": "none"}), ("Satz", {"text": "Satz"})):
        rows = [{"id": 1, name: ["a", "b c"], "ner_tags": [0, 1]}, {"id": 2, name: "a b", "ner_tags": [0, 1]}]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        found = prediction_files.stream_texts(path, [("text",)], known=known, words=True)
        assert list(found) == [(rows[0], {"text": ["a", "b c"]}), (rows[1], {"text": "a b"})]
    path.write_text('{"tokens": ["a", 1]}\n')
    for words, expected in ((True, "a string or a list of strings"), (False, "a string")):
        with pytest.raises(ValueError, match=rf"a.jsonl:1: column `tokens` must be {expected}. Received: \['a', 1\]"):
            prediction_files.read_texts(path, [("text",)], text_column="tokens", words=words)


def test_files_of_choices(tmp_path):
    """Tables and JSONL are read as in training, without their labels."""
    names = [("text", "choices")]
    for name, text in {
        "a.csv": "question,B,A,answer\na,c,b,?\n",
        "arc.csv": "a,b,c,,B\n",
        "a.jsonl": '{"question": "a", "choices": ["b", "c", null]}\n',
    }.items():
        (tmp_path / name).write_text(text)
        (row,) = prediction_files.read_texts(tmp_path / name, names)
        assert (row["text"], row["choices"][:2], any(row["choices"][2:])) == ("a", ["b", "c"], False)
    (tmp_path / "one.jsonl").write_text('{"text": "a", "choices": ["b"]}\n')
    with pytest.raises(ValueError, match=r"one.jsonl:1: expected at least 2 choices, got 1"):
        prediction_files.read_texts(tmp_path / "one.jsonl", names)
    with pytest.raises(ValueError, match=r"expected text and at least 2 choices. Received: 2 text\(s\)"):
        prediction_files.from_parts("the arguments", ["a", "b"], names)


def test_columns_that_the_model_was_trained_on(build, pieces, tmp_path, caplog):
    """They are found in a new file; flags win; a file without them is read as before, and a line says so."""
    columns = {"text": "review"}
    keras_bert.save(
        build("classification"), tmp_path / "model", pieces, labels=["a", "b", "c"], pair=False, columns=columns
    )
    bert = keras_bert.load(tmp_path / "model")
    assert bert.columns == columns
    bert.save(tmp_path / "again")
    stored = json.loads((tmp_path / "again" / "config.json").read_text())
    assert stored["keras_bert"]["columns"] == columns
    (tmp_path / "new.csv").write_text("id,text,review\n1,a,b c\n")
    (tmp_path / "old.csv").write_text("id,text\n1,a\n")
    for name, flags, text in (
        ("new.csv", [], "b c"),
        ("new.csv", ["--text_column=text"], "a"),
        ("old.csv", [], "a"),
    ):
        caplog.clear()
        with caplog.at_level("INFO", "keras_bert"):
            flags = [f"--input={tmp_path / name}", f"--output={tmp_path}/answers.jsonl", *flags]
            call(PROGRAM, f"--model={tmp_path}/model", *flags)
        (answer,) = map(json.loads, (tmp_path / "answers.jsonl").read_text().splitlines())
        assert answer["score"] == pytest.approx(bert.predict(text)["score"], rel=1e-4)
        told = f"{tmp_path}/old.csv: no `review`, which the model was trained on; read as `text`" in caplog.messages
        assert told == (name == "old.csv")
    (answer,) = bert.predict([{"id": 1, "review": "b c"}])
    assert answer["score"] == pytest.approx(bert.predict("b c")["score"], rel=1e-5)


def test_columns_of_choices_that_the_model_was_trained_on(tmp_path):
    """Flags win; a file without the columns is read by the usual names."""
    path = tmp_path / "new.csv"
    path.write_text("id;stem;this;that;question;A;B\n1;a;b;c;d;e;f\n")
    known = {"text": "stem", "choices": ["this", "that"]}
    for options, expected in (
        ({"known": known}, ("a", ["b", "c"])),
        ({"known": {"text": "stem"}}, ("a", ["e", "f"])),
        ({"known": {"choices": ["this", "that"]}}, ("d", ["b", "c"])),
        ({"known": {"text": "other", "choices": ["this", "that"]}}, ("d", ["e", "f"])),
        ({"known": known, "choice_columns": ["A", "B"]}, ("d", ["e", "f"])),
    ):
        (row,) = prediction_files.read_texts(path, [("text", "choices")], **options)
        assert (row["text"], row["choices"]) == expected
    stored = {"columns": known}
    assert Metadata.from_json(stored).columns == known
    with pytest.raises(
        ValueError, match="`columns` in `keras_bert` must be an object of names of columns, or of lists"
    ):
        Metadata.from_json({"columns": {"choices": [1]}})


def test_a_table_of_rows_with_different_keys(tmp_path):
    """The columns of the first part are those of all its rows; later ones cannot get others."""
    path = tmp_path / "a.csv"
    answer = {"label": "yes"}
    first = [({"text": "a"}, {"text": "a"}, answer), ({"text": "b", "n": 1}, {"text": "b"}, answer)]
    with prediction_files.AnswersFile(path, ",") as file:
        file.write(first)
        file.write([({"n": 2, "text": "c"}, {"text": "c"}, answer)])
        with pytest.raises(ValueError, match="^row 4 has `m`, which the rows before do not have, .* ends in .jsonl$"):
            file.write([({"text": "d", "m": 3}, {"text": "d"}, answer)])
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    expected = [("a", ""), ("b", "1"), ("c", "2")]
    assert rows == [{"text": text, "label": "yes", "n": number} for text, number in expected]


def stub(monkeypatch, predict):
    """Replaces the model by a function of rows."""
    model = AnsweringModel([("text",)], predict)
    monkeypatch.setattr("pipelines.predict.loaded_model", lambda arguments: model)


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    stub(monkeypatch, lambda rows: [{"value": float(len(row["text"]))} for row in rows])
    monkeypatch.setattr("keras_bert.data.text_files._BLOCK", 1 << 14)
    peaks = []
    for count in (3000, 30000):
        for name, line in (("texts.csv", "{0},text {0}\n"), ("texts.jsonl", '{{"text": "text {0}"}}\n')):
            header = "id,text\n" if name.endswith("csv") else ""
            (tmp_path / name).write_text(header + "".join(map(line.format, range(count))))
            tracemalloc.start()
            flags = [f"--input={tmp_path / name}", f"--output={tmp_path}/answers.csv", "--batch_size=8"]
            assert call(PROGRAM, "--model=bert_tiny_books", *flags).startswith(f"wrote {count:,} answers")
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        with open(tmp_path / "answers.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["text"] for row in rows] == [f"text {number}" for number in range(count)]
        assert [float(row["value"]) for row in rows] == [len(row["text"]) for row in rows]
    assert max(peaks[2:]) < 1.3 * max(peaks[:2])


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_answers_are_written_as_they_come(tmp_path, monkeypatch, suffix):
    """Parts grow from one batch; before the next one is read, its answers are in the file, whole lines."""
    output = tmp_path / f"answers.{suffix}"
    seen = []

    def predict(rows):
        written = output.read_text().count("\n") if output.exists() else 0
        seen.append((len(rows), written - (suffix == "csv" and written > 0)))
        if len(seen) == 4:
            raise KeyboardInterrupt
        return [{"value": 1.0} for _ in rows]

    stub(monkeypatch, predict)
    (tmp_path / "texts.tsv").write_text("text\n" + "a\n" * 100)
    with pytest.raises(KeyboardInterrupt):
        call(
            PROGRAM, "--model=bert_tiny_books", f"--input={tmp_path}/texts.tsv", f"--output={output}", "--batch_size=2"
        )
    assert seen == [(2, 0), (4, 2), (8, 6), (16, 14)]
    assert output.read_text().endswith("\n")
    assert output.read_text().count("\n") == 14 + (suffix == "csv")


def test_a_pipe_is_answered_before_it_ends(tmp_path):
    """Lines of the standard input, or of `--input=-`, are answered while its writer waits for the answers."""
    before = "from pipelines import predict\nfrom pipelines.answering_models import AnsweringModel\n"
    before += "predict.loaded_model = lambda _: AnsweringModel([('text',)], lambda rows: rows)"
    code = f"import sys, runpy\n{before}\nfrom pipelines import predict as program, command\n"
    code += "command.run(program.__doc__, program.Arguments, program.main, program.check, True, tensorflow=False)"
    flags = ["--model=bert_tiny_books", "--batch_size=1", "--input=-"]
    with subprocess.Popen(
        [sys.executable, "-c", code, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        timer = threading.Timer(100, program.kill)
        timer.start()
        program.stdin.write("a\n")
        program.stdin.flush()
        assert json.loads(program.stdout.readline()) == {"text": "a", "predicted_text": "a"}
        program.stdin.write("b\nc\n")
        program.stdin.close()
        assert program.stdout.read().count("\n") == 2
    timer.cancel()
    assert program.returncode == 0


def test_an_error_behind_the_first_parts(tmp_path, monkeypatch, capsys):
    """Answers before it stay; its place is that in the file."""
    stub(monkeypatch, lambda rows: [{"value": 1.0} for _ in rows])
    lines = ['{"text": "a"}'] * 2000
    lines[1500] = '{"text": 5}'
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    flags = [f"--input={tmp_path}/texts.jsonl", f"--output={tmp_path}/answers.jsonl"]
    message = mistake(PROGRAM, "--model=bert_tiny_books", *flags)
    assert message == f"{tmp_path}/texts.jsonl:1501: column `text` must be a string. Received: 5"
    count = (tmp_path / "answers.jsonl").read_text().count("\n")
    assert 0 < count < 1500
    assert f"wrote the first {count:,} answers" in capsys.readouterr().err


def test_requests_have_rows_of_equally_many_choices():
    rows = [{"choices": list(choices)} for choices in ("ab", "cd", "ef", "abc", "ab")]
    assert list(rectangles(rows, 2)) == [rows[:2], rows[2:3], rows[3:4], rows[4:]]


def test_user_errors(model, build, pieces, tmp_path):
    """Of models and rows; tests/pipelines/test_early_checks.py has those that are found before."""
    keras_bert.save(build("question_answering"), tmp_path / "labeler", pieces)
    (tmp_path / "texts.jsonl").write_text('{"text": "a"}\n{"text": 1}\n')
    (tmp_path / "texts.csv").write_text("title,body\na,b\n")
    classifier = f"--model={model[0]}"
    labeler = f"--model={tmp_path}/labeler"
    folder = tmp_path
    for arguments, given, message in (
        ([classifier, "--question=a"], "b", f"{model[0]} has no question-answering head. Expected a model from "),
        ([labeler, "a"], "", f"{folder}/labeler answers questions. Use --question=... with --context_file=FILE or the"),
        ([classifier, "a", "b", "c"], "", "the arguments: expected text or text and pair. Received: 3 text(s)"),
        ([classifier], "a\tb\nc\n", "standard input:2: expected text and pair. Received: 1 text(s)"),
        ([classifier, f"--input={folder}/texts.jsonl"], "", f"{folder}/texts.jsonl:2: column `text` must be a string."),
        ([classifier, f"--input={folder}/texts.csv"], "", f"{folder}/texts.csv:1: no column `text`. It has: 'title', "),
    ):
        assert mistake(PROGRAM, *arguments, given=given).startswith(message), arguments


def test_long_texts(model, tmp_path):
    output = tmp_path / "answers.jsonl"
    flags = [f"--model={model[0]}", f"--output={output}", "--sequence_length=4"]
    call(PROGRAM, *flags, "--long_texts=windows", "--overlap=0", given="a b c d\n")
    answer = json.loads(output.read_text())
    assert [answer[name] for name in ("tokens", "tokens_read", "windows")] == [6, 6, 2]
    parts = keras_bert.load(model[0]).predict(["a b", "c d"], logits=True)
    of_parts = scipy.special.softmax(scipy.special.logsumexp([part["logits"] for part in parts], 0))
    np.testing.assert_allclose([answer["scores"][label] for label in LABELS], of_parts, atol=1e-6)
    call(PROGRAM, *flags, "--long_texts=tail", given="a b c d\n")
    scores = json.loads(output.read_text())["scores"]
    np.testing.assert_allclose([scores[label] for label in LABELS], model[1](["c d"])[0], atol=1e-6)
    assert "overlap=1" in mistake(PROGRAM, *flags, "--overlap=1", given="a b c d\n")
