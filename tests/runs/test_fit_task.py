"""The task of `fit`: its settings, the weights that runs start from, a teacher and other tasks before."""

import json
from unittest import mock

import numpy as np
import pytest

import keras_bert
from keras_bert.files import read_json
from keras_bert.runs import fit_data
from keras_bert.runs.run import Run
from tests.runs.fit_rows import CLASSES, SETTINGS, TAGS, TEXTS, WORDS

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


def test_fit_starts_from_the_present_weights(start):
    """A head with the same classes is kept, with what the model has learned since it was loaded."""
    model = keras_bert.build_classifier(keras_bert.load(start).encoder, 2)
    bert = keras_bert.load(start)
    keras_bert.save(model, start / "classifier", bert.vocabulary, labels=["x", "y"])
    bert = keras_bert.load(start / "classifier")
    bert.model().weights[-1].assign([3.0, -1.0])
    still = {"verbose": False, **SETTINGS, "epochs": 1, "batch_size": 8, "learning_rate": 0.0}
    for classes, same in ((CLASSES, True), (["z", "y"] * 4, False)):
        trained = bert.fit(TEXTS, classes, **still)
        assert same == all(map(np.array_equal, bert.model().weights, trained.model().weights))
        assert same == (trained.predict("a b") == bert.predict("a b"))


def test_equal_settings(loaded):
    """Classes of weights may be numbers, as labels; settings may be of NumPy, and `None` is the default."""

    def settings(**options):
        with mock.patch.object(Run, "train", autospec=True, side_effect=SystemExit) as train, pytest.raises(SystemExit):
            loaded.fit(TEXTS, [3, 4] * (len(TEXTS) // 2), verbose=False, batch_size=4, **options)
        run = train.call_args.args[0]
        return json.dumps(run.setting), run.finetuning.common()["class_weight"]

    same = settings(class_weight={3: 2.0}, epochs=np.int64(1), learning_rate=np.float32(0.5), seed=None, callbacks=None)
    assert same == settings(class_weight={"3": 2.0}, epochs=1, learning_rate=0.5)


def test_settings_of_numpy(loaded):
    """The settings that all runs share are those of Python, which JSON can hold."""

    def common(number, whole):
        options = {"warmup": number(0.25), "sequence_length": whole(8), "freeze_layers": whole(1)}
        with mock.patch.object(Run, "train", autospec=True, side_effect=SystemExit) as train, pytest.raises(SystemExit):
            loaded.fit(TEXTS, [[label] for label in CLASSES], task="multi_label", threshold=number(0.5), **options)
        return json.dumps(train.call_args.args[0].finetuning.common())

    assert common(np.float32, np.int64) == common(float, int)


def test_a_teacher_and_an_intermediate_task(loaded, tmp_path):
    """The encoder of the intermediate task is where the student starts; the teacher is in the report and the card."""
    options = {"verbose": False, "epochs": 1, "batch_size": 8, "learning_rate": 1e-3}
    teacher = loaded.fit(TEXTS, CLASSES, **options)
    started = []
    weights = Run.build

    def build(self, stage, name, carried):
        model = weights(self, stage, name, carried)
        started.append((stage.name, carried and carried.encoder["block_0"], model.get_layer("block_0").get_weights()))
        return model

    with mock.patch.object(Run, "build", build):
        student = loaded.fit(
            TEXTS,
            CLASSES,
            validation=(TEXTS, CLASSES),
            teacher=teacher,
            temperature=3.0,
            alpha=0.25,
            intermediate=(WORDS, TAGS),
            output_dir=tmp_path / "run",
            **options,
        )
    (first, nothing, _), (second, carried, found) = started
    assert (first, nothing, second) == ("tagging", None, "classification")
    assert all(np.array_equal(*pair) for pair in zip(carried, found, strict=True))
    facts = read_json(tmp_path / "run" / "results.json")["facts"]
    assert facts["trained before on"] == f"Tagging of texts, {len(TEXTS)} sentences"
    assert facts["teacher"].endswith("temperature 3, alpha 0.25")
    assert "The teacher, " in (tmp_path / "run" / "model" / "README.md").read_text()
    assert (tmp_path / "run" / "teacher" / "train.npz").is_file()
    assert student.task == "classification"
    assert fit_data.read_intermediate(None) == fit_data.read_intermediate(()) == []
    with pytest.raises(ValueError, match="`fit` has no option 'alpha'"):
        loaded.fit(TEXTS, CLASSES, alpha=0.5, **options)
    with pytest.raises(ValueError, match=r"`intermediate\[0\]` must be a tuple of texts and targets. Received: list"):
        loaded.fit(TEXTS, CLASSES, intermediate=[TEXTS], **options)
