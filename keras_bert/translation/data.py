"""Reads parallel texts.

These are two files with one sentence per line, where lines with the same number belong together; or one source of rows
as on the Hugging Face hub, `{"translation": {"en": "A dog.", "ro": "Un câine."}}`.
"""

import contextlib
import dataclasses
import hashlib
import logging
import pathlib
import re
import tempfile

from keras_bert.data.conversion import converted
from keras_bert.data.formats import source as source_of
from keras_bert.data.sources import Source
from keras_bert.data.text_files import check_file, decoded, first_bytes, split_lines, suffix

_LOG = logging.getLogger("keras_bert")
_COLUMN = "translation"
_ROWS = (".jsonl", ".ndjson", ".json", ".parquet")  # Other files have lines, unless they start like one of these:
_START = re.compile(rb'PAR1|(?:\xef\xbb\xbf)?\s*\[?\s*\{\s*"translation"\s*:\s*\{')


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Sentences with their translations."""

    source_path: pathlib.Path | Source
    target_path: pathlib.Path | None  # `None` without translations, and for rows.
    sources: list
    targets: list | None
    lines: list  # Line numbers of the pairs.

    @property
    def name(self):
        """The names of the files."""
        return " and ".join(path.name for path in (self.source_path, self.target_path) if path)

    def __len__(self):
        return len(self.sources)

    def select(self, indices):
        """Returns the pairs at some indices."""
        targets = None
        if self.targets is not None:
            targets = [self.targets[index] for index in indices]
        return dataclasses.replace(
            self,
            sources=[self.sources[index] for index in indices],
            targets=targets,
            lines=[self.lines[index] for index in indices],
        )

    def fingerprint(self):
        """Returns a hash of the sentences."""
        digest = hashlib.sha256()
        for text in (*self.sources, "\0", *(self.targets or [])):
            digest.update(text.encode() + b"\n")
        return digest.hexdigest()[:16]

    @contextlib.contextmanager
    def files(self):
        """Yields the files of both sides; those of rows are written."""
        if self.target_path:
            yield [self.source_path, self.target_path]
            return
        with tempfile.TemporaryDirectory() as folder:
            source_path = pathlib.Path(folder, "sources.txt")
            target_path = pathlib.Path(folder, "targets.txt")
            source_path.write_text("".join(f"{text}\n" for text in self.sources), encoding="utf-8")
            target_path.write_text("".join(f"{text}\n" for text in self.targets), encoding="utf-8")
            yield [source_path, target_path]


def read(source, target=None, languages=None):
    """Reads parallel files, or a file of sentences to translate. Lines may be empty.

    Rows, of a `Source` or a path, have both sides; `languages` names these, the source first, by default in the order
    of the first row.
    """
    if isinstance(source, Source) or _has_rows(pathlib.Path(source)):
        if target:
            raise ValueError(f"{source}: its rows have the translations. Expected no other file. Received: {target}")
        return _from_rows(source_of(source), languages)
    if languages:
        expected = f'rows such as {{"{_COLUMN}": {{"{languages[0]}": ...}}}}'
        raise ValueError(f"`languages` are those of {expected}. Received: {source}, which has lines")
    return _from_lines(pathlib.Path(source), pathlib.Path(target) if target else None)


def _has_rows(path):
    return path.is_file() and (suffix(path) in _ROWS or bool(_START.match(first_bytes(path))))


def _from_lines(source_path, target_path):
    """Returns the `Pairs` of two parallel files, or of one file of sentences without translations."""
    sources = _lines(source_path)
    targets = None
    if target_path is not None:
        targets = _lines(target_path)
        if len(sources) != len(targets):
            counts = f"{source_path} has {len(sources):,}, {target_path} has {len(targets):,}"
            raise ValueError(f"parallel files must have the same number of lines. Received: {counts}")
    if not sources:
        raise ValueError(f"{source_path}: the file is empty. Expected one sentence per line")
    if not any(text.strip() for text in sources):
        raise ValueError(f"{source_path}: all lines are blank. Expected one sentence per line")
    line_numbers = list(range(1, len(sources) + 1))
    return Pairs(source_path, target_path, sources, targets, line_numbers)


def _from_rows(origin, languages):
    """Returns the `Pairs` of rows; line breaks within a sentence become spaces."""
    rows = origin.rows([_COLUMN])
    if languages is None:
        languages = _languages(rows)
        _LOG.info("%s: translations from %s", origin, " to ".join(languages))
    if len(languages) != 2:
        raise ValueError(f"`languages` must be two, the source and the target. Received: {languages} for {origin}")

    def sides(place, row):
        """Returns the source and the target of a row."""
        translation = row[_COLUMN]
        texts = []
        if isinstance(translation, dict):
            texts = [translation.get(language) for language in languages]
        if not texts or not all(isinstance(text, str) for text in texts):
            expected = f"a dict with texts of {' and '.join(languages)}"
            raise ValueError(f"{place}: `{_COLUMN}` must be {expected}. Received: {translation!r:.100}")
        return [" ".join(split_lines(text)) for text in texts]

    sources = []
    targets = []
    lines = []
    for line, _, (source, target) in converted(origin, rows, sides):
        sources.append(source)
        targets.append(target)
        lines.append(line)
    return Pairs(origin, None, sources, targets, lines)


def _languages(rows):
    """Returns the languages of the first row, in its order."""
    for _, row in rows[:1]:
        if isinstance(row, ValueError):
            raise row
        if isinstance(row[_COLUMN], dict):
            return list(row[_COLUMN])
    return []


def without_blank(pairs):
    """Returns the pairs of which no side is blank; a warning names the others."""
    sides = zip(pairs.sources, pairs.targets, strict=True)
    blank = [not source.strip() or not target.strip() for source, target in sides]
    return drop(pairs, blank, "with an empty side")


def drop(pairs, is_wrong: list[bool], what: str):
    """Returns the pairs without the wrong ones, whose number and first lines are told in a warning.

    `what` is wrong with them, such as "longer than 128 tokens".
    """
    kept = []
    wrong_lines = []
    for index, line in enumerate(pairs.lines):
        if is_wrong[index]:
            wrong_lines.append(line)
        else:
            kept.append(index)
    if not wrong_lines:
        return pairs
    if not kept:
        raise ValueError(f"{pairs.source_path}: all {len(pairs):,} pair(s) are left out: {what}")
    count = f"{len(wrong_lines):,}"
    lines = listed_lines(wrong_lines)
    _LOG.warning("%s: left out %s pair(s) %s, line(s) %s", pairs.source_path, count, what, lines)
    return pairs.select(kept)


def listed_lines(numbers):
    """Returns the first line numbers as text."""
    first = ", ".join(map(str, numbers[:3]))
    if len(numbers) > 3:
        return f"{first}, ..."
    return first


def _lines(path):
    """Returns the lines of a file, without the empty one after the last line break."""
    check_file(path)
    lines = split_lines(decoded(path.read_bytes(), path))
    if not lines[-1]:
        return lines[:-1]
    return lines
