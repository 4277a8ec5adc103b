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
_SHOWN = 3  # Tags to name that break a scheme.


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
        return {
            "document_context": self.document_context,
            "first_token_only": self.first_token_only,
        }

    @property
    def read_options(self):
        """The options of `data.read`."""
        return {
            "word_column": self.word_column,
            "tag_column": self.tag_column,
            "separator": self.separator,
            "scheme": self.scheme,
            "labels": self.labels,
        }

    def read(self, train, dev, test=None):
        """Returns the `TaggingData` of files or sources that can be used together."""
        train_sentences = read(train, **self.read_options)
        dev_sentences = train_sentences
        if dev is not train or not isinstance(dev, Source):
            dev_sentences = read(dev, like=train_sentences, **self.read_options)
        test_sentences = None
        if test:
            test_sentences = read(test, like=train_sentences, labeled=False, **self.read_options)
        check(train_sentences, dev_sentences, test_sentences, self.document_context)
        return TaggingData(train_sentences, dev_sentences, test_sentences)


@dataclasses.dataclass(frozen=True)
class TaggingData(TaskData):
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
        parts = {"train": self.train, "dev": self.dev}
        if self.test is not None:
            parts["test"] = self.test
        return parts


class TaggingRows(RowFormat):
    """Rows with `tokens` and `tags`, or with `text` and `spans`."""

    expects = "lists of words with tags, or texts with spans (start, end, label)"
    columns = ({"tokens"}, {"words"}, {"text", "spans"}, {"text", "entities"})
    target_columns = annotations.TARGETS

    def recognizes(self, text, targets):
        if not isinstance(text, str | tuple):
            return isinstance(text, list)
        example = first_known(targets)
        if isinstance(example, list | tuple):  # Spans, not the names or numbers of several labels.
            return not isinstance(example[0], str | int | float)
        return isinstance(example, dict)

    def row(self, place, text, target):
        if isinstance(text, list):
            return {"tokens": text, "tags": target}
        if isinstance(text, str):
            return {"text": text, "spans": target or []}
        if isinstance(text, dict):
            return self.with_target(text, target)
        raise ValueError(f"{place} must be a list of words, or a string. Received: {text!r:.100}")

    def with_target(self, row, target):
        labeled = dict(self.without_targets(row))
        labeled[annotations.target_name(row)] = target
        return labeled

    def read(self, train, dev, settings, labels=None, name=None):
        if labels is None:
            return settings.read(train, dev)
        # A model that is not trained: nothing has to be learned.
        train_sentences = read(train, **settings.read_options)
        dev_sentences = read(dev, like=train_sentences, **settings.read_options)
        return TaggingData(train_sentences, dev_sentences, labels=labels)


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
        sentences = annotations.read(origin, word_column, tag_column, labels)
    else:
        other = like if isinstance(like, conll.ConllSentences) else None
        sentences = conll.read(origin, word_column, tag_column, separator, other)
    if sentences.texts is None:
        sentences = _with_scheme(sentences, scheme, like)
    elif scheme is not None:
        raise ValueError(f"{origin}: spans have no scheme. Expected `scheme` only for tags. Received: {scheme!r}")
    if labeled and not sentences.is_labeled:
        wanted = f" `{tag_column}`" if tag_column else ""
        keys = ""
        if origin.typed:
            keys = f". It has: {', '.join(map(repr, sentences.records[0]))}"
        raise ValueError(f"{origin}: no tags or spans{wanted}{keys}. Expected them to train and evaluate on")
    return sentences


def source_of(path):
    """Returns the source of a path; files that are neither JSON nor Parquet are CoNLL, whatever their name."""
    if isinstance(path, Source):
        return path
    path = pathlib.Path(path)
    text_files.check_file(path)
    if text_files.suffix(path) in (".jsonl", ".ndjson", ".json", ".parquet"):
        return source(path)
    return Table(path)


