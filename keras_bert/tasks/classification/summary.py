"""What to know about texts with labels before training: the shares of the labels, the majority baseline."""

import collections
import itertools
import math

from keras_bert.tasks.class_names import MANY, REGRESSION, are_numbers, some
from keras_bert.tasks.classification.predictions import dense, most_frequent
from keras_bert.tasks.summary import Summary, look_alikes, normal, split_entries, truncation

_FEW = 5  # Classes with fewer training rows are listed in a warning.


def summarize(data, lengths, sequence_length: int, limit: int):
    """Returns the `Summary` of a `TextData`; `truncation` describes the arguments.

    What only this task knows: `labels`, the rows in train of each class, and `labels_per_row` of several labels, or
    `range`, the numbers of regression; and `not_in_dev`, the training classes without dev rows.
    """
    task = data.task
    labels = data.train.labels
    dev = data.dev[task.name]
    others = {"dev": dev}
    if task.name in data.test:
        others["test"] = data.test[task.name]
    keys = {"train": _keys(data.train)}
    for split, examples in others.items():
        if examples is not data.train:
            keys[split] = _keys(examples)
    fields = split_entries(keys, dict.fromkeys(keys, task.name), labels)
    if not task.labels:
        fields["contradictory"] = 0
    fields["dev"] = {part: len(examples) for part, examples in data.dev.items()}
    fields["test"] = {part: len(examples) for part, examples in data.test.items()}
    fields["skipped"] = {}
    for split, examples in (("train", data.train), ("dev", dev)):
        if examples.skipped:
            fields["skipped"][split] = examples.skipped
    more = _distribution(task, labels)
    more["not_in_dev"] = _only_in(task, labels, dev.labels)
    return Summary(
        **fields,
        **baselines(task, labels, dev.labels),
        truncated=truncation(lengths, sequence_length, limit),
        more=more,
    )


def warnings(summary):
    """Returns sentences about labels that are probably mistakes."""
    unit = summary.unit
    labels = summary.more.get("labels", {})
    used = [name for name, count in labels.items() if count]
    unused = [name for name, count in labels.items() if not count]
    sentences = []
    has_label_sets = "labels_per_row" in summary.more
    if has_label_sets:
        sentences += _doubtful_sets(summary, used)
    else:
        sentences += _constant(summary, used)
    if unused and (len(used) != 1 or has_label_sets):
        sentences.append(f"no training {unit} have the label(s) {some(unused)}")
    sentences += look_alikes("labels", labels)
    sentences += _rare(summary, labels)
    missing = summary.more.get("not_in_dev")
    if missing:
        sentences.append(f"no dev {unit} have the training label(s) {some(missing)}")
    return sentences


def _rare(summary, labels):
    """Returns a warning about classes with few rows, or about labels that are no classes, given counts by name."""
    unit = summary.unit
    rows = sum(labels.values())
    if len(labels) >= MANY and rows < 2 * len(labels):
        advice = REGRESSION if are_numbers(labels) else "Expected the column of the labels"
        return [f"the {rows:,} training {unit} have {len(labels):,} different labels. {advice}"]
    few = [f"{name} ({count})" for name, count in labels.items() if 0 < count < _FEW]
    if few:
        return [f"{len(few)} of {len(labels)} classes have fewer than {_FEW} training {unit}: {some(few)}"]
    return []


def _doubtful_sets(summary, used):
    """Returns warnings about multi-label data."""
    unit = summary.unit
    labels = summary.more["labels"]
    doubts = []
    always = [name for name in used if labels[name] == summary.train]
    if always:
        doubts.append(f"all training {unit} have the label(s) {some(always)}: the model can only learn to predict them")
    if list(summary.more["labels_per_row"]) == ["1"] and len(used) > 1:
        doubts.append(f"all training {unit} have one label; `task=classification` predicts exactly one")
    return doubts


def _constant(summary, used):
    """Returns a warning about the label or the target of all rows, if they are equal."""
    same = [f"label {name}" for name in used]
    ends = summary.more.get("range")
    if ends and ends["lowest"] == ends["highest"]:
        same = [f"target {ends['lowest']:g}"]
    if len(same) != 1:
        return []
    return [f"all training {summary.unit} have the {same[0]}: the model can only learn to predict it"]


def baselines(task, train_labels, labels):
    """Returns the entries of a summary about the majority baselines on dev, given the labels of train and of dev."""
    entries = {"baseline": baseline(task, train_labels), "majority": majority(task, train_labels, labels)}
    if task.labels and _most_frequent(task, train_labels) != _most_frequent(task, labels):
        entries["dev_baseline"] = baseline(task, labels)
        entries["dev_majority"] = majority(task, labels, labels)
    return entries


def baseline(task, labels):
    """Describes the majority baseline."""
    if not task.labels:
        return "always the mean"
    constant = _most_frequent(task, labels)
    numbers = constant if task.multi_label else [constant]
    names = [task.labels[number] for number in numbers]
    return f"always {some(names) or 'no label'}"


def majority(task, train_labels, labels):
    """Returns the scores of predicting the same for every row.

    It is the most frequent training label; for regression, the mean; for multi-label classification, the labels with
    the highest micro F1 on the training rows.
    """
    if task.labels:
        constant = _most_frequent(task, train_labels)
    else:
        constant = _mean(train_labels)
    targets = labels
    predictions = [constant] * len(labels)
    if task.multi_label:
        targets = dense(targets, task.num_classes)
        predictions = dense(predictions, task.num_classes)
    return {metric.__name__: metric(targets, predictions) for metric in task.metrics}


def _mean(numbers):
    return math.fsum(numbers) / len(numbers)


def _most_frequent(task, labels):
    """Returns the class id of most rows, or the tuple of ids that is the best constant prediction of label sets."""
    if task.multi_label:
        return most_frequent(labels)
    counts = collections.Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def _distribution(task, labels):
    """Returns the entries of `Summary.more` about the labels of train."""
    if not task.labels:
        return {"range": {"lowest": min(labels), "highest": max(labels), "mean": _mean(labels)}}
    counts = collections.Counter(_each(task, labels))
    entries = {"labels": {name: counts[number] for number, name in enumerate(task.labels)}}
    if task.multi_label:
        sizes = collections.Counter(map(len, labels))
        entries["labels_per_row"] = {str(size): sizes[size] for size in sorted(sizes)}
    return entries


def _each(task, labels):
    """Returns the class ids of all rows, one after the other."""
    return itertools.chain.from_iterable(labels) if task.multi_label else labels


def _only_in(task, train_labels, labels):
    """Returns the classes in `train_labels` that are not in `labels`."""
    if not task.labels:
        return []
    missing = set(_each(task, train_labels)) - set(_each(task, labels))
    return [task.labels[number] for number in sorted(missing)]


def _keys(examples):
    """Returns the texts of each row without differences in case and white space."""
    return [normal(*row) for row in zip(*examples.columns, strict=True)]
