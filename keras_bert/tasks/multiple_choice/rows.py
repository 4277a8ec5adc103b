"""Texts with choices as rows."""

from keras_bert.data.choices import COLUMNS, INDEX, TARGETS
from keras_bert.tasks.rows import RowFormat


class ChoiceRows(RowFormat):
    """Rows with a text and choices, in one of several layouts."""

    expects = "dicts with text and choices, with the index of the right choice"
    columns = COLUMNS
    target_columns = TARGETS

    def row(self, place, text, target):
        if not self.recognizes(text, None):
            raise ValueError(f"{place} must be a dict with `text` and `choices`. Received: {text!r:.100}")
        choices = text.get("choices")
        if isinstance(target, str) and isinstance(choices, list) and target in choices:
            target = choices.index(target)
        return {**self.without_targets(text), INDEX: target}
