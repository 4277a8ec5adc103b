"""Scores of SavedModels on labelled data equal those of the Keras model."""

import csv
import json

import pytest

import keras_bert
from tests.pipelines.programs import mistake, run

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.experiments.labelled import compare  # noqa: E402

WORDS = ["a b", "c d e", "f", "g h", "i a", "b b c", "d", "e f g h"]
VERIFY = "pipelines.verify_saved_model"


@pytest.fixture
def table(tmp_path):
    def write(labels, **columns):
        path = tmp_path / "dev.csv"
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows(
                [("text", *columns, "label"), *zip(WORDS, *columns.values(), labels, strict=True)]
            )
        return path

    return write


def test_a_classifier_and_its_reference(build, pieces, table, tmp_path):
    preprocessor = keras_bert.TextPreprocessor(pieces, 12, padding="longest")
    labels = ["no", "maybe", "yes"]
    model = build("classification")
    keras_bert.export(model, preprocessor, tmp_path / "1", labels=labels)
    expected = model(preprocessor(WORDS))["logits"].numpy().argmax(-1)
    # A model with other answers: the classifier with the opposite sign.
    model.get_layer("classifier").set_weights([-weight for weight in model.get_layer("classifier").get_weights()])
    keras_bert.export(model, preprocessor, tmp_path / "2", labels=labels)
    opposite = model(preprocessor(WORDS))["logits"].numpy().argmax(-1)
    truth = [labels[index] for index in expected]
    path = table(truth)
    found = compare(tmp_path / "2", path, reference=tmp_path / "1")
    same = 100 * float((opposite == expected).mean())
    assert (found.rows, found.reference["accuracy"]) == (8, 100.0)
    assert found.agreement == pytest.approx(same)
    assert found.scores["accuracy"] == pytest.approx(same)
    assert found.drop == pytest.approx(100 - same)
    assert str(found).startswith(f"8 rows, accuracy {same:.2f} (reference 100.00), macro_f1 ")
    with pytest.raises(ValueError, match="takes single texts. Received: the others"):
        compare(tmp_path / "1", table(truth, second=WORDS), pair="second")
    with pytest.raises(ValueError, match="must have the labels of sst2. Received: labels="):
        compare(tmp_path / "1", tmp_path, task="sst2")


def test_questions_and_heads_without_labels(build, pieces, tmp_path):
    preprocessor = keras_bert.TextPreprocessor(pieces, 20, padding="longest")
    keras_bert.export(build("question_answering"), preprocessor, tmp_path / "span")
    served = tf.saved_model.load(tmp_path / "span").signatures["serving_default"]
    asked = {"question": tf.constant(WORDS[:3]), "context": tf.constant(["a b c d"] * 3)}
    texts = [text.decode() for text in served(**asked)["answer"].numpy()]
    qas = [
        {"id": str(row), "question": WORDS[row], "answers": [{"text": text, "answer_start": "a b c d".find(text)}]}
        for row, text in enumerate(texts)
    ]
    qas[2]["answers"] = [{"text": "zzz", "answer_start": 0}]
    content = {"version": "1.1", "data": [{"title": "", "paragraphs": [{"context": "a b c d", "qas": qas}]}]}
    (tmp_path / "dev.json").write_text(json.dumps(content))
    found = compare(tmp_path / "span", tmp_path / "dev.json", reference=tmp_path / "span")
    assert found.scores == {"f1": pytest.approx(200 / 3), "exact_match": pytest.approx(200 / 3)}
    assert (found.drop, found.agreement) == (0.0, 100.0)

    keras_bert.export(build("encoder"), preprocessor, tmp_path / "encoder")
    with pytest.raises(ValueError, match="is for classification, regression and question answering. Received: head="):
        compare(tmp_path / "encoder", tmp_path / "dev.json")
    with pytest.raises(ValueError, match="must be the same model as .* Received: head='encoder' and "):
        compare(tmp_path / "span", tmp_path / "dev.json", reference=tmp_path / "encoder")


@pytest.mark.slow
def test_the_command_judges_the_score(build, pieces, table, tmp_path):
    preprocessor = keras_bert.TextPreprocessor(pieces, 12, padding="longest")
    model = build("classification")
    keras_bert.export(model, preprocessor, tmp_path / "1", labels=["a", "b", "c"])
    predicted = model(preprocessor(WORDS))["logits"].numpy().argmax(-1)
    model.get_layer("classifier").set_weights([-weight for weight in model.get_layer("classifier").get_weights()])
    keras_bert.export(model, preprocessor, tmp_path / "2", labels=["a", "b", "c"])
    path = table(["abc"[index] for index in predicted])
    arguments = [tmp_path / "2", f"--labelled={path}", f"--reference={tmp_path / '1'}"]
    printed, _ = run(VERIFY, *arguments, "--max_drop=100")
    *_, scores, verdict = printed.splitlines()
    assert scores.startswith(f"{tmp_path / '2'}: labelled: 8 rows, accuracy ")
    assert verdict == "fit to ship"
    printed, _ = run(VERIFY, *arguments, status=2)
    assert printed.endswith(f" points below that of {tmp_path / '1'}\n")


def test_mistakes(tmp_path):
    assert mistake(VERIFY, "a", "--reference=b") == "--reference needs --labelled, the data to score. Received: none"
    assert mistake(VERIFY, "a", "--labelled=none.csv") == "--labelled=none.csv: no such file or folder"
    assert mistake(VERIFY, "a", "b", f"--labelled={tmp_path}").endswith("one SavedModel. Received: 2 directories")
