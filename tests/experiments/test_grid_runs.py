"""A study whose runs are functions of their setting."""

import json

import numpy as np
import pytest

from keras_bert.experiments import grid
from keras_bert.experiments.grid import settings
from keras_bert.experiments.grid_runs import GridRuns

SCORES = {1: 0.5, 2: 0.9, 3: 0.7, 4: 0.95}


@pytest.fixture
def train(tmp_path):
    """A training function whose logits equal the seed and whose model is a file with the seed."""

    def run(setting, folder):
        seed = setting["seed"]
        (folder / "snapshots").mkdir()
        (folder / "best").mkdir()
        (folder / "before" / "snapshots").mkdir(parents=True)
        (folder / "metrics.jsonl").write_text(json.dumps({"step": seed}) + "\n")
        logits = {"dev": {"mine": np.full([2, 1], float(seed))}, "test": {}}
        if seed not in SCORES:
            raise FloatingPointError("the loss is not finite at step 3")
        return {"scores": {"f1": SCORES[seed], "loss": 1.0}}, logits, lambda: (tmp_path / "model").write_text(str(seed))

    return run


def test_the_best_model_of_all_runs_is_kept(tmp_path, train):
    study = GridRuns(tmp_path, "f1", ensemble=2)
    study.run(settings(seed=[1, 2, 3]), {}, train)
    assert (tmp_path / "model").read_text() == "2"
    assert [result["setting"]["seed"] for result in study.best()] == [2, 3]
    assert study.logits("dev")["mine"].tolist() == [[2.5], [2.5]]
    assert study.logits("test") == {}
    assert study.curves() == {f"seed={seed}": [{"step": seed}] for seed in (1, 2, 3)}
    assert not list(tmp_path.rglob("snapshots")) + list(tmp_path.rglob("best"))
    assert len(list(tmp_path.glob("runs/*/before"))) == 3
    assert 0 < study.seconds() == sum(float(path.read_text()) for path in tmp_path.glob("runs/*/seconds.json")) < 60
    assert study.summary()["best"] == {"setting": {"seed": 2}, "scores": {"f1": 0.9, "loss": 1.0}}

    # A later grid in the same folder: all runs count, and the model of the best of all runs is kept.
    again = GridRuns(tmp_path, "f1")
    again.run(settings(seed=[1]), {}, None)
    assert len(again.results) == 3
    assert (tmp_path / "model").read_text() == "2"
    again.run(settings(seed=[4]), {}, train)
    assert (tmp_path / "model").read_text() == "4"
    assert again.summary()["ensemble"] == [{"seed": 4}]


def test_only_one_worker_writes(tmp_path, train):
    study = GridRuns(tmp_path, "f1", write=False)
    study.run(settings(seed=[1]), {}, train)
    assert study.best() == [{"setting": {"seed": 1}, "scores": {"f1": 0.5, "loss": 1.0}}]
    assert not (tmp_path / "model").exists()
    assert not list(tmp_path.glob("runs/*/*.npz"))
    assert not list(tmp_path.rglob("*.json"))


def test_a_run_that_diverges_is_ranked_last(tmp_path, train, caplog):
    study = GridRuns(tmp_path, "f1", ensemble=3)
    with pytest.raises(FloatingPointError, match=r"1 of 1 run\(s\) in .*runs diverged, which leaves no model to keep"):
        study.run(settings(seed=[0]), {}, train)
    assert "seed=0 diverged and is ranked last: the loss is not finite at step 3" in caplog.text
    study.run(settings(seed=[0, 1, 2]), {}, train)
    assert [result["setting"]["seed"] for result in study.best()] == [2, 1]
    diverged = study.results[0]
    assert diverged["diverged"] == "the loss is not finite at step 3"
    assert np.isnan([diverged["scores"]["f1"], diverged["scores"]["loss"]]).all()
    assert (tmp_path / "model").read_text() == "2"
    assert study.logits("dev")["mine"].tolist() == [[1.5], [1.5]]
    table = grid.runs_table(study.results, "f1").splitlines()
    assert table[2:] == [
        "| seed=2 | 90.00% | 1.0000 |",
        "| seed=1 | 50.00% | 1.0000 |",
        "| seed=0 | diverged | diverged |",
    ]
