"""A head with two outputs and answers of its own, in a user's file, at the edges of the package."""

import csv
import json
import re

import keras
import numpy as np
import pytest
import scipy.special

import keras_bert
from keras_bert.answering import prediction_files
from keras_bert.data.sources import PythonRows
from keras_bert.exporting.stored_options import stored_options
from keras_bert.files import read_json
from keras_bert.heads.answers import each_text, flat, of_outputs
from keras_bert.heads.head import check_inputs
from keras_bert.heads.registry import HEADS
from keras_bert.text.token_counts import with_counts
from tests import documents
from tests.conftest import to_numpy
from tests.extending.conftest import registered
from tests.pipelines.programs import call

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

from keras_bert.exporting.verification import verify  # noqa: E402
from keras_bert.tasks import Start, Task  # noqa: E402
from keras_bert.text.signatures import on_ids  # noqa: E402

LABELS = ["sport/tennis", "art/film", "sport/golf"]
CATEGORIES = ["art", "sport"]
PLUGIN = "--plugins=topics_head"
TEXTS = ["a b", "c d e f", "g"]
FIELDS = ["topic", "category", "score"]


@pytest.fixture(scope="module", autouse=True)
def user():
    """The module with the head, which is registered during these tests alone."""
    with registered("topics_head") as module:
        yield module


@pytest.fixture(scope="module")
def model(user, config):
    model = user.Topics().build(keras_bert.build_encoder(config), num_classes=3, num_categories=2)
    for name in ("topic", "category"):  # Texts have different answers.
        kernel = model.get_layer(name).kernel
        kernel.assign(np.random.default_rng(0).normal(size=kernel.shape))
    return model


@pytest.fixture(scope="module")
def folder(model, pieces, tmp_path_factory):
    folder = tmp_path_factory.mktemp("topics") / "model"
    keras_bert.save(model, folder, pieces, labels=LABELS, sequence_length=20)
    return folder


@pytest.fixture(scope="module")
def bert(folder):
    return keras_bert.load(folder)


def test_explanations(bert, model, pieces):
    """The logit of a topic, one of two outputs, without each word; gradients go through the layers of the head, too."""
    inputs = keras_bert.TextPreprocessor(pieces, 20, padding="longest")(["c d e f"])
    logit = float(model(inputs, training=False)["logits"][0, 2])
    expected_scores = []
    for position in range(1, 5):
        ids = np.array(inputs["token_ids"])
        ids[0, position] = pieces.index("[MASK]")
        outputs = model({**inputs, "token_ids": tf.constant(ids)}, training=False)
        expected_scores.append(logit - float(outputs["logits"][0, 2]))

    found = bert.explain("c d e f", "sport/golf")
    scores = [word["score"] for word in found["words"]]
    np.testing.assert_allclose(scores, expected_scores, atol=1e-6)

    gradients = bert.explain("c d e f", "sport/golf", method="integrated_gradients", n_steps=20)
    assert abs(gradients["delta"]) < 0.01 * abs(gradients["difference"])
    assert gradients["value"] == pytest.approx(found["value"], abs=1e-5)


def expected(model, pieces):
    """The answers by the formula."""
    inputs = keras_bert.TextPreprocessor(pieces, 20, padding="longest")(TEXTS)
    outputs = model(inputs, training=False)
    probabilities = scipy.special.softmax(to_numpy(outputs["logits"]), -1)
    categories = to_numpy(outputs["category_logits"]).argmax(-1)
    answers = []
    for row, category in zip(probabilities, categories, strict=True):
        answer = {
            "topic": LABELS[row.argmax()],
            "category": CATEGORIES[category],
            "score": pytest.approx(row.max(), abs=1e-5),
        }
        answers.append(answer)
    return answers


def fields_of(answers, names=FIELDS):
    """Answers without other fields, such as counts of tokens."""
    kept = []
    for answer in answers:
        kept.append({name: answer[name] for name in names})
    return kept


def read_table(path, delimiter=","):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def test_attention_pooling(model, pieces):
    """The vectors of tokens, weighted by the softmax of their products with the query; padding has no part."""
    inputs = keras_bert.TextPreprocessor(pieces, 20, padding="longest")(TEXTS)
    layer = model.get_layer("attention_pooling")
    features = keras.Model(model.input, [layer.input[0], layer.output])
    sequence, pooled = (to_numpy(value) for value in features(inputs, training=False))
    query = to_numpy(layer.query)[:, 0]
    for row, mask, found in zip(sequence, to_numpy(inputs["padding_mask"]), pooled, strict=True):
        tokens = row[mask == 1]
        np.testing.assert_allclose(found, scipy.special.softmax(tokens @ query) @ tokens, atol=1e-5)


