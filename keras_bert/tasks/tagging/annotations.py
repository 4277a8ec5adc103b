"""Reads and writes JSONL: `tokens` with `tags`, or `text` with spans as doccano, Label Studio, Prodigy and spaCy write.

A span is a list `[start, end, label]` or an object with `start` and `end` (or `start_offset` and `end_offset`) and
`label` (or `labels` with one name). Offsets count characters; the end is exclusive. A text without spans has none.
"""

import dataclasses
import itertools
import logging
from typing import NamedTuple

from keras_bert.data.text_files import valid_text
from keras_bert.files import json_text, write_json, write_text
from keras_bert.tasks.tagging.schemes import EntitySpan
from keras_bert.tasks.tagging.sentences import Sentences

_LOG = logging.getLogger("keras_bert")
_WORDS = ("tokens", "words")
_TAGS = ("tags", "ner_tags", "ner", "labels", "pos_tags", "pos", "upos", "chunk_tags")
_SPANS = ("spans", "entities", "ents", "label", "labels")
TARGETS = tuple(dict.fromkeys((*_TAGS, *_SPANS)))
_STARTS = ("start", "start_offset")
_ENDS = ("end", "end_offset")
_LABELS = ("label", "labels")
PREDICTED = "predicted"


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonSentences(Sentences):
    """The sentences of rows of JSON."""

    values: list  # The rows as they are.
    records: list  # Dicts, the words or texts of the rows and their tags or spans.
    name: str | None  # Key of the tags or spans in the file.

    places = (*Sentences.places, "values", "records")

    def write_tags(self, path, predicted):
        """Writes the rows with one more key, `predicted`, in the form of the file."""
        rows = []
        for row, tags_or_entities in zip(self.values, predicted, strict=True):
            answer = tags_or_entities
            if self.texts is not None:
                answer = self._spans_of_file(tags_or_entities)
            more = {PREDICTED: answer}
            if isinstance(row, list):  # spaCy: [text, {...}]
                rows.append([row[0], row[1] | more])
            else:
                rows.append(row | more)
        if path.suffix.lower() == ".json":
            write_json(path, rows)
        else:
            write_text(path, "".join(f"{json_text(row)}\n" for row in rows))

    def _spans_of_file(self, entities):
        """Returns entities as spans in the form of the first one of the file, lists if it has none."""
        example = self._first_span()
        if not isinstance(example, dict):
            return [[entity.start, entity.end, entity.type] for entity in entities]
        start = _present_key(example, _STARTS)
        end = _present_key(example, _ENDS)
        label = _present_key(example, _LABELS)
        spans = []
        for entity in entities:
            type_ = [entity.type] if label == "labels" else entity.type
            spans.append({start: entity.start, end: entity.end, label: type_})
        return spans

    def _first_span(self):
        for record in self.records:
            spans = record.get(self.name)
            if spans:
                return spans[0]
        return None


class _Record(NamedTuple):
    """The object of a row with its text or words, and its spans or tags."""

    place: str
    values: dict

    def value(self, key):
        """Returns the value of a key, which must be there."""
        if key not in self.values:
            raise ValueError(f"{self.place}: no key `{key}`. It has: {', '.join(map(repr, self.values))}")
        return self.values[key]


def read(origin, word_column=None, tag_column=None, labels=None):
    """Reads the `JsonSentences` of a source.

    `word_column`, the key of the words or the text, defaults to `tokens`, `words` or `text`; `tag_column`, that of the
    tags or spans, to the first of the usual names that the first record has. `labels` are the names of numbered tags.
    """
    lines = []
    values = []
    records = []
    for line, row in _objects(origin):
        place = origin.place(line)
        lines.append(line)
        values.append(row)
        records.append(_Record(place, _unwrapped(place, row)))
    # Prodigy and spaCy have lists of objects beside the text.
    first = records[0]
    source = word_column or _words_or_text(first.values)
    if source not in first.values:
        expected = f"`{source}`" if word_column else "`tokens` with `tags`, or `text` with spans"
        raise ValueError(f"{first.place}: expected the key {expected}. It has: {', '.join(map(repr, first.values))}")
    if isinstance(first.values[source], list):
        content = _tagged_words(records, source, tag_column, labels)
    else:
        content = _marked_texts(origin, records, source, tag_column)
    return JsonSentences(
        origin=origin,
        lines=lines,
        documents=list(range(len(lines))),
        values=values,
        records=[record.values for record in records],
        **content,
    )


def _tagged_words(records, source, tag_column, labels):
    """Returns the fields of `JsonSentences` with lists of words, whose tags are under one key."""
    names = [tag_column] if tag_column else _TAGS
    name = _key_with_values(records, names)
    words = [_strings(record, source, record.value(source)) for record in records]
    tags = None
    if name is not None:
        tags = [_tags(record, name, source, labels) for record in records]
    return {"words": words, "tags": tags, "name": name}


