"""Runs the commands in this process, or in a new process as a user does.

New processes are forked from one that has already imported TensorFlow, which takes several seconds. They therefore
share Python's hash seed.
"""

import contextlib
import csv
import importlib
import io
import json
import multiprocessing
import os
import pathlib
import runpy
import sys
import tempfile
from unittest import mock

import numpy as np
import pytest
from absl import flags

from pipelines import command as startup
from pipelines.arguments import flag_fields, parse

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tensorflow", "tensorflow_text", "keras_bert"])


class Program:
    """A process with the interface of `subprocess.Popen`; its output goes to files."""

    def __init__(self, setting, arguments, given):
        self._folder = tempfile.TemporaryDirectory()
        self._path = pathlib.Path(self._folder.name)
        self._path.joinpath("given").write_text(given)
        self._path.joinpath("out").touch()
        self._path.joinpath("errors").touch()
        self._process = _FORKS.Process(target=_begin, args=(self._path, setting, arguments))
        self._process.start()

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self.returncode

    def send_signal(self, number):
        os.kill(self._process.pid, number)

    def communicate(self, timeout=300):
        self._process.join(timeout)
        is_late = self.returncode is None
        if is_late:
            self._process.kill()
        out = self._path.joinpath("out").read_text()
        errors = self._path.joinpath("errors").read_text()
        assert not is_late, f"timeout after {timeout} s: {errors[-3000:]}"
        return out, errors


def _begin(path, setting, arguments):
    """Runs a module in the new process."""
    for number, name in enumerate(("given", "out", "errors")):
        os.dup2(os.open(path / name, os.O_RDWR), number)
    os.environ.update(setting["environment"])
    os.chdir(setting["cwd"])
    np.random.seed()  # The fork copied the global state.
    if setting["devices"] > 1:
        import tensorflow as tf

        processor = tf.config.list_physical_devices("CPU")[0]
        devices = [tf.config.LogicalDeviceConfiguration()] * setting["devices"]
        tf.config.set_logical_device_configuration(processor, devices)
    with open(0, closefd=False) as typed, mock.patch.object(sys, "stdin", typed):
        exec(setting["before"], {})
        sys.argv[1:] = arguments
        runpy.run_module(setting["module"], run_name="__main__", alter_sys=True)


EAGERLY = "import tensorflow as tf; tf.config.run_functions_eagerly(True)\n"  # For `before`.


def start(module, *arguments, before="", devices=1, given="", cwd=".", **environment):
    """Starts a program; `before` is code to execute first, `given` the standard input."""
    setting = {
        "module": module,
        "before": before,
        "devices": devices,
        "cwd": os.path.abspath(cwd),
        "environment": os.environ | environment,
    }
    return Program(setting, list(map(str, arguments)), given)


def finish(program, status=0):
    """Waits for a program, checks its exit status and returns its standard output and standard error."""
    out, errors = program.communicate()
    assert program.returncode == status, out[-3000:] + errors[-3000:]
    return out, errors


def run(module, *arguments, status=0, **options):
    """Runs a program and returns its standard output and standard error."""
    return finish(start(module, *arguments, **options), status)


class CutError(RuntimeError):
    """Ends a run."""


@contextlib.contextmanager
def cut_if(condition):
    """Ends training in this process before a step.

    Args:
        condition: function of the name of the folder of a run and of a step, whether it ends before that step.
    """
    from keras_bert.training.program import Program as TrainingProgram
    from keras_bert.training.trainer import Trainer

    fit = Trainer.fit
    train = TrainingProgram.train
    folders = []

    def fit_and_note(self, *batches, **options):
        folders.append(self.directory.name if self.directory else "")
        return fit(self, *batches, **options)

    def train_or_end(self, iterator, step, count, stop):
        if condition(folders[-1], step):
            raise CutError
        return train(self, iterator, step, count, stop)

    with (
        mock.patch.object(Trainer, "fit", fit_and_note),
        mock.patch.object(TrainingProgram, "train", train_or_end),
        pytest.raises(CutError),
    ):
        yield


def parsed(module, *arguments):
    """Returns the module of a command, and its arguments."""
    program = importlib.import_module(module)
    arguments = list(map(str, arguments))
    return program, parse(program.__doc__, program.Arguments.of(arguments), arguments)


def call(module, *arguments, given=""):
    """Runs a command in this process and returns its output; user errors are raised."""
    printed = io.StringIO()
    typed = io.TextIOWrapper(io.BytesIO(given.encode()))
    program, arguments = parsed(module, *arguments)
    with (
        contextlib.redirect_stdout(printed),
        mock.patch.object(sys, "stdin", typed),
        mock.patch.object(sys, "argv", [module]),
    ):
        startup.find_mistakes(arguments, getattr(program, "check", None))
        program.main(arguments)
    return printed.getvalue()


def no_fit(trainer, *batches, evaluation=None, **options):
    """Replaces `Trainer.fit` in tests that need no training."""
    (trainer.directory / "metrics.jsonl").touch()
    return trainer.evaluate(evaluation)


def signatures_into(found):
    """Returns a replacement for `export` that only builds the signatures, which run in Python, into a dict."""
    from keras_bert.exporting.export import build_signatures

    unused = {
        "add_signatures",
        "calibration",
        "columns",
        "example",
        "explain",
        "overwrite",
        "precision",
        "score_range",
        "task",
    }

    def build(model, preprocessor, directory, **options):
        used = {name: options[name] for name in options.keys() - unused}
        found.update(build_signatures(model, preprocessor, **used))

    return build


def finetune(module, *arguments, signatures=None, fit=None):
    """Runs a command of fine-tuning in this process, without its export; returns its output.

    Args:
        signatures: a dict that gets what would be exported, see `signatures_into`.
        fit: a replacement for `Trainer.fit`, such as `no_fit`.
    """
    from keras_bert.training.trainer import Trainer

    export = mock.Mock()
    if signatures is not None:
        export = signatures_into(signatures)
    with (
        mock.patch("keras_bert.runs.results.export", export),
        mock.patch.object(Trainer, "fit", fit or Trainer.fit),
    ):
        return call(module, *arguments)


def mistake(module, *arguments, given=""):
    """Returns the error message of a command that fails with a user error."""
    with pytest.raises((*startup.MISTAKES, flags.Error)) as error:
        call(module, *arguments, given=given)
    fields = flag_fields(importlib.import_module(module).Arguments)
    return startup.as_flags(" ".join(str(error.value).split()), fields)


def flags_of(values, **changes):
    """Returns flags from a dict of values, with changes; `None` omits a flag, and a list repeats it."""
    flags_given = []
    for name, value in (values | changes).items():
        several = value if isinstance(value, list) else [value]
        for single in several:
            if single is not None:
                flags_given.append(f"--{name}={single}")
    return flags_given


def read_json(path):
    return json.loads(path.read_text("utf-8"))


def read_jsonl(path):
    """Returns the rows of a file with one JSON value per line."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write_jsonl(path, rows):
    """Writes rows, one JSON value per line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def read_table(path):
    """Returns the header and the rows of a file with tabs between its columns."""
    with path.open(newline="") as file:
        header, *rows = csv.reader(file, dialect="excel-tab")
    return header, rows