def test_predict(bert, model, pieces):
    assert fields_of(bert.predict(TEXTS)) == expected(model, pieces)


def test_a_temperature(user, folder, model, pieces, monkeypatch):
    """With the option `confidence`, `respond` gets logits that are divided by it, also those of an export."""
    monkeypatch.setattr(user.Topics, "text_options", ("confidence",))
    bert = keras_bert.load(folder)
    monkeypatch.setattr(bert, "confidence", {"temperature": 0.5})
    inputs = keras_bert.TextPreprocessor(pieces, 20, padding="longest")(TEXTS)
    logits = to_numpy(model(inputs, training=False)["logits"])
    probabilities = scipy.special.softmax(logits / 0.5, -1)
    scores = [answer["score"] for answer in bert.predict(TEXTS)]
    np.testing.assert_allclose(scores, probabilities.max(-1), atol=1e-5)
    assert stored_options(bert)["confidence"] == {"temperature": 0.5}


def test_a_threshold_is_not_a_temperature(user, folder, monkeypatch):
    monkeypatch.setattr(user.Topics, "text_options", ("confidence",))
    bert = keras_bert.load(folder)
    monkeypatch.setattr(bert, "confidence", {"threshold": 0.5})
    with pytest.raises(ValueError, match="`confidence`"):
        bert.predict(TEXTS)


def test_calibration_without_the_option(bert):
    with pytest.raises(ValueError, match="`calibrate`.*head='topics'"):
        bert.fit(
            TEXTS * 2,
            LABELS * 2,
            task="topics",
            calibrate=True,
            validation=(TEXTS, LABELS),
            verbose=False,
        )


@pytest.fixture
def flags(folder, tmp_path):
    """Flags of `predict` for a file with the texts, in two batches."""
    lines = [f"{text},{text[0]}\n" for text in TEXTS]
    (tmp_path / "texts.csv").write_text("text,id\n" + "".join(lines))
    return [f"--model={folder}", PLUGIN, f"--input={tmp_path}/texts.csv", "--batch_size=2"]


def test_predict_of_an_argument(folder, model, pieces):
    printed = json.loads(call("pipelines.predict", f"--model={folder}", PLUGIN, TEXTS[0]))
    assert printed["text"] == TEXTS[0]
    assert fields_of([printed]) == expected(model, pieces)[:1]
    assert printed["tokens"] == 4
    assert printed["tokens_read"] == 4


def test_predict_of_a_file(flags, model, pieces, tmp_path):
    """Each answer has all its fields, as printed lines of JSON and as those of a file."""
    wanted = expected(model, pieces)
    printed = call("pipelines.predict", *flags).splitlines()
    assert fields_of([json.loads(line) for line in printed]) == wanted

    call("pipelines.predict", *flags, f"--output={tmp_path}/answers.jsonl")
    lines = (tmp_path / "answers.jsonl").read_text().splitlines()
    answers = [json.loads(line) for line in lines]
    assert fields_of(answers) == wanted
    assert [answer["id"] for answer in answers] == ["a", "c", "g"]


@pytest.mark.parametrize(("name", "delimiter"), [("answers.csv", ","), ("answers.tsv", "\t")])
def test_predict_writes_a_table(flags, model, pieces, tmp_path, name, delimiter):
    call("pipelines.predict", *flags, f"--output={tmp_path}/{name}")
    rows = read_table(tmp_path / name, delimiter)
    assert list(rows[0]) == ["text", "id", *FIELDS, "tokens", "tokens_read"]
    for row, answer in zip(rows, expected(model, pieces), strict=True):
        assert row["topic"] == answer["topic"]
        assert row["category"] == answer["category"]
        assert float(row["score"]) == answer["score"]


def test_predict_returns_a_frame(bert, model, pieces):
    pytest.importorskip("pandas")
    scores = bert.predict(TEXTS, as_frame=True)["score"]
    assert list(scores) == [answer["score"] for answer in expected(model, pieces)]


