"""Snapshots of variables on disk: folders, written atomically, of which the newest undamaged one is restored."""

import contextlib
import json
import logging
import pathlib
import re
import shutil

import tensorflow as tf

from keras_bert.files import read_json, replacing, write_json

_LOG = logging.getLogger("keras_bert")
_NAME = re.compile(r"step-(\d{9})")
# What TensorFlow and JSON raise for a snapshot that is damaged or has other variables.
_UNREADABLE = (tf.errors.OpError, OSError, json.JSONDecodeError, UnicodeDecodeError, KeyError)


class Snapshots:
    """Snapshots of variables and of a JSON-serializable state: folders, written atomically, verified when read.

    The `keep` most recent ones are kept, all with `None`. All processes read, those with `write` write.
    """

    def __init__(self, directory, keep=2, write=True):
        self.directory = pathlib.Path(directory)
        self.keep = keep
        self.write = write

    def folder(self, step):
        return self.directory / f"step-{step:09}"

    def save(self, step, variables, state):
        """Saves `{name: variable}` as a TensorFlow tensor bundle, with a checksum for each tensor, and the state."""
        if not self.write:
            return
        with replacing(self.folder(step)) as temporary:
            temporary.mkdir()
            values = [tf.convert_to_tensor(value) for value in variables.values()]
            prefix = str(temporary / "variables")
            tf.raw_ops.SaveV2(prefix=prefix, tensors=values, **_whole_tensors(variables))
            write_json(temporary / "state.json", {"step": step} | state)
        if self.keep is not None:
            self.keep_only(*self.steps()[: self.keep])

    def keep_only(self, *steps):
        """Removes all snapshots except those of the given steps."""
        if not self.write:
            return
        for old in set(self.steps()) - set(steps):
            shutil.rmtree(self.folder(old))

    def newest(self):
        """Returns the state of the newest snapshot whose state is readable, or `None`."""
        for step in self.steps():
            with contextlib.suppress(OSError, ValueError):
                return read_json(self.folder(step) / "state.json")
        return None

    def restore(self, variables, check=lambda state: None, step=None):
        """Restores the variables from the newest undamaged snapshot, or that of `step`; returns its state or `None`.

        `check` is called with the state before anything is assigned, and may raise.
        """
        steps = self.steps() if step is None else [step]
        for candidate in steps:
            folder = self.folder(candidate)
            try:
                state = read_json(folder / "state.json")
                check(state)
                values = _saved_values(folder, variables)
            except _UNREADABLE as error:
                if candidate == steps[-1]:
                    raise ValueError(
                        f"{self.directory} has no readable snapshot. Remove it to start over. Received: {error}"
                    ) from None
                first_line = str(error).split("\n")[0]
                _LOG.warning("%s is damaged, using the previous snapshot (%s)", folder, first_line)
            else:
                for variable, value in zip(variables.values(), values, strict=True):
                    variable.assign(value)
                return state
        return None

    def steps(self):
        """Returns the steps of the snapshots, the newest first."""
        steps = []
        for path in self.directory.glob("step-*"):
            match = _NAME.fullmatch(path.name)
            if match:
                steps.append(int(match[1]))
        return sorted(steps, reverse=True)


def newest_step(directory):
    """Returns the step of the newest snapshot of a run, 0 without one: where the run resumes.

    Args:
        directory: path of the folder of the run, which has `snapshots/`.
    """
    newest = Snapshots(pathlib.Path(directory) / "snapshots", write=False).newest()
    return 0 if newest is None else newest["step"]


def _saved_values(folder, variables):
    """Returns the values of `{name: variable}` in a snapshot, a list of tensors."""
    dtypes = [variable.dtype for variable in variables.values()]
    prefix = str(folder / "variables")
    return tf.raw_ops.RestoreV2(prefix=prefix, dtypes=dtypes, **_whole_tensors(variables))


def _whole_tensors(variables):
    """Returns the names and slices of whole tensors, for TensorFlow's ops."""
    return {"tensor_names": list(variables), "shape_and_slices": [""] * len(variables)}
