"""The command, on sentences of letters."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.heads.answers import each_text, entities
from keras_bert.tasks.tagging import data, metrics
from tests.conftest import eagerly
from tests.pipelines.programs import finetune, read_json, read_jsonl, run
from tests.pipelines.tagging_files import arguments, entities_in_text, places, write_files

pytestmark = pytest.mark.tensorflow

PROGRAM = "pipelines.run_tagging"


@pytest.fixture(scope="module")
def made(tmp_path_factory, config, pieces):
    """A folder with data files and a model to start from."""
    made = tmp_path_factory.mktemp("tagging")
    write_files(made, config, pieces)
    return made


# The data are read and tokenized, and nothing is trained.
UNTRAINED = """
import sys
from keras_bert.runs.finetuning import Finetuning
Finetuning.run = lambda self: sys.exit()
"""


def test_the_start_has_no_lines_of_onednn(made):
    """Without AVX-512, oneDNN says once in each process that it has no 64-bit integers."""
    _, errors = run(PROGRAM, *arguments(made, "quiet"), before=UNTRAINED)
    assert "oneDNN" not in errors


@pytest.fixture(scope="module")
def trained(made):
    """The folder of a run of a few steps, what it printed, and the signatures of its export."""
    signatures = {}
    given = arguments(made, "run", epochs=1, max_train_examples=8, learning_rate=1e-4)
    with eagerly():
        printed = finetune(PROGRAM, *given, signatures=signatures)
    return made / "run", printed, signatures


@pytest.mark.kernels
def test_scores_and_files(made, trained):
    output, printed, _ = trained
    lines = (output / "predictions.txt").read_text().splitlines()
    words_and_tags = [line.rpartition(" ")[0] for line in lines]
    assert words_and_tags == (made / "test.txt").read_text().splitlines()
    gold = data.read(made / "test.txt")
    predicted = data.read(output / "predictions.txt", tag_column="3", scheme="iob1")
    scores = metrics.entity_scores(gold.entities, predicted.entities)
    report = read_json(output / "results.json")
    assert report["test_scores"] == scores
    assert f"test: f1 {100 * scores['f1']:.2f}%" in printed
    dev = data.read(made / "dev.txt")
    dev_predictions = data.read(output / "dev_predictions.txt")
    assert report["scores"] == metrics.entity_scores(dev.entities, dev_predictions.entities)
    # Each "y" is tagged B-PER: 12 of 12 + 12 entities are right, of 12 + 6.
    assert report["data"]["majority"]["f1"] == pytest.approx(24 / 42)
    for name in ("report.html", "errors.tsv", "model/README.md"):
        assert (output / name).is_file()


@pytest.mark.kernels
@pytest.mark.usefixtures("eager")
def test_the_export_and_the_model(trained):
    """In words between spaces, the export and `bert.predict` find the entities of the predictions."""
    output, _, signatures = trained
    dev = data.read(output / "dev_predictions.txt")
    assert max(map(len, dev.words)) > 12  # Longer than a window.
    texts = [" ".join(words) for words in dev.words]
    expected = entities_in_text(dev.entities)
    assert any(expected)
    rows = [{"text": text} for text in texts]
    for name in ("words", "serving_default"):
        outputs = signatures[name](tf.constant(texts))
        arrays = {key: value.numpy() for key, value in outputs.items()}
        answers = each_text(entities, arrays, rows)
        assert places(answers) == expected
    served = entities_together(answers)
    found = entities_together(keras_bert.load(output / "model").predict(texts))
    for entity in served:
        entity["score"] = pytest.approx(entity["score"], abs=1e-5)
    assert found == served


def entities_together(answers):
    """Returns the entities of all answers."""
    lists = [answer["entities"] for answer in answers]
    return list(itertools.chain.from_iterable(lists))


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_texts_with_spans(made):
    """In bfloat16 and packed rows; predictions are those of the saved model."""
    options = {"precision": "mixed_bfloat16", "pack": "true", "epochs": 2, "predict_file": None}
    finetune(PROGRAM, *arguments(made, "spans", "jsonl", **options))
    rows = read_jsonl(made / "spans" / "dev_predictions.jsonl")
    bert = keras_bert.load(made / "spans" / "model")
    answers = bert.predict([row["text"] for row in rows])
    are_equal = []
    for row, entities_found in zip(rows, places(answers), strict=True):
        spans = [[start, end, label] for label, start, end in entities_found]
        are_equal.append(row["predicted"] == spans)
    assert any(places(answers))
    assert np.mean(are_equal) > 0.9  # In bfloat16.