def test_nested_fields_in_tables(user, bert, flags, tmp_path, monkeypatch):
    """Lists and dicts of an answer are JSON in tables, and themselves in data frames; integers stay integers."""

    def answer(self, output, row, n_best):
        scores = {"topic": output["logits"].tolist(), "category": [0.25, 0.75]}
        return {"number": int(output["logits"].argmax()), "scores": scores}

    monkeypatch.setattr(user.Topics, "answer", answer)
    wanted = fields_of(bert.predict(TEXTS), ("number", "scores"))
    lines = call("pipelines.predict", *flags).splitlines()
    call("pipelines.predict", *flags, f"--output={tmp_path}/answers.csv")
    rows = read_table(tmp_path / "answers.csv")
    for line, row, answer in zip(lines, rows, wanted, strict=True):
        printed = json.loads(line)
        assert printed["number"] == answer["number"]
        assert int(row["number"]) == answer["number"]
        for scores in (printed["scores"], json.loads(row["scores"])):
            assert scores["category"] == [0.25, 0.75]
            assert scores["topic"] == pytest.approx(answer["scores"]["topic"], abs=1e-5)
    pytest.importorskip("pandas")
    scores = bert.predict(TEXTS, as_frame=True)["scores"]
    assert list(scores) == [answer["scores"] for answer in wanted]


OTHERS = [
    # A guest's own field beside those of a class; another class than that of the highest score; other scores.
    {"label": "a", "score": 0.75, "scores": {"a": 0.75, "b": 0.25}, "reason": ["x", {"y": np.float32(0.5)}]},
    {"label": "b", "score": 0.25, "scores": {"a": 0.75, "b": 0.25}},
    {"label": "a", "score": 0.75, "scores": [0.75, 0.25]},
    {"labels": ["a"], "scores": {"a": {"low": 0.5, "high": 1.0}}},
    {"labels": ["a"], "scores": np.array([0.5, 0.25])},
    {"entities": [{"text": "a", "label": "x", "start": 0, "end": 1, "score": 0.5, "id": np.int64(3)}]},
    {"entities": 3},
    {"answer": "a", "start": 1, "end": 2, "table": (1, 2)},
    {"answer": "a", "start": 1, "end": 2},
    {"fills": ["a"]},
    {"choice": 1, "scores": [0.25, 0.75]},
    {"translation": "a", "language": "de"},
    {"tokens": 3, "depth": 0.5},
    {"correct": True},
]


@pytest.mark.parametrize("answer", OTHERS, ids=lambda answer: "-".join(answer))
def test_answers_with_names_of_built_in_fields(tmp_path, answer):
    """They are shown as they are, without what the names mean in answers of another form."""
    counts = {"tokens": 4, "tokens_read": 4}
    counted = with_counts(answer, counts)
    assert prediction_files.table([counted]) is None

    plain = json.loads(json.dumps(answer, default=lambda value: value.tolist()))
    (line,) = prediction_files.readable({"text": "a b"}, counted)
    assert json.loads(line) == {"text": "a b", **with_counts(plain, counts)}

    prediction_files.write(tmp_path / "answers.csv", [(None, {"text": "a b"}, counted)], ",")
    (row,) = read_table(tmp_path / "answers.csv")
    for name, value in flat(plain).items():
        if isinstance(value, str):
            assert row[name] == value
        else:
            assert row[name] == json.dumps(value)


def test_answers_whose_classes_change(user, folder, monkeypatch):
    """A table has one header: where the classes are others, there is none."""

    def answer(self, output, row, n_best):
        scores = dict.fromkeys(row["text"].split(), 0.5)
        return {"label": row["text"][0], "score": 0.5, "scores": scores}

    monkeypatch.setattr(user.Topics, "answer", answer)
    flags = [f"--model={folder}", PLUGIN, "--batch_size=2"]
    lines = call("pipelines.predict", *flags, given="a b\na b\nc d\nc d\na\nb\n").splitlines()
    assert lines[:3] == ["label\ta\tb", "a\t0.5000\t0.5000", "a\t0.5000\t0.5000"]
    scores = [json.loads(line)["scores"] for line in lines[3:]]
    assert scores == [{"c": 0.5, "d": 0.5}, {"c": 0.5, "d": 0.5}, {"a": 0.5}, {"b": 0.5}]


RESERVED = ["tokens_read", "text_tokens"]


@pytest.mark.parametrize("reserved", RESERVED)
def test_reserved_names_of_outputs(user, reserved):
    attributes = {"name": "reading", "layer": "reading_pooling", "outputs": (reserved, "topic")}
    head = type("Reading", (user.Topics,), attributes)
    with pytest.raises(ValueError, match=f"`outputs` of a head.*Received: outputs=.*{reserved}.*numbers of toke"):
        keras_bert.register_head(head)
    assert all(head.name != "reading" for head in HEADS)


@pytest.mark.parametrize("reserved", RESERVED)
def test_reserved_names_of_answers(user, bert, monkeypatch, reserved):
    monkeypatch.setattr(user.Topics, "answer", lambda *_: {reserved: 3})
    with pytest.raises(ValueError, match=f"tokens and windows, which are added to answers.*'{reserved}'"):
        bert.predict("a b")


