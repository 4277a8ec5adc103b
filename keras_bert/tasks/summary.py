"""What to know about data before training: truncated and repeated rows, probable mistakes, the majority baseline."""

import collections
import dataclasses
import math

import numpy as np
import scipy.special
import tensorflow as tf

from keras_bert.reports.page import Headline
from keras_bert.tasks.class_names import alike, some, spelled

_CHUNK = 2**14  # Texts to tokenize at a time.
_LENGTHS = (32, 64, 128, 256, 384, 512, 1024, 2048)  # Values to suggest for `sequence_length`.
_MANY_CUT = 0.05  # Share of rows that lose tokens.
_HELD = 0.99  # Share of the rows that a suggested length should hold.
_SIGNIFICANT = 0.05  # The level of tests.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """What to know about the data of a task before training; all values are JSON."""

    # The plural that messages call its rows, such as "pairs".
    unit: str = "rows"
    # The number of rows to train on.
    train: int
    # Numbers of rows by file.
    dev: dict = dataclasses.field(default_factory=dict)
    test: dict = dataclasses.field(default_factory=dict)
    # How many rows of each other split are also in train.
    overlap: dict = dataclasses.field(default_factory=dict)
    # Scores of the majority baseline, empty if there is none, and what it predicts.
    majority: dict = dataclasses.field(default_factory=dict)
    baseline: str = ""
    # The same of dev's own majority, if it differs.
    dev_majority: dict | None = None
    dev_baseline: str | None = None
    # What one prediction is for, such as "word".
    predicted: str = "row"
    # Training rows that occur before.
    repeated: int | None = None
    # Training rows that occur with different labels.
    contradictory: int | None = None
    # Unreadable rows by split.
    skipped: dict | None = None
    # See `truncation`.
    truncated: dict | None = None
    # What only one task knows.
    more: dict = dataclasses.field(default_factory=dict)

    def to_json(self):
        """Returns all entries that are there as one dict, for `results.json`."""
        left_out = {"predicted": "row", "baseline": ""}
        entries = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name != "more" and value is not None and value != left_out.get(field.name):
                entries[field.name] = value
        return entries | self.more


def most_frequent(counts):
    """Returns what has the highest count; of several, the first in their order."""
    return min(counts, key=lambda label: (-counts[label], label))


def normal(*texts):
    """Returns texts without differences in case and white space, to find repeated rows: a tuple."""
    return tuple(" ".join(text.casefold().split()) for text in texts)


def token_counts(preprocessor, columns, lengths):
    """Returns the number of tokens of each row without truncation, including `[CLS]` and `[SEP]`.

    `lengths` are those of the truncated rows, of which only rows of the full length are tokenized again; `columns` are
    the texts, a list for each column.
    """
    counts = np.array(lengths)
    full = np.flatnonzero(counts >= preprocessor.sequence_length)
    for first in range(0, len(full), _CHUNK):
        rows = full[first : first + _CHUNK]
        sizes = []
        for column in columns:
            texts = tf.constant([column[row] for row in rows])
            sizes.append(preprocessor.tokenizer(texts).row_lengths().numpy())
        counts[rows] = np.sum(sizes, axis=0) + 1 + len(columns)
    return counts


def truncation(lengths, sequence_length, limit):
    """Returns how many rows are longer than `sequence_length`, and a length that holds 99% of them: a dict.

    `rows` and `share` are the truncated ones, `longest` is the longest row. If a longer length is possible, `enough` is
    the suggested one, and `held` the share of the rows that it holds.
    """
    lengths = np.asarray(lengths)
    rows = int(np.sum(lengths > sequence_length))
    result = {"rows": rows, "share": rows / len(lengths), "sequence_length": sequence_length}
    result["longest"] = int(lengths.max())
    longer = [length for length in (*_LENGTHS, limit) if sequence_length < length <= limit]
    if rows and longer:
        enough, held = _suggested_length(lengths, sorted(longer))
        result["enough"] = enough
        result["held"] = held
    return result


def _suggested_length(lengths, choices):
    """Returns the first of the choices that holds 99% of the rows, or the last one, and the share that it holds."""
    for length in choices:
        held = float(np.mean(lengths <= length))
        if held >= _HELD:
            break
    return length, held


