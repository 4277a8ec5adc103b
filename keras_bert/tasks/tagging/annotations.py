"""Reads and writes JSONL: `tokens` with `tags`, or `text` with spans as doccano, Label Studio, Prodigy and spaCy write.

A span is a list `[start, end, label]` or an object with `start` and `end` (or `start_offset` and `end_offset`) and
`label` (or `labels` with one name). Offsets count characters; the end is exclusive. A text without spans has none.
"""

import dataclasses
import itertools
import json

from keras_bert.files import write_text
from keras_bert.tasks.rows import decoded, read_lines, valid_text
from keras_bert.tasks.tagging.schemes import Entity

_WORDS = ("tokens", "words")
_TAGS = ("tags", "ner_tags", "labels")
_SPANS = ("spans", "entities", "label", "labels")
_STARTS, _ENDS, _LABELS = ("start", "start_offset"), ("end", "end_offset"), ("label", "labels")
PREDICTED = "predicted"


@dataclasses.dataclass(frozen=True)
class Records:
    """The content of a JSONL file.

    Args:
        records: list of dicts.
        lines: list of ints, the line of each record.
        words: list of lists of strings, or `None` for texts.
        texts: list of strings, or `None` for words.
        tags: list of lists of strings, or `None` for texts and without tags.
        spans: list of lists of `Entity` with character offsets, in order; `None` for words and without spans.
        name: key of the tags or spans in the file, or `None`.
    """

    records: list
    lines: list
    words: list | None
    texts: list | None
    tags: list | None
    spans: list | None
    name: str | None

    def write(self, path, predicted):
        """Writes the records with one more key, `predicted`: lists of tags, or of `Entity` in the form of the file."""
        rows = zip(self.records, predicted, strict=True)
        lines = [json.dumps({**record, PREDICTED: self._form(found)}, ensure_ascii=False) for record, found in rows]
        write_text(path, "".join(f"{line}\n" for line in lines))

    def _form(self, found):
        if self.texts is None:
            return found
        first = next((span for record in self.records for span in _listed(record, self.name)), None)
        if isinstance(first, dict):
            start, end, label = (_key(first, names) for names in (_STARTS, _ENDS, _LABELS))
            return [
                {start: one.start, end: one.end, label: [one.type] if label == "labels" else one.type} for one in found
            ]
        return [[entity.start, entity.end, entity.type] for entity in found]


def read(path, word_column=None, tag_column=None):
    """Reads a `.jsonl` file, or a `.json` file with a list of objects.

    Args:
        path: the file, in UTF-8.
        word_column: key of the words or the text. Defaults to `tokens`, `words` or `text`.
        tag_column: key of the tags or spans. Defaults to the first of the usual names that the first record has.
    """
    rows = _objects(path)
    first, keys = rows[0][1], {key for _, record in rows for key in record}
    source = word_column or _key(first, (*_WORDS, "text"))
    if source not in first:
        expected = f"`{source}`" if source else "`tokens` with `tags`, or `text` with spans"
        raise ValueError(f"{path}:{rows[0][0]}: expected the key {expected}. It has: {', '.join(map(repr, first))}")
    with_words = isinstance(first[source], list)
    name = tag_column or next((key for key in (_TAGS if with_words else _SPANS) if key in keys), None)
    lines = [line for line, _ in rows]
    records = [record for _, record in rows]
    places = [f"{path}:{line}" for line in lines]
    found = list(zip(places, records, strict=True))
    if with_words:
        words = [_strings(place, record, source) for place, record in found]
        tags = None if name is None else [_tags(place, record, name, source) for place, record in found]
        return Records(records, lines, words, None, tags, None, name)
    texts = [_text(place, record, source) for place, record in found]
    spans = None
    if name is not None:
        spans = [_spans(place, record, name, text) for (place, record), text in zip(found, texts, strict=True)]
    return Records(records, lines, None, texts, None, spans, name)


def _objects(path):
    """Returns (line, object) of each record."""
    if path.suffix.lower() == ".json":
        try:
            rows = json.loads(decoded(path.read_bytes(), path))
        except ValueError as error:
            raise ValueError(f"{path}: not JSON: {error}") from None
        rows = list(enumerate(rows if isinstance(rows, list) else [rows], 1))
    else:
        rows = [(line, _parsed(path, line, text)) for line, text in read_lines(path)]
    if not rows:
        raise ValueError(f"{path}: no rows")
    return [(line, _unwrapped(path, line, record)) for line, record in rows]


