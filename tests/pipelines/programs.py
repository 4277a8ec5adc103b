"""Runs the commands in this process, or in a new process as a user does.

New processes are forked from one that has already imported TensorFlow, which takes several seconds. They therefore
share Python's hash seed.
"""

import contextlib
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
        for name, text in (("given", given), ("out", ""), ("errors", "")):
            (self._path / name).write_text(text)
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
        late = self.returncode is None
        if late:
            self._process.kill()
        out, errors = ((self._path / name).read_text() for name in ("out", "errors"))
        assert not late, f"timeout after {timeout} s: {errors[-3000:]}"
        return out, errors


def _begin(path, setting, arguments):
    for number, name in enumerate(("given", "out", "errors")):
        os.dup2(os.open(path / name, os.O_RDWR), number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 (It stays open until exit.)
    os.environ.update(setting["environment"])
    os.chdir(setting["cwd"])
    np.random.seed()  # The fork copied the global state.
    if setting["devices"] > 1:
        import tensorflow as tf

        devices = [tf.config.LogicalDeviceConfiguration()] * setting["devices"]
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    exec(setting["before"], {})
    sys.argv[1:] = arguments
    runpy.run_module(setting["module"], run_name="__main__", alter_sys=True)


EAGERLY = "import tensorflow as tf; tf.config.run_functions_eagerly(True)\n"  # For `before`.


def start(module, *arguments, before="", devices=1, given="", cwd=".", **environment):
    """Starts a program; `before` is code to execute first, `given` the standard input."""
    setting = {"module": module, "before": before, "devices": devices, "cwd": os.path.abspath(cwd)}
    return Program(
        {**setting, "environment": {**os.environ, **environment}}, [str(value) for value in arguments], given
    )


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
    """Ends training in this process before a step; `condition` is a function of the name of its folder and the step."""
    from keras_bert.training.step_loop import StepLoop
    from keras_bert.training.trainer import Trainer

    train = StepLoop._call
    fit = Trainer.fit
    folders = []

    def noted(self, *batches, **options):
        folders.append(self.directory.name if self.directory else "")
        return fit(self, *batches, **options)

    def cut(self, iterator, step, count):
        if condition(folders[-1], step):
            raise CutError
        return train(self, iterator, step, count)

    with (
        mock.patch.object(Trainer, "fit", noted),
        mock.patch.object(StepLoop, "_call", cut),
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

    unused = ("example", "score_range", "columns", "task", "precision", "calibration", "overwrite", "add_signatures")
    unused += ("explain",)

    def build(model, preprocessor, directory, **options):
        options = {name: value for name, value in options.items() if name not in unused}
        found.update(build_signatures(model, preprocessor, **options))

    return build


def finetune(module, *arguments, signatures=None, fit=None):
    """Runs a command of fine-tuning in this process, without its export; returns its output.

    Args:
        signatures: a dict that gets what would be exported, see `signatures_into`.
        fit: a replacement for `Trainer.fit`, such as `no_fit`.
    """
    from keras_bert.training.trainer import Trainer

    export = mock.Mock() if signatures is None else signatures_into(signatures)
    fitted = mock.patch.object(Trainer, "fit", fit or Trainer.fit)
    with mock.patch("keras_bert.runs.results.export", export), fitted:
        return call(module, *arguments)


def mistake(module, *arguments, given=""):
    """Returns the error message of a command that fails with a user error."""
    with pytest.raises((*startup.MISTAKES, flags.Error)) as error:
        call(module, *arguments, given=given)
    fields = flag_fields(importlib.import_module(module).Arguments)
    return startup.as_flags(" ".join(str(error.value).split()), fields)


def flags_of(values, **changes):
    """Returns flags from a dict of values, with changes; `None` omits a flag, and a list repeats it."""
    merged = {name: value if isinstance(value, list) else [value] for name, value in {**values, **changes}.items()}
    return [f"--{name}={value}" for name, several in merged.items() for value in several if value is not None]


def read_json(path):
    return json.loads(path.read_text("utf-8"))