def split_entries(keys, names, answers=None):
    """Returns the fields of a `Summary` about the rows of each split, given their texts as `normal` returns them.

    These are their number, under the `names` of the files, and how many are also in train; with `answers`, those of the
    training rows, how many are repeated, and how many occur with another answer.
    """
    train = keys["train"]
    known = set(train)
    entries = {"train": len(train), "dev": {}, "test": {}, "overlap": {}}
    for split, rows in keys.items():
        if split != "train":
            entries[split] = {names[split]: len(rows)}
            entries["overlap"][split] = sum(key in known for key in rows)
    if answers is None:
        return entries
    answers_by_key = collections.defaultdict(set)
    for key, answer in zip(train, answers, strict=True):
        answers_by_key[key].add(answer)
    different = sum(map(len, answers_by_key.values()))
    entries["repeated"] = len(train) - different
    entries["contradictory"] = sum(len(answers_by_key[key]) > 1 for key in train)
    return entries


def of_splits(splits, names):
    """Returns the `Summary` of splits by name whose examples have texts, see `Split`; `names` are those of files."""
    keys = {}
    for name, splits_of_name in splits.items():
        if splits_of_name:
            columns = getattr(splits_of_name[0].examples, "texts", {}).values()
            keys[name] = [normal(*texts) for texts in zip(*columns, strict=True)]
    files = {name: names.get(name, name) for name in keys}
    return Summary(**split_entries(keys, files))


def warnings(summary):
    """Returns sentences about rows that are in several splits, or occur with different labels."""
    unit = summary.unit
    sentences = []
    for split, count in summary.overlap.items():
        if not count:
            continue
        total = next(iter(getattr(summary, split).values()))
        if split == "test":  # Those to predict, which may have no scores.
            sentences.append(f"{count:,} of {total:,} answered {unit} are also in train, so the model has seen them")
        else:
            doubt = f"are also in train, which raises the {split} scores"
            sentences.append(f"{count:,} of {total:,} {split} {unit} {doubt}")
    if summary.contradictory:
        sentences.append(f"{summary.contradictory:,} training {unit} occur with different labels")
    return sentences


def look_alikes(classes, counts):
    """Returns a warning about `classes`, such as "labels", that look alike, in a list; `counts` are theirs in train."""
    groups = []
    for names in alike(counts):
        counted = []
        for text, name in zip(spelled(names), names, strict=True):
            counted.append(f"{text} ({counts[name]:,})")
        groups.append(" and ".join(counted))
    if not groups:
        return []
    return [f"{classes} that look alike are different classes: {some(groups)}"]


def of_scores(summary, names):
    """Returns a summary whose majority baselines have scores of these names alone."""
    majority = _of_names(summary.majority, names)
    dev_majority = summary.dev_majority
    if dev_majority is not None:
        dev_majority = _of_names(dev_majority, names)
    return dataclasses.replace(summary, majority=majority, dev_majority=dev_majority)


def _of_names(scores, names):
    """Returns the scores that have one of the names."""
    return {name: value for name, value in scores.items() if name in names}


def baselines(summary):
    """Returns what the majority baselines predict, and their scores: of train and, if it differs, of dev."""
    pairs = []
    if summary.majority:
        pairs.append((summary.baseline, summary.majority))
    if summary.dev_majority:
        pairs.append((summary.dev_baseline, summary.dev_majority))
    return pairs


def best_baseline(summary, metric):
    """Returns what the majority baseline with the higher score predicts, and this score; `None` without any."""
    scored = [(text, scores[metric]) for text, scores in baselines(summary) if metric in scores]
    return max(scored, key=lambda baseline: baseline[1], default=None)


def no_better(summary, metric, scores, same=None):
    """Returns a sentence if a model is no better than the best majority baseline, or else `None`.

    `metric` is the score to compare, `same` the prediction for all rows, `None` if the predictions differ.
    """
    if same is not None:
        every = f"every {summary.predicted}"
        return f"the model predicts {same} for {every}. Try more epochs, or another learning_rate"
    best = best_baseline(summary, metric)
    if best is None:
        return None
    baseline, majority = best
    if scores[metric] > majority + 1e-9 or scores[metric] == 1:
        return None
    numbers = f"{listed({metric: scores[metric]})} against {100 * majority:.2f}%"
    return f"no better than the majority baseline ({baseline}): {numbers}"


