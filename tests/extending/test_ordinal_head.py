"""A head in a user's own file keeps the promises of the built-in ones, by public names alone."""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.files import MODEL_FACTS
from keras_bert.heads.answers import each_text, of_outputs
from keras_bert.heads.registry import HEADS
from tests.conftest import SEED, relative, to_numpy
from tests.extending.conftest import registered
from tests.pipelines.programs import call, run
from tests.serving.conftest import running  # noqa: F401

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.exporting.verification import verify  # noqa: E402
from keras_bert.runs.saved_model_scores import compare  # noqa: E402

FILE = pathlib.Path(__file__).with_name("ordinal_head.py")
GRADES = ["poor", "fair", "good", "great"]
PLUGIN = "--plugins=ordinal_head"
TEXTS = ["a b", "c d e f", "g", "a c e g h i j", ""]


@pytest.fixture(scope="module", autouse=True)
def user():
    """The module with the head, which is registered during these tests alone."""
    with registered("ordinal_head") as module:
        keras_bert.register_head(module.Ordinal)
        yield module


@pytest.fixture(scope="module")
def model(user, config, pieces):
    """A model with cutpoints between the scores of the first four texts."""
    keras.utils.set_random_seed(1)
    model = user.Ordinal().build(keras_bert.build_encoder(config), num_classes=4, dropout=0.2, spread=0.5)
    model.get_layer("score").kernel.assign(np.random.default_rng(0).normal(size=(32, 1)))
    found = np.sort(scores(model, keras_bert.TextPreprocessor(pieces, 20), TEXTS[:4]))
    places = (found[1:] + found[:-1]) / 2
    model.get_layer("cutpoints").steps.assign([places[0], *np.log(np.expm1(np.diff(places)))])
    return model


def scores(model, preprocessor, texts):
    features = keras.Model(model.input, model.get_layer("score").output)
    return to_numpy(features(preprocessor(texts), training=False))[:, 0]