def _with_scheme(sentences, scheme, like):
    """Returns `Sentences` with entities, or plain tags, in place of the tags of the file, if it has tags."""
    if scheme is None and like is not None and _takes_scheme(sentences, like):
        scheme = like.scheme
    if sentences.tags is None:
        return dataclasses.replace(sentences, scheme=scheme or "iob2")
    if scheme is None:
        scheme = schemes.recognize(sentences.tags)
        if scheme in ("io", PLAIN):
            _check_style(sentences)
    _check_tags(sentences, scheme)
    if scheme == PLAIN:
        return dataclasses.replace(sentences, scheme=scheme)
    entities = [schemes.entities(tags, scheme) for tags in sentences.tags]
    return dataclasses.replace(sentences, tags=None, entities=entities, scheme=scheme)


def _takes_scheme(sentences, like):
    """Whether a file has the scheme of the one that it is like, whatever its tags; those without prefixes tell less."""
    return like.scheme in ("io", PLAIN) or _different_tags(sentences) <= {schemes.OUTSIDE}


def _different_tags(sentences):
    return set(itertools.chain.from_iterable(sentences.tags or ()))


def _check_style(sentences):
    """Raises for tags with prefixes in another style, which would be read as types."""
    pair = schemes.other_style(_different_tags(sentences))
    if pair:
        raise ValueError(
            f"{sentences.origin}: the tags {pair[0]!r} and {pair[1]!r} seem to have prefixes. Expected tags such as "
            f"B-PER and I-PER, or `scheme=io` or {PLAIN} to read them as types or plain tags"
        )


def _check_tags(sentences, scheme):
    """Raises for tags that cannot be read; reports those that the scheme does not allow where they are."""
    origin = sentences.origin
    broken = []
    for row, tags in enumerate(sentences.tags):
        for word, tag in enumerate(tags):
            if not schemes.is_valid(tag, scheme):
                raise ValueError(
                    f"{origin.place(sentences.line(row, word))}: the tag {tag!r} has no prefix of {scheme.upper()}, "
                    "unlike others, such as B-PER. If the line has the names of the columns, pass them as "
                    "`word_column` and `tag_column`; for tags without prefixes, pass `scheme=io` or "
                    f"`scheme={PLAIN}`"
                )
        if scheme != PLAIN:
            for word in schemes.violations(tags, scheme):
                broken.append(f"{tags[word]} in {origin.unit} {sentences.line(row, word)}")
    if broken:
        shown = ", ".join(broken[:_SHOWN])
        if len(broken) > _SHOWN:
            shown += ", ..."
        _LOG.warning(
            "%s: %d tag(s) break the scheme %s and are read as conlleval does: %s",
            origin,
            len(broken),
            scheme.upper(),
            shown,
        )


def check(train, dev, test=None, document_context=False):
    """Raises if files cannot be used together: the training data, dev and the data to predict."""
    _check_training_data(train)
    others = [dev]
    if test is not None:
        others.append(test)
    for part in others:
        is_other_kind = (part.words is None) != (train.words is None)
        # A file without tags has no more than its words.
        if _content(part) != _content(train) and (part.is_labeled or is_other_kind):
            raise ValueError(
                f"{part.origin} has {_content(part)}, but {train.origin} has {_content(train)}. Expected the same"
            )
    if document_context:
        for part in (train, *others):
            _check_documents(part)


def _check_training_data(train):
    """Raises if there is nothing to learn, or all words are in one sentence."""
    types = set(itertools.chain.from_iterable(train.types()))
    if train.tags is not None and len(types) < 2:
        raise ValueError(f"{train.origin}: nothing to learn. Expected at least two different tags")
    if not types:
        raise ValueError(f"{train.origin}: nothing to learn. Expected at least an entity")
    if train.words is not None and len(train) == 1:
        raise ValueError(
            f"{train.origin}: one sentence of {len(train.words[0]):,} words. Expected several, with blank lines "
            "between them, or one record of JSONL each"
        )


def _check_documents(sentences):
    """Raises unless a file has several documents."""
    if not isinstance(sentences, conll.ConllSentences) or sentences.documents[-1] == 0:
        raise ValueError(
            f"{sentences.origin}: one document. `document_context` requires a CoNLL file with -DOCSTART- lines between "
            "documents"
        )


def _content(sentences):
    """Describes the content of a file."""
    if sentences.words is None:
        return "texts"
    if sentences.tags is not None:
        return "plain tags"
    return "words with entities"
