"""Reads data of sentence encoders: pairs with scores, pairs of query and passage, triplets, and NLI.

A JSON object is SQuAD, whose questions are the queries and whose paragraphs are the
passages. The columns of a table tell what it is:

- two texts and `score`: pairs with a score, such as STS-B
- two texts and `label`: NLI. The premises that entail a hypothesis are queries, and the hypotheses that contradict
  them are wrong passages; other rows are not used
- two texts and `negative`, `negative1`, ... or in JSONL a list `negatives`: triplets
- two texts: pairs
"""

import collections
import dataclasses
import re
from typing import Any, NamedTuple

from keras_bert.data import squad
from keras_bert.data.cells import cell, finite_number, text_cell
from keras_bert.data.conversion import converted, readable
from keras_bert.data.formats import source
from keras_bert.data.in_memory import PASSAGES, QUERIES
from keras_bert.data.splits import connected
from keras_bert.data.task_data import Rows, TaskData
from keras_bert.settings import WindowSettings, setting
from keras_bert.tasks.class_names import class_name
from keras_bert.tasks.rows import RowFormat

# Default names of the columns, the first one that a file has; those of texts are `QUERIES` and `PASSAGES`.
_SCORE = "score"
_LABELS = ("label", "gold_label")
TARGETS = (_SCORE, *_LABELS)
_NEGATIVE = re.compile(r"negatives?[ _-]?[0-9]*")
_RANGES = {1.0: (0.0, 1.0), 5.0: (0.0, 5.0)}
# The names of NLI's classes; MNLI's files have words, others the numbers of the Hugging Face hub.
_ENTAILMENT = ("entailment", "0")
_CONTRADICTION = ("contradiction", "2")
_OTHERS = ("neutral", "1", "-", "-1")
_NLI_TEXTS = ("premise", "hypothesis")
# The losses that fit a kind of data; the first one is the default.
LOSSES = {"scored": ("cosine",), "pairs": ("in_batch",), "triplets": ("in_batch", "triplet")}


@dataclasses.dataclass(frozen=True)
class EmbeddingExamples(Rows):
    """Queries and their passages."""

    kind: str  # "scored", "pairs" or "triplets".
    queries: list
    passages: list  # Lists of strings: the right passage of each query first, then wrong ones.
    scores: list | None = None  # From 0 to 1, for "scored".
    score_range: tuple | None = None  # `(lowest, highest)` of the scores in the file.
    skipped: int = 0  # Unreadable rows.
    unused: int = 0  # Rows of NLI that are part of no triplet.

    content = ("queries", "passages", "scores")
    group = "groups of rows that share a text"

    @property
    def least_of_fold(self):
        """Rows that the scores of a fold need: a single score has no correlation."""
        return 2 if self.kind == "scored" else 1

    def groups(self):
        """Returns a number for each row: rows that share a query or a right passage have the same one."""
        return connected(zip(self.queries, self.right_passages, strict=True))

    @property
    def right_passages(self):
        """The right passage of each query."""
        return [row[0] for row in self.passages]


