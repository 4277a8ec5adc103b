"""The command, on questions whose answer is always the word "z"."""

import dataclasses
import json

import numpy as np
import pytest

import keras_bert
from keras_bert.tasks.question_answering import data as squad
from keras_bert.tasks.question_answering import metrics as squad_metrics
from keras_bert.tasks.question_answering import predictions as squad_predictions
from keras_bert.tasks.question_answering.features import QuestionWindows
from tests.conftest import SEED
from tests.pipelines.programs import call, cut_if, finetune, flags_of, mistake, read_json

pytestmark = pytest.mark.tensorflow

PROGRAM = "pipelines.run_squad"


def write_file(path, count, seed, answerable=1.0):
    """Writes questions about contexts of 16 letters; the answer is the letter "z"."""
    rng = np.random.default_rng(seed)
    paragraphs = []
    for number in range(count):
        letters = rng.choice(list("abcdefgh"), 16)
        answers = []
        if rng.random() < answerable:
            place = int(rng.integers(16))
            letters[place] = "z"
            answers = [{"text": "z", "answer_start": 2 * place}]
        entry = {"id": f"{path.stem}-{number}", "question": "y x", "answers": answers, "is_impossible": not answers}
        if answerable == 1.0:
            del entry["is_impossible"]
        paragraphs.append({"context": " ".join(letters), "qas": [entry]})
    version = "1.1" if answerable == 1.0 else "v2.0"
    path.write_text(json.dumps({"version": version, "data": [{"title": "letters", "paragraphs": paragraphs}]}))


@pytest.fixture(scope="module")
def made(tmp_path_factory, config, pieces):
    """A folder with data files, and models to start from."""
    made = tmp_path_factory.mktemp("squad")
    for version, answerable in (("1", 1.0), ("2", 0.6)):
        dev = 6 if version == "1" else 24
        for name, count, seed in (("first", 16, 0), ("train", 96, 1), ("dev", dev, 2), ("test", 3, 3)):
            write_file(made / f"{name}{version}.json", count, seed, answerable)
    still = dict.fromkeys(["hidden_dropout_prob", "attention_probs_dropout_prob"], 0.0)
    for name, changes, words in (
        ("bert", {}, pieces),
        ("still", still, pieces),
        ("other", {}, [*pieces[:5], *pieces[:4:-1]]),
    ):
        size = dataclasses.replace(config, **changes)
        keras_bert.save(keras_bert.build_encoder(size), made / name, words)
    return made


def arguments(made, output, version="2", **changes):
    values = {name: f"{made}/{name[:-5]}{version}.json" for name in ("train_file", "dev_file")}
    values |= {"model": f"{made}/bert", "output_dir": f"{made}/{output}", "sequence_length": 16, "doc_stride": 6}
    values |= {"epochs": 4, "batch_size": 16, "learning_rate": "5e-3", "seed": SEED}
    return flags_of(values, **{"version_2": "true" if version == "2" else None, **changes})


def windows(made, name):
    questions = squad.read(made / f"{name}.json")
    return QuestionWindows(questions, keras_bert.load(made / "bert").preprocessor(16), doc_stride=6)


def answers_of(signature, questions):
    """Returns the answers of a signature."""
    import tensorflow as tf

    contexts = [questions.contexts[number] for number in questions.context]
    found = signature(tf.constant(questions.questions), tf.constant(contexts))["answer"]
    return [text.decode() for text in found.numpy()]


MISTAKES = [
    ("other differs in vocabulary or casing from", {"model": "{made}/bert,{made}/other"}),
    ("--pack: only for classification and tagging with BERT. Received: ", {"pack": "true"}),
]


def test_user_errors(made):
    for message, changes in MISTAKES:
        given = [text.format(made=made) for text in arguments(made, "mistakes", **changes)]
        assert message in mistake(PROGRAM, *given)


@pytest.mark.usefixtures("eager")
def test_version_1(made):
    output = made / "one"
    signatures = {}
    options = {"epochs": 1, "max_train_examples": 8, "predict_file": f"{made}/test1.json"}
    finetune(PROGRAM, *arguments(made, "one", "1", **options), signatures=signatures)
    scores = read_json(output / "results.json")["scores"]
    assert list(scores) == ["exact_match", "f1"]
    assert read_json(output / "runs" / "origins.json") == {f"{made}/bert": keras_bert.load(made / "bert").identity}
    questions = squad.read(made / "dev1.json")
    texts = read_json(output / "dev" / "predictions.json")
    assert squad_metrics.score(questions, texts) == pytest.approx(scores)
    assert all(texts.values())
    assert answers_of(signatures["serving_default"], questions) == [texts[name] for name in questions.ids]
    assert sorted(read_json(output / "test" / "predictions.json")) == [f"test1-{number}" for number in range(3)]


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_ensemble_of_two_models_trained_on_two_files(made):
    """SQuAD 2.0 with two models and two training files, interrupted and resumed."""
    files = {"train_file": f"{made}/first2.json,{made}/train2.json"}
    given = arguments(made, "whole", **files, model=f"{made}/bert,{made}/still", ensemble=2)
    with cut_if(lambda name, step: step > 20 and not name.startswith("before")):
        call(PROGRAM, *given)
    signatures = {}
    output = made / "whole"
    said = finetune(PROGRAM, *given, signatures=signatures)
    report = read_json(output / "results.json")
    scores = report["scores"]
    assert scores["f1"] > 80
    assert f"f1 {scores['f1']:.2f}" in said
    # The ensemble uses the mean logits of both runs, and a threshold chosen for them.
    runs = sorted((output / "runs").glob("model=*"))
    assert len(runs) == len(report["ensemble"]) == 2
    logits = [dict(np.load(run / "dev.npz")) for run in runs]
    dev = windows(made, "dev2")
    answers = dev.answers({name: (logits[0][name] + logits[1][name]) / 2 for name in ("start", "end")})
    threshold = squad_predictions.choose_threshold(dev.questions, answers)
    predictions = squad_predictions.predictions(answers, threshold)
    assert read_json(output / "dev" / "predictions.json") == predictions
    assert squad_metrics.score(dev.questions, predictions)["f1"] == pytest.approx(scores["f1"])
    assert read_json(output / "dev" / "null_odds.json") == pytest.approx(squad_predictions.null_odds(answers), abs=1e-4)
    # The saved model is that of the best run, with its own threshold; its export gives the same answers.
    best = report["best"]
    (kept,) = [logit for run, logit in zip(runs, logits, strict=True) if read_json(run / "result.json") == best]
    answers = dev.answers(kept)
    threshold = squad_predictions.choose_threshold(dev.questions, answers)
    assert keras_bert.load(output / "model").null_threshold == pytest.approx(threshold, abs=1e-5)
    assert answers_of(signatures["serving_default"], dev.questions) == list(
        squad_predictions.predictions(answers, threshold).values()
    )
    assert "threshold of no answer" in (output / "report.html").read_text()
    # Only the curve of the first stage is kept.
    lines = [json.loads(line) for line in (runs[0] / "before_1" / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 4 * 2  # 16 contexts of two windows, by 16.
    # The resumed run equals an uninterrupted one.
    finetune(PROGRAM, *arguments(made, "straight", **files, model=f"{made}/bert"))
    (straight,) = (made / "straight" / "runs").glob("learning_rate=*")  # A single model is not part of the name.
    assert read_json(runs[0] / "result.json")["scores"] == read_json(straight / "result.json")["scores"]
    for name, values in np.load(straight / "dev.npz").items():
        np.testing.assert_array_equal(logits[0][name], values)
