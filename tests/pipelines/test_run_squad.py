"""The command, on questions whose answer is always the word "z"."""

import dataclasses

import numpy as np
import pytest

import keras_bert
from keras_bert.tasks.question_answering import data as squad
from keras_bert.tasks.question_answering import metrics as squad_metrics
from keras_bert.tasks.question_answering import predictions as squad_predictions
from keras_bert.tasks.question_answering.features import QuestionWindows
from tests.conftest import SEED
from tests.pipelines.programs import (
    call,
    cut_if,
    finetune,
    flags_of,
    mistake,
    read_json,
    read_jsonl,
)
from tests.pipelines.squad_files import answers_of, write_file

pytestmark = pytest.mark.tensorflow

PROGRAM = "pipelines.run_squad"


@pytest.fixture(scope="module")
def made(tmp_path_factory, config, pieces):
    """A folder with data files, and models to start from."""
    made = tmp_path_factory.mktemp("squad")
    for version, answerable, dev_count in (("1", 1.0, 6), ("2", 0.6, 24)):
        write_file(made / f"first{version}.json", 16, 0, answerable)
        write_file(made / f"train{version}.json", 96, 1, answerable)
        write_file(made / f"dev{version}.json", dev_count, 2, answerable)
        write_file(made / f"test{version}.json", 3, 3, answerable)
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    without_dropout = dataclasses.replace(config, **no_dropout)
    keras_bert.save(keras_bert.build_encoder(config), made / "bert", pieces)
    keras_bert.save(keras_bert.build_encoder(without_dropout), made / "still", pieces)
    reverse = [*pieces[:5], *pieces[:4:-1]]
    keras_bert.save(keras_bert.build_encoder(config), made / "other", reverse)
    return made


def arguments(made, output, version="2", **changes):
    """Returns the flags of a run on files of a version of SQuAD."""
    values = {
        "train_file": f"{made}/train{version}.json",
        "dev_file": f"{made}/dev{version}.json",
        "model": f"{made}/bert",
        "output_dir": f"{made}/{output}",
        "sequence_length": 16,
        "doc_stride": 6,
        "epochs": 4,
        "batch_size": 16,
        "learning_rate": "5e-3",
        "seed": SEED,
    }
    if version == "2":
        values["version_2"] = "true"
    return flags_of(values, **changes)


def windows(made, name):
    """Returns the windows of a file."""
    questions = squad.read(made / f"{name}.json")
    return QuestionWindows(questions, keras_bert.load(made / "bert").preprocessor(16), doc_stride=6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "{made}/bert,{made}/other"}, "other differs in vocabulary or casing from"),
        ({"pack": "true"}, "--pack: only for classification and tagging with BERT. Received: "),
    ],
)
def test_user_errors(made, changes, message):
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
    origins = read_json(output / "runs" / "origins.json")
    assert origins == {f"{made}/bert": keras_bert.load(made / "bert").identity}
    questions = squad.read(made / "dev1.json")
    texts = read_json(output / "dev" / "predictions.json")
    assert squad_metrics.score(questions, texts) == pytest.approx(scores)
    assert all(texts.values())
    answers = answers_of(signatures["serving_default"], questions)
    assert answers == [texts[name] for name in questions.ids]
    predicted = read_json(output / "test" / "predictions.json")
    assert sorted(predicted) == ["test1-0", "test1-1", "test1-2"]


def mean_logits(first, second):
    return {name: (first[name] + second[name]) / 2 for name in ("start", "end")}


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_ensemble_of_two_models_trained_on_two_files(made):
    """SQuAD 2.0 with two models and two training files, interrupted and resumed."""
    output = made / "whole"
    files = {"train_file": f"{made}/first2.json,{made}/train2.json"}
    given = arguments(made, "whole", **files, model=f"{made}/bert,{made}/still", ensemble=2)
    with cut_if(lambda name, step: step > 20 and not name.startswith("before")):
        call(PROGRAM, *given)
    signatures = {}
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
    answers = dev.answers(mean_logits(*logits))
    threshold = squad_predictions.choose_threshold(dev.questions, answers)
    predictions = squad_predictions.predictions(answers, threshold)
    assert read_json(output / "dev" / "predictions.json") == predictions
    assert squad_metrics.score(dev.questions, predictions)["f1"] == pytest.approx(scores["f1"])
    odds = read_json(output / "dev" / "null_odds.json")
    assert odds == pytest.approx(squad_predictions.null_odds(answers), abs=1e-4)
    # The saved model is that of the best run, with its own threshold; its export gives the same answers.
    results = [read_json(run / "result.json") for run in runs]
    answers = dev.answers(logits[results.index(report["best"])])
    threshold = squad_predictions.choose_threshold(dev.questions, answers)
    assert keras_bert.load(output / "model").null_threshold == pytest.approx(threshold, abs=1e-5)
    expected = squad_predictions.predictions(answers, threshold)
    assert answers_of(signatures["serving_default"], dev.questions) == list(expected.values())
    assert "threshold of no answer" in (output / "report.html").read_text()
    # Only the curve of the first stage is kept.
    lines = read_jsonl(runs[0] / "before_1" / "metrics.jsonl")
    assert lines[-1]["step"] == 4 * 2  # 16 contexts of two windows, by 16.
    # The resumed run equals an uninterrupted one.
    finetune(PROGRAM, *arguments(made, "straight", **files, model=f"{made}/bert"))
    # A single model is not part of the name.
    (straight,) = (made / "straight" / "runs").glob("learning_rate=*")
    assert results[0]["scores"] == read_json(straight / "result.json")["scores"]
    for name, values in np.load(straight / "dev.npz").items():
        np.testing.assert_array_equal(logits[0][name], values)