@pytest.fixture(scope="module")
def folder(model, pieces, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ordinal") / "model"
    keras_bert.save(model, folder, pieces, labels=GRADES, pair=False, sequence_length=20)
    return folder


@pytest.fixture(scope="module")
def bert(folder):
    return keras_bert.load(folder)


@pytest.fixture(scope="module")
def exported(bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "ordinal" / "1"
    bert.export(folder)
    return folder


def expected(model, preprocessor):
    """The grades by the formula: the number of cutpoints that the score is above of; and the probabilities of each."""
    found = scores(model, preprocessor, TEXTS)[:, None]
    first, *steps = to_numpy(model.get_layer("cutpoints").steps)
    places = np.cumsum([first, *np.log1p(np.exp(steps))])
    return (found > places).sum(1), 1 / (1 + np.exp(places - found))


def check(answers, model, preprocessor, atol=1e-5):
    ranks, above = expected(model, preprocessor)
    assert set(ranks) == {0, 1, 2, 3}
    for answer, rank, row in zip(answers, ranks, above, strict=True):
        assert (answer["grade"], answer["rank"]) == (GRADES[rank], rank)
        np.testing.assert_allclose(answer["at_least"], [1.0, *row], atol=atol)


def test_describe(model):
    description = keras_bert.describe(model)
    assert (description.head, description.options) == ("ordinal", {"num_classes": 4, "spread": 0.5})
    assert description.config.classifier_dropout == 0.2
    same = keras.models.clone_model(model)
    assert keras_bert.describe(same).options == description.options
    other = keras.Model(model.input, {"above": 2.0 * model.output["above"]})
    with pytest.raises(ValueError, match="must come from a builder of keras_bert"):
        keras_bert.describe(other)


def test_save_and_load(model, bert, folder, pieces, tmp_path):
    assert (bert.head, bert.labels, bert.config.classifier_dropout) == ("ordinal", GRADES, 0.2)
    assert bert.metadata.head_options == {"spread": 0.5}
    assert keras_bert.describe(bert.model()).options == {"num_classes": 4, "spread": 0.5}
    assert bert.left_out(bert.model()) == []
    for loaded in (bert, load_after_saving(bert, tmp_path / "again")):
        for weight, same in zip(loaded.model().weights, model.weights, strict=True):
            np.testing.assert_array_equal(to_numpy(weight), to_numpy(same))
    keras_bert.save(model, tmp_path / "file", pieces, labels=GRADES, format="keras")
    again = keras_bert.load(tmp_path / "file")
    assert (again.head, again.labels, again.metadata.head_options) == ("ordinal", GRADES, {"spread": 0.5})
    np.testing.assert_array_equal(to_numpy(again.model().weights[-1]), to_numpy(model.weights[-1]))
    with pytest.raises(ValueError, match="Google's format has no names for a ordinal head"):
        keras_bert.save(model, tmp_path / "google", pieces, format="google")


def load_after_saving(bert, folder):
    bert.save(folder)
    return keras_bert.load(folder)


def test_a_layout_of_transformers(user, config, pieces, tmp_path):
    """The encoder opens as DistilBERT's, and the whole model here."""
    transformers = pytest.importorskip("transformers")
    config = dataclasses.replace(config, type_vocab_size=0, pooler_activation="relu")
    model = user.Ordinal().build(keras_bert.build_encoder(config), num_classes=3)
    keras_bert.save(model, tmp_path, pieces)
    bert = keras_bert.load(tmp_path)
    assert (bert.model_type, bert.has_pooler) == ("distilbert", True)
    inputs = bert.preprocessor(9)(["a b c"])
    expected = model(inputs, training=False)["above"]
    np.testing.assert_allclose(bert.model()(inputs)["above"], expected, atol=1e-6)
    twin = transformers.AutoModel.from_pretrained(tmp_path)
    assert type(twin).__name__ == "DistilBertModel"


def test_predict(bert, model):
    preprocessor = bert.preprocessor(20, padding="longest")
    check(bert.predict(TEXTS), model, preprocessor)
    assert bert.predict("a b")["at_least"] == pytest.approx(bert.predict(["a b"])[0]["at_least"])
    with pytest.raises(ValueError, match="takes a text. Received: a pair of texts"):
        bert.predict([("a", "b")])
    with pytest.raises(ValueError, match="`predict` has no option 'doc_stride' for head='ordinal'"):
        bert.predict("a", doc_stride=1)


PROGRAM = """
import json, sys
import keras_bert, ordinal_head
print(json.dumps(keras_bert.load(sys.argv[1]).predict(json.loads(sys.argv[2]))))
"""


@pytest.mark.slow
def test_a_head_can_require_pairs(user, bert, model, pieces, tmp_path, monkeypatch):
    assert type("Pairs", (keras_bert.Head,), {"requires_pair": True}).takes_pair
    monkeypatch.setattr(user.Ordinal, "requires_pair", True)
    assert bert.predict([("a", "b")])[0]["grade"] in GRADES
    for ask, message in {
        lambda: bert.predict(["a b"]): r"`texts`: the model \(head='ordinal'\) takes a pair of .*only a text at index",
        lambda: bert.fit(["a", "b"], GRADES[:2], task="grading"): "texts: the head 'ordinal' takes pairs of texts. Rec",
        lambda: keras_bert.export(model, keras_bert.TextPreprocessor(pieces, 20), tmp_path, labels=GRADES): (
            "`pair` must be True for a model with head='ordinal'. Received: pair=False"
        ),
    }.items():
        with pytest.raises(ValueError, match=message):
            ask()


def test_a_fresh_process(bert, folder):
    command = [sys.executable, "-c", PROGRAM, str(folder), json.dumps(TEXTS)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FILE.parents[2]), str(FILE.parent)])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    for answer, other in zip(json.loads(done.stdout.splitlines()[-1]), bert.predict(TEXTS), strict=True):
        assert answer["grade"] == other["grade"]
        np.testing.assert_allclose(answer["at_least"], other["at_least"], atol=1e-5)


def test_a_head_that_is_not_registered(user, folder, caplog):
    """One line tells how to register it; the encoder opens without it."""
    HEADS[:], known = [head for head in HEADS if head.name != "ordinal"], HEADS[:]
    try:
        with pytest.raises(ValueError, match="must be a registered head.*Received: head='ordinal'.*heads=") as error:
            keras_bert.load(folder)
        assert "head='encoder'" in str(error.value).splitlines()[-1]
        assert len(str(error.value).splitlines()) == 1
        encoder = keras_bert.load(folder, head="encoder")
        assert (encoder.head, encoder.labels) == ("encoder", None)
        assert encoder.encode(["a b"]).shape == (1, 32)
        assert "ordinal.cutpoints" in caplog.text
        assert keras_bert.load(folder, heads=[user.Ordinal]).head == "ordinal"
        assert keras_bert.load(folder, heads=[user.Ordinal()]).head == "ordinal"
    finally:
        HEADS[:] = known


