"""The command, on sentences of letters whose entities are "z" (LOC) and runs of "y" (PER)."""

import json

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.heads.answers import each_text, entities
from keras_bert.tasks.tagging import data, metrics
from keras_bert.tasks.tagging.schemes import EntitySpan
from tests.conftest import SEED
from tests.pipelines.programs import finetune, flags_of, read_json, run

pytestmark = pytest.mark.tensorflow

PROGRAM = "pipelines.run_tagging"


def sentences(count, seed):
    """Returns lists of letters with one or two entities, some longer than the windows."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        letters = rng.choice(list("abcdef"), 20 if number % 8 == 0 else 6).tolist()
        letters[rng.integers(3)] = "z"
        if number % 2:
            letters[4:6] = "yy"
        found.append(letters)
    return found


def golds(letters):
    """Returns the entities of a sentence."""
    found = [EntitySpan("LOC", place, place + 1) for place, letter in enumerate(letters) if letter == "z"]
    return [*found, EntitySpan("PER", 4, 6)] if "y" in letters else found


def conll(letters):
    inside = {place: kind for kind, start, end in golds(letters) for place in range(start, end)}
    return "".join(
        f"{letter} I-{inside[place]}\n" if place in inside else f"{letter} O\n" for place, letter in enumerate(letters)
    )


def record(letters):
    spans = [[2 * start, 2 * end - 1, kind] for kind, start, end in golds(letters)]
    return json.dumps({"text": " ".join(letters), "label": spans}) + "\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory, config, pieces):
    made = tmp_path_factory.mktemp("tagging")
    for name, count, seed in (("train", 96, 0), ("dev", 12, 1), ("test", 9, 2)):
        found = sentences(count, seed)
        (made / f"{name}.txt").write_text("\n".join(map(conll, found)))
        (made / f"{name}.jsonl").write_text("".join(map(record, found)))
    keras_bert.save(keras_bert.build_encoder(config), made / "bert", pieces)
    return made


def arguments(made, output, suffix="txt", **changes):
    files = {"train_file": "train", "dev_file": "dev", "predict_file": "test"}
    values = {name: f"{made}/{file}.{suffix}" for name, file in files.items()}
    values |= {"model": f"{made}/bert", "output_dir": f"{made}/{output}", "sequence_length": 12, "seed": SEED}
    return flags_of(values, **{"epochs": 1, "batch_size": 8, "learning_rate": "5e-3", **changes})


# The data are read and tokenized, and nothing is trained.
UNTRAINED = "import sys; from keras_bert.runs.finetuning import Finetuning; Finetuning.run = lambda self: sys.exit()"


def test_the_start_has_no_lines_of_onednn(made):
    """Without AVX-512, oneDNN says once in each process that it has no 64-bit integers."""
    _, errors = run(PROGRAM, *arguments(made, "quiet"), before=UNTRAINED)
    assert "oneDNN" not in errors


@pytest.mark.kernels
@pytest.mark.usefixtures("eager")
def test_scores_files_and_the_export(made):
    """Of a run of a few steps. In words between spaces, the export and `bert.predict` find the same entities."""
    output = made / "run"
    signatures = {}
    given = arguments(made, "run", epochs=1, max_train_examples=8, learning_rate=1e-4)
    printed = finetune(PROGRAM, *given, signatures=signatures)
    lines = (output / "predictions.txt").read_text().splitlines()
    assert [line.rpartition(" ")[0] for line in lines] == (made / "test.txt").read_text().splitlines()
    gold = data.read(made / "test.txt")
    predicted = data.read(output / "predictions.txt", tag_column="3", scheme="iob1")
    scores = metrics.entity_scores(gold.entities, predicted.entities)
    report = read_json(output / "results.json")
    assert report["test_scores"] == scores
    assert f"test: f1 {100 * scores['f1']:.2f}%" in printed
    dev = data.read(output / "dev_predictions.txt")
    assert report["scores"] == metrics.entity_scores(data.read(made / "dev.txt").entities, dev.entities)
    # Each "y" is tagged B-PER: 12 of 12 + 12 entities are right, of 12 + 6.
    assert report["data"]["majority"]["f1"] == pytest.approx(24 / 42)
    for name in ("report.html", "errors.tsv", "model/README.md"):
        assert (output / name).is_file()
    texts = [" ".join(words) for words in dev.words]
    bert = keras_bert.load(output / "model")
    assert max(map(len, dev.words)) > 12  # Longer than a window.
    expected = entities_in_text(dev.entities)
    assert any(expected)
    for name in ("words", "serving_default"):
        outputs = {key: value.numpy() for key, value in signatures[name](tf.constant(texts)).items()}
        answers = each_text(entities, outputs, [{"text": text} for text in texts])
        assert places(answers) == expected
    answers, found = (
        [entity for answer in part for entity in answer["entities"]] for part in (answers, bert.predict(texts))
    )
    assert found == [{**entity, "score": pytest.approx(entity["score"], abs=1e-5)} for entity in answers]


def entities_in_text(rows):
    """Returns entities of words with one letter and a space between them by their characters."""
    return [[(label, 2 * start, 2 * end - 1) for label, start, end in row] for row in rows]


def places(answers):
    return [[(entity["label"], entity["start"], entity["end"]) for entity in row["entities"]] for row in answers]


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_texts_with_spans(made):
    """In bfloat16 and packed rows; predictions are those of the saved model."""
    options = {"precision": "mixed_bfloat16", "pack": "true", "epochs": 2, "predict_file": None}
    finetune(PROGRAM, *arguments(made, "spans", "jsonl", **options))
    rows = list(map(json.loads, (made / "spans" / "dev_predictions.jsonl").read_text().splitlines()))
    answers = keras_bert.load(made / "spans" / "model").predict([row["text"] for row in rows])
    found = [[[one["start"], one["end"], one["label"]] for one in answer["entities"]] for answer in answers]
    assert any(found)
    assert np.mean([row["predicted"] == spans for row, spans in zip(rows, found, strict=True)]) > 0.9  # In bfloat16.
