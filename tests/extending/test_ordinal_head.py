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
from tests import documents
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
    kernel = np.random.default_rng(0).normal(size=(32, 1))
    model.get_layer("score").kernel.assign(kernel)
    found = np.sort(scores(model, keras_bert.TextPreprocessor(pieces, 20), TEXTS[:4]))
    places = (found[1:] + found[:-1]) / 2
    steps = np.log(np.expm1(np.diff(places)))
    model.get_layer("cutpoints").steps.assign([places[0], *steps])
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
    ranks = (found > places).sum(1)
    probabilities_above = 1 / (1 + np.exp(places - found))
    return ranks, probabilities_above


def check(answers, model, preprocessor, atol=1e-5):
    """Answers are those of the formula, and all grades are among them."""
    ranks, above = expected(model, preprocessor)
    assert set(ranks) == {0, 1, 2, 3}
    for answer, rank, row in zip(answers, ranks, above, strict=True):
        assert answer["grade"] == GRADES[rank]
        assert answer["rank"] == rank
        np.testing.assert_allclose(answer["at_least"], [1.0, *row], atol=atol)


def test_describe(model):
    description = keras_bert.describe(model)
    assert description.head == "ordinal"
    assert description.options == {"num_classes": 4, "spread": 0.5}
    assert description.config.classifier_dropout == 0.2

    same = keras.models.clone_model(model)
    assert keras_bert.describe(same).options == description.options


def test_a_model_with_other_outputs_is_not_described(model):
    other = keras.Model(model.input, {"above": 2.0 * model.output["above"]})
    with pytest.raises(ValueError, match="`model`"):
        keras_bert.describe(other)


def test_save_and_load(model, bert, folder, pieces, tmp_path):
    assert bert.head == "ordinal"
    assert bert.labels == GRADES
    assert bert.config.classifier_dropout == 0.2
    assert bert.metadata.head_options == {"spread": 0.5}
    assert keras_bert.describe(bert.model()).options == {"num_classes": 4, "spread": 0.5}
    assert bert.left_out(bert.model()) == []

    bert.save(tmp_path / "again")
    for loaded in (bert, keras_bert.load(tmp_path / "again")):
        for weight, same in zip(loaded.model().weights, model.weights, strict=True):
            np.testing.assert_array_equal(to_numpy(weight), to_numpy(same))


def test_the_format_of_keras(model, pieces, tmp_path):
    keras_bert.save(model, tmp_path / "file", pieces, labels=GRADES, format="keras")
    loaded = keras_bert.load(tmp_path / "file")
    assert loaded.head == "ordinal"
    assert loaded.labels == GRADES
    assert loaded.metadata.head_options == {"spread": 0.5}
    np.testing.assert_array_equal(to_numpy(loaded.model().weights[-1]), to_numpy(model.weights[-1]))


def test_the_format_of_google(model, pieces, tmp_path):
    """It has no names for the weights of such a head."""
    with pytest.raises(ValueError, match="ordinal"):
        keras_bert.save(model, tmp_path / "google", pieces, format="google")


def test_a_layout_of_transformers(user, config, pieces, tmp_path):
    """The encoder opens as DistilBERT's, and the whole model here."""
    transformers = pytest.importorskip("transformers")
    config = dataclasses.replace(config, type_vocab_size=0, pooler_activation="relu")
    model = user.Ordinal().build(keras_bert.build_encoder(config), num_classes=3)
    keras_bert.save(model, tmp_path, pieces)
    bert = keras_bert.load(tmp_path)
    assert bert.model_type == "distilbert"
    assert bert.has_pooler
    inputs = bert.preprocessor(9)(["a b c"])
    expected = model(inputs, training=False)["above"]
    np.testing.assert_allclose(bert.model()(inputs)["above"], expected, atol=1e-6)
    twin = transformers.AutoModel.from_pretrained(tmp_path)
    assert type(twin).__name__ == "DistilBertModel"


def test_predict(bert, model):
    preprocessor = bert.preprocessor(20, padding="longest")
    check(bert.predict(TEXTS), model, preprocessor)
    (first,) = bert.predict(["a b"])
    assert bert.predict("a b")["at_least"] == pytest.approx(first["at_least"])