def not_significant(summary, scores):
    """Returns a sentence if the rows are too few to tell a model from the majority baseline, or else `None`.

    It is an exact binomial test of the right answers against the share of the best majority, of one side, at 5%.
    `scores` are those on rows that the model was not trained on.
    """
    best = best_baseline(summary, "accuracy")
    rows = _rows_of_dev(summary)
    if best is None or not rows or "accuracy" not in scores or summary.predicted != "row":
        return None
    baseline, majority = best
    right = round(scores["accuracy"] * rows)
    # The probability of so many right answers or more, as a beta function: `scipy.stats` takes long to import.
    chance = 1.0
    if right:
        chance = float(scipy.special.betainc(right, rows - right + 1, majority))
    if chance < _SIGNIFICANT or majority == 1:
        return None
    return (
        f"not significantly better than the majority baseline ({baseline}): {right:,} of {rows:,} right, "
        f"{100 * right / rows:.2f}% against {100 * majority:.2f}%, p = {chance:.2f} in a binomial test"
    )


def _rows_of_dev(summary):
    """Returns the number of rows of the first dev set; `None` without any."""
    return next(iter(summary.dev.values()), None)


def beside_guesses(summary, metric, scores, is_held_out, same=None):
    """Returns a sentence if a model is not better than the best majority baseline, or not significantly, or `None`.

    `is_held_out` tells whether the scores are those on rows that the model was not trained on; for the others see
    `no_better`.
    """
    warning = no_better(summary, metric, scores, same)
    if warning is None and is_held_out:
        warning = not_significant(summary, scores)
    return warning


def headline(report, scores, evaluated_on):
    """Returns the `Headline` of the main score of a task's report on `evaluated_on`, beside the best baseline."""
    summary = report.summary
    metric = report.metric
    name = f"{metric.replace('_', ' ')} on {evaluated_on}".replace("f1", "F1")
    baseline, reference = best_baseline(summary, metric) or (summary.baseline, None)
    rows = None
    if metric == "accuracy" and summary.unit == "rows" and evaluated_on == "dev":
        rows = _rows_of_dev(summary)  # Of which the score is a share.
    return Headline(name, scores[metric], baseline, reference, rows)


def facts(summary, reads_windows=False):
    """Returns skipped, repeated and truncated rows and the majority baseline as lines of text by title, for people.

    With `reads_windows`, rows that are too long are read in windows rather than truncated.
    """
    lines = {}
    if summary.skipped:
        counts = [f"{split} {count:,}" for split, count in summary.skipped.items()]
        lines[f"skipped {summary.unit}"] = ", ".join(counts)
    if summary.repeated:
        lines["repeated"] = f"{summary.repeated:,} of {summary.train:,} training {summary.unit} are repeated"
    if summary.truncated is not None:
        title = "in windows" if reads_windows else "truncated"
        lines[title] = _truncated_fact(summary.truncated, summary.unit)
    guesses = [f"{listed(scores)} ({baseline})" for baseline, scores in baselines(summary)]
    if len(guesses) == 1:
        lines["majority baseline"] = guesses[0]
    elif guesses:
        lines["majority baseline"] = f"{guesses[0]}, as in train; {guesses[1]}, as in dev"
    return lines


def cut_rows(summary):
    """Returns a line if many of the training rows lose tokens, and how they would not, in a list."""
    cut = summary.truncated
    if cut is None or cut["share"] <= _MANY_CUT:
        return []
    ways = "`long_texts`='windows' reads all of a text"
    if "enough" in cut:
        ways = f"`sequence_length`={cut['enough']} would hold {cut['held']:.0%} of the rows, {ways}"
    longer = f"{cut['share']:.0%} of the training {summary.unit} are longer than {cut['sequence_length']} tokens"
    return [f"{longer}, and lose the rest: {ways}"]


def _truncated_fact(cut, unit):
    """Describes a `truncation` of rows, in the plural `unit`."""
    if not cut["rows"]:
        return f"none of the training {unit} is longer than {cut['sequence_length']} tokens"
    amount = f"{cut['share']:.1%}" if cut["share"] >= 0.001 else f"{cut['rows']:,}"
    text = f"{amount} of the training {unit} are longer than {cut['sequence_length']} tokens"
    if "enough" not in cut:
        return text
    held = math.floor(1000 * cut["held"]) / 10  # Not rounded up to 100.
    return f"{text}; sequence_length={cut['enough']} would hold {held:g}%"


def listed(scores):
    """Formats scores from 0 to 1 (correlations from -1) in one line, in percent."""
    texts = []
    for name, value in scores.items():
        title = name.replace("_", " ")
        texts.append(f"{title} {100 * value:.2f}%")
    return ", ".join(texts)
