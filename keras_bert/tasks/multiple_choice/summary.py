"""What to know about questions with choices before training: number of choices, positions, the baseline."""

import collections

import numpy as np

from keras_bert.tasks.class_names import appearance
from keras_bert.tasks.summary import contradictory, normal, overlaps, truncation


def summarize(data, lengths, sequence_length: int, limit: int):
    """Summarizes a `multiple_choice.data.Data` as JSON values, as `tasks.summary.summarize` does for rows.

    `lengths` are the tokens of the longest choice of each training row without truncation, `limit` is the highest
    `sequence_length` of the model. The dict has the same entries, but for `labels`: `positions`, the training rows
    whose right choice is at each position; `choices`, the training rows by their number of choices; `chance`, the
    expected accuracy on dev of guessing at random; `alike`, the training rows where another choice looks like the right
    one.
    """
    train, dev, rows = data.train, data.dev, _keys(data.train)
    splits = {split: part for split, part in data.parts.items() if split != "train"}
    positions = collections.Counter(train.labels)
    common = min(positions, key=lambda position: (-positions[position], position))
    answers = [normal(row[label]) for row, label in zip(train.choices, train.labels, strict=True)]
    return {
        "unit": "rows",
        "train": len(train),
        **{split: {} for split in ("dev", "test")},
        **{split: {data.names[split]: len(part)} for split, part in splits.items()},
        "positions": {key: positions[index] for index, key in enumerate(data.keys)},
        "choices": {str(count): rows for count, rows in sorted(collections.Counter(train.counts()).items())},
        "truncated": truncation(lengths, sequence_length, limit),
        "repeated": len(train) - len(set(zip(rows, answers, strict=True))),
        "alike": sum(map(_is_alike, train.choices, train.labels)),
        "overlap": overlaps(rows, {split: _keys(part) for split, part in splits.items()}),
        "contradictory": contradictory(rows, answers),
        "chance": float(np.mean([1 / count for count in dev.counts()])),
        "baseline": f"always {data.keys[common]}",
        "majority": {"accuracy": float(np.mean(np.array(dev.labels) == common))},
    }


def _keys(examples):
    """Returns text and choices of each row without differences in case, white space and order of the choices."""
    return [
        (normal(text), *sorted(normal(*filter(None, choices))))
        for text, choices in zip(examples.text, examples.choices, strict=True)
    ]


def _is_alike(choices, label):
    """Whether another choice looks like the right one."""
    seen = [appearance(choice) for choice in choices if choice]
    return seen.count(appearance(choices[label])) > 1


def facts(summary):
    """Returns the entries of the summary that other tasks lack, as lines of text by title."""
    counts = ", ".join(f"{count}: {rows:,}" for count, rows in summary["choices"].items())
    total = summary["train"]
    positions = ", ".join(f"{key}: {rows:,} ({rows / total:.1%})" for key, rows in summary["positions"].items())
    return {
        "rows by number of choices": counts,
        "right choices": positions,
        "chance": f"accuracy {100 * summary['chance']:.2f}% (a random choice, on dev)",
    }
