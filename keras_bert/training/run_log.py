"""What people see of a run: a line, metrics.jsonl, TensorBoard."""

import json
import math
import pathlib
import shutil
import sys
import time

import tensorflow as tf

# What TensorBoard's own `scalar` writes; that one needs TensorBoard to be installed.
_PLUGIN = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
_SCALAR = tf.compat.v1.SummaryMetadata(plugin_data=_PLUGIN, data_class=1)

# So that a line fits a terminal.
_SHORT = {"learning_rate": "lr", "gradient_norm": "norm", "examples": "ex", "tokens": "tok"}


class Progress:
    """A line on the terminal that is written over, or one a while in a log file.

    Args:
        total: steps of the run.
        stream: where to write.
        every_s: how often a log file gets a line.
    """

    def __init__(self, total, stream=None, every_s=10.0):
        self._total, self._stream, self._every = total, stream or sys.stderr, every_s
        self._terminal = self._stream.isatty()
        self._last, self._width = -math.inf, 0
        self._start = None

    def show(self, step, numbers, rates):
        """Writes a line, if it is time for one.

        Args:
            step: steps done.
            numbers: dict such as the loss and the learning rate.
            rates: dict of what was done in a second.
        """
        now = time.monotonic()
        self._start = self._start or (now, step)
        if now - self._last < (0.1 if self._terminal else self._every) and step < self._total:
            return
        self._last = now
        parts = [f"step {step:,}/{self._total:,}"]
        seconds, steps = now - self._start[0], step - self._start[1]
        if steps and step < self._total:
            parts.append(f"{duration(seconds / steps * (self._total - step))} left")
        parts += [f"{_SHORT.get(name, name)} {_short(value)}" for name, value in numbers.items()]
        parts += [f"{_large(value)} {_SHORT.get(name, name)}/s" for name, value in rates.items()]
        self._write("  ".join(parts))

    def say(self, line):
        """Writes a line that stays."""
        self._write(line)
        self.close()

    def close(self):
        """Ends the line of a terminal."""
        if self._terminal and self._width:
            self._stream.write("\n")
            self._stream.flush()
        self._width = 0

    def _write(self, line):
        if self._terminal:
            line = line[: shutil.get_terminal_size().columns - 1]  # A longer one would not be written over.
            self._stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self._stream.write(line + "\n")
        self._stream.flush()


def _short(value):
    return f"{value:.1e}" if value and abs(value) < 1e-3 else f"{value:.4g}"


def _large(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def duration(seconds):
    """Seconds as people read them."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"


class RunLog:
    """A run as it goes: the progress line, `metrics.jsonl` and TensorBoard.

    Args:
        directory: where the files stand; `None` writes none.
        total: steps of the run.
        every: steps between lines of the files.
        state: what `state()` gave when the snapshot was made from which the run goes on. What the file had after it is
            dropped; without a state, what an earlier run has left in the directory.
        show: whether there is a progress line.
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
                old.unlink()  # Of another run, whose curves would stand beside those of this one.
            self._file = open(directory / "metrics.jsonl", "ab")  # noqa: SIM115
            self._file.truncate((state or {}).get("size", 0))
            self._file.seek(0, 2)
            self._board = tf.summary.create_file_writer(str(directory / "tensorboard"))

    def add(self, step, lines, rates):
        """Takes the numbers of the last steps, a list of dicts; returns the means since the last line of the files."""
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
        """Takes the results of an evaluation."""
        if self._progress:
            numbers = "  ".join(f"{name} {_short(value)}" for name, value in results.items())
            self._progress.say(f"step {step:,} evaluated  {numbers}")
        self._write(step, "evaluation", results)

    def _write(self, step, kind, numbers, rates=None):
        if not self._file:
            return
        # What depends on the speed of the machine comes last, under `time`.
        line = {"step": step, "kind": kind, **numbers, **({"time": rates} if rates else {})}
        self._file.write((json.dumps(line) + "\n").encode())
        self._file.flush()
        with self._board.as_default():
            for name, value in {**numbers, **(rates or {})}.items():
                tf.summary.write(f"{kind}/{name}", tf.cast(value, tf.float32), step, _SCALAR)

    def state(self):
        """What a snapshot needs of it, JSON-able."""
        return {"pending": list(self._pending), "size": self._file.tell() if self._file else 0}

    def close(self):
        """Ends the line, closes the files."""
        if self._progress:
            self._progress.close()
        if self._file:
            self._file.close()
            self._board.close()
