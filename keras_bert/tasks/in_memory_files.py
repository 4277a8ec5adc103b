"""Data given in Python, written as the files that the tasks read."""

import json

from keras_bert.files import write_text


def write(path, task, rows, targets):
    """Writes the rows as a file that the task reads: JSONL, or SQuAD's JSON for questions."""
    if task == "questions":
        version = "v2.0" if _has_unanswered(targets) else "1.1"
        write_text(path, json.dumps({"version": version, "data": _squad(rows, targets)}, default=_refuse))
        return
    make = {"tagging": _tagging, "multiple_choice": _choices, "embedding": _embedding}.get(task, _texts)
    targets = [None] * len(rows) if targets is None else targets
    records = (make(place, row, target) for place, (row, target) in enumerate(zip(rows, targets, strict=True)))
    write_text(path, "".join(f"{json.dumps(record, default=_refuse)}\n" for record in records))


def _refuse(value):
    raise ValueError(
        f"texts and targets must be strings, numbers, or lists, tuples or dicts of these. Received: {value!r:.100}"
    )


def _wrong(place, expected, row):
    return ValueError(f"texts[{place}] must be {expected}. Received: {row!r:.100}")


def _texts(place, row, target):
    if isinstance(row, tuple) and len(row) == 2:
        return {"text": row[0], "pair": row[1], "label": target}
    if isinstance(row, str) or row is None:
        return {"text": row, "label": target}
    raise _wrong(place, "a string, or a tuple of two", row)


def _tagging(place, row, target):
    if isinstance(row, list):
        return {"tokens": row, "tags": target}
    if isinstance(row, str):
        return {"text": row, "spans": [span if isinstance(span, dict) else list(span) for span in target or []]}
    raise _wrong(place, "a list of words, or a string", row)


def _choices(place, row, target):
    if not isinstance(row, dict) or not {"text", "choices"} <= set(row):
        raise _wrong(place, "a dict with `text` and `choices`", row)
    if isinstance(target, str) and isinstance(row["choices"], list) and target in row["choices"]:
        target = row["choices"].index(target)
    return {"text": row["text"], "choices": row["choices"], "label": target}


def _embedding(place, row, target):
    if not isinstance(row, tuple) or len(row) < 2:
        raise _wrong(place, "a tuple of a query, its passage and, if there are any, wrong passages", row)
    record = {"query": row[0], "passage": row[1], **({"negatives": list(row[2:])} if row[2:] else {})}
    return record if target is None else {**record, "label" if isinstance(target, str) else "score": target}


def _answers(target):
    """Returns the answers of a question as a list of strings, or of dicts with `text` and `answer_start`."""
    if isinstance(target, dict) and isinstance(target.get("text"), list):  # As on the Hugging Face hub.
        starts = target.get("answer_start") or [None] * len(target["text"])
        return [{"text": text, "answer_start": start} for text, start in zip(target["text"], starts, strict=True)]
    listed = target if isinstance(target, list | tuple) else [target]
    return [answer for answer in listed if answer not in (None, "")]


def _has_unanswered(targets):
    return targets is None or not all(map(_answers, targets))


def _squad(rows, targets):
    """Returns the articles of SQuAD's format, one for each question."""
    articles = []
    for place, (row, target) in enumerate(zip(rows, targets or [None] * len(rows), strict=True)):
        if not isinstance(row, dict) or not {"question", "context"} <= set(row):
            raise _wrong(place, "a dict with `question` and `context`", row)
        answers = [_located(place, row["context"], answer) for answer in _answers(target)]
        question = {"id": str(row.get("id", place)), "question": row["question"], "answers": answers}
        articles.append({"title": "", "paragraphs": [{"context": row["context"], "qas": [question]}]})
    return articles


def _located(place, context, answer):
    """Returns an answer with the position of its first occurrence, unless it has one."""
    text, start = (answer.get("text"), answer.get("answer_start")) if isinstance(answer, dict) else (answer, None)
    start = context.find(text) if start is None and isinstance(text, str) and isinstance(context, str) else start
    if start == -1:
        raise ValueError(f"targets[{place}]: the answer {text!r:.100} is not in the context of its question")
    return {"text": text, "answer_start": start}
