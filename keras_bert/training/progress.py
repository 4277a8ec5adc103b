"""What people see of a run: a line, metrics.jsonl, TensorBoard."""

import json
import math
import pathlib
import sys
import time

import tensorflow as tf


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
        parts = [f"step {step:,}/{self._total:,}", *(f"{name} {_short(value)}" for name, value in numbers.items())]
        parts += [f"{_large(value)} {name}/s" for name, value in rates.items()]
        seconds, steps = now - self._start[0], step - self._start[1]
        if steps and step < self._total:
            parts.append(f"{duration(seconds / steps * (self._total - step))} left")
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
            self._stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self._stream.write(line + "\n")
        self._stream.flush()


def _short(value):
    return f"{value:.2e}" if value and abs(value) < 1e-3 else f"{value:.4g}"


def _large(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def duration(seconds):
    """Seconds as people read them."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"


class MetricsLog:
    """`metrics.jsonl`, one line of numbers a time, and the same for TensorBoard.

    Args:
        directory: the run's directory.
        size: how much of the file counts, in bytes: a run that goes on drops what it had written after its snapshot.
    """

    def __init__(self, directory, size=0):
        directory = pathlib.Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self._file = open(directory / "metrics.jsonl", "ab")
        self._file.truncate(size)
        self._board = tf.summary.create_file_writer(str(directory / "tensorboard"))

    def write(self, step, kind, numbers, rates=None):
        """Adds a line. `rates` depend on the machine's speed; they come last, under `time`."""
        line = {"step": step, "kind": kind, **numbers, **({"time": rates} if rates else {})}
        self._file.write((json.dumps(line) + "\n").encode())
        self._file.flush()
        with self._board.as_default():
            for name, value in {**numbers, **(rates or {})}.items():
                tf.summary.scalar(f"{kind}/{name}", value, step)

    def size(self):
        """Bytes written so far."""
        return self._file.tell()

    def close(self):
        """Closes both."""
        self._file.close()
        self._board.close()
