"""Runs of a grid, which share one traced program, are those of a process for each run, to the byte."""

import itertools
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]
ROOT = pathlib.Path(__file__).parents[2]
SAMPLE = ROOT / "pipelines" / "sample_data" / "sentiment"
RATES = ("2e-4", "6e-4")
SEEDS = ("1", "2")
MEASURED = ("seconds", "time", "examples", "tokens", "steps")  # How names of what depends on the speed begin.


def train(folder, rates, seeds, flags):
    """Fine-tunes in a process of its own."""
    command = [
        *(sys.executable, "-m", "pipelines.run_glue", "--task=classification"),
        *(f"--train_file={folder.parent}/train.tsv", f"--dev_file={folder.parent}/dev.tsv"),
        *(f"--model={ROOT}/saved_models/bert_tiny_books", f"--output_dir={folder}", "--report_to="),
        *("--epochs=2", "--batch_size=16", "--sequence_length=32"),
        *(f"--learning_rate={','.join(rates)}", f"--seed={','.join(seeds)}", *flags),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr[-4000:]


def cut_sample(folder, train_rows, dev_rows):
    """Writes the first rows of the sample data."""
    for name, rows in (("train.tsv", train_rows), ("dev.tsv", dev_rows)):
        lines = (SAMPLE / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(lines[: rows + 1]))


def lines_of(run):
    """Returns the lines of a run's log without what is measured."""
    lines = []
    for text in (run / "metrics.jsonl").read_text().splitlines():
        line = json.loads(text)
        lines.append({name: value for name, value in line.items() if not name.startswith(MEASURED)})
    return lines


def logits_of(run):
    with np.load(run / "dev.npz") as file:
        return {name: (array.dtype, array.shape, array.tobytes()) for name, array in file.items()}


def compare(tmp_path, flags=()):
    """Trains a grid in one process, and its best and its last run in their own."""
    cut_sample(tmp_path, train_rows=64, dev_rows=40)
    grid = tmp_path / "grid"
    train(grid, RATES, SEEDS, flags)
    results = json.loads((grid / "results.json").read_text())
    best = results["best"]["setting"]
    best_choice = (best["learning_rate"], best["seed"])
    scores = {(run["setting"]["learning_rate"], run["setting"]["seed"]): run["scores"] for run in results["runs"]}
    assert len(scores) == len(RATES) * len(SEEDS)
    all_logits = {str(logits_of(run)) for run in (grid / "runs").iterdir() if run.is_dir()}
    assert len(all_logits) == len(scores)  # The runs differ.
    for rate, seed in itertools.product(RATES, SEEDS):
        choice = (float(rate), int(seed))
        if choice not in (best_choice, max(scores)):
            continue
        alone = tmp_path / f"{rate}_{seed}"
        train(alone, [rate], [seed], flags)
        (run,) = (path for path in (alone / "runs").iterdir() if path.is_dir())
        shared = grid / "runs" / run.name
        assert logits_of(shared) == logits_of(run)
        assert lines_of(shared) == lines_of(run)
        found = json.loads((alone / "results.json").read_text())
        assert found["best"]["scores"] == scores[choice]
        if choice == best_choice:
            assert results["best"]["scores"] == found["best"]["scores"]
            for file in ("model.safetensors", "config.json"):
                assert (grid / "model" / file).read_bytes() == (alone / "model" / file).read_bytes()


def test_the_runs_of_a_grid_are_those_of_fresh_processes(tmp_path):
    compare(tmp_path)
