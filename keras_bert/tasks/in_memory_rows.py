"""Data given in Python as the rows that the tasks read."""


def rows_of(name, task, texts, targets):
    """Returns the rows, dicts by column; `name` is that of the argument with the texts."""
    make = {"tagging": _tagging, "questions": _question, "multiple_choice": _choices, "embedding": _embedding}
    targets = [None] * len(texts) if targets is None else targets
    return [
        make.get(task, _texts)(f"{name}[{number}]", text, target)
        for number, (text, target) in enumerate(zip(texts, targets, strict=True))
    ]


def _wrong(place, expected, row):
    return ValueError(f"{place} must be {expected}. Received: {row!r:.100}")


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
        return {"text": row, "spans": target or []}
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


def _question(place, row, target):
    if not isinstance(row, dict) or not {"question", "context"} <= set(row):
        raise _wrong(place, "a dict with `question` and `context`", row)
    return {**row, "answers": target}