@pytest.mark.parametrize("reserved", RESERVED)
def test_reserved_names_of_responses(user, model, pieces, monkeypatch, tmp_path, reserved):
    monkeypatch.setattr(user.Topics, "respond", lambda self, outputs, labels: {reserved: outputs["logits"]})
    preprocessor = keras_bert.TextPreprocessor(pieces, 20)
    with pytest.raises(ValueError, match=f"'{reserved}'"):
        keras_bert.export(model, preprocessor, tmp_path / "1", labels=LABELS)


def test_an_answer_that_is_no_dict(user, bert, monkeypatch):
    monkeypatch.setattr(user.Topics, "answer", lambda *_: [3])
    with pytest.raises(ValueError, match=r"`answer` of a head.*Received: \[3\]"):
        bert.predict("a b")


@pytest.mark.parametrize("outputs", [("embedding",), ("answer", "score")])
def test_outputs_of_built_in_heads(user, outputs):
    """A client that asks a server would take their answers for those of the head."""
    converts = of_outputs(outputs)
    head = type("Topics", (user.Topics,), {"outputs": outputs, "name": "other", "layer": "other_pooling"})
    with pytest.raises(ValueError, match="`outputs`.*names of built-in heads"):
        keras_bert.register_head(head)
    assert of_outputs(outputs) is converts


def test_answers_of_a_server(bert, model, pieces):
    """What converts them is known by the outputs of the head."""
    arrays = {
        "topic": np.array([b"art/film"]),
        "category": np.array([b"art"]),
        "score": np.array([0.5]),
        "logits": np.array([[0.25, 0.5, 0.25]]),
        "tokens": np.array([4]),
        "tokens_read": np.array([4]),
    }
    (answer,) = each_text(of_outputs(arrays), arrays, [{"text": "a"}])
    assert answer == {"topic": "art/film", "category": "art", "score": 0.5, "tokens": 4, "tokens_read": 4}


ROW_TEXTS = []
ROW_LABELS = []
for word, label in zip("abc", LABELS, strict=True):
    ROW_TEXTS += [f"{word} {other}" for other in "defghi"]
    ROW_LABELS += [label] * 6