def test_what_predict_does_not_take(bert):
    with pytest.raises(ValueError, match="a pair"):
        bert.predict([("a", "b")])
    with pytest.raises(ValueError, match="'doc_stride' for head='ordinal'"):
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
    with pytest.raises(ValueError, match=r"`texts`.*head='ordinal'.*a text at index"):
        bert.predict(["a b"])
    with pytest.raises(ValueError, match="texts: the head 'ordinal' takes pairs"):
        bert.fit(["a", "b"], GRADES[:2], task="grading")
    with pytest.raises(ValueError, match="`pair`.*head='ordinal'.*pair=False"):
        keras_bert.export(model, keras_bert.TextPreprocessor(pieces, 20), tmp_path, labels=GRADES)


def test_a_fresh_process(bert, folder):
    command = [sys.executable, "-c", PROGRAM, str(folder), json.dumps(TEXTS)]
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([str(documents.ROOT), str(FILE.parent)])
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    answers = json.loads(done.stdout.splitlines()[-1])
    for answer, other in zip(answers, bert.predict(TEXTS), strict=True):
        assert answer["grade"] == other["grade"]
        np.testing.assert_allclose(answer["at_least"], other["at_least"], atol=1e-5)


@pytest.fixture
def without_ordinal():
    """The head is not registered."""
    known = list(HEADS)
    HEADS[:] = [head for head in known if head.name != "ordinal"]
    yield
    HEADS[:] = known


@pytest.mark.usefixtures("without_ordinal")
def test_a_head_that_is_not_registered(folder):
    """One line tells how to register it, and how to open the encoder without it."""
    with pytest.raises(ValueError, match="a registered head.*head='ordinal'.*heads=.*head='encoder'") as error:
        keras_bert.load(folder)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.usefixtures("without_ordinal")
def test_the_encoder_opens_without_the_head(folder, caplog):
    encoder = keras_bert.load(folder, head="encoder")
    assert encoder.head == "encoder"
    assert encoder.labels is None
    assert encoder.encode(["a b"]).shape == (1, 32)
    assert "ordinal.cutpoints" in caplog.text


@pytest.mark.usefixtures("without_ordinal")
def test_heads_that_are_given_to_load(user, folder):
    assert keras_bert.load(folder, heads=[user.Ordinal]).head == "ordinal"
    assert keras_bert.load(folder, heads=[user.Ordinal()]).head == "ordinal"


def test_options_of_another_head(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["keras_bert"]["head_options"] |= {"width": 3}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="`head_options` of head='ordinal'.*width"):
        keras_bert.load(tmp_path / "model").model()


def with_layer(user, layer):
    """A head that is known by a layer that other models have, too."""
    return type("Twice", (user.Ordinal,), {"name": "twice", "layer": layer})


def test_a_built_in_classifier_is_saved_whole(user, config, pieces, tmp_path):
    """Whatever was refused before."""
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), num_classes=2)
    with pytest.raises(ValueError, match="`layer` of a head"):
        keras_bert.register_head(with_layer(user, "pooler"))

    keras_bert.save(model, tmp_path / "model", pieces, labels=["no", "yes"])
    bert = keras_bert.load(tmp_path / "model")
    assert bert.head == "classification"
    assert bert.labels == ["no", "yes"]
    kernel = bert.model().get_layer("classifier").kernel
    np.testing.assert_array_equal(to_numpy(kernel), to_numpy(model.get_layer("classifier").kernel))


