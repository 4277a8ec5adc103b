"""The runs of a grid in their folder: kept, resumed, ranked; runs are functions of their setting."""

import json
import types

import numpy as np
import pytest

from keras_bert.runs import grid
from keras_bert.runs.finetuning import Finetuning, Plan
from keras_bert.runs.hyperparameters import Hyperparameters
from keras_bert.runs.run import Run
from tests.runs.grid_task import stand_in_task

TASK = stand_in_task()

SCORES = {1: 0.5, 2: 0.9, 3: 0.7, 4: 0.95}


class SeedRun(Run):
    """A run whose logits equal the seed; one without a score diverges."""

    def finish(self):
        seed = self.setting["seed"]
        folder = self.folder
        (folder / "snapshots").mkdir()
        (folder / "best").mkdir()
        (folder / "before" / "snapshots").mkdir(parents=True)
        (folder / "metrics.jsonl").write_text(json.dumps({"step": seed}) + "\n")
        if seed not in SCORES:
            raise FloatingPointError("the loss is not finite at step 3")
        logits = {"dev": {"mine": np.full([2, 1], float(seed))}, "test": {}}
        return types.SimpleNamespace(model=str(seed)), {"scores": {"f1": SCORES[seed], "loss": 1.0}}, logits


@pytest.fixture(autouse=True)
def _no_rehearsal(monkeypatch):
    """The task is a stand-in, which cannot be rehearsed."""
    monkeypatch.setattr("keras_bert.runs.finetuning.is_own", lambda task: False)


class Runs(Finetuning):
    """Runs whose model is a file with the seed."""

    run_class = SeedRun

    def save(self, model, logits, setting):
        (self.output / "model").write_text(model)


@pytest.fixture
def run(tmp_path, monkeypatch):
    def run(seeds, **options):
        write = options.pop("write", True)
        runs = Runs(Plan(TASK, {"seed": seeds}, Hyperparameters(), tmp_path, **options))
        monkeypatch.setattr(runs.grid_runs, "write", write)
        runs.run()
        return runs.grid_runs

    return run


def test_an_interrupted_grid_resumes(tmp_path, run, monkeypatch):
    calls = []

    def finish(self):
        calls.append((self.setting.get("seed"), len(self.finetuning.grid_runs.results)))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return None, {"scores": {"f1": self.setting["seed"] / 10}}, {}

    monkeypatch.setattr(SeedRun, "finish", finish)
    monkeypatch.setattr(Runs, "keeps_best", False)
    with pytest.raises(KeyboardInterrupt):
        run([1, 2, 3])
    results = run([1, 2, 3]).results
    assert calls == [(1, 0), (2, 1), (2, 1), (3, 2)]
    assert results == [{"setting": {"seed": s}, "scores": {"f1": s / 10}} for s in (1, 2, 3)]
    assert run([1, 2, 3]).results == results
    assert len(calls) == 4
    assert sorted(path.name for path in tmp_path.glob("runs/*")) == ["common.json", "seed=1", "seed=2", "seed=3"]

    # Another grid in the same folder adds runs; one with other common settings raises.
    assert run([2, 0]).results[0] == {"setting": {"seed": 0}, "scores": {"f1": 0.0}}
    assert calls[-1] == (0, 3)
    monkeypatch.setattr(TASK, "run_settings", {"model": "b"})
    with pytest.raises(ValueError, match=r"contains runs with other settings: `model` is set only now: 'b'"):
        run([1])
    with pytest.raises(ValueError, match="two settings would share the folder model=b"):
        Runs(Plan(TASK, {"model": ["a/b", "c/b"]}, Hyperparameters(), tmp_path / "new")).run()