def _marked_texts(origin, records, source, tag_column):
    """Returns the fields of `JsonSentences` with texts, whose spans are under one key."""
    names = [tag_column] if tag_column else _SPANS
    # A text may have no spans, but every word has a tag.
    name = _key_with_values(records, names) or _key_of_any(records, names)
    texts = []
    for record in records:
        text = record.value(source)
        _check_value(record.place, source, text, isinstance(text, str), "a string")
        texts.append(valid_text(text))
    content = {"texts": texts, "name": name}
    if name is not None:
        _check_keys(origin, records, name, names)
        content["entities"] = []
        for record, text in zip(records, texts, strict=True):
            content["entities"].append(_entities(record, name, text))
    return content


def _key_with_values(records, names):
    """Returns the first name under which some record has a value that is not empty, or `None`."""
    for name in names:
        if any(record.values.get(name) for record in records):
            return name
    return None


def _key_of_any(records, names):
    """Returns the first name that is a key of some record, or `None`."""
    for name in names:
        if any(name in record.values for record in records):
            return name
    return None


def _words_or_text(record):
    """Returns the key of the words, or of the text, of a record."""
    for key in _WORDS:
        if _is_list_of(str, record.get(key)):
            return key
    return "text"


def target_name(record):
    """Returns the usual key of the tags of words, or of the spans of a text, of a record."""
    return _TAGS[0] if _words_or_text(record) in _WORDS else _SPANS[0]


def _check_keys(origin, records, name, names):
    """Raises for records with spans under another key; warns of records without the key."""
    missing = []
    for place, values in records:
        for key in names:
            has_spans = isinstance(values.get(key), list) and len(values[key]) > 0
            if key != name and has_spans:
                raise ValueError(f"{place}: spans in `{key}`, but in `{name}` elsewhere. Choose one with `tag_column`")
        if values.get(name) is None:
            missing.append(place)
    if missing:
        _LOG.warning(
            "%s: %d of %d text(s) have no `%s` and count as texts without entities, the first is %s",
            origin,
            len(missing),
            len(records),
            name,
            missing[0],
        )


def _objects(origin):
    """Returns (line, JSON value) of each row."""
    for line, row in origin.values:
        if isinstance(row, ValueError):
            raise row
        name = _repeated_key(row)
        if name:
            raise ValueError(f"{origin.place(line)}: JSON that cannot be read: the key {name!r} occurs twice")
    if not origin.values:
        raise ValueError(f"{origin}: no rows")
    return origin.values


def _repeated_key(value):
    """Returns a key that occurs twice in an object, which would hide a value, or `None`."""
    inner = []
    if isinstance(value, dict):
        names = getattr(value, "names", ())
        if len(names) > len(value):
            return next(name for name in names if names.count(name) > 1)
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    for part in inner:
        name = _repeated_key(part)
        if name:
            return name
    return None


def _unwrapped(place, row):
    """Returns the object with text and spans of a row; Label Studio and spaCy wrap it."""
    record = row
    if isinstance(row, list) and len(row) == 2 and isinstance(row[1], dict):  # spaCy: [text, {...}]
        record = {"text": row[0]}
        record.update(row[1])
    if not isinstance(record, dict):
        raise ValueError(f"{place}: expected an object. Received: {record!r:.50}")
    if isinstance(record.get("data"), dict) and "annotations" in record:
        record = _label_studio_record(place, record)
    if record.get("answer") in ("reject", "ignore"):  # Prodigy
        raise ValueError(f"{place}: the answer is {record['answer']!r}. Expected accepted texts; remove the others")
    return record


def _label_studio_record(place, task):
    """Returns the data of a task of Label Studio with the spans of its annotation."""
    annotations = []
    for annotation in _objects_of(place, task, "annotations"):
        if not annotation.get("was_cancelled"):
            annotations.append(annotation)
    if len(annotations) > 1:
        raise ValueError(f"{place}: {len(annotations)} annotations of one text. Expected one")
    record = dict(task["data"])
    if annotations:
        results = _objects_of(place, annotations[0], "result")
        record["spans"] = _regions(place, results)
    if PREDICTED in task:
        record[PREDICTED] = task[PREDICTED]
    return record


def _check_value(place, key, value, is_expected, expected):
    """Raises unless the value of a key is what is expected, given in words."""
    if not is_expected:
        raise ValueError(f"{place}: `{key}` must be {expected}. Received: {value!r:.100}")


