"""Snapshots of variables on disk: written atomically, verified when read, the last few kept."""

import contextlib
import json
import logging
import pathlib
import re
import shutil

import tensorflow as tf

from keras_bert.files import read_json, replacing, write_json

_NAME = re.compile(r"step-(\d{9})")
_LOG = logging.getLogger("keras_bert")


class Snapshots:
    """Snapshots of variables and of a JSON-serializable state in a directory, with one folder for each.

    The `keep` most recent ones are kept; `None` keeps all, see `keep_only`. All processes read, those with `write`
    write.
    """

    def __init__(self, directory, keep=2, write=True):
        self.directory, self.keep, self.write = pathlib.Path(directory), keep, write

    def save(self, step, variables, state):
        """Saves `{name: variable}` and the state."""
        if not self.write:
            return
        folder = self.directory / f"step-{step:09}"
        with replacing(folder) as temporary:
            temporary.mkdir()
            _write(temporary / "variables", variables)
            write_json(temporary / "state.json", {"step": step, **state})
        if self.keep is not None:
            self.keep_only(*self.steps()[: self.keep])

    def keep_only(self, *steps):
        """Removes all snapshots except those of the given steps."""
        for old in set(self.steps()) - set(steps) if self.write else ():
            shutil.rmtree(self.directory / f"step-{old:09}")

    def newest(self):
        """Returns the state of the newest snapshot whose state is readable, or `None`."""
        for step in self.steps():
            with contextlib.suppress(OSError, ValueError):
                return read_json(self.directory / f"step-{step:09}" / "state.json")
        return None

    def restore(self, variables, check=lambda state: None, step=None):
        """Restores the variables from the newest undamaged snapshot, or from the one of `step`.

        `check` is called with the state before anything is assigned, and may raise. Returns the state, or `None` if
        there is no snapshot.
        """
        steps = self.steps() if step is None else [step]
        for step in steps:
            folder = self.directory / f"step-{step:09}"
            try:
                state = read_json(folder / "state.json")
                check(state)
                values = _read(folder / "variables", variables)
            except (tf.errors.OpError, OSError, json.JSONDecodeError, UnicodeDecodeError, KeyError) as error:
                if step == steps[-1]:
                    raise ValueError(
                        f"{self.directory} has no readable snapshot. Remove it to start over. Received: {error}"
                    ) from None
                _LOG.warning("%s is damaged, using the previous snapshot (%s)", folder, str(error).split("\n")[0])
                continue
            for name, variable in variables.items():
                variable.assign(values[name])
            return state
        return None

    def steps(self):
        """Returns the steps of the snapshots, the newest first."""
        matches = [_NAME.fullmatch(path.name) for path in self.directory.glob("step-*")]
        return sorted((int(match[1]) for match in matches if match), reverse=True)


def _write(prefix, variables):
    """Writes a TensorFlow tensor bundle: any dtype, and a checksum for each tensor."""
    names, values = list(variables), [tf.convert_to_tensor(value) for value in variables.values()]
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=values)


def _read(prefix, variables):
    dtypes = [variable.dtype for variable in variables.values()]
    names = list(variables)
    values = tf.raw_ops.RestoreV2(
        prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), dtypes=dtypes
    )
    return dict(zip(names, values, strict=True))