@dataclasses.dataclass(frozen=True)
class EmbeddingSettings(WindowSettings):
    """What is trained, and how: `prompts` are texts by "query" and "passage", put before these."""

    text_column: str = setting(
        None, "Column with the query; default: `query`, `question`, `sentence1`...", section="data", of_files=True
    )
    pair_column: str = setting(
        None, "Column with the passage; default: `passage`, `positive`, ...", section="data", of_files=True
    )
    score_column: str = setting(None, "Column with the similarity; default: `score`.", of_files=True)
    score_range: list[float] = setting(
        None, "Lowest and highest score; default: 0,1 or 0,5, as the scores show.", of_files=True
    )
    sequence_length: int = setting(
        None, "Maximum number of tokens of a text; default: that of a sentence encoder, or else 128.", least=3
    )
    pooling: str = setting(
        None, "Pooling; default: the model's, or else mean.", values=["mean", "cls", "max"], section="model"
    )
    normalize: bool = setting(None, "Scales vectors to length 1; default: as the model.")
    projection: int = setting(None, "Units of a new dense layer after pooling.", least=1)
    query_prompt: str = setting(None, "Text before each query; default: as the model.", of_files=True)
    passage_prompt: str = setting(None, "Text before each passage; default: as the model.", of_files=True)
    loss: str = setting(
        None, "Loss; default: as the data shows.", values=["cosine", "in_batch", "triplet"], section="training"
    )
    temperature: float = setting(0.05, "Divisor of similarities, of in-batch negatives.", least=1e-6)
    margin: float = setting(1.0, "Margin of the triplet loss.", least=1e-6)
    distance: str = setting("euclidean", "Distance of the triplet loss.", values=["euclidean", "cosine"])
    prompts: dict | None = setting(None, None)

    def read(self, train, dev, skip_bad_rows=None):
        """Returns the `EmbeddingData` of files or sources."""
        score_range = self._checked_range()
        train_source = source(train)
        dev_source = source(dev)
        train_examples, dev_examples = self._read_both(
            train_source,
            dev_source,
            score_range,
            skip_bad_rows,
        )
        ranges = {train_examples.score_range, dev_examples.score_range}
        if None not in ranges and len(ranges) == 2:
            # The scores of both show different ranges: they are read again in the wider one.
            train_examples, dev_examples = self._read_both(
                train_source,
                dev_source,
                max(ranges),
                skip_bad_rows,
            )
        names = {"train": train_source.name, "dev": dev_source.name}
        return EmbeddingData(train_examples, dev_examples, names, dev_source.typed)

    def _checked_range(self):
        """Returns the ends of the scores as a tuple, or `None`."""
        if not self.score_range:
            return None
        ends = tuple(self.score_range)
        if len(ends) != 2 or ends[0] >= ends[1]:
            received = ",".join(f"{end:g}" for end in ends)
            raise ValueError(f"`score_range` must be LOWEST,HIGHEST. Received: `score_range={received}`")
        return ends

    def _read_both(self, train_source, dev_source, score_range, skip_bad_rows):
        """Returns the `EmbeddingExamples` of both sources, which are read once if they are the same."""
        options = {
            "text_column": self.text_column,
            "pair_column": self.pair_column,
            "score_column": self.score_column,
            "score_range": score_range,
            "skip_bad_rows": skip_bad_rows,
        }
        train = read(train_source, **options)
        if dev_source is train_source:
            return train, train
        return train, read(dev_source, **options)

    @property
    def own_prompts(self):
        """The prompts that are given, by "query" and "passage"."""
        prompts = dict(self.prompts or {})
        if self.query_prompt is not None:
            prompts["query"] = self.query_prompt
        if self.passage_prompt is not None:
            prompts["passage"] = self.passage_prompt
        return prompts

    @property
    def new_head(self):
        """Whether the head is another one than that of the model."""
        return any(value is not None for value in (self.pooling, self.normalize, self.projection))


@dataclasses.dataclass(frozen=True)
class EmbeddingData(TaskData):
    """The `EmbeddingExamples` to train on, and dev, which selects the best epoch; the names of their sources."""

    train: EmbeddingExamples
    dev: EmbeddingExamples
    names: dict
    typed: bool = False  # Whether dev has rows of JSON.


class EmbeddingRows(RowFormat):
    """Rows with a query and its passages, alone, with a score or with a label of NLI."""

    expects = "pairs of query and passage, alone or with scores"
    columns = ({"query", "passage"}, {"anchor", "positive"})
    target_columns = TARGETS
    needs_targets = False

    def recognizes(self, text, targets):
        return targets is None and isinstance(text, tuple)

    def row(self, place, text, target):
        if isinstance(text, dict) and target is None:
            return text
        if isinstance(text, dict):
            return self.with_target(text, target)
        if not isinstance(text, tuple) or len(text) < 2:
            expected = "a tuple of a query, its passage and, if there are any, wrong passages"
            raise ValueError(f"{place} must be {expected}. Received: {text!r:.100}")
        row = {"query": text[0], "passage": text[1]}
        if len(text) > 2:
            row["negatives"] = list(text[2:])
        if target is not None:
            row[_target_column(target)] = target
        return row

    def with_target(self, row, target):
        return self.without_targets(row) | {_target_column(target): target}

    def with_named_target(self, row, column):
        check_named_target(row, column)
        return super().with_named_target(row, column)