def _regions(place, results):
    """Returns the marked spans among the results of Label Studio, which may also contain choices and ratings."""
    spans = []
    texts = set()
    for result in results:
        value = result.get("value")
        if not isinstance(value, dict) or "start" not in value:
            continue
        if "labels" not in value:
            raise ValueError(f"{place}: a region without `labels`. Received: {value!r:.100}")
        spans.append(value)
        texts.add(result.get("to_name"))
    if len(texts) > 1:
        raise ValueError(f"{place}: regions of several texts (`to_name`). Expected those of one text")
    return spans


def _objects_of(place, record, key):
    """Returns a list of objects of Label Studio's export."""
    objects = record.get(key) or []
    _check_value(place, key, objects, _is_list_of(dict, objects), "a list of objects")
    return objects


def _strings(record, key, values):
    """Returns words or tags, which must be strings with more than white space."""
    is_expected = bool(values) and _is_list_of(str, values) and all(map(str.strip, values))
    _check_value(record.place, key, values, is_expected, "a list of strings that are not empty")
    return list(map(valid_text, values))


def _tags(record, key, source, labels):
    """Returns the tags of the words of a record; numbers stand for `labels`."""
    values = record.value(key)
    if isinstance(values, list) and any(isinstance(value, int) for value in values):
        values = _names_of_tags(record.place, values, key, labels)
    tags = [tag.strip() for tag in _strings(record, key, values)]
    words = len(record.values[source])
    if len(tags) != words:
        raise ValueError(f"{record.place}: expected a tag for each of {words} words. Received: {len(tags)} tags")
    return tags


def _names_of_tags(place, numbers, key, labels):
    """Returns the names of numbered tags."""
    if not labels:
        raise ValueError(
            f"{place}: `{key}` must be names of tags, such as B-PER, or numbers with their names in `labels`. "
            f"Received: {numbers!r:.100}"
        )
    names = []
    for number in numbers:
        if not isinstance(number, int) or not 0 <= number < len(labels):
            raise ValueError(
                f"{place}: `{key}` must be from 0 to {len(labels) - 1}, as `labels` say. Received: {number!r}"
            )
        names.append(labels[number])
    return names


def _is_list_of(type_, values):
    """Whether a value is a list of values of a type."""
    return isinstance(values, list) and all(isinstance(value, type_) for value in values)


def _entities(record, key, text):
    """Returns the entities of a text in order, without white space at their ends."""
    spans = record.values.get(key)
    if spans is None:
        spans = []
    _check_value(record.place, key, spans, isinstance(spans, list), "a list of spans")
    entities = [_entity(record.place, span, text) for span in spans]
    entities.sort(key=lambda entity: (entity.start, entity.end))
    for before, entity in itertools.pairwise(entities):
        if entity.start < before.end:
            both = f"{_described(before, text)} and {_described(entity, text)}"
            raise ValueError(f"{record.place}: overlapping spans: {both}. Expected spans that do not share characters")
    return entities


def _described(entity, text):
    return f"{entity.type} {text[entity.start : entity.end]!r} at {entity.start}"


def _entity(place, span, text):
    """Returns the entity of a span in any of its forms, see the top of this module."""
    start, end, label = _start_end_label(span)
    has_label = isinstance(label, str) and bool(label.strip())
    if not _is_integer(start) or not _is_integer(end) or not has_label:
        raise ValueError(
            f"{place}: a span must be [start, end, label] or an object with `start`, `end` and `label`. "
            f"Received: {span!r:.100}"
        )
    if not 0 <= start < end <= len(text):
        raise ValueError(f"{place}: the span {start} to {end} is not within the text of {len(text)} characters")
    marked = text[start:end]
    text_of_span = None
    if isinstance(span, dict):
        text_of_span = span.get("text")
    if isinstance(text_of_span, str) and valid_text(text_of_span) != marked:
        raise ValueError(
            f"{place}: the span {start} to {end} is {marked!r}, not {text_of_span!r}. Expected offsets in characters"
        )
    stripped = marked.strip()
    if not stripped:
        raise ValueError(f"{place}: the span {start} to {end} contains only white space")
    first = start + len(marked) - len(marked.lstrip())
    return EntitySpan(valid_text(label).strip(), first, first + len(stripped))


def _is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _start_end_label(span):
    """Returns what a span consists of, `None` for what it lacks."""
    if isinstance(span, dict):
        start = span.get(_present_key(span, _STARTS))
        end = span.get(_present_key(span, _ENDS))
        label = span.get(_present_key(span, _LABELS))
    elif isinstance(span, list) and len(span) == 3:
        start, end, label = span
    else:
        return None, None, None
    if isinstance(label, list) and len(label) == 1:
        label = label[0]
    return start, end, label


def _present_key(record, names):
    """Returns the first of the names that is a key, or `None`."""
    for name in names:
        if name in record:
            return name
    return None