def test_options_of_another_head(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["keras_bert"]["head_options"] |= {"width": 3}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="`head_options` of head=.ordinal. must be spread. Received: width"):
        keras_bert.load(tmp_path / "model").model()


def with_layer(user, name):
    """A head that is known by a layer that other models have, too."""

    class Twice(user.Ordinal):
        pass

    Twice.name, Twice.layer = "twice", name
    return Twice


def test_a_built_in_classifier_is_saved_whole(user, config, pieces, tmp_path):
    """Whatever was refused before; and a head that came in another way is compared with the models of our builders."""
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), num_classes=2)
    with pytest.raises(ValueError, match="`layer` of a head"):
        keras_bert.register_head(with_layer(user, "pooler"))
    keras_bert.save(model, tmp_path / "model", pieces, labels=["no", "yes"])
    bert = keras_bert.load(tmp_path / "model")
    assert (bert.head, bert.labels) == ("classification", ["no", "yes"])
    kernels = [each.get_layer("classifier").kernel for each in (bert.model(), model)]
    np.testing.assert_array_equal(*map(to_numpy, kernels))

    class Unseen(user.Ordinal):
        name, layer = "unseen", "head_dropout"

        def described(self, layers):
            return {"num_classes": 2, "spread": 1.0}

    HEADS.append(Unseen())
    try:
        with pytest.raises(ValueError, match="`model` must come from a builder of keras_bert"):
            keras_bert.save(model, tmp_path / "other", pieces, labels=["no", "yes"])
    finally:
        HEADS.pop()
    assert not (tmp_path / "other").exists()
    assert keras_bert.describe(model).head == "classification"


def test_what_cannot_be_registered(user):
    class Other(user.Ordinal):
        name = "other"

    class Classification(user.Ordinal):
        name, layer = "classification", "own"

    for head, message in (
        (3, "`head` must be a subclass of keras_bert.Head, or an instance. Received: head=3"),
        (keras.Model, "`head` must be a subclass of keras_bert.Head"),
        (keras_bert.Head, "`head` must have a `name`"),
        (Other, "`layer` of a head must be new. Received: layer='cutpoints', which ordinal_head.Ordinal has"),
        (Classification, "`name` of a head must be new. Received: name='classification', which keras_bert.heads.class"),
        *(
            (with_layer(user, name), f"a layer that only its models have. Received: layer='{name}', which the encoder")
            for name in ("pooler", "token_embedding", "block_0", "block_11", "attention_mask")
        ),
        (with_layer(user, "embeddings"), "layer='embeddings', which keras_bert.heads.embedding.Vectors has"),
        (with_layer(user, "head_dropout"), "layer='head_dropout', which classifiers have"),
        (with_layer(user, "unit_length"), "layer='unit_length', which keras_bert.heads.embedding.Embedding has"),
    ):
        with pytest.raises(ValueError, match=message):
            keras_bert.register_head(head)
    before = len(HEADS)
    assert keras_bert.register_head(user.Ordinal) is user.Ordinal
    assert len(HEADS) == before


def test_a_saved_model(bert, model, exported):
    facts = json.loads((exported / MODEL_FACTS).read_text())
    assert (facts["head"], facts["labels"], facts["pair"]) == ("ordinal", GRADES, False)
    outputs = tf.saved_model.load(str(exported)).signatures["serving_default"](text=tf.constant(TEXTS))
    ranks, above = expected(model, bert.preprocessor(20, padding="longest"))
    assert outputs["grade"].numpy().tolist() == [GRADES[rank].encode() for rank in ranks]
    np.testing.assert_allclose(outputs["above"], above, atol=1e-5)


def test_the_server_and_its_client(bert, exported, running):  # noqa: F811
    rows = [{"text": text} for text in TEXTS]
    with running(exported.parents[1]) as server, keras_bert.serving.Client(f"127.0.0.1:{server.port}") as client:
        outputs = client.predict("ordinal", TEXTS)
        printed = call("pipelines.predict", f"--server=127.0.0.1:{server.port}", "--model=ordinal", PLUGIN, "a b")
    check(each_text(of_outputs(outputs), outputs, rows), bert.model(), bert.preprocessor(20, padding="longest"))
    assert json.loads(printed) == line("a b", bert)