def _target_column(target):
    """Returns the column of a target: that of the labels of NLI, or that of scores."""
    return "label" if isinstance(target, str) else "score"


def loss_name(kind, loss=None):
    """Returns the name of the loss for a kind of data, by default the first one that fits; checks a given one."""
    fitting = LOSSES[kind]
    if loss is not None and loss not in fitting:
        raise ValueError(f"the loss of {kind} data must be {' or '.join(fitting)}. Received: loss={loss!r}")
    return loss or fitting[0]


def read(path, text_column=None, pair_column=None, score_column=None, score_range=None, skip_bad_rows=None):
    """Reads `EmbeddingExamples` of a source or path, see the module; the columns have usual names by default.

    The ends of `score_range` become 0 and 1; by default it is (0, 1) or (0, 5), whichever all scores are in. Up to
    `skip_bad_rows` unreadable rows are skipped with a warning, by default none.
    """
    origin = source(path)
    if origin.document is not None:
        questions = squad.read(origin)
        contexts = [[questions.contexts[index]] for index in questions.context]
        return EmbeddingExamples("pairs", questions.questions, contexts)
    columns, negatives = _columns(origin, text_column, pair_column, score_column)
    raw_rows = origin.rows(_flags(columns))

    def convert(place, record):
        return _read_row(place, record, columns, negatives)

    rows = [row for _, _, row in converted(origin, raw_rows, convert, skip_bad_rows)]
    if "label" in columns:
        examples = _from_nli(origin, columns, rows)
    elif "score" in columns:
        examples = _from_scores(origin, columns, rows, score_range)
    else:
        queries = [row.query for row in rows]
        passages = [row.passages for row in rows]
        examples = EmbeddingExamples(_kind_of(passages), queries, passages)
    return dataclasses.replace(examples, skipped=len(raw_rows) - len(rows))


class _PairRow(NamedTuple):
    """A row of a table."""

    place: str
    query: str
    passages: list  # The right one first, then wrong ones.
    answer: Any  # A score, the label of NLI, or `None`.


def _flags(columns):
    """Returns the columns that each row must have, with the settings that name others; labels have none."""
    flags = {}
    for name, column in columns.items():
        flags[column] = None if name == "label" else f"{name}_column"
    return flags


def _read_row(place, record, columns, negatives):
    """Returns the `_PairRow` of a record, given its columns, see `_columns`."""
    query = text_cell(place, record, columns["text"])
    passages = [text_cell(place, record, columns["pair"])]
    for name in negatives:
        passages.extend(_wrong_passages(place, record.get(name), name))
    answer = None
    if "score" in columns:
        answer = finite_number(place, columns["score"], record[columns["score"]])
    if "label" in columns:
        answer = _nli_label(place, columns["label"], record[columns["label"]])
    return _PairRow(place, query, passages, answer)


def _columns(path, text, pair, score):
    """Returns the columns that each row must have by what they are, and the list of those of wrong passages."""
    names = _names_of_columns(path, [name for name in (text, pair, score) if name])
    if not text:
        text = _first_of(QUERIES, names, default=QUERIES[0])
    if not pair:
        others = [name for name in names if name != text]
        pair = _first_of(PASSAGES, others, default=PASSAGES[0])
    columns = {"text": text, "pair": pair}
    negatives = [name for name in names if _NEGATIVE.fullmatch(name)]
    negatives.sort(key=lambda name: (len(name), name))
    if not score and _SCORE in names:
        if negatives:
            raise ValueError(
                f"{path.place(1)}: the columns `{_SCORE}` and `{negatives[0]}` exclude each other: triplets have no "
                "score. Remove one, or name the column of the scores with `score_column`"
            )
        score = _SCORE
    if score:
        columns["score"] = score
        return columns, []
    label = _first_of(_LABELS, names)
    if label and not negatives:
        columns["label"] = label
    return columns, negatives


def _names_of_columns(path, wanted):
    """Returns the names of all columns of a source, which must have the wanted ones."""
    if not path.typed:
        return path.names(wanted)
    # The names in any row; rows that cannot be read are reported later.
    names = {}
    for _, row_names in readable(path, path.rows(), lambda place, record: list(record)):
        names.update(dict.fromkeys(row_names))
    return list(names)


