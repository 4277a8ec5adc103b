"""Grids of runs: a folder for each, none that is finished is run again."""

import itertools
import json
import pathlib
import statistics


def settings(**choices):
    """All combinations of some choices.

    Args:
        **choices: a list of values for each name.

    Returns:
        A list of dicts, the last name changing fastest.

    Example:
        settings(learning_rate=[3e-5, 5e-5], seed=[1, 2, 3])
    """
    for name, values in choices.items():
        if not values or len(set(values)) != len(values):
            raise ValueError(f"`{name}` must have values, each once. Received: {name}={values}")
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


def folder_name(setting):
    """The folder of a run, such as `learning_rate=3e-05,seed=1`."""
    return ",".join(f"{name}={value}" for name, value in setting.items())


def run_grid(grid, directory, run):
    """Runs every setting that has no result yet.

    Args:
        grid: list of settings.
        directory: where the runs' folders stand.
        run: function of `(setting, folder, results so far)` that returns a dict of numbers. It may be cut and called
            again.

    Returns:
        A list of `{"setting", "scores"}` in the order of the grid.
    """
    results = []
    for setting in grid:
        folder = pathlib.Path(directory) / folder_name(setting)
        done = folder / "result.json"
        if not done.exists():
            folder.mkdir(parents=True, exist_ok=True)
            scores = run(setting, folder, list(results))
            beside = folder / "writing-result.json"
            beside.write_text(json.dumps({"setting": setting, "scores": scores}, indent=1))
            beside.rename(done)
        results.append(json.loads(done.read_text()))
    return results


def best(results, metric):
    """The result with the highest metric, the first of those that have it; `None` of no results."""
    return max(results, key=lambda result: result["scores"][metric], default=None)


def summary(results, metric):
    """The metric over the seeds of each setting.

    Returns:
        A list of dicts: the setting without its seed, `mean`, `deviation` (of the sample; 0 for one run), `lowest`,
        `highest` and `runs`, the best mean first.
    """
    groups = {}
    for result in results:
        setting = {name: value for name, value in result["setting"].items() if name != "seed"}
        groups.setdefault(json.dumps(setting), []).append(result["scores"][metric])
    rows = [
        {
            "setting": json.loads(setting),
            "mean": statistics.fmean(values),
            "deviation": statistics.stdev(values) if len(values) > 1 else 0.0,
            "lowest": min(values),
            "highest": max(values),
            "runs": len(values),
        }
        for setting, values in groups.items()
    ]
    return sorted(rows, key=lambda row: -row["mean"])


def markdown(rows, metric):
    """The table of a summary."""
    lines = [f"| setting | runs | {metric}, mean | deviation | lowest | highest |", "|---|---|---|---|---|---|"]
    for row in rows:
        numbers = " | ".join(f"{100 * row[name]:.2f}" for name in ("mean", "deviation", "lowest", "highest"))
        lines.append(f"| {folder_name(row['setting']).replace(',', ', ')} | {row['runs']} | {numbers} |")
    return "\n".join(lines) + "\n"
