"""Reads and writes JSONL: `tokens` with `tags`, or `text` with spans as doccano, Label Studio, Prodigy and spaCy write.

A span is a list `[start, end, label]` or an object with `start` and `end` (or `start_offset` and `end_offset`) and
`label` (or `labels` with one name). Offsets count characters; the end is exclusive. A text without spans has none.
"""

import dataclasses
import itertools
import logging

from keras_bert.data.text_files import valid_text
from keras_bert.files import json_text, write_json, write_text
from keras_bert.tasks.tagging.schemes import Entity
from keras_bert.tasks.tagging.sentences import Sentences

_LOG = logging.getLogger("keras_bert")
_WORDS = ("tokens", "words")
_TAGS = ("tags", "ner_tags", "ner", "labels", "pos_tags", "pos", "upos", "chunk_tags")
_SPANS = ("spans", "entities", "ents", "label", "labels")
TARGETS = tuple(dict.fromkeys((*_TAGS, *_SPANS)))
_STARTS, _ENDS, _LABELS = ("start", "start_offset"), ("end", "end_offset"), ("label", "labels")
PREDICTED = "predicted"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Records(Sentences):
    """The sentences of rows of JSON."""

    values: list  # The rows as they are.
    records: list  # Dicts, the words or texts of the rows and their tags or spans.
    name: str | None  # Key of the tags or spans in the file.

    places = (*Sentences.places, "values", "records")

    def write_tags(self, path, predicted):
        """Writes the rows with one more key, `predicted`, in the form of the file."""
        rows = []
        for row, found in zip(self.values, predicted, strict=True):
            more = {PREDICTED: found if self.texts is None else self._form(found)}
            rows.append([row[0], row[1] | more] if isinstance(row, list) else row | more)
        if path.suffix.lower() == ".json":
            write_json(path, rows)
            return
        write_text(path, "".join(f"{json_text(row)}\n" for row in rows))

    def _form(self, found):
        first = next((span for record in self.records for span in record.get(self.name) or ()), None)
        if not isinstance(first, dict):
            return [[entity.start, entity.end, entity.type] for entity in found]
        start, end, label = (_key(first, names) for names in (_STARTS, _ENDS, _LABELS))
        types = ([one.type] if label == "labels" else one.type for one in found)
        return [{start: one.start, end: one.end, label: kind} for one, kind in zip(found, types, strict=True)]


def read(origin, word_column=None, tag_column=None, labels=None):
    """Reads the `Records` of a source.

    `word_column`, the key of the words or the text, defaults to `tokens`, `words` or `text`; `tag_column`, that of the
    tags or spans, to the first of the usual names that the first record has. `labels` are the names of numbered tags.
    """
    rows = _objects(origin)
    lines, values = map(list, zip(*rows, strict=True))
    places = list(map(origin.place, lines))
    records = list(map(_unwrapped, places, values))
    # Prodigy and spaCy have lists of objects beside the text.
    source = word_column or _source(records[0])
    if source not in records[0]:
        expected = f"`{source}`" if word_column else "`tokens` with `tags`, or `text` with spans"
        raise ValueError(f"{places[0]}: expected the key {expected}. It has: {', '.join(map(repr, records[0]))}")
    with_words = isinstance(records[0][source], list)
    names = [tag_column] if tag_column else _TAGS if with_words else _SPANS
    name = next((key for key in names if any(record.get(key) for record in records)), None)
    if not with_words:  # A text may have no spans, but every word has a tag.
        name = name or next((key for key in names if any(key in record for record in records)), None)
    found = list(zip(places, records, strict=True))
    form = {"values": values, "records": records, "name": name}
    if with_words:
        words = [_strings(place, record, source) for place, record in found]
        tags = None if name is None else [_tags(place, record, name, source, labels) for place, record in found]
        content = {"words": words, "tags": tags}
    else:
        expected = source, "a string", lambda text: isinstance(text, str)
        texts = [valid_text(_value(place, record, *expected)) for place, record in found]
        content = {"texts": texts}
        if name is not None:
            _check_keys(origin, found, name, names)
            rows = zip(found, texts, strict=True)
            content["entities"] = [_spans(place, record, name, text) for (place, record), text in rows]
    return Records(origin=origin, lines=lines, documents=list(range(len(lines))), **content, **form)


def _source(record):
    """Returns the key of the words, or of the text, of a record."""
    return next((key for key in _WORDS if _are(str, record.get(key))), "text")


def target_name(record):
    """Returns the usual key of the tags of words, or of the spans of a text, of a record."""
    return _TAGS[0] if _source(record) in _WORDS else _SPANS[0]


def _check_keys(origin, found, name, names):
    """Raises for records with spans under another key; warns of records without the key."""
    for place, record in found:
        others = [key for key in names if key != name and isinstance(record.get(key), list) and record[key]]
        if others:
            raise ValueError(
                f"{place}: spans in `{others[0]}`, but in `{name}` elsewhere. Choose one with `tag_column`"
            )
    missing = [place for place, record in found if record.get(name) is None]
    if missing:
        _LOG.warning(
            "%s: %d of %d text(s) have no `%s` and count as texts without entities, the first is %s",
            *(origin, len(missing), len(found), name, missing[0]),
        )


