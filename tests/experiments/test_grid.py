"""Grids: settings, resumption, statistics."""

import numpy as np
import pytest

from keras_bert.experiments import grid


def test_settings_and_folder_names():
    assert grid.settings(rate=[1, 2], seed=[3, 4]) == [
        {"rate": 1, "seed": 3},
        {"rate": 1, "seed": 4},
        {"rate": 2, "seed": 3},
        {"rate": 2, "seed": 4},
    ]
    for values in ([], [1, 1]):
        with pytest.raises(ValueError, match=r"`rate` must be a non-empty list without duplicates. Received: rate=\["):
            grid.settings(rate=values)
    assert grid.folder_name({"rate": 3e-5, "seed": 1}) == "rate=3e-05,seed=1"
    assert grid.folder_name({"model": "/models/bert/", "seed": 1}) == "model=bert,seed=1"


def test_an_interrupted_grid_resumes(tmp_path):
    calls = []

    def run(setting, folder, results):
        calls.append((setting["seed"], len(results)))
        (folder / "trace").touch()
        if len(calls) == 2:
            raise KeyboardInterrupt
        return {"scores": {"f1": setting["seed"] / 10}}

    runs = grid.settings(seed=[1, 2, 3])
    with pytest.raises(KeyboardInterrupt):
        grid.run_grid(runs, tmp_path, run, {"model": "a"})
    results = grid.run_grid(runs, tmp_path, run, {"model": "a"})
    assert calls == [(1, 0), (2, 1), (2, 1), (3, 2)]
    assert results == [{"setting": {"seed": s}, "scores": {"f1": s / 10}} for s in (1, 2, 3)]
    assert grid.run_grid(runs, tmp_path, None, {"model": "a"}) == results
    assert sorted(path.name for path in tmp_path.iterdir()) == ["common.json", "seed=1", "seed=2", "seed=3"]
    with pytest.raises(ValueError, match="two settings would share the folder model=b"):
        grid.run_grid(grid.settings(model=["a/b", "c/b"]), tmp_path / "new", None, {})

    # Another grid in the same folder adds runs; one with other common settings raises.
    assert grid.run_grid(grid.settings(seed=[2, 0]), tmp_path, run, {"model": "a"})[0] == {
        "setting": {"seed": 0},
        "scores": {"f1": 0.0},
    }
    assert calls[-1] == (0, 3)
    with pytest.raises(ValueError, match=r"contains runs with other settings: `model` was 'a', is 'b'"):
        grid.run_grid(runs, tmp_path, run, {"model": "b"})


def result(f1, **setting):
    return {"setting": setting, "scores": {"f1": f1}}


def test_summary_and_best():
    results = [result(0.5, rate=1, seed=1), result(0.7, rate=1, seed=2), result(0.65, rate=2, seed=1)]
    rows = grid.summary(results, "f1")
    assert rows[0] == {
        "setting": {"rate": 2},
        "mean": 0.65,
        "deviation": 0.0,
        "lowest": 0.65,
        "highest": 0.65,
        "runs": 1,
    }
    assert rows[1]["mean"] == pytest.approx(0.6)
    assert rows[1]["deviation"] == pytest.approx(0.02**0.5)
    assert grid.ranked(results, "f1") == [results[1], results[2], results[0]]
    # Ties are in the order of their settings, not of their runs.
    assert grid.ranked([result(0.5, seed=10), result(0.5, seed=2)], "f1")[0]["setting"] == {"seed": 2}
    # A diverged run is never the best, in any order.
    diverged = result(float("nan"), rate=3, seed=0)
    for mixed in ([diverged, *results], [*results, diverged]):
        assert grid.ranked(mixed, "f1") == [results[1], results[2], results[0], diverged]
    some = [*results, result(float("nan"), rate=2, seed=2)]
    assert [row["setting"]["rate"] for row in grid.summary(some, "f1")] == [1, 2]
    for row in (grid.summary(some, "f1")[1], grid.summary(some[::-1], "f1")[1]):
        assert np.isnan([row[name] for name in ("mean", "deviation", "lowest", "highest")]).all()
    assert grid.markdown(rows, "f1").splitlines()[2:] == [
        "| rate=2 | 1 | 65.00% |  |  |  |",
        "| rate=1 | 2 | 60.00% | 14.14% | 50.00% | 70.00% |",
    ]
    assert grid.markdown(rows[:1], "f1").splitlines() == ["| setting | f1 |", "|---|---|", "| rate=2 | 65.00% |"]
    assert grid.runs_table(results, "f1").splitlines()[2:] == [
        "| rate=1, seed=2 | 70.00% |",
        "| rate=2, seed=1 | 65.00% |",
        "| rate=1, seed=1 | 50.00% |",
    ]
    # A score that only other runs have, and a run without any.
    old, diverged = ({"setting": {"seed": 1}, "scores": {"f1": f1, "recall": np.nan}} for f1 in (0.5, np.nan))
    assert grid.runs_table([old, diverged], "f1").splitlines()[2:] == [
        "| seed=1 | 50.00% |  |",
        "| seed=1 | diverged | diverged |",
    ]