def _first_of(candidates, names, default=None):
    """Returns the first candidate among the names."""
    for name in candidates:
        if name in names:
            return name
    return default


def check_named_target(names, column):
    """Raises for rows with wrong passages, which are triplets, if the user named a column of scores or labels."""
    negatives = [name for name in names if _NEGATIVE.fullmatch(name)]
    if negatives:
        raise ValueError(
            f"the columns {column!r} and {negatives[0]!r} exclude each other: triplets have no targets. Expected rows "
            "without one of them"
        )


def _kind_of(passages):
    return "triplets" if any(len(row) > 1 for row in passages) else "pairs"


def _wrong_passages(place, value, column):
    """Returns the wrong passages of a column, a text or a list; an empty one is absent."""
    if value is None:
        return []
    passages = value if isinstance(value, list) else [value]
    for passage in passages:
        if not isinstance(passage, str):
            raise ValueError(f"{cell(place, column)} must be a text or a list. Received: {passage!r:.80}")
    return [passage for passage in passages if passage.strip()]


def _nli_label(place, column, value):
    label = class_name(value).lower().removesuffix(".0")
    if label not in (*_ENTAILMENT, *_CONTRADICTION, *_OTHERS):
        raise ValueError(
            f"{cell(place, column)} must be entailment, neutral or contradiction, or 0, 1 or 2, for NLI; "
            f"similarities are in `{_SCORE}`. Received: {value!r:.80}"
        )
    return label


def _from_scores(path, columns, rows, score_range):
    """Returns pairs with scores from 0 to 1."""
    lowest, highest = score_range or _range_of([row.answer for row in rows], path)
    queries = []
    passages = []
    scores = []
    for row in rows:
        if not lowest <= row.answer <= highest:
            place = cell(row.place, columns["score"])
            raise ValueError(f"{place} must be between {lowest:g} and {highest:g}. Received: {row.answer:g}")
        queries.append(row.query)
        passages.append(row.passages)
        scores.append((row.answer - lowest) / (highest - lowest))
    return EmbeddingExamples("scored", queries, passages, scores, (lowest, highest))


def _range_of(scores, path):
    """Returns the first of the usual ranges that all scores are in."""
    for highest, ends in _RANGES.items():
        if all(0 <= score <= highest for score in scores):
            return ends
    raise ValueError(
        f"{path}: scores from {min(scores):g} to {max(scores):g}. Expected 0 to 1 or 0 to 5; give others with "
        "`score_range`"
    )


def _from_nli(path, columns, rows):
    """Returns a row for each entailed hypothesis, with the contradicted ones of its premise."""
    _check_nli(path, columns, {row.answer for row in rows})
    entailed = collections.defaultdict(list)
    contradicted = collections.defaultdict(list)
    for row in rows:
        hypothesis = row.passages[0]
        if row.answer in _ENTAILMENT:
            entailed[row.query].append(hypothesis)
        elif row.answer in _CONTRADICTION:
            contradicted[row.query].append(hypothesis)
    if not entailed:
        raise ValueError(f"{path}: no rows with the label entailment. Expected at least one")
    queries = []
    passages = []
    used = 0
    for premise, hypotheses in entailed.items():
        used += len(hypotheses) + len(contradicted[premise])
        for hypothesis in hypotheses:
            wrong = [other for other in contradicted[premise] if other != hypothesis]
            queries.append(premise)
            passages.append([hypothesis, *wrong])
    return EmbeddingExamples(_kind_of(passages), queries, passages, unused=len(rows) - used)


def _check_nli(path, columns, labels):
    """Raises an error for pairs whose label 1 probably means that their texts are alike."""
    if (columns["text"], columns["pair"]) != _NLI_TEXTS and labels == {"0", "1"}:
        raise ValueError(
            f"{cell(str(path), columns['label'])} has only 0 and 1. In NLI, 0 is entailment and 1 is neutral. Expected "
            f"`{_SCORE}` if 1 marks pairs that are alike, or the words entailment, neutral and contradiction"
        )
