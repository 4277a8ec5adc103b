"""Logs a run: progress line, `metrics.jsonl`, TensorBoard."""

import json
import pathlib
import sys

import tensorflow as tf
import tqdm

# The same as `tf.summary.scalar`, which requires TensorBoard to be installed.
_PLUGIN = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
_SCALAR = tf.compat.v1.SummaryMetadata(plugin_data=_PLUGIN, data_class=1)

# Abbreviations, so that a line fits into a terminal.
_SHORT = {"learning_rate": "lr", "gradient_norm": "norm", "examples": "ex", "tokens": "tok"}


class Progress:
    """A progress line on a terminal, or a line every 10 seconds in a log file.

    Args:
        total: int, steps of the run.
        stream: where to write. Defaults to stderr.
    """

    def __init__(self, total, stream=None):
        self._total, self._stream = total, stream or sys.stderr
        self._bar = None  # Created after the first steps, so that the remaining time excludes tracing.

    def show(self, step, numbers, rates):
        """Updates the line, if it is due, with a dict of numbers and a dict of rates per second."""
        parts = [f"{_SHORT.get(name, name)} {_short(value)}" for name, value in numbers.items()]
        parts += [f"{_large(value)} {_SHORT.get(name, name)}/s" for name, value in rates.items()]
        if self._bar is None:
            terminal = self._stream.isatty()
            self._bar = tqdm.tqdm(
                total=self._total,
                initial=step,
                postfix=", ".join(parts),
                file=self._stream if terminal else _Lines(self._stream),
                mininterval=0.1 if terminal else 10.0,
                miniters=1,
                position=0,
                dynamic_ncols=terminal,
                bar_format="step {n:,}/{total:,}, {remaining} left{postfix}",
            )
        self._bar.set_postfix_str(", ".join(parts), refresh=False)
        self._bar.update(step - self._bar.n)

    def say(self, line):
        """Writes a permanent line."""
        tqdm.tqdm.write(line, self._stream)

    def close(self):
        """Writes the final progress line and ends it."""
        if self._bar is not None:
            self._bar.close()


class _Lines:
    """A stream that writes each state of a progress bar on a separate line."""

    def __init__(self, stream):
        self._stream, self._last = stream, None

    def write(self, text):
        if text.strip() not in ("", self._last):
            self._last = text.strip()
            self._stream.write(self._last + "\n")

    def flush(self):
        self._stream.flush()


def _short(value):
    return f"{value:.1e}" if value and abs(value) < 1e-3 else f"{value:.4g}"


def _large(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


class RunLog:
    """The log of a run: progress line, `metrics.jsonl` and TensorBoard.

    Args:
        directory: path of the log files. `None` writes none.
        total: int, number of steps of the run.
        every: int, steps between lines of the files.
        state: dict, the result of `state()` in the snapshot to resume from: later lines of the file are removed.
            `None` starts a new run and removes the logs of an earlier one. Defaults to `None`.
        show: bool, whether to show a progress line. Defaults to `True`.
    """

    def __init__(self, directory, total, every, state=None, show=True):
        self._total, self._every = total, every
        self._pending = list((state or {}).get("pending", []))
        self._progress = Progress(total) if show else None
        self._file = self._board = None
        if directory is not None:
            directory = pathlib.Path(directory)
            directory.mkdir(parents=True, exist_ok=True)
            for old in [] if state else (directory / "tensorboard").glob("events.out.tfevents.*"):
                old.unlink()  # TensorBoard would show the curves of both runs.
            self._file = open(directory / "metrics.jsonl", "ab")  # noqa: SIM115
            self._file.truncate((state or {}).get("size", 0))
            self._file.seek(0, 2)
            self._board = tf.summary.create_file_writer(str(directory / "tensorboard"))

    def add(self, step, lines, rates):
        """Adds the numbers of the last steps, a list of dicts; returns the means since the last written line."""
        self._pending += lines
        means = {name: sum(line[name] for line in self._pending) / len(self._pending) for name in self._pending[0]}
        means["learning_rate"] = self._pending[-1]["learning_rate"]
        if self._progress:
            self._progress.show(step, means, rates)
        if step % self._every == 0 or step == self._total:
            self._write(step, "train", means, rates)
            self._pending = []
        return means

    def evaluated(self, step, results):
        """Logs the results of an evaluation."""
        if self._progress:
            numbers = "  ".join(f"{name} {_short(value)}" for name, value in results.items())
            self._progress.say(f"step {step:,} evaluated  {numbers}")
        self._write(step, "evaluation", results)

    def _write(self, step, kind, numbers, rates=None):
        if not self._file:
            return
        # Numbers that depend on the speed of the machine come last, under `time`.
        line = {"step": step, "kind": kind, **numbers, **({"time": rates} if rates else {})}
        self._file.write((json.dumps(line) + "\n").encode())
        self._file.flush()
        with self._board.as_default():
            for name, value in {**numbers, **(rates or {})}.items():
                tf.summary.write(f"{kind}/{name}", tf.cast(value, tf.float32), step, _SCALAR)

    def state(self):
        """Returns the state to store in a snapshot, a JSON-serializable dict."""
        return {"pending": list(self._pending), "size": self._file.tell() if self._file else 0}

    def close(self):
        """Ends the progress line and closes the files."""
        if self._progress:
            self._progress.close()
        if self._file:
            self._file.close()
            self._board.close()
