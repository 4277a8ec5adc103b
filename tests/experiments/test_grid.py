"""Grids by hand."""

import pytest

from keras_bert.experiments import grid


def test_settings():
    assert grid.settings(rate=[1, 2], seed=[3, 4]) == [
        {"rate": 1, "seed": 3},
        {"rate": 1, "seed": 4},
        {"rate": 2, "seed": 3},
        {"rate": 2, "seed": 4},
    ]


@pytest.mark.parametrize("values", [[], [1, 1]])
def test_bad_choices(values):
    with pytest.raises(ValueError, match=r"`rate` must have values, each once. Received: rate=\["):
        grid.settings(rate=values)


def test_a_grid_that_is_cut_goes_on(tmp_path):
    calls = []

    def run(setting, folder, results):
        calls.append((setting["seed"], len(results)))
        (folder / "trace").touch()
        if len(calls) == 2:
            raise KeyboardInterrupt
        return {"f1": setting["seed"] / 10}

    runs = grid.settings(seed=[1, 2, 3])
    with pytest.raises(KeyboardInterrupt):
        grid.run_grid(runs, tmp_path, run)
    results = grid.run_grid(runs, tmp_path, run)
    assert calls == [(1, 0), (2, 1), (2, 1), (3, 2)]
    assert results == [{"setting": {"seed": s}, "scores": {"f1": s / 10}} for s in (1, 2, 3)]
    assert grid.run_grid(runs, tmp_path, None) == results
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed=1", "seed=2", "seed=3"]


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
    assert grid.best(results, "f1") == results[1]
    assert grid.best([], "f1") is None
    assert grid.markdown(rows, "f1").splitlines()[2:] == [
        "| rate=2 | 1 | 65.00 | 0.00 | 65.00 | 65.00 |",
        "| rate=1 | 2 | 60.00 | 14.14 | 50.00 | 70.00 |",
    ]
