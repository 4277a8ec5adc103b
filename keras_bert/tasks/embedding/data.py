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
_SCORE, _LABELS = "score", ("label", "gold_label")
TARGETS = (_SCORE, *_LABELS)
_NEGATIVE = re.compile(r"negatives?[ _-]?[0-9]*")
_RANGES = {1.0: (0.0, 1.0), 5.0: (0.0, 5.0)}
# The names of NLI's classes; MNLI's files have words, others the numbers of the Hugging Face hub.
_ENTAILMENT, _CONTRADICTION, _OTHERS = ("entailment", "0"), ("contradiction", "2"), ("neutral", "1", "-", "-1")
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
        rights = [row[0] for row in self.passages]
        return connected(zip(self.queries, rights, strict=True))


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
        """Returns the `Data` of files or sources."""
        ends = self.score_range and tuple(self.score_range)
        if ends and (len(ends) != 2 or ends[0] >= ends[1]):
            received = ",".join(f"{end:g}" for end in ends)
            raise ValueError(f"`score_range` must be LOWEST,HIGHEST. Received: `score_range={received}`")
        sources = {"train": source(train), "dev": source(dev)}
        names = {name: origin.name for name, origin in sources.items()}

        def read_all(score_range):
            options = self.text_column, self.pair_column, self.score_column, score_range, skip_bad_rows
            read_once = {origin: read(origin, *options) for origin in sources.values()}
            return [read_once[origin] for origin in sources.values()]

        train, dev = read_all(ends)
        if train.score_range and dev.score_range and train.score_range != dev.score_range:
            train, dev = read_all(max(train.score_range, dev.score_range))  # The same in both.
        return Data(train, dev, names, sources["dev"].typed)

    @property
    def own_prompts(self):
        """The prompts that are given, by "query" and "passage"."""
        given = {"query": self.query_prompt, "passage": self.passage_prompt}
        return {**(self.prompts or {}), **{side: text for side, text in given.items() if text is not None}}

    @property
    def new_head(self):
        """Whether the head is another one than that of the model."""
        return any(value is not None for value in (self.pooling, self.normalize, self.projection))


@dataclasses.dataclass(frozen=True)
class Data(TaskData):
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
        if isinstance(text, dict):
            return text if target is None else self.with_target(text, target)
        if not isinstance(text, tuple) or len(text) < 2:
            expected = "a tuple of a query, its passage and, if there are any, wrong passages"
            raise ValueError(f"{place} must be {expected}. Received: {text!r:.100}")
        found = {"query": text[0], "passage": text[1]}
        if text[2:]:
            found["negatives"] = list(text[2:])
        if target is not None:
            found[_target_column(target)] = target
        return found

    def with_target(self, row, target):
        return {**self.without_targets(row), _target_column(target): target}

    def with_named_target(self, row, column):
        check_named_target(row, column)
        return super().with_named_target(row, column)


def _target_column(target):
    """Returns the column of a target: that of the labels of NLI, or that of scores."""
    return "label" if isinstance(target, str) else "score"


def loss_name(kind, loss=None):
    """Returns the name of the loss for a kind of data, by default the first one that fits; checks a given one."""
    if loss is not None and loss not in LOSSES[kind]:
        raise ValueError(f"the loss of {kind} data must be {' or '.join(LOSSES[kind])}. Received: loss={loss!r}")
    return loss or LOSSES[kind][0]


def read(path, text_column=None, pair_column=None, score_column=None, score_range=None, skip_bad_rows=None):
    """Reads `EmbeddingExamples` of a source or path, see the module; the columns have usual names by default.

    The ends of `score_range` become 0 and 1; by default it is (0, 1) or (0, 5), whichever all scores are in. Up to
    `skip_bad_rows` unreadable rows are skipped with a warning, by default none.
    """
    path = source(path)
    if path.document is not None:
        found = squad.read(path)
        return EmbeddingExamples("pairs", found.questions, [[found.contexts[index]] for index in found.context])
    columns, negatives = _columns(path, text_column, pair_column, score_column)
    flags = {column: None if name == "label" else f"{name}_column" for name, column in columns.items()}
    raw_rows = path.rows(flags)

    def convert(place, record):
        query, passage = (text_cell(place, record, columns[name]) for name in ("text", "pair"))
        wrong = [text for name in negatives for text in _negatives(place, record.get(name), name)]
        answer = None
        for name, checked in (("score", finite_number), ("label", _label)):
            if name in columns:
                answer = checked(place, columns[name], record[columns[name]])
        return query, [passage, *wrong], answer, place

    rows = [values for _, _, values in converted(path, raw_rows, convert, skip_bad_rows)]
    queries, passages, answers, places = map(list, zip(*rows, strict=True))
    if "label" in columns:
        _check_nli(path, columns, answers)
        found = _from_nli(path, queries, passages, answers)
    elif "score" in columns:
        lowest, highest = score_range or _range(path, answers)
        for place, score in zip(places, answers, strict=True):
            if not lowest <= score <= highest:
                raise ValueError(
                    f"{cell(place, columns['score'])} must be between {lowest:g} and {highest:g}. Received: {score:g}"
                )
        scaled = [(score - lowest) / (highest - lowest) for score in answers]
        found = EmbeddingExamples("scored", queries, passages, scaled, (lowest, highest))
    else:
        found = EmbeddingExamples(_kind(passages), queries, passages)
    return dataclasses.replace(found, skipped=len(raw_rows) - len(rows))


