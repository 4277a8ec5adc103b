"""What to know about questions before training: long contexts, truncated and repeated questions, the baseline."""

import pathlib

import numpy as np

from keras_bert.tasks.questions import metrics
from keras_bert.tasks.summary import normal, overlaps


def summarize(train, dev, test, files, settings):
    """Summarizes files of questions as JSON values, as `tasks.summary.summarize` does for rows.

    `train`, a list with one for each file, `dev` and `test`, or `None`, are `QuestionWindows`; `files` has the paths of
    `dev` and `test`. The dict has the same entries, but for `labels`: `answers`, the number of training questions with
    and without an answer (SQuAD 2.0). `majority` is empty for SQuAD 1.1. In addition, `windows`, the number of training
    windows, and `several_windows`, the share of the training questions whose context needs several.
    """
    total = sum(len(part.questions) for part in train)
    splits = {"dev": dev, **({} if test is None else {"test": test})}
    truncated = sum(len(part.long_questions) for part in train)
    windows = [np.bincount(part.windows.example, minlength=len(part.questions)) for part in train]
    return {
        "unit": "questions",
        "train": total,
        **{split: {} for split in ("dev", "test")},
        **{split: {pathlib.Path(files[split]).name: len(part.questions)} for split, part in splits.items()},
        **_answers(train),
        "windows": int(sum(counts.sum() for counts in windows)),
        "several_windows": float(np.mean(np.concatenate(windows) > 1)),
        "truncated": {"rows": truncated, "share": truncated / total, "sequence_length": settings.max_question_length},
        "overlap": overlaps(
            [key for part in train for key in _keys(part.questions)],
            {split: _keys(part.questions) for split, part in splits.items()},
        ),
        "baseline": "always no answer",
        "majority": _majority(dev.questions),
    }


def _answers(train):
    golds = [answers for part in train for answers in part.questions.golds]
    counts = {"with an answer": sum(map(bool, golds)), "without an answer": golds.count([])}
    return {"answers": counts} if any(part.questions.version_2 for part in train) else {}


def _majority(questions):
    """Returns the scores, from 0 to 1, of never answering; none for SQuAD 1.1, where every question has an answer."""
    if not questions.version_2:
        return {}
    scores = metrics.score(questions, dict.fromkeys(questions.ids, ""))
    return {name: scores[name] / 100 for name in ("exact", "f1")}


def _keys(questions):
    """Returns question and context of each question without differences in case and white space."""
    contexts, asked = normal(*questions.contexts), normal(*questions.questions)
    return [(text, contexts[number]) for text, number in zip(asked, questions.context, strict=True)]


def facts(summary):
    """Returns what only question answering has as lines of text by title, for people."""
    lines = {"training windows": f"{summary['windows']:,}"}
    if summary["several_windows"]:
        lines["training windows"] += f"; {summary['several_windows']:.1%} of the contexts need more than one"
    if answers := summary.get("answers"):
        total = sum(answers.values())
        lines["answers"] = ", ".join(f"{name}: {count:,} ({count / total:.1%})" for name, count in answers.items())
    return lines