def _objects(origin):
    """Returns (line, JSON value) of each row."""
    for line, row in origin.values:
        if isinstance(row, ValueError):
            raise row
        if name := _repeated(row):
            raise ValueError(f"{origin.place(line)}: JSON that cannot be read: the key {name!r} occurs twice")
    if not origin.values:
        raise ValueError(f"{origin}: no rows")
    return origin.values


def _repeated(value):
    """Returns a key that occurs twice in an object, which would hide a value, or `None`."""
    if isinstance(value, list):
        return next(filter(None, map(_repeated, value)), None)
    if not isinstance(value, dict):
        return None
    names = getattr(value, "names", ())
    if len(names) > len(value):
        return next(name for name in names if names.count(name) > 1)
    return _repeated(list(value.values()))


def _unwrapped(place, record):
    """Returns the object with text and spans of a record; Label Studio and spaCy wrap it."""
    if isinstance(record, list) and len(record) == 2 and isinstance(record[1], dict):  # spaCy: [text, {...}]
        record = {"text": record[0], **record[1]}
    if isinstance(record, dict) and isinstance(record.get("data"), dict) and "annotations" in record:
        found = _objects_of(place, record, "annotations")
        done = [one for one in found if not one.get("was_cancelled")]
        if len(done) > 1:
            raise ValueError(f"{place}: {len(done)} annotations of one text. Expected one")
        results = [result for one in done for result in _objects_of(place, one, "result")]
        spans = _regions(place, results)
        more = {PREDICTED: record[PREDICTED]} if PREDICTED in record else {}
        record = {**record["data"], **({"spans": spans} if done else {}), **more}
    if isinstance(record, dict) and record.get("answer") in ("reject", "ignore"):  # Prodigy
        raise ValueError(f"{place}: the answer is {record['answer']!r}. Expected accepted texts; remove the others")
    if not isinstance(record, dict):
        raise ValueError(f"{place}: expected an object. Received: {record!r:.50}")
    return record


def _regions(place, results):
    """Returns the marked spans among the results of Label Studio, which may also contain choices and ratings."""
    marked = [one for one in results if isinstance(one.get("value"), dict) and "start" in one["value"]]
    for one in marked:
        if "labels" not in one["value"]:
            raise ValueError(f"{place}: a region without `labels`. Received: {one['value']!r:.100}")
    if len({one.get("to_name") for one in marked}) > 1:
        raise ValueError(f"{place}: regions of several texts (`to_name`). Expected those of one text")
    return [one["value"] for one in marked]


def _objects_of(place, record, key):
    """Returns a list of objects of Label Studio's export."""
    values = {key: record.get(key) or []}
    return _value(place, values, key, "a list of objects", lambda found: _are(dict, found))


def _strings(place, record, key):
    def is_valid(words):
        return words and _are(str, words) and all(map(str.strip, words))

    words = _value(place, record, key, "a list of strings that are not empty", is_valid)
    return list(map(valid_text, words))


def _tags(place, record, key, source, labels):
    values = _value(place, record, key)
    if isinstance(values, list) and any(isinstance(value, int) for value in values):
        values = _named(place, values, key, labels)
        record = {**record, key: values}
    tags = [tag.strip() for tag in _strings(place, record, key)]
    if len(tags) != len(record[source]):
        raise ValueError(f"{place}: expected a tag for each of {len(record[source])} words. Received: {len(tags)} tags")
    return tags


def _named(place, values, key, labels):
    """Returns the names of numbered tags."""
    if not labels:
        raise ValueError(
            f"{place}: `{key}` must be names of tags, such as B-PER, or numbers with their names in `labels`. "
            f"Received: {values!r:.100}"
        )
    wrong = [value for value in values if not isinstance(value, int) or not 0 <= value < len(labels)]
    if wrong:
        raise ValueError(
            f"{place}: `{key}` must be from 0 to {len(labels) - 1}, as `labels` say. Received: {wrong[0]!r}"
        )
    return [labels[value] for value in values]


def _value(place, record, key, expected=None, is_valid=None):
    """Returns the value of a key, which must be there, and be what is expected."""
    if key not in record:
        raise ValueError(f"{place}: no key `{key}`. It has: {', '.join(map(repr, record))}")
    if expected and not is_valid(record[key]):
        raise ValueError(f"{place}: `{key}` must be {expected}. Received: {record[key]!r:.100}")
    return record[key]


def _are(kind, values):
    """Whether a value is a list of values of a kind."""
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def _spans(place, record, key, text):
    """Returns the spans of a text in order, without white space at their ends."""
    values = {key: [] if record.get(key) is None else record[key]}
    values = _value(place, values, key, "a list of spans", lambda found: isinstance(found, list))
    spans = sorted((_span(place, span, text) for span in values), key=lambda span: span[1:])
    for before, span in itertools.pairwise(spans):
        if span.start < before.end:
            both = " and ".join(f"{one.type} {text[one.start : one.end]!r} at {one.start}" for one in (before, span))
            raise ValueError(f"{place}: overlapping spans: {both}. Expected spans that do not share characters")
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
