"""Reads sentences or texts with their entities or tags, from rows of Python, CoNLL and JSONL files; settings."""

import dataclasses
import itertools
import logging
import pathlib

from keras_bert.checks import check_choice
from keras_bert.data import text_files
from keras_bert.data.formats import source
from keras_bert.data.sources import Source
from keras_bert.data.tables import Table
from keras_bert.data.task_data import TaskData
from keras_bert.settings import CalibrationSettings, setting
from keras_bert.tasks.rows import RowFormat, first_known
from keras_bert.tasks.tagging import annotations, conll, schemes
from keras_bert.tasks.tagging.schemes import PLAIN
from keras_bert.tasks.tagging.sentences import Sentences

_LOG = logging.getLogger("keras_bert")


@dataclasses.dataclass(frozen=True)
class TaggingSettings(CalibrationSettings):
    """Settings of reading sentences, and of splitting them into windows."""

    word_column: str = setting(
        None, "Column of the words, a number or name, or key of words or text.", section="data", of_files=True
    )
    tag_column: str = setting(
        None, "Column of the tags, a number or name, or key of tags or spans.", section="data", of_files=True
    )
    separator: str = setting(None, "Separator of columns: tab, space, comma; default: recognized.", of_files=True)
    scheme: str = setting(None, "Scheme of the tags; default: recognized.", values=list(schemes.SCHEMES))
    labels: list[str] = setting(None, "Names of tags that are numbers in the rows of JSON or Parquet.")
    sequence_length: int = setting(128, "Maximum number of tokens of a window.", least=4)
    document_context: bool = setting(False, "Windows run over documents, instead of sentences.", of_files=True)
    first_token_only: bool = setting(False, "Trains only the first token of a word, as in the paper.", stored=True)

    @property
    def windows(self):
        """The options of `TaggingWindows`."""
        return {"document_context": self.document_context, "first_token_only": self.first_token_only}

    @property
    def reading(self):
        """The options of `data.read`."""
        names = ("word_column", "tag_column", "separator", "scheme", "labels")
        return {name: getattr(self, name) for name in names}

    def read(self, train, dev, test=None):
        """Returns the `Data` of files or sources that can be used together."""
        first = read(train, **self.reading)
        second = first if dev is train and isinstance(dev, Source) else read(dev, like=first, **self.reading)
        third = read(test, like=first, labeled=False, **self.reading) if test else None
        check(first, second, third, self.document_context)
        return Data(first, second, third)


@dataclasses.dataclass(frozen=True)
class Data(TaskData):
    """The `Sentences` of a task: to train on, dev, which selects the best run, and to predict, or `None`.

    `labels` are those of a model that is not trained; `None` for those of the training data.
    """

    train: Sentences
    dev: Sentences
    test: Sentences | None = None
    labels: list | None = None

    def parted(self, train, held_out):
        """Same as for other tasks; checks that both parts have the same tags."""
        data = super().parted(train, held_out)
        check(data.train, data.dev, data.test)
        return data

    def parts(self):
        """Returns the `Sentences` by split."""
        return {name: part for name in ("train", "dev", "test") if (part := getattr(self, name)) is not None}


class TaggingRows(RowFormat):
    """Rows with `tokens` and `tags`, or with `text` and `spans`."""

    expects = "lists of words with tags, or texts with spans (start, end, label)"
    columns = ({"tokens"}, {"words"}, {"text", "spans"}, {"text", "entities"})
    target_columns = annotations.TARGETS

    def recognizes(self, text, targets):
        example = first_known(targets)
        if isinstance(text, str | tuple):
            has_spans = isinstance(example, list | tuple) and not isinstance(example[0], str | int | float)
            return has_spans or isinstance(example, dict)
        return isinstance(text, list)

    def row(self, place, text, target):
        if isinstance(text, list):
            return {"tokens": text, "tags": target}
        if isinstance(text, str):
            return {"text": text, "spans": target or []}
        if isinstance(text, dict):
            return self.with_target(text, target)
        raise ValueError(f"{place} must be a list of words, or a string. Received: {text!r:.100}")

    def with_target(self, row, target):
        return {**self.without_targets(row), annotations.target_name(row): target}

    def read(self, train, dev, settings, labels=None, name=None):
        if labels is None:
            return settings.read(train, dev)
        first = read(train, **settings.reading)  # Nothing has to be learned.
        return Data(first, read(dev, like=first, **settings.reading), labels=labels)


