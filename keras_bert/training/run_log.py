"""Logs a run: progress line, `metrics.jsonl`, callbacks."""

import os
import pathlib

from keras_bert.files import as_numbers, json_text
from keras_bert.training.callbacks import flat_settings


class RunLog:
    """The log of a run: progress line, `metrics.jsonl` with a line every `every` steps, and callbacks.

    The first and the last step always have a line. `state` is that of the snapshot to resume from, whose later lines
    are removed; `None` starts a new run and removes the log of an earlier one.
    """

    def __init__(self, directory, total, every, state=None, progress=None, callbacks=()):
        if state is None:
            state = {"pending": [], "size": 0, "total": None}
        self._total = total
        self._every = every
        self._progress = progress
        self._callbacks = callbacks
        self._earlier_total = state["total"]
        self._pending = [as_numbers(line) for line in state["pending"]]  # Numbers of steps without a line so far.
        self._last = None  # The step of the last line.
        self._results = {}  # Of the evaluation after this epoch.
        self._file = None
        if directory is not None:
            self._file = _opened(pathlib.Path(directory), state["size"])

    def begin(self, step, settings, finished, per_epoch=None):
        """Starts the log at a step, 0 for a new run; without callbacks if the run is already finished."""
        if self._progress:
            is_extended = step == self._earlier_total and self._earlier_total != self._total
            self._progress.begin(step, self._total, finished, per_epoch, extended=is_extended)
        if finished:
            self._callbacks = ()
        for callback in self._callbacks:
            callback.on_train_begin(flat_settings(settings), step)

    def add(self, step, lines, rates):
        """Adds the numbers of the last steps, a list of dicts; returns the means since the last written line."""
        first = step - len(lines) + 1
        for number, line in enumerate(lines, first):
            self._pending.append(line)
            means = _means(self._pending)
            if number % self._every == 0 or number == self._total:
                self.write(number, rates)
            elif number == 1:  # An additional line: the means of the next one include it.
                self._write_train(1, means, rates)
        if self._progress:
            self._progress.show(step, _means(self._pending or lines), rates)
        return means

    def write(self, step, rates):
        """Writes the means since the last written line, unless that is of this step."""
        if self._pending and step != self._last:
            self._write_train(step, _means(self._pending), rates)
        self._pending = []

    def _write_train(self, step, means, rates):
        """Writes a line of training, and gives its numbers to the callbacks."""
        self._last = step
        line = dict(means)
        if rates:  # Numbers that depend on the speed of the machine come last.
            line["time"] = rates
        self._write_line(step, "train", line)
        numbers = dict(means)
        for name, value in rates.items():
            numbers[f"{name}_per_second"] = value
        for callback in self._callbacks:
            callback.on_log(step, numbers)

    def evaluated(self, step, results):
        """Logs the results of an evaluation."""
        self._results = results
        if self._progress:
            self._progress.evaluated(step, results)
        self._write_line(step, "evaluation", results)
        for callback in self._callbacks:
            callback.on_evaluation(step, results)

    def epoch_ended(self, step):
        """Tells the callbacks that an epoch has ended."""
        for callback in self._callbacks:
            callback.on_epoch_end(step, self._results)
        self._results = {}

    @property
    def stops(self):
        """Whether a callback asks the run to stop."""
        return any(callback.stops for callback in self._callbacks)

    def _write_line(self, step, kind, numbers):
        if self._file:
            line = {"step": step, "kind": kind} | numbers
            text = json_text(line, measured=True, ensure_ascii=True)
            self._file.write(f"{text}\n".encode())
            self._file.flush()

    def state(self):
        """Returns the state to store in a snapshot, a JSON-serializable dict."""
        size = self._file.tell() if self._file else 0
        return {"pending": list(self._pending), "size": size, "total": self._total}

    def say(self, line):
        """Shows a line."""
        if self._progress and line:
            self._progress.say(line)

    def finish(self, results):
        """Ends a run that was not interrupted."""
        for callback in self._callbacks:
            callback.on_train_end(results)

    def close(self):
        """Ends the progress line and closes the file."""
        if self._progress:
            self._progress.close()
        if self._file:
            self._file.close()


def _opened(directory, size):
    """Returns `metrics.jsonl` in a directory, opened to append after so many bytes; the rest is removed."""
    directory.mkdir(parents=True, exist_ok=True)
    file = open(directory / "metrics.jsonl", "ab")  # noqa: SIM115
    file.truncate(size)
    file.seek(0, os.SEEK_END)
    return file


def _means(lines):
    """Returns the means of numbers by name; the learning rate is the last one."""
    means = {}
    for name in lines[0]:
        means[name] = sum(line[name] for line in lines) / len(lines)
    means["learning_rate"] = lines[-1]["learning_rate"]
    return means
