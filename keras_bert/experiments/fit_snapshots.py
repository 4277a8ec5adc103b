"""Snapshots of a compiled Keras model on any backend: written atomically, verified when read, the last two kept."""

import logging
import pathlib

from keras_bert.files import file_hash, replacing, write_text

_LOG = logging.getLogger("keras_bert")
_KEPT = 2
_ENDING = ".weights.h5"  # Keras writes weights only to files that end like this.


class FitSnapshots:
    """Snapshots of the weights of a model and its optimizer in a directory, each with a checksum.

    Args:
        directory: path, with two files for each snapshot.
    """

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)

    def save(self, step, model):
        path = self.directory / f"step-{step:09}{_ENDING}"
        with replacing(path) as temporary:
            model.save_weights(temporary)  # Those of the optimizer, too.
            write_text(_checksum_file(path), file_hash(temporary))
        for old in self._paths()[_KEPT:]:
            old.unlink()
            _checksum_file(old).unlink(missing_ok=True)

    def restore(self, model):
        """Loads the newest undamaged snapshot and returns its step, 0 if there is no snapshot."""
        paths = self._paths()
        for path in paths:
            try:
                _verify(path)
                model.load_weights(path)
            except (OSError, KeyError, ValueError) as error:
                if path == paths[-1]:
                    raise ValueError(
                        f"{self.directory} has no readable snapshot. Remove it to start over. Received: {error}"
                    ) from None
                reason = str(error).split("\n")[0]
                _LOG.warning("%s is damaged, using the previous snapshot (%s)", path, reason)
                continue
            return int(path.name.removeprefix("step-").removesuffix(_ENDING))
        return 0

    def _paths(self):
        """Returns the files with weights, the newest first."""
        return sorted(self.directory.glob(f"step-*{_ENDING}"), reverse=True)


def _verify(path):
    stored = _checksum_file(path)
    if stored.exists() and stored.read_text() != file_hash(path):
        raise OSError("the checksum differs")


def _checksum_file(path):
    return path.with_name(f"{path.name}.sha256")