def read(path, word_column=None, tag_column=None, separator=None, scheme=None, labels=None, like=None, labeled=True):
    """Reads a source, or the file of a path: rows of JSON as in `annotations`, everything else as in `conll`.

    `scheme` is one of `schemes.SCHEMES`, recognized by default, and `labels` are the names of numbered tags in JSON.
    `like` are the `Sentences` of another file: a file with fewer columns has no tags, and is written in its scheme.
    Tags or spans are required if `labeled`.
    """
    if scheme is not None:
        check_choice("scheme", scheme, schemes.SCHEMES)
    origin = source_of(path)
    if origin.typed:
        found = annotations.read(origin, word_column, tag_column, labels)
    else:
        other = like if isinstance(like, conll.Columns) else None
        found = conll.read(origin, word_column, tag_column, separator, other)
    if found.texts is None:
        found = _with_scheme(found, scheme, like)
    elif scheme is not None:
        raise ValueError(f"{origin}: spans have no scheme. Expected `scheme` only for tags. Received: {scheme!r}")
    if labeled and not found.is_labeled:
        keys = f". It has: {', '.join(map(repr, found.records[0]))}" if origin.typed else ""
        wanted = f" `{tag_column}`" if tag_column else ""
        raise ValueError(f"{origin}: no tags or spans{wanted}{keys}. Expected them to train and evaluate on")
    return found


def source_of(path):
    """Returns the source of a path; files that are neither JSON nor Parquet are CoNLL, whatever their name."""
    if isinstance(path, Source):
        return path
    path = pathlib.Path(path)
    text_files.check_file(path)
    is_rows = text_files.suffix(path) in (".jsonl", ".ndjson", ".json", ".parquet")
    return source(path) if is_rows else Table(path)


def _with_scheme(found, scheme, like):
    """Returns `Sentences` with entities, or plain tags, in place of the tags of the file, if it has tags."""
    unknown = not any(tag != schemes.OUTSIDE for tags in found.tags or () for tag in tags)
    if scheme is None and like and (unknown or like.scheme in ("io", PLAIN)):
        scheme = like.scheme
    if found.tags is None:
        return dataclasses.replace(found, scheme=scheme or "iob2")
    if scheme is None:
        scheme = schemes.recognize(found.tags)
        if scheme in ("io", PLAIN):
            _check_style(found)
    _check_tags(found, scheme)
    if scheme == PLAIN:
        return dataclasses.replace(found, scheme=scheme)
    entities = [schemes.entities(tags, scheme) for tags in found.tags]
    return dataclasses.replace(found, tags=None, entities=entities, scheme=scheme)


def _check_style(found):
    """Raises for tags with prefixes in another style, which would be read as types."""
    pair = schemes.other_style({tag for tags in found.tags for tag in tags})
    if pair:
        raise ValueError(
            f"{found.origin}: the tags {pair[0]!r} and {pair[1]!r} seem to have prefixes. Expected tags such as B-PER "
            f"and I-PER, or `scheme=io` or {PLAIN} to read them as types or plain tags"
        )


def _check_tags(found, scheme):
    """Raises for tags that cannot be read; reports those that the scheme does not allow where they are."""
    broken, origin = [], found.origin
    for row, tags in enumerate(found.tags):
        for word, tag in enumerate(tags):
            if not schemes.is_valid(tag, scheme):
                raise ValueError(
                    f"{origin.place(found.line(row, word))}: the tag {tag!r} has no prefix of {scheme.upper()}, unlike "
                    "others, such as B-PER. If the line has the names of the columns, pass them as `word_column` and "
                    f"`tag_column`; for tags without prefixes, pass `scheme=io` or `scheme={PLAIN}`"
                )
        if scheme != PLAIN:
            broken += [(found.line(row, word), tags[word]) for word in schemes.violations(tags, scheme)]
    if broken:
        shown = ", ".join(f"{tag} in {origin.unit} {line}" for line, tag in itertools.islice(broken, 3))
        more = ", ..." if len(broken) > 3 else ""
        _LOG.warning(
            "%s: %d tag(s) break the scheme %s and are read as conlleval does: %s%s",
            *(origin, len(broken), scheme.upper(), shown, more),
        )


def check(train, dev, test=None, document_context=False):
    """Raises if files cannot be used together: the training data, dev and the data to predict."""
    if len({kind for kinds in train.types() for kind in kinds}) < (2 if train.tags is not None else 1):
        expected = "two different tags" if train.tags is not None else "an entity"
        raise ValueError(f"{train.origin}: nothing to learn. Expected at least {expected}")
    if train.words is not None and len(train) == 1:
        raise ValueError(
            f"{train.origin}: one sentence of {len(train.words[0]):,} words. Expected several, with blank lines "
            "between them, or one record of JSONL each"
        )
    others = [dev, *([] if test is None else [test])]
    for part in others:
        if _content(part) != _content(train) and (part.is_labeled or (part.words is None) != (train.words is None)):
            raise ValueError(
                f"{part.origin} has {_content(part)}, but {train.origin} has {_content(train)}. Expected the same"
            )
    for part in (train, *others) if document_context else ():
        if not isinstance(part, conll.Columns) or part.documents[-1] == 0:
            raise ValueError(
                f"{part.origin}: one document. `document_context` requires a CoNLL file with -DOCSTART- lines between "
                "documents"
            )


def _content(sentences):
    """Describes the content of a file."""
    if sentences.words is None:
        return "texts"
    return "plain tags" if sentences.tags is not None else "words with entities"