def test_an_unchecked_head_does_not_take_a_built_in_model(user, config, pieces, tmp_path):
    """A head that was not registered by `register_head` is compared with the models of our builders."""

    class Unseen(user.Ordinal):
        name = "unseen"
        layer = "head_dropout"

        def described(self, layers):
            return {"num_classes": 2, "spread": 1.0}

    model = keras_bert.build_classifier(keras_bert.build_encoder(config), num_classes=2)
    HEADS.append(Unseen())
    try:
        with pytest.raises(ValueError, match="`model`"):
            keras_bert.save(model, tmp_path / "other", pieces, labels=["no", "yes"])
    finally:
        HEADS.pop()
    assert not (tmp_path / "other").exists()
    assert keras_bert.describe(model).head == "classification"


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (3, "`head` must be a subclass of keras_bert.Head, or an instance. Received: head=3"),
        (keras.Model, "`head` must be a subclass of keras_bert.Head"),
        (keras_bert.Head, "`head` must have a `name`"),
    ],
)
def test_what_is_no_head(head, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.register_head(head)


def test_a_name_that_another_head_has(user):
    head = type("Classification", (user.Ordinal,), {"name": "classification", "layer": "own"})
    with pytest.raises(ValueError, match="`name` of a head must be new. Received: name='classification', which keras_"):
        keras_bert.register_head(head)


@pytest.mark.parametrize(
    ("layer", "owner"),
    [
        ("cutpoints", "ordinal_head.Ordinal has"),
        ("pooler", "the encoder"),
        ("token_embedding", "the encoder"),
        ("block_0", "the encoder"),
        ("block_11", "the encoder"),
        ("attention_mask", "the encoder"),
        ("embeddings", "keras_bert.heads.embedding.Vectors has"),
        ("head_dropout", "classifiers have"),
        ("unit_length", "keras_bert.heads.embedding.Embedding has"),
    ],
)
def test_a_layer_that_other_models_have(user, layer, owner):
    """Models are recognized by the layer: it must be theirs alone."""
    with pytest.raises(ValueError, match=f"`layer` of a head.*Received: layer='{layer}', which {owner}"):
        keras_bert.register_head(with_layer(user, layer))


def test_a_head_is_registered_once(user):
    before = len(HEADS)
    assert keras_bert.register_head(user.Ordinal) is user.Ordinal
    assert len(HEADS) == before


def test_a_saved_model(bert, model, exported):
    facts = json.loads((exported / MODEL_FACTS).read_text())
    assert facts["head"] == "ordinal"
    assert facts["labels"] == GRADES
    assert facts["pair"] is False
    signature = tf.saved_model.load(str(exported)).signatures["serving_default"]
    outputs = signature(text=tf.constant(TEXTS))
    ranks, above = expected(model, bert.preprocessor(20, padding="longest"))
    assert outputs["grade"].numpy().tolist() == [GRADES[rank].encode() for rank in ranks]
    np.testing.assert_allclose(outputs["above"], above, atol=1e-5)


def test_the_server_and_its_client(bert, exported, running):  # noqa: F811
    rows = [{"text": text} for text in TEXTS]
    with running(exported.parents[1]) as server:
        address = f"127.0.0.1:{server.port}"
        with keras_bert.serving.Client(address) as client:
            outputs = client.predict("ordinal", TEXTS)
        printed = call("pipelines.predict", f"--server={address}", "--model=ordinal", PLUGIN, "a b")
    answers = each_text(of_outputs(outputs), outputs, rows)
    check(answers, bert.model(), bert.preprocessor(20, padding="longest"))
    check_printed(printed, bert)


def check_printed(printed, bert):
    """`predict` of the text "a b" printed what the model answers."""
    answer = bert.predict("a b")
    probabilities = answer.pop("at_least")
    found = json.loads(printed)
    assert found.pop("at_least") == pytest.approx(probabilities, rel=1e-4)
    assert found == {"text": "a b", **answer}


def test_predict_at_the_shell(bert, folder):
    printed = call("pipelines.predict", f"--model={folder}", PLUGIN, "a b")
    check_printed(printed, bert)


def test_export_at_the_shell(folder, tmp_path, monkeypatch):
    given = {}
    monkeypatch.setitem(vars(keras_bert), "export", lambda *_, **options: given.update(options))
    flags = [f"--model={folder}", f"--output_dir={tmp_path}/served", PLUGIN]
    printed = call("pipelines.export_saved_model", *flags)
    assert printed.startswith(f"wrote {tmp_path}/served/1\n")
    assert given["labels"] == GRADES
    assert given["pair"] is False


@pytest.mark.slow
def test_int8_and_verification(bert, exported, tmp_path):
    bert.export(tmp_path / "1", precision="int8")
    for report in verify([tmp_path / "1", exported]):
        assert report.problems == []
    found = probabilities_above(tmp_path / "1")
    expected = probabilities_above(exported)
    assert 0 < np.abs(found - expected).max() < 0.1


def probabilities_above(path):
    """What a SavedModel answers."""
    signature = tf.saved_model.load(str(path)).signatures["serving_default"]
    return signature(text=tf.constant(TEXTS))["above"].numpy()


def test_onnx(bert, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    preprocessor = bert.preprocessor(20)
    keras_bert.export_onnx(bert.model(), preprocessor, tmp_path / "onnx")
    session = runtime.InferenceSession(str(tmp_path / "onnx" / "model.onnx"))
    inputs = {name: to_numpy(value).astype("int32") for name, value in preprocessor(TEXTS).items()}
    (above,) = session.run(["above"], inputs)
    expected = bert.model()(inputs, training=False)["above"]
    assert relative(above, to_numpy(expected)) < 1e-5


WORDS = {"a": "poor", "b": "fair", "c": "good", "d": "great"}
ROWS = []
for word, grade in WORDS.items():
    ROWS += [(f"{word} {end}", grade) for end in "efgh"]
ROW_TEXTS = [text for text, _ in ROWS]
ROW_GRADES = [grade for _, grade in ROWS]


@pytest.fixture
def start(config, pieces, tmp_path):
    keras.utils.set_random_seed(SEED)
    keras_bert.save(keras_bert.build_encoder(config), tmp_path / "start", pieces)
    return tmp_path / "start"


@pytest.mark.usefixtures("eager")
def test_fit_and_evaluate(user, start, tmp_path):
    """The task learns by the loss of the head; its report, card and export are those of classification."""
    dev_texts = [f"{text} i" for text in ROW_TEXTS]
    options = {
        "task": "grading",
        "labels": GRADES,
        "sequence_length": 8,
        "batch_size": 8,
        "epochs": 1,
        "learning_rate": 1e-3,
        "validation": (dev_texts, ROW_GRADES),
        "output_dir": tmp_path / "run",
        "verbose": False,
    }
    bert = keras_bert.load(start).fit(ROW_TEXTS, ROW_GRADES, **options)
    assert bert.head == "ordinal"
    assert bert.task == "grading"
    assert bert.labels == GRADES

    # The loss is the sum of the cross-entropies of being above each grade.
    answers = bert.predict(ROW_TEXTS)
    above = np.array([answer["at_least"][1:] for answer in answers])
    if_all_poor = -np.log(1 - above).sum(1).mean()
    if_all_great = -np.log(above).sum(1).mean()
    for grade, wanted in (("poor", if_all_poor), ("great", if_all_great)):
        found = bert.evaluate(ROW_TEXTS, [grade] * len(ROWS), verbose=False)
        assert found["ordinal_loss"] == pytest.approx(wanted, abs=1e-4)
    predicted = [answer["grade"] for answer in answers]
    assert bert.evaluate(ROW_TEXTS, predicted, verbose=False)["accuracy"] == 1

    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "With transformers, the encoder alone" in card
    assert "pipeline_tag: text-classification" in card
    assert "<h2>Confusion matrix</h2>" in (tmp_path / "run" / "report.html").read_text()

    exported = tmp_path / "run" / "saved_model" / "1"
    signature = tf.saved_model.load(str(exported)).signatures["serving_default"]
    grades = signature(text=tf.constant(ROW_TEXTS))["grade"].numpy()
    assert [grade.decode() for grade in grades] == predicted
    table = tmp_path / "dev.csv"
    write_table(table, dev_texts)
    for name, score in compare(exported, table).scores.items():
        assert score == pytest.approx(100 * bert.results["scores"][name], abs=1e-3)

    # The run is finished: the same call trains nothing.
    written = times_of_metrics(tmp_path / "run")
    again = keras_bert.load(start).fit(ROW_TEXTS, ROW_GRADES, **options)
    assert again.results["scores"] == bert.results["scores"]
    assert times_of_metrics(tmp_path / "run") == written

    with pytest.raises(ValueError, match=r"texts\[0\]: unknown label 'bad'"):
        bert.evaluate(["a b"], ["bad"], verbose=False)


def write_table(path, texts):
    """Writes texts with the grades of the rows."""
    lines = [f"{text},{grade}\n" for text, grade in zip(texts, ROW_GRADES, strict=True)]
    path.write_text("text,label\n" + "".join(lines))


def times_of_metrics(folder):
    """When the metrics of each run were written."""
    return [path.stat().st_mtime_ns for path in (folder / "runs").rglob("metrics.jsonl")]


@pytest.mark.usefixtures("eager")
def test_packed_rows(user, start, monkeypatch):
    """A head that reads the pooled vectors alone may share rows, if it says so."""
    options = {
        "task": "grading",
        "sequence_length": 8,
        "batch_size": 8,
        "epochs": 1,
        "pack": True,
        "verbose": False,
    }
    with pytest.raises(ValueError, match="`pack`.* head 'ordinal'"):
        keras_bert.load(start).fit(ROW_TEXTS, ROW_GRADES, **options)

    monkeypatch.setattr(user.Ordinal, "packs", True)
    bert = keras_bert.load(start).fit(ROW_TEXTS, ROW_GRADES, **options)
    assert {answer["grade"] for answer in bert.predict(ROW_TEXTS)} <= set(GRADES)


@pytest.mark.slow
def test_the_command(start, tmp_path):
    """Grades are learned, and a finished run is kept."""
    write_table(tmp_path / "train.csv", ROW_TEXTS)
    flags = [
        PLUGIN,
        "--task=grading",
        f"--train_file={tmp_path}/train.csv",
        f"--dev_file={tmp_path}/train.csv",
        f"--model={start}",
        f"--output_dir={tmp_path}/run",
        f"--labels={','.join(GRADES)}",
        "--sequence_length=8",
        "--epochs=20",
        "--batch_size=8",
        "--learning_rate=5e-3",
        f"--seed={SEED}",
    ]
    before = f"import sys; sys.path.insert(0, {str(FILE.parent)!r})\n"
    for _ in range(2):
        printed, _ = run("pipelines.run_task", *flags, before=before)
        assert "next:" in printed
    bert = keras_bert.load(tmp_path / "run" / "model")
    ranks = np.array([answer["rank"] for answer in bert.predict(ROW_TEXTS)])
    expected = np.repeat(range(4), 4)
    assert np.abs(ranks - expected).mean() < 0.4


def trained(user, config, pieces):
    """A new model, and inputs and grades that one word tells."""
    keras.utils.set_random_seed(SEED)
    model = user.Ordinal().build(keras_bert.build_encoder(config), num_classes=4, dropout=0.0)
    rng = np.random.default_rng(SEED)
    grades = rng.integers(0, 4, 64)
    texts = []
    for grade in grades:
        end = rng.choice(["e", "f", "g"])
        texts.append(f"{'abcd'[grade]} {end}")
    inputs = keras_bert.TextPreprocessor(pieces, 6).ragged(texts)
    return model, inputs, grades


@pytest.mark.slow
def test_training_by_keras(user, config, pieces):
    model, inputs, grades = trained(user, config, pieces)
    inputs = {name: value.to_tensor() for name, value in inputs.items()}
    model.compile(keras.optimizers.Adam(5e-3), {"above": user.ordinal_loss})
    model.fit(inputs, {"above": grades}, epochs=25, batch_size=16, verbose=0)
    above = model.predict(inputs, verbose=0)["above"]
    ranks = (above > 0).sum(1)
    assert np.abs(ranks - grades).mean() < 0.25


@pytest.mark.slow
def test_training_by_the_trainer(user, config, pieces):
    model, inputs, grades = trained(user, config, pieces)
    loss = keras_bert.losses.Loss("ordinal", lambda targets, outputs: user.ordinal_loss(targets, outputs["above"]))
    batches = keras_bert.data.Batches(inputs, grades, batch_size=16, seed=SEED)
    trainer = keras_bert.Trainer(lambda: model, lambda model: keras_bert.create_optimizer(model, 5e-3, 100), loss)
    trainer.fit(batches, epochs=25)
    dense_inputs = {name: value.to_tensor() for name, value in inputs.items()}
    above = to_numpy(trainer.model(dense_inputs, training=False)["above"])
    ranks = (above > 0).sum(1)
    assert np.abs(ranks - grades).mean() < 0.25