def _parsed(path, line, text):
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}:{line}: not JSON: {error}") from None


def _unwrapped(path, line, record):
    """Returns the object with text and spans of a record; Label Studio and spaCy wrap it."""
    if isinstance(record, list) and len(record) == 2 and isinstance(record[1], dict):  # spaCy: [text, {...}]
        record = {"text": record[0], **record[1]}
    if isinstance(record, dict) and isinstance(record.get("data"), dict) and "annotations" in record:
        if len(record["annotations"]) > 1:
            raise ValueError(f"{path}:{line}: {len(record['annotations'])} annotations of one text. Expected one")
        results = [result for annotation in record["annotations"] for result in annotation.get("result", ())]
        spans = [result["value"] for result in results if "labels" in result.get("value", {})]
        record = {**record["data"], "spans": spans}
    if not isinstance(record, dict):
        raise ValueError(f"{path}:{line}: expected an object. Received: {record!r:.50}")
    return record


def _strings(place, record, key):
    values = _value(place, record, key)
    if (
        not isinstance(values, list)
        or not values
        or not all(isinstance(value, str) and value.strip() for value in values)
    ):
        raise ValueError(f"{place}: `{key}` must be a list of strings that are not empty. Received: {values!r:.100}")
    return list(map(valid_text, values))


def _tags(place, record, key, source):
    values = _value(place, record, key)
    if isinstance(values, list) and any(isinstance(value, int) for value in values):
        raise ValueError(f"{place}: `{key}` must be names of tags, such as B-PER. Received: {values!r:.100}")
    tags = [tag.strip() for tag in _strings(place, record, key)]
    if len(tags) != len(record[source]):
        raise ValueError(f"{place}: expected a tag for each of {len(record[source])} words. Received: {len(tags)} tags")
    return tags


def _text(place, record, key):
    text = _value(place, record, key)
    if not isinstance(text, str):
        raise ValueError(f"{place}: `{key}` must be a string. Received: {text!r:.100}")
    return valid_text(text)


def _value(place, record, key):
    if key not in record:
        raise ValueError(f"{place}: no key `{key}`. It has: {', '.join(map(repr, record))}")
    return record[key]


def _spans(place, record, key, text):
    """Returns the spans of a text in order, without white space at their ends."""
    spans = sorted((_span(place, span, text) for span in _listed(record, key, place)), key=lambda span: span[1:])
    for before, span in itertools.pairwise(spans):
        if span.start < before.end:
            both = " and ".join(f"{one.type} {text[one.start : one.end]!r} at {one.start}" for one in (before, span))
            raise ValueError(f"{place}: overlapping spans: {both}. Expected spans that do not share characters")
    return spans


def _listed(record, key, place=None):
    spans = record.get(key)
    if spans is None:
        return []
    if not isinstance(spans, list):
        raise ValueError(f"{place}: `{key}` must be a list of spans. Received: {spans!r:.100}")
    return spans


def _span(place, span, text):
    if isinstance(span, dict):
        values = [span.get(_key(span, names)) for names in (_STARTS, _ENDS, _LABELS)]
    else:
        values = list(span) if isinstance(span, list) else []
    start, end, label = values if len(values) == 3 else (None,) * 3
    if isinstance(label, list) and len(label) == 1:
        (label,) = label
    numbers = all(isinstance(number, int) and not isinstance(number, bool) for number in (start, end))
    if not numbers or not isinstance(label, str) or not label.strip():
        raise ValueError(
            f"{place}: a span must be [start, end, label] or an object with `start`, `end` and `label`. "
            f"Received: {span!r:.100}"
        )
    if not 0 <= start < end <= len(text):
        raise ValueError(f"{place}: the span {start} to {end} is not within the text of {len(text)} characters")
    marked = text[start:end]
    if isinstance(span, dict) and isinstance(span.get("text"), str) and valid_text(span["text"]) != marked:
        raise ValueError(
            f"{place}: the span {start} to {end} is {marked!r}, not {span['text']!r}. Expected offsets in characters"
        )
    if not marked.strip():
        raise ValueError(f"{place}: the span {start} to {end} contains only white space")
    start += len(marked) - len(marked.lstrip())
    return Entity(valid_text(label).strip(), start, start + len(marked.strip()))


def _key(record, names):
    return next((name for name in names if name in record), None)
