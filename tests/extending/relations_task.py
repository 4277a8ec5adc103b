"""Relations between two marked spans of a text, such as "founded" and "works for" (Baldini Soares et al., 2019).

The spans are enclosed in signs, so that a classifier of texts can tell them.
"""

import dataclasses

import tensorflow as tf

import keras_bert
from keras_bert.tasks import ClassificationTask, TextRows, setting

_SPANS = ("subject", "object")


@dataclasses.dataclass(frozen=True)
class RelationSettings(ClassificationTask.Settings):
    """Settings of `Relations`."""

    markers: str = setting("@#", "The signs around the subject and around the object.", section="data", stored=True)

    def __post_init__(self):
        if len(self.markers) != 2:
            raise ValueError(f"`markers` must be two signs, such as @#. Received: markers={self.markers!r}")


def mark(place, row, settings):
    """Returns the text of a row, a dict with `text` and the spans `subject` and `object`, with marked spans."""
    text = row.get("text")
    if not isinstance(text, str):
        raise ValueError(f"{place}: `text` must be a string. Received: {row!r:.100}")
    spans = []
    for name, sign in zip(_SPANS, settings.markers, strict=True):
        start, end = _span(place, row, name)
        spans.append((start, end, sign))
    first, second = sorted(spans)
    if second[0] < first[1]:
        raise ValueError(f"{place}: `subject` and `object` overlap. Received: {row!r:.100}")
    for start, end, sign in (second, first):  # From the back: the signs shift what follows.
        text = f"{text[:start]}{sign} {text[start:end]} {sign}{text[end:]}"
    return text


def _span(place, row, name):
    span = row.get(name)
    if (
        not isinstance(span, list | tuple)
        or len(span) != 2
        or not all(isinstance(number, int) for number in span)
        or not 0 <= span[0] < span[1] <= len(row["text"])
    ):
        raise ValueError(f"{place}: `{name}` must be [start, end], a span of the text. Received: {span!r:.50}")
    return span


class RelationRows(TextRows):
    """Texts with two spans, and their relation as `label`."""

    expects = "dicts with text and the spans subject and object, with relations"
    columns = ({"text", *_SPANS},)

    def convert(self, place, row, settings):
        return {"text": mark(place, row, settings)}


@keras_bert.register_task
class Relations(ClassificationTask):
    """Relations between spans."""

    name = "relations"
    rows = RelationRows()
    Settings = RelationSettings

    @classmethod
    def signatures(cls, signatures, settings):
        """The signature `relations` takes the spans as places of characters, `(batch, 2)`."""
        inputs = [tf.TensorSpec([None], tf.string, "text")]
        for name in _SPANS:
            inputs.append(tf.TensorSpec([None, 2], tf.int32, name))

        @tf.function(input_signature=inputs)
        def relations(text, subject, object):
            return signatures["serving_default"](_marked(text, subject, object, settings.markers))

        return {"relations": relations}


def _marked(texts, subject, object, markers):
    """Marks the spans in the graph."""
    is_first = subject[:, :1] <= object[:, :1]
    signs = tf.where(is_first, [list(markers)], [list(markers[::-1])])
    bounds = tf.where(is_first, tf.concat([subject, object], 1), tf.concat([object, subject], 1))
    texts += " "  # `substr` refuses to begin at the end of a string.
    lengths = tf.strings.length(texts, unit="UTF8_CHAR")[:, None]
    starts = tf.minimum(tf.concat([tf.zeros_like(lengths), bounds], 1), lengths - 1)
    sizes = tf.concat([starts[:, 1:], lengths], 1) - starts
    parts = []
    for number in range(5):
        part = tf.strings.substr(texts, starts[:, number], sizes[:, number], unit="UTF8_CHAR")
        parts.append(part)
    before, first, between, second, after = parts
    sign = signs[:, 0]
    other = signs[:, 1]
    marked_first = sign + " " + first + " " + sign
    marked_second = other + " " + second + " " + other
    return before + marked_first + between + marked_second + after