def test_the_best_model_of_all_runs_is_kept(tmp_path, run):
    study = run([1, 2, 3], ensemble=2)
    assert (tmp_path / "model").read_text() == "2"
    assert [result["setting"]["seed"] for result in study.best()] == [2, 3]
    assert study.logits("dev")["mine"].tolist() == [[2.5], [2.5]]
    assert study.logits("test") == {}
    assert study.curves() == {f"seed={seed}": [{"step": seed}] for seed in (1, 2, 3)}
    assert not list(tmp_path.rglob("snapshots")) + list(tmp_path.rglob("best"))
    assert len(list(tmp_path.glob("runs/*/before"))) == 3
    assert 0 < study.seconds() == sum(float(path.read_text()) for path in tmp_path.glob("runs/*/seconds.json")) < 60
    assert study.to_json()["best"] == {"setting": {"seed": 2}, "scores": {"f1": 0.9, "loss": 1.0}}

    # A later grid in the same folder: all runs count, and the model of the best of all runs is kept.
    assert len(run([1]).results) == 3
    assert (tmp_path / "model").read_text() == "2"
    again = run([4])
    assert (tmp_path / "model").read_text() == "4"
    assert again.to_json()["ensemble"] == [{"seed": 4}]


def test_a_model_of_an_interrupted_run_is_replaced(tmp_path, run, caplog):
    """A run was killed while its model was written, and a later grid is without it."""
    caplog.set_level("INFO", "keras_bert")
    study = run([1])
    study.keep({"seed": 2})
    (tmp_path / "model").write_text("half of 2")
    assert [result["setting"] for result in run([1]).results] == [{"seed": 1}]
    assert (tmp_path / "model").read_text() == "1"
    assert "the folder has the model of another run: seed=1 is repeated" in caplog.text
    study.keep({"seed": 2})
    (tmp_path / "model").write_text("half of 2")
    caplog.clear()
    run([1, 2])  # The same grid: the run that was interrupted runs again, no other.
    assert (tmp_path / "model").read_text() == "2"
    assert "is repeated" not in caplog.text


def test_only_the_runs_of_the_settings_count(tmp_path, run, caplog):
    """Without `counts_earlier`. A model that a later grid has replaced is trained again."""
    caplog.set_level("INFO", "keras_bert")
    for seeds, kept, message in (
        ([2], "2", "training"),
        ([2], "2", "the run is finished"),
        ([1, 3], "3", "runs with other settings are in the folder and do not count: seed=2"),
        ([1, 2, 3], "2", "the folder has the model of another run: seed=2 is repeated"),
        ([1, 2], "2", "all 2 runs are finished"),
        ([1], "1", "the folder has the model of another run: seed=1 is repeated"),
    ):
        caplog.clear()
        study = run(seeds, counts_earlier=False)
        assert [result["setting"]["seed"] for result in study.results] == seeds
        assert (tmp_path / "model").read_text() == kept == str(study.to_json()["best"]["setting"]["seed"])
        assert message in caplog.text or message == "training"


def test_only_one_worker_writes(tmp_path, run):
    study = run([1], write=False)
    assert study.best() == [{"setting": {"seed": 1}, "scores": {"f1": 0.5, "loss": 1.0}}]
    assert not (tmp_path / "model").exists()
    assert not list(tmp_path.glob("runs/*/*.npz"))
    assert not list(tmp_path.rglob("*.json"))


def test_a_run_that_diverges_is_ranked_last(tmp_path, run, caplog):
    with pytest.raises(FloatingPointError, match=r"1 of 1 run\(s\) in .*runs diverged, which leaves no model to keep"):
        run([0])
    assert "seed=0 diverged and is ranked last: the loss is not finite at step 3" in caplog.text
    study = run([0, 1, 2], ensemble=3)
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


def test_a_score_that_is_nan_leaves_a_model(tmp_path, run, monkeypatch, caplog):
    monkeypatch.setitem(SCORES, 4, float("nan"))
    study = run([0, 4])
    assert [result["setting"]["seed"] for result in study.best()] == [4]
    assert (tmp_path / "model").read_text() == "4"
    assert "the score f1 is NaN: no run is better than another, and the first one is kept" in caplog.text
    assert run([0, 1, 4]).best()[0]["setting"] == {"seed": 1}
    assert (tmp_path / "model").read_text() == "1"
