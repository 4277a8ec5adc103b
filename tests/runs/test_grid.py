"""Grids: settings, statistics, and runs that are functions of their setting."""

import gc
import json
import types

import numpy as np
import pytest

from keras_bert.runs import grid
from keras_bert.runs.finetuning import Finetuning, Plan
from keras_bert.runs.hyperparameters import Hyperparameters
from keras_bert.runs.run import Run
from keras_bert.tasks.base import Start
from keras_bert.tasks.logits import mean_logits

SCORES = {1: 0.5, 2: 0.9, 3: 0.7, 4: 0.95}
REPORT = types.SimpleNamespace(metric="f1", combine=mean_logits, can_combine=True, warnings=[], facts={})
TASK = types.SimpleNamespace(
    title="Mine", report=REPORT, training=types.SimpleNamespace(rates_width=None), precision=None
)
TASK.origins, TASK.run_settings, TASK.start = {}, {}, Start("start", None)


def test_settings_and_folder_names():
    every = [{"rate": rate, "seed": seed} for rate in (1, 2) for seed in (3, 4)]
    assert grid.settings(rate=[1, 2], seed=[3, 4]) == every
    for values in ([], [1, 1]):
        with pytest.raises(ValueError, match=r"`rate` must be a non-empty list without duplicates. Received: rate=\["):
            grid.settings(rate=values)
    assert grid.folder_name({"rate": 3e-5, "seed": 1}) == "rate=3e-05,seed=1"
    assert grid.folder_name({"model": "/models/bert/", "seed": 1}) == "model=bert,seed=1"


def result(f1, **setting):
    return {"setting": setting, "scores": {"f1": f1}}


def test_statistics_and_best():
    results = [result(0.5, rate=1, seed=1), result(0.7, rate=1, seed=2), result(0.65, rate=2, seed=1)]
    rows = grid.seed_statistics(results, "f1")
    one = {"mean": 0.65, "deviation": 0.0, "lowest": 0.65, "highest": 0.65, "runs": 1}
    assert rows[0] == {"setting": {"rate": 2}, **one}
    assert rows[1]["mean"] == pytest.approx(0.6)
    assert rows[1]["deviation"] == pytest.approx(0.02**0.5)
    assert grid.ranked(results, "f1") == [results[1], results[2], results[0]]
    # Ties are in the order of their losses, then their settings, not of their runs.
    assert grid.ranked([result(0.5, seed=10), result(0.5, seed=2)], "f1")[0]["setting"] == {"seed": 2}
    closer, other = result(0.5, seed=3), result(0.5, seed=1)
    closer["scores"]["loss"], other["scores"]["loss"] = 0.1, 0.2
    assert grid.ranked([other, closer], "f1") == [closer, other]
    # A diverged run is never the best, in any order.
    diverged = result(float("nan"), rate=3, seed=0)
    for mixed in ([diverged, *results], [*results, diverged]):
        assert grid.ranked(mixed, "f1") == [results[1], results[2], results[0], diverged]
    some = [*results, result(float("nan"), rate=2, seed=2)]
    assert [row["setting"]["rate"] for row in grid.seed_statistics(some, "f1")] == [1, 2]
    for row in (grid.seed_statistics(some, "f1")[1], grid.seed_statistics(some[::-1], "f1")[1]):
        assert np.isnan([row[name] for name in ("mean", "deviation", "lowest", "highest")]).all()
    assert grid.statistics_table(rows, "f1").splitlines()[2:] == [
        "| rate=2 | 1 | 65.00% |  |  |  |",
        "| rate=1 | 2 | 60.00% | 14.14% | 50.00% | 70.00% |",
    ]
    assert grid.statistics_table(rows[:1], "f1").splitlines()[::2] == ["| setting | f1 |", "| rate=2 | 65.00% |"]
    # A score that only other runs have, and a run without any.
    old, other = ({"setting": {"seed": 1}, "scores": {"f1": f1, "recall": np.nan}} for f1 in (0.5, np.nan))
    assert grid.runs_table([old, {**other, "diverged": "at step 3"}, other], "f1").splitlines()[2:] == [
        "| seed=1 | 50.00% |  |",
        "| seed=1 | nan | nan |",
        "| seed=1 | diverged | diverged |",
    ]


class SeedRun(Run):
    """A run whose logits equal the seed; one without a score diverges."""

    def finish(self):
        seed, folder = self.setting["seed"], self.folder
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
def run(tmp_path):
    def run(seeds, **options):
        write = options.pop("write", True)
        runs = Runs(Plan(TASK, {"seed": seeds}, Hyperparameters(), tmp_path, **options))
        runs.grid_runs.write = write
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


@pytest.fixture
def unfrozen():
    """Excludes no objects from garbage collections, as in a program; tests exclude theirs."""
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.freeze()


@pytest.mark.usefixtures("unfrozen")
@pytest.mark.parametrize("fails", [False, True])
def test_garbage_is_that_of_the_runs(tmp_path, monkeypatch, fails):
    """During a grid, collections leave out what was there before; a program that leaves out its own keeps it so."""
    frozen = []

    def train(self):
        frozen.append(gc.get_freeze_count())
        if fails:
            raise OSError

    monkeypatch.setattr(Finetuning, "train_runs", train)
    runs = Finetuning(Plan(TASK, {"seed": [1]}, Hyperparameters(), tmp_path))

    def run():
        if not fails:
            runs.run()
            return
        with pytest.raises(OSError):
            runs.run()

    run()
    assert frozen[0] > 0
    assert gc.get_freeze_count() == 0
    gc.freeze()
    of_program = gc.get_freeze_count()
    run()
    assert frozen[1] <= of_program  # Some have been freed since.
    assert gc.get_freeze_count() > 0


def test_a_score_that_is_nan_leaves_a_model(tmp_path, run, monkeypatch, caplog):
    monkeypatch.setitem(SCORES, 4, float("nan"))
    study = run([0, 4])
    assert [result["setting"]["seed"] for result in study.best()] == [4]
    assert (tmp_path / "model").read_text() == "4"
    assert "the score f1 is NaN: no run is better than another, and the first one is kept" in caplog.text
    assert run([0, 1, 4]).best()[0]["setting"] == {"seed": 1}
    assert (tmp_path / "model").read_text() == "1"
