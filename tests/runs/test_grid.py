"""Grids: settings, names of folders and statistics."""

import numpy as np
import pytest

from keras_bert.runs import grid


def test_settings_and_folder_names():
    every = [
        {"rate": 1, "seed": 3},
        {"rate": 1, "seed": 4},
        {"rate": 2, "seed": 3},
        {"rate": 2, "seed": 4},
    ]
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
    closer = result(0.5, seed=3)
    other = result(0.5, seed=1)
    closer["scores"]["loss"] = 0.1
    other["scores"]["loss"] = 0.2
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
