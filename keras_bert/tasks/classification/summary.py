"""What to know about texts with labels before training: the shares of the labels, the majority baseline."""

import collections
import itertools
import math

from keras_bert.tasks.class_names import some
from keras_bert.tasks.classification import multi_label
from keras_bert.tasks.summary import contradictory, normal, overlaps, truncation


def summarize(data, lengths, sequence_length: int, limit: int):
    """Summarizes a `classification.data.Data` as JSON values.

    `lengths` are the tokens of each training row without truncation, `limit` is the highest `sequence_length` of the
    model.

    Returns:
        A dict: `unit`, "rows"; `train`, the number of rows; `dev` and `test`, the same by name; `folds`, the number of
        folds of cross-validation, or `None`; `skipped`, the unreadable rows of train and dev, if any; `labels`, the
        training rows of each class (for multi-label classification, also `labels_per_row`, the rows with each number of
        labels), or `range` for regression, with `lowest`, `highest` and `mean`; `not_in_dev`, the training classes
        without dev rows; `truncated`, see `truncation`; `repeated`, the training rows whose texts and label are those
        of an earlier row; `overlap`, the rows of the first dev and test set that are also in train; `contradictory`,
        the training rows that occur with different labels; `baseline`, a description; `majority`, its scores on dev.
    """
    task, train, name = data.task, _keys(data.train), data.task.name
    parts = {"train": data.train, **({} if data.folds else {"dev": data.dev[name]})}
    return {
        "unit": "rows",
        "train": len(train),
        "dev": {} if data.folds else {part: len(examples) for part, examples in data.dev.items()},
        "test": {part: len(examples) for part, examples in data.test.items()},
        "folds": data.folds,
        "skipped": {part: examples.skipped for part, examples in parts.items() if examples.skipped},
        **_distribution(task, data.train.labels),
        "not_in_dev": _only_in(task, data.train.labels, data.dev[name].labels),
        "truncated": truncation(lengths, sequence_length, limit),
        "repeated": len(train) - len(set(zip(train, data.train.labels, strict=True))),
        "overlap": overlaps(
            train,
            {
                split: _keys(parts[name])
                for split, parts in (("dev", data.dev), ("test", data.test))
                if name in parts and parts[name] is not data.train
            },
        ),
        "contradictory": contradictory(train, data.train.labels) if task.labels else 0,
        "baseline": baseline(task, data.train.labels),
        "majority": majority(task, data.train.labels, data.dev[name].labels),
    }


def baseline(task, labels):
    """Describes the majority baseline."""
    if not task.labels:
        return "always the mean"
    constant = _most_frequent(task, labels)
    names = [task.labels[number] for number in (constant if task.multi_label else [constant])]
    return f"always {some(names) or 'no label'}"


def majority(task, train_labels, labels):
    """Returns the scores of predicting the same for every row.

    It is the most frequent training label; for regression, the mean; for multi-label classification, the labels with
    the highest micro F1 on the training rows.
    """
    constant = _most_frequent(task, train_labels) if task.labels else math.fsum(train_labels) / len(train_labels)
    predictions = [constant] * len(labels)
    if task.multi_label:
        labels, predictions = (multi_label.dense(rows, task.num_classes) for rows in (labels, predictions))
    return {metric.__name__: metric(labels, predictions) for metric in task.metrics}


def _most_frequent(task, labels):
    if task.multi_label:
        return multi_label.most_frequent(labels)
    counts = collections.Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def _distribution(task, labels):
    if not task.labels:
        return {"range": {"lowest": min(labels), "highest": max(labels), "mean": math.fsum(labels) / len(labels)}}
    counts = collections.Counter(_each(task, labels))
    entries = {"labels": {name: counts[number] for number, name in enumerate(task.labels)}}
    if task.multi_label:
        entries["labels_per_row"] = {
            str(size): count for size, count in sorted(collections.Counter(map(len, labels)).items())
        }
    return entries


def _each(task, labels):
    """Returns the class ids of all rows, one after the other."""
    return itertools.chain.from_iterable(labels) if task.multi_label else labels


def _only_in(task, train_labels, labels):
    """Returns the classes in `train_labels` that are not in `labels`."""
    if not task.labels:
        return []
    return [task.labels[number] for number in sorted(set(_each(task, train_labels)) - set(_each(task, labels)))]


def _keys(examples):
    """Returns the texts of each row without differences in case and white space."""
    return [normal(*row) for row in zip(*examples.columns, strict=True)]