def line(text, bert):
    """What `predict` prints."""
    answer = bert.predict(text)
    return {"text": text, **answer, "at_least": pytest.approx(answer["at_least"], rel=1e-4)}


def test_commands(bert, model, folder, tmp_path, monkeypatch):
    printed = call("pipelines.predict", f"--model={folder}", PLUGIN, "a b")
    assert json.loads(printed) == line("a b", bert)
    given = {}
    monkeypatch.setitem(vars(keras_bert), "export", lambda *_, **options: given.update(options))
    printed = call("pipelines.export_saved_model", f"--model={folder}", f"--output_dir={tmp_path}/served", PLUGIN)
    assert printed.startswith(f"wrote {tmp_path}/served/1\n")
    assert (given["labels"], given["pair"]) == (GRADES, False)


@pytest.mark.slow
def test_int8_and_verification(bert, exported, tmp_path):
    bert.export(tmp_path / "1", precision="int8")
    assert [report.problems for report in verify([tmp_path / "1", exported])] == [[], []]
    served, whole = (
        tf.saved_model.load(str(path)).signatures["serving_default"] for path in (tmp_path / "1", exported)
    )
    found, expected = (run(text=tf.constant(TEXTS))["above"].numpy() for run in (served, whole))
    assert 0 < np.abs(found - expected).max() < 0.1


def test_onnx(bert, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    keras_bert.export_onnx(bert.model(), bert.preprocessor(20), tmp_path / "onnx")
    session = runtime.InferenceSession(str(tmp_path / "onnx" / "model.onnx"))
    inputs = {name: to_numpy(value).astype("int32") for name, value in bert.preprocessor(20)(TEXTS).items()}
    (above,) = session.run(["above"], inputs)
    assert relative(above, to_numpy(bert.model()(inputs, training=False)["above"])) < 1e-5


WORDS = dict(zip("abcd", GRADES, strict=True))
ROWS = [(f"{word} {end}", grade) for word, grade in WORDS.items() for end in "efgh"]


@pytest.fixture
def start(config, pieces, tmp_path):
    keras.utils.set_random_seed(SEED)
    keras_bert.save(keras_bert.build_encoder(config), tmp_path / "start", pieces)
    return tmp_path / "start"


@pytest.mark.usefixtures("eager")
def test_fit_and_evaluate(user, start, tmp_path):
    """The task learns by the loss of the head; its report, card and export are those of classification."""
    texts, grades = map(list, zip(*ROWS, strict=True))
    given = {"task": "grading", "labels": GRADES, "sequence_length": 8, "verbose": False, "batch_size": 8, "epochs": 1}
    given |= {"validation": ([f"{text} i" for text in texts], grades), "output_dir": tmp_path / "run"}
    bert = keras_bert.load(start).fit(texts, grades, learning_rate=1e-3, **given)
    assert (bert.head, bert.task, bert.labels) == ("ordinal", "grading", GRADES)
    answers = bert.predict(texts)
    above = np.array([answer["at_least"] for answer in answers]).T
    for number, loss in ((0, "poor"), (3, "great")):
        wanted = -np.log(np.where(np.arange(4)[1:, None] > number, 1 - above[1:], above[1:])).sum(0).mean()
        assert bert.evaluate(texts, [loss] * 16, verbose=False)["ordinal_loss"] == pytest.approx(wanted, abs=1e-4)
    predicted = [answer["grade"] for answer in answers]
    assert bert.evaluate(texts, predicted, verbose=False)["accuracy"] == 1
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "With transformers, the encoder alone" in card
    assert "pipeline_tag: text-classification" in card
    assert "<h2>Confusion matrix</h2>" in (tmp_path / "run" / "report.html").read_text()
    signature = tf.saved_model.load(str(tmp_path / "run" / "saved_model" / "1")).signatures["serving_default"]
    assert [grade.decode() for grade in signature(text=tf.constant(texts))["grade"].numpy()] == predicted
    table = tmp_path / "dev.csv"
    table.write_text("text,label\n" + "".join(f"{text} i,{grade}\n" for text, grade in ROWS))
    served = compare(tmp_path / "run" / "saved_model" / "1", table).scores
    assert served == {name: pytest.approx(100 * bert.results["scores"][name], abs=1e-3) for name in served}
    written = [path.stat().st_mtime_ns for path in (tmp_path / "run" / "runs").rglob("metrics.jsonl")]
    again = keras_bert.load(start).fit(texts, grades, learning_rate=1e-3, **given)  # It is finished.
    assert again.results["scores"] == bert.results["scores"]
    assert written == [path.stat().st_mtime_ns for path in (tmp_path / "run" / "runs").rglob("metrics.jsonl")]
    with pytest.raises(ValueError, match=r"texts\[0\]: unknown label 'bad'. Expected one of: 'poor', 'fair', 'good'"):
        bert.evaluate(["a b"], ["bad"], verbose=False)


@pytest.mark.usefixtures("eager")
def test_packed_rows(user, start, monkeypatch):
    """A head that reads the pooled vectors alone may share rows, if it says so."""
    texts, grades = map(list, zip(*ROWS, strict=True))
    given = {"task": "grading", "sequence_length": 8, "verbose": False, "batch_size": 8, "epochs": 1, "pack": True}
    with pytest.raises(ValueError, match="`pack`: only for classification and tagging with BERT.* head 'ordinal'"):
        keras_bert.load(start).fit(texts, grades, **given)
    monkeypatch.setattr(user.Ordinal, "packs", True)
    bert = keras_bert.load(start).fit(texts, grades, **given)
    assert {answer["grade"] for answer in bert.predict(texts)} <= {*GRADES}


@pytest.mark.slow
def test_the_command(start, tmp_path):
    """Grades are learned, and a finished run is kept."""
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(f"{text},{grade}\n" for text, grade in ROWS))
    flags = [f"--{part}_file={tmp_path}/train.csv" for part in ("train", "dev")]
    flags += [
        f"--model={start}",
        f"--output_dir={tmp_path}/run",
        "--epochs=20",
        "--batch_size=8",
        "--learning_rate=5e-3",
    ]
    flags += [PLUGIN, "--task=grading", "--sequence_length=8", f"--labels={','.join(GRADES)}", f"--seed={SEED}"]
    before = f"import sys; sys.path.insert(0, {str(FILE.parent)!r})\n"
    for _ in range(2):
        printed, _ = run("pipelines.run_task", *flags, before=before)
        assert "next:" in printed
    bert = keras_bert.load(tmp_path / "run" / "model")
    ranks = np.array([answer["rank"] for answer in bert.predict([text for text, _ in ROWS])])
    assert np.abs(ranks - np.repeat(range(4), 4)).mean() < 0.4