def _columns(path, text, pair, score):
    """Returns the columns that each row must have by what they are, and the list of those of wrong passages."""
    given = [name for name in (text, pair, score) if name]
    if path.typed:  # The names in any row; rows that cannot be read are reported later.
        rows = readable(path, path.rows(), lambda place, record: list(record))
        names = list(dict.fromkeys(name for _, names in rows for name in names))
    else:
        names = path.names(given)
    text = text or next((name for name in QUERIES if name in names), QUERIES[0])
    pair = pair or next((name for name in PASSAGES if name in names and name != text), PASSAGES[0])
    negatives = sorted((name for name in names if _NEGATIVE.fullmatch(name)), key=lambda name: (len(name), name))
    if negatives and not score and _SCORE in names:
        raise ValueError(
            f"{path.place(1)}: the columns `{_SCORE}` and `{negatives[0]}` exclude each other: triplets have no "
            "score. Remove one, or name the column of the scores with `score_column`"
        )
    if score := score or (_SCORE if _SCORE in names else None):
        return {"text": text, "pair": pair, "score": score}, []
    label = next((name for name in _LABELS if name in names and not negatives), None)
    return {"text": text, "pair": pair, **({"label": label} if label else {})}, negatives


def check_named_target(names, column):
    """Raises for rows with wrong passages, which are triplets, if the user named a column of scores or labels."""
    negatives = [name for name in names if _NEGATIVE.fullmatch(name)]
    if negatives:
        raise ValueError(
            f"the columns {column!r} and {negatives[0]!r} exclude each other: triplets have no targets. Expected rows "
            "without one of them"
        )


def _kind(passages):
    return "triplets" if any(len(row) > 1 for row in passages) else "pairs"


def _negatives(place, values, column):
    """Returns the wrong passages of a column; an empty one is absent."""
    values = values if isinstance(values, list) else [] if values is None else [values]
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"{cell(place, column)} must be a text or a list. Received: {value!r:.80}")
    return [value for value in values if value.strip()]


def _label(place, column, value):
    label = class_name(value).lower().removesuffix(".0")
    if label not in (*_ENTAILMENT, *_CONTRADICTION, *_OTHERS):
        raise ValueError(
            f"{cell(place, column)} must be entailment, neutral or contradiction, or 0, 1 or 2, for NLI; "
            f"similarities are in `{_SCORE}`. Received: {value!r:.80}"
        )
    return label


def _check_nli(path, columns, labels):
    """Raises an error for pairs whose label 1 probably means that their texts are alike."""
    if (columns["text"], columns["pair"]) != _NLI_TEXTS and set(labels) == {"0", "1"}:
        raise ValueError(
            f"{cell(str(path), columns['label'])} has only 0 and 1. In NLI, 0 is entailment and 1 is neutral. Expected "
            f"`{_SCORE}` if 1 marks pairs that are alike, or the words entailment, neutral and contradiction"
        )


def _range(path, scores):
    for highest, pair in _RANGES.items():
        if all(0 <= score <= highest for score in scores):
            return pair
    raise ValueError(
        f"{path}: scores from {min(scores):g} to {max(scores):g}. Expected 0 to 1 or 0 to 5; give others with "
        "`score_range`"
    )


def _from_nli(path, premises, passages, labels):
    """Returns a row for each entailed hypothesis, with the contradicted ones of its premise."""
    entailed, contradicted = collections.defaultdict(list), collections.defaultdict(list)
    for premise, (hypothesis, *_), label in zip(premises, passages, labels, strict=True):
        if label not in _OTHERS:
            (entailed if label in _ENTAILMENT else contradicted)[premise].append(hypothesis)
    rows = [
        (premise, [hypothesis, *(other for other in contradicted[premise] if other != hypothesis)])
        for premise, found in entailed.items()
        for hypothesis in found
    ]
    if not rows:
        raise ValueError(f"{path}: no rows with the label entailment. Expected at least one")
    used = len(rows) + sum(len(contradicted[premise]) for premise in entailed)
    queries, passages = map(list, zip(*rows, strict=True))
    return EmbeddingExamples(_kind(passages), queries, passages, unused=len(labels) - used)