@pytest.fixture(scope="module")
def start(config, pieces, tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    keras_bert.save(keras_bert.build_encoder(config), folder, pieces)
    return folder


class Seen(keras.callbacks.Callback):
    """What Keras callbacks see."""

    def __init__(self):
        super().__init__()
        self.logs = []

    def on_epoch_end(self, epoch, logs=None):
        self.logs.append(logs)


def test_training(start, tmp_path):
    """The loss is the sum of both cross-entropies; the metric is the task's own, and selects the best epoch.

    A loss has any name: the lines of epochs, callbacks, the choice among epochs and runs, the report and the history
    know it.
    """
    seen = Seen()
    stopping = keras.callbacks.EarlyStopping("val_hierarchy", patience=9)
    validation = ([f"{text} j" for text in ROW_TEXTS], ROW_LABELS)
    bert = keras_bert.load(start).fit(
        ROW_TEXTS,
        ROW_LABELS,
        task="topics",
        sequence_length=6,
        batch_size=6,
        learning_rate=1e-3,
        epochs=2,
        validation=validation,
        callbacks=[seen, stopping],
        output_dir=tmp_path / "run",
        verbose=False,
    )
    assert stopping.mode == "min"
    assert bert.labels == sorted(LABELS)
    assert keras_bert.describe(bert.model()).options == {"num_classes": 3, "num_categories": 2}

    history = bert.results["history"]
    names = {"joint_accuracy", "accuracy", "macro_f1", "matthews_correlation"}
    columns = {"epoch", "loss", "val_loss", "val_hierarchy"}
    columns.update(f"val_{name}" for name in names)
    for line, logs in zip(history, seen.logs, strict=True):
        assert set(line) == columns
        assert logs["loss"] == logs["hierarchy"] == pytest.approx(line["loss"])
        assert logs["val_loss"] == logs["val_hierarchy"] == line["val_loss"] == line["val_hierarchy"]
    assert len(history) == 2

    (best,) = bert.results["runs"]
    assert best["losses"] == ["hierarchy"]
    assert set(best["scores"]) == {"hierarchy", *names}
    loss, scores = by_formula(bert, *validation)
    assert best["scores"]["hierarchy"] == pytest.approx(loss, abs=1e-5)
    evaluated = bert.evaluate(*validation, verbose=False)
    assert evaluated["hierarchy"] == pytest.approx(loss, abs=1e-5)
    assert {name: evaluated[name] for name in scores} == pytest.approx(scores)
    assert scores["joint_accuracy"] == max(line["val_joint_accuracy"] for line in history)
    report = (tmp_path / "run" / "report.html").read_text()
    assert "hierarchy" in report
    assert "joint accuracy" in report
    assert "No loss was logged" not in report


def test_documents_in_windows(start):
    """Of the topics, one window can decide: the logarithm of the mean of the exponentials; other outputs are means."""
    long_texts = [f"{text} a b c d e f {text} g h" for text in ROW_TEXTS]
    bert = keras_bert.load(start).fit(
        long_texts,
        ROW_LABELS,
        task="topics",
        sequence_length=6,
        epochs=1,
        long_texts="windows",
        overlap=0,
        verbose=False,
    )

    windows = bert.preprocessor(6).windows(long_texts)
    outputs = bert.model()(windows.packed(), training=False)
    row_of_window = windows.views.row.numpy()
    exponentials = np.exp(to_numpy(outputs["logits"]).astype("float64"))
    category_logits = to_numpy(outputs["category_logits"])
    logits = []
    categories = []
    for row in range(len(long_texts)):
        logits.append(np.log(exponentials[row_of_window == row].mean(0)))
        categories.append(category_logits[row_of_window == row].mean(0))
    topics = np.argmax(logits, -1)
    scores = scipy.special.softmax(logits, -1).max(-1)

    answers = bert.predict(long_texts)
    assert [answer["windows"] for answer in answers] == np.bincount(row_of_window).tolist()
    assert [answer["topic"] for answer in answers] == [bert.labels[topic] for topic in topics]
    assert [answer["category"] for answer in answers] == [CATEGORIES[best] for best in np.argmax(categories, -1)]
    np.testing.assert_allclose([answer["score"] for answer in answers], scores, atol=1e-5)
    targets = np.array([bert.labels.index(label) for label in ROW_LABELS])
    evaluated = bert.evaluate(long_texts, ROW_LABELS, verbose=False)
    assert evaluated["accuracy"] == np.mean(topics == targets)


def by_formula(bert, texts, labels):
    """Returns the loss and the accuracies of a model, from its logits."""
    outputs = bert.model()(bert.preprocessor(6)(texts), training=False)
    topics = np.array([bert.labels.index(label) for label in labels])
    categories = np.array([CATEGORIES.index(label.split("/")[0]) for label in labels])
    topic_losses, is_topic = losses_of(outputs["logits"], topics)
    category_losses, is_category = losses_of(outputs["category_logits"], categories)
    losses = topic_losses + category_losses
    is_both = is_topic & is_category
    return losses.mean(), {"accuracy": is_topic.mean(), "joint_accuracy": is_both.mean()}


def losses_of(logits, targets):
    """Returns cross-entropies, and whether the highest logit is that of the target."""
    logits = to_numpy(logits)
    losses = -scipy.special.log_softmax(logits, -1)[np.arange(len(targets)), targets]
    return losses, logits.argmax(-1) == targets


def test_weights_of_classes(user, start):
    """They weight the rows, with both terms of the loss."""
    labels = ["sport/tennis", "art/film", "art/film", "art/film"]
    data = read_data(user, ["a", "b", "b", "b"], labels)
    settings = user.TopicTask.Settings(sequence_length=6, class_weight="balanced")
    task = user.TopicTask(data, Start("start", keras_bert.load(start)), settings)
    # The last of four rows is wrong; its category and that of the others have even chances.
    outputs = {
        "logits": np.array([[0, 1], [1, 0], [1, 0], [0, 1]], "float32"),
        "category_logits": np.zeros((4, 2), "float32"),
    }
    loss, weight = task.training.loss.sums(tf.constant([1, 0, 0, 0]), outputs, tf.ones(4))
    right = np.log1p(np.exp(-1)) + np.log(2)
    wrong = np.log1p(np.exp(1)) + np.log(2)
    assert float(weight) == pytest.approx(2 + 3 * 2 / 3)
    assert float(loss) == pytest.approx(2 * right + 2 / 3 * (2 * right + wrong), abs=1e-5)


def read_data(user, texts, labels):
    """The data of the task, with the same rows for training and validation."""
    rows = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
    source = PythonRows("texts", rows)
    return user.TopicTask.rows.read(source, source, None, name="topics")


def test_what_a_task_offers_when(user, start, monkeypatch):
    """As the table of the guide says: where the loss is made, the classes are known, and no rows are tokenized."""
    page = (documents.ROOT / "docs" / "guides" / "extending.md").read_text()
    moments = {}
    for names, moment in re.findall(r"^\| (`[^|]+`) \|[^|]+\| (2|3, [^|]+) \|$", page, re.MULTILINE):
        moments.update(dict.fromkeys(re.findall(r"`(\w+)`", names), moment))
    assert {"settings", "bert", "labels", "splits"} <= set(moments)
    known = {}

    def before(self, data, start, settings):
        made(self, data, start, settings)
        known["2"] = {name for name in moments if name in vars(self)}

    def head_loss(self, class_weights):
        known["loss"] = {name for name in moments if name in vars(self.task)}
        known["loss"].add("report")  # Made on its first use.
        return keras_bert.losses.classification_loss()

    made = Task.__init__
    monkeypatch.setattr(Task, "__init__", before)
    monkeypatch.setattr(user.TopicTraining, "head_loss", head_loss)
    data = read_data(user, TEXTS, LABELS)
    settings = user.TopicTask.Settings(sequence_length=6)
    task = user.TopicTask(data, Start("start", keras_bert.load(start)), settings)
    assert known["2"] == {name for name, moment in moments.items() if moment == "2"}
    assert known["loss"] == {name for name, moment in moments.items() if moment != "3, after the loss"}
    assert all(hasattr(task, name) for name in moments)


def test_packed_rows_are_refused(start):
    """Before rows are tokenized: the pooling reads the padding of one text."""
    with pytest.raises(ValueError, match="`pack`.* the head 'topics'"):
        keras_bert.load(start).fit(ROW_TEXTS, ROW_LABELS, task="topics", pack=True, verbose=False)


@pytest.mark.parametrize("name", ["", "learning_rate", "step", 3])
def test_names_that_losses_cannot_have(name):
    with pytest.raises(ValueError, match=f"`name` of a loss .*name={name!r}"):
        keras_bert.losses.Loss(name, lambda targets, outputs: outputs["logits"])


def test_lora(start, caplog, tmp_path):
    """Adapters are trained and merged into the model; peft has no place for the head, which is said before."""
    first = keras_bert.load(start)
    with caplog.at_level("INFO"):
        bert = first.fit(
            ROW_TEXTS,
            ROW_LABELS,
            task="topics",
            sequence_length=6,
            batch_size=6,
            epochs=1,
            learning_rate=1e-2,
            lora_rank=2,
            validation=(ROW_TEXTS, ROW_LABELS),
            output_dir=tmp_path / "run",
        )
    text = caplog.text
    assert "no `adapter` is written" in text
    assert text.index("peft's format has no place for the head topics") < text.index("training:")

    made = {path.name for path in (tmp_path / "run").iterdir()}
    assert made >= {"model", "saved_model", "report.html", "results.json"}
    assert "adapter" not in made
    again = keras_bert.load(tmp_path / "run" / "model")
    assert bert.predict(ROW_TEXTS) == again.predict(ROW_TEXTS)

    changed = []
    for weight, before in zip(bert.encoder.weights, first.encoder.weights, strict=True):
        if not np.array_equal(weight, before):
            changed.append(weight.path)
    assert changed
    for path in changed:
        assert "attention" in path or "feed_forward" in path or "pooler" in path


def conversations(preprocessor, model, labels):
    """Returns the signature of conversations, `(batch, turns)`, with the weight of each turn and two more inputs."""
    specs = [
        tf.TensorSpec([None, None], tf.string, "turns"),
        tf.TensorSpec([None, None], tf.float32, "weights"),
        tf.TensorSpec([None, 2, 3], tf.string, "pair"),
        tf.TensorSpec([None], tf.bool, "is_closed"),
        tf.TensorSpec([None], tf.string, "choices"),
    ]

    @tf.function(input_signature=specs, autograph=False)
    def answer(turns, weights, pair, is_closed, choices):
        pair_texts = tf.strings.reduce_join(pair, [1, 2], separator=" ")
        turn_texts = tf.strings.reduce_join(turns, 1, separator=" ")
        texts = tf.strings.join([turn_texts, pair_texts, choices], " ")
        outputs = model(preprocessor(texts), training=False)
        category = tf.gather(tf.constant(labels), tf.argmax(outputs["logits"], 1))
        scale = tf.reduce_sum(weights, 1) + tf.cast(is_closed, "float32")
        return {"category": category, "scale": scale}

    return {"serving_default": answer}


EXAMPLE = {
    "turns": ["a"],
    "weights": [0.5],
    "pair": [["a", "a", "a"], ["a", "a", "a"]],
    "is_closed": True,
    "choices": "b",
}


def test_probes_have_the_ranks_of_the_signature(user, model, pieces, monkeypatch, tmp_path):
    monkeypatch.setattr(user.Topics, "signature_builder", lambda self, description: conversations)
    preprocessor = keras_bert.TextPreprocessor(pieces, 20)
    keras_bert.export(model, preprocessor, tmp_path / "1", labels=LABELS, example=EXAMPLE)
    probes = read_json(tmp_path / "1" / "assets.extra" / "probes.json")
    inputs = probes["serving_default"]["inputs"]
    shapes = {name: np.shape(values) for name, values in inputs.items()}
    assert shapes == {
        "turns": (4, 3),
        "weights": (4, 3),
        "pair": (4, 2, 3),
        "is_closed": (4,),
        "choices": (4,),
    }
    (report,) = verify([tmp_path / "1"])
    assert report.problems == []
    assert report.lines[0].startswith("serving_default: 4 rows")


@pytest.mark.parametrize("wrong", [{"is_closed": "yes"}, {"turns": "a"}])
def test_examples_of_another_form(user, model, pieces, monkeypatch, tmp_path, wrong):
    monkeypatch.setattr(user.Topics, "signature_builder", lambda self, description: conversations)
    preprocessor = keras_bert.TextPreprocessor(pieces, 20)
    example = {**EXAMPLE, **wrong}
    with pytest.raises(ValueError, match=r"`example` .*`turns` \(list\), .*`is_closed` \(Number\)"):
        keras_bert.export(model, preprocessor, tmp_path / "2", labels=LABELS, example=example)


def test_an_input_that_is_no_text(user, model, pieces, monkeypatch):
    """A head that computes another input itself is exported; the signature `tokens` takes it as the model does."""
    values = keras.Input((2,), name="values")
    outputs = dict(model.output)
    outputs["category_logits"] = outputs["category_logits"] + values
    wider = keras.Model({**model.input, "values": values}, outputs, name="topic_classifier")
    preprocessor = keras_bert.TextPreprocessor(pieces, 20)

    def with_values(model, preprocessor):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")], autograph=False)
        def answer(text):
            count = tf.cast(tf.strings.length(text), "float32")
            inputs = preprocessor(text)
            inputs["values"] = tf.stack([count, count], 1)
            outputs = model(inputs, training=False)
            return {"category_logits": outputs["category_logits"]}

        return {"serving_default": answer}

    with pytest.raises(ValueError, match="'topics' .*Received: values"):
        check_inputs(user.Topics(), wider)
    monkeypatch.setattr(user.Topics, "signature_builder", lambda self, description: with_values)
    check_inputs(user.Topics(), wider)
    tokens = on_ids(wider)
    specs = {spec.name: spec for spec in tokens.input_signature}
    assert specs["values"].shape.as_list() == [None, 2]
    assert specs["values"].dtype == tf.float32
    assert specs["token_ids"].shape.as_list() == [None, None]
    assert specs["token_ids"].dtype == tf.int32
    ids = preprocessor(["a b"])
    found = tokens(*ids.values(), tf.constant([[1.0, 2.0]]))["category_logits"]
    expected = model(ids, training=False)["category_logits"] + [[1.0, 2.0]]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("shape", [None, [], [1, None]])
def test_signatures_without_a_batch(user, model, pieces, monkeypatch, tmp_path, shape):
    def alone(model):
        @tf.function(input_signature=[tf.TensorSpec(shape, tf.string, "text")], autograph=False)
        def answer(text):
            return {"category": tf.strings.length(text)}

        return {"serving_default": answer}

    monkeypatch.setattr(user.Topics, "signature_builder", lambda self, description: alone)
    preprocessor = keras_bert.TextPreprocessor(pieces, 20)
    with pytest.raises(ValueError, match="a known rank, and a free first dimension.*Received: text of"):
        keras_bert.export(model, preprocessor, tmp_path / "1", labels=LABELS)
    assert not (tmp_path / "1").exists()


@keras.saving.register_keras_serializable("topics_test")
class Parents(keras.layers.Layer):
    """Adds the logits of the categories to those of their topics; integers say which belong together."""

    def __init__(self, num_classes, num_categories, **kwargs):
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self.num_categories = num_categories

    def build(self, topics_shape, categories_shape):
        numbers = [number % self.num_categories for number in range(self.num_classes)]
        self.numbers = self.add_weight(
            shape=(self.num_classes,),
            dtype="int32",
            initializer=lambda *_, **__: keras.ops.convert_to_tensor(numbers, "int32"),
            trainable=False,
            name="numbers",
        )

    def call(self, topics, categories):
        return topics + keras.ops.take(categories, self.numbers, axis=-1)

    def get_config(self):
        config = super().get_config()
        config.update(num_classes=self.num_classes, num_categories=self.num_categories)
        return config


@keras.saving.register_keras_serializable("topics_test")
class Best(keras.layers.Layer):
    """The number of the highest logit."""

    def call(self, logits):
        return keras.ops.argmax(logits, -1)


def write_parents(graph, layer, topics, categories):
    numbers = graph.weight(layer.numbers, layer.name)
    return graph.add("Add", topics, graph.add("Gather", categories, numbers, axis=1))


def write_best(graph, layer, logits):
    return graph.add("ArgMax", logits, axis=1, keepdims=0)


def nested(user):
    """A head with integers as weights, an output of integers, and two outputs that are the same."""

    class Nested(user.Topics):
        name = "nested"
        layer = "parents"
        outputs = ("best",)
        tensors = {**user.Topics.tensors, "parents.numbers": "topics.parents"}
        onnx = {**user.Topics.onnx, "parents": write_parents, "best": write_best}

        def build(self, encoder, num_classes, num_categories, dropout=0.1):
            model = super().build(encoder, num_classes, num_categories, dropout)
            layers = {layer.name: layer for layer in model.layers}
            layers["parents"] = Parents(num_classes, num_categories, name="parents")
            layers["best"] = Best(name="best")
            outputs = self.run(layers, encoder.output, encoder.input)
            return keras.Model(encoder.input, outputs, name="nested_classifier")

        def run(self, layers, encoded, inputs):
            outputs = super().run(layers, encoded, inputs)
            if "parents" not in layers:  # In `build` of the other head.
                return outputs
            parents = layers["parents"](outputs["logits"], outputs["category_logits"])
            best = layers["best"](parents)
            return {**outputs, "parents": parents, "same": parents, "best": best}

    return keras_bert.register_head(Nested)


def test_onnx(user, config, model, pieces, tmp_path):
    """Layers are called like outputs, and a constant of one like its layer."""
    onnxruntime = pytest.importorskip("onnxruntime")
    preprocessor = keras_bert.TextPreprocessor(pieces, 20, padding="longest")
    inputs = preprocessor(TEXTS)
    ids = {name: np.asarray(value, "int32") for name, value in inputs.items()}
    encoder = keras_bert.build_encoder(config)
    nested_model = nested(user)().build(encoder, num_classes=3, num_categories=2)
    for each in (model, nested_model):
        report = keras_bert.export_onnx(each, preprocessor, tmp_path / each.name, labels=LABELS)
        session = onnxruntime.InferenceSession(str(report.path))
        names = [output.name for output in session.get_outputs()]
        assert names == [*each.output]
        found = dict(zip(names, session.run(None, ids), strict=True))
        for name, expected in each(inputs, training=False).items():
            np.testing.assert_allclose(found[name], expected, atol=1e-5)
    assert found["best"].dtype == np.int32
    assert found["best"].tolist() == found["same"].argmax(-1).tolist()


def test_litert(model, pieces, tmp_path):
    pytest.importorskip("ai_edge_litert")
    preprocessor = keras_bert.TextPreprocessor(pieces, 20)
    report = keras_bert.export_litert(model, preprocessor, tmp_path / "lite", labels=LABELS)
    assert report.difference < 1e-5


def test_names_and_types_in_a_graph():
    """Constants and nodes have names of their own; integers, booleans and numbers have a type each."""
    pytest.importorskip("onnx")
    from onnx import numpy_helper

    graph = keras_bert.exporting.Graph(["text", "Add_0"])
    assert graph.constant(1.0, "text") == "text_2"
    assert graph.constant(1.0, "table") == "table"
    assert graph.constant(1.0, "table") == "table_2"
    assert graph.add("Add", "text", 2) == "Add_0_2"
    count_before = len(graph.constants)

    graph.weight(keras.Variable(np.array([2, 3]), dtype="int8", trainable=False), "variable")
    graph.weight(keras.Variable(2.0, dtype="float16"), "variable")
    graph.constant(np.array([True, False]))
    graph.constant(np.array([1], "uint8"))
    arrays = [numpy_helper.to_array(constant) for constant in graph.constants]
    types = [array.dtype.name for array in arrays]
    assert types[:count_before] == ["float32", "float32", "float32", "int64"]
    assert types[count_before:] == ["int64", "float32", "bool", "int64"]
    assert arrays[count_before].tolist() == [2, 3]
