"""The pre-trained models of a study."""

import json
import math
import types

import pytest

pytest.importorskip("tensorflow")

from keras_bert.files import write_json
from research.studies.definitions import Recipe, Row, StudyDefinition
from research.studies.pretrained import SNAPSHOTS, PretrainedModels

pytestmark = pytest.mark.tensorflow

LTR = Recipe(next_sentence=False, causal=True)
LAST = Row("ltr_100", "Left to right, all steps", LTR)
EARLY = Row("ltr_20", "Left to right, 20 % of the steps", LTR, share=0.2)
DEFINITION = StudyDefinition("Steps", (Row("bert", "BERT"), LAST, EARLY), (), ())


def models(folder, steps=50, definition=DEFINITION):
    scale = types.SimpleNamespace(steps=steps)
    return PretrainedModels(definition, scale, None, folder, None, "float32")


def test_a_number_of_steps_without_snapshots_at_the_shares(tmp_path):
    models(tmp_path, 5 * SNAPSHOTS).check_shares()
    with pytest.raises(ValueError, match=f"--phases: .* that {SNAPSHOTS} divides. Received: 19"):
        models(tmp_path, 19).check_shares()


def test_any_number_of_steps_without_shares(tmp_path):
    definition = StudyDefinition("Ends", (LAST,), (), ())
    models(tmp_path, 19, definition).check_shares()


def test_the_models_that_rows_start_from(tmp_path):
    folder = tmp_path / "pretraining" / "ltr"
    found = models(tmp_path)
    assert found.folder(LTR) == folder
    assert found.model(LAST) == f"{folder}/model"
    assert found.model(EARLY) == f"{folder}/model-10"


@pytest.mark.parametrize(("loss", "perplexity"), [(2.0, math.exp(2)), (1e6, math.inf)])
def test_perplexities(tmp_path, loss, perplexity):
    found = models(tmp_path)
    assert not found.is_finished(LTR)
    write_json(tmp_path / "pretraining" / "ltr" / "result.json", {"mlm_loss": loss})
    assert found.is_finished(LTR)
    assert found.perplexity(LTR) == pytest.approx(perplexity)


def test_curves_have_the_titles_of_the_first_rows(tmp_path):
    """Of those that have begun."""
    folder = tmp_path / "pretraining" / "ltr"
    folder.mkdir(parents=True)
    lines = [{"step": 1, "loss": 5.0}, {"step": 2, "loss": 4.0}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert models(tmp_path).curves() == {"Left to right, all steps": lines}


def test_a_finished_model_that_has_changed(tmp_path):
    file = tmp_path / "pretraining" / "ltr" / "model" / "model.safetensors"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"first")
    found = models(tmp_path)
    found.check_unchanged(LTR)
    found.check_unchanged(LTR)
    file.write_bytes(b"other")
    with pytest.raises(ValueError, match="another version of ltr/model. .* the content"):
        found.check_unchanged(LTR)
