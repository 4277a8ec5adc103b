"""Reads parallel texts: two files, one sentence per line, where lines with the same number belong together."""

import dataclasses
import hashlib
import logging
import pathlib

from keras_bert.data.tables import decoded, split_lines

_LOG = logging.getLogger("keras_bert")


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Sentences with their translations."""

    source_path: pathlib.Path
    target_path: pathlib.Path | None  # `None` without translations.
    sources: list
    targets: list | None
    lines: list  # Line numbers of the pairs.

    def __len__(self):
        return len(self.sources)

    def select(self, indices):
        """Returns the pairs at some indices."""
        lists = (self.sources, self.targets, self.lines)
        chosen = [None if values is None else [values[index] for index in indices] for values in lists]
        return Pairs(self.source_path, self.target_path, *chosen)

    def fingerprint(self):
        """Returns a hash of the sentences."""
        digest = hashlib.sha256()
        for text in (*self.sources, "\0", *(self.targets or [])):
            digest.update(text.encode() + b"\n")
        return digest.hexdigest()[:16]


def read(source, target=None):
    """Reads parallel files, or a file of sentences to translate. Lines may be empty."""
    source, target = pathlib.Path(source), target and pathlib.Path(target)
    sources, targets = _lines(source), target and _lines(target)
    if targets is not None and len(sources) != len(targets):
        counts = f"{source} has {len(sources):,}, {target} has {len(targets):,}"
        raise ValueError(f"parallel files must have the same number of lines. Received: {counts}")
    if not sources:
        raise ValueError(f"{source}: the file is empty. Expected one sentence per line")
    if not any(text.strip() for text in sources):
        raise ValueError(f"{source}: all lines are blank. Expected one sentence per line")
    return Pairs(source, target, sources, targets, list(range(1, len(sources) + 1)))


def without_blank(pairs):
    """Returns the pairs of which no side is blank; a warning names the others."""
    sides = zip(pairs.sources, pairs.targets, strict=True)
    blank = [not source.strip() or not target.strip() for source, target in sides]
    return drop(pairs, blank, "with an empty side")


def drop(pairs, is_wrong: list[bool], what: str):
    """Returns the pairs without the wrong ones, whose number and first lines are told in a warning.

    `what` is wrong with them, such as "longer than 128 tokens".
    """
    wrong = [line for line, bad in zip(pairs.lines, is_wrong, strict=True) if bad]
    if not wrong:
        return pairs
    if len(wrong) == len(pairs):
        raise ValueError(f"{pairs.source_path}: all {len(pairs):,} pair(s) are left out: {what}")
    lines = listed_lines(wrong)
    _LOG.warning("%s: left out %s pair(s) %s, line(s) %s", pairs.source_path, f"{len(wrong):,}", what, lines)
    return pairs.select([index for index, bad in enumerate(is_wrong) if not bad])


def listed_lines(numbers):
    """Returns the first line numbers as text."""
    return ", ".join(map(str, numbers[:3])) + (", ..." if len(numbers) > 3 else "")


def _lines(path):
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    lines = split_lines(decoded(path.read_bytes(), path))
    return lines if lines[-1] else lines[:-1]
