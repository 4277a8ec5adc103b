"""Words with tags, or texts with spans, as rows."""

from keras_bert.tasks.rows import RowFormat, first_known
from keras_bert.tasks.tagging import annotations, data


class TaggingRows(RowFormat):
    """Rows with `tokens` and `tags`, or with `text` and `spans`."""

    expects = "lists of words with tags, or texts with spans (start, end, label)"
    columns = ({"tokens"}, {"words"}, {"text", "spans"}, {"text", "entities"})
    target_columns = annotations.TARGETS

    def recognizes(self, text, targets):
        example = first_known(targets)
        if isinstance(text, str | tuple):
            has_spans = isinstance(example, list | tuple) and not isinstance(example[0], str | int | float)
            return has_spans or isinstance(example, dict)
        return isinstance(text, list)

    def row(self, place, text, target):
        if isinstance(text, list):
            return {"tokens": text, "tags": target}
        if isinstance(text, str):
            return {"text": text, "spans": target or []}
        if isinstance(text, dict):
            return self.with_target(text, target)
        raise ValueError(f"{place} must be a list of words, or a string. Received: {text!r:.100}")

    def with_target(self, row, target):
        return {**self.without_targets(row), annotations.target_name(row): target}

    def read(self, train, dev, settings, labels=None, name=None):
        if labels is None:
            return settings.read(train, dev)
        first = data.read(train, **settings.reading)  # Nothing has to be learned.
        return data.Data(first, data.read(dev, like=first, **settings.reading), labels=labels)