def trained(user, config, pieces):
    """A new model, and inputs and grades that one word tells."""
    keras.utils.set_random_seed(SEED)
    model = user.Ordinal().build(keras_bert.build_encoder(config), num_classes=4, dropout=0.0)
    rng, words = np.random.default_rng(SEED), ["a", "b", "c", "d"]
    grades = rng.integers(0, 4, 64)
    texts = [f"{words[grade]} {rng.choice(['e', 'f', 'g'])}" for grade in grades]
    return model, keras_bert.TextPreprocessor(pieces, 6).ragged(texts), grades


@pytest.mark.slow
def test_training_by_keras(user, config, pieces):
    model, inputs, grades = trained(user, config, pieces)
    inputs = {name: value.to_tensor() for name, value in inputs.items()}
    model.compile(keras.optimizers.Adam(5e-3), {"above": user.ordinal_loss})
    model.fit(inputs, {"above": grades}, epochs=25, batch_size=16, verbose=0)
    ranks = (model.predict(inputs, verbose=0)["above"] > 0).sum(1)
    assert np.abs(ranks - grades).mean() < 0.25


@pytest.mark.slow
def test_training_by_the_trainer(user, config, pieces):
    model, inputs, grades = trained(user, config, pieces)
    loss = keras_bert.losses.Loss("ordinal", lambda targets, outputs: user.ordinal_loss(targets, outputs["above"]))
    batches = keras_bert.data.Batches(inputs, grades, batch_size=16, seed=SEED)
    trainer = keras_bert.Trainer(lambda: model, lambda model: keras_bert.create_optimizer(model, 5e-3, 100), loss)
    trainer.fit(batches, epochs=25)
    inputs = {name: value.to_tensor() for name, value in inputs.items()}
    ranks = (to_numpy(trainer.model(inputs, training=False)["above"]) > 0).sum(1)
    assert np.abs(ranks - grades).mean() < 0.25
