"""Queries and passages as rows."""

from keras_bert.tasks.embedding.data import TARGETS, check_named_target
from keras_bert.tasks.rows import RowFormat


class EmbeddingRows(RowFormat):
    """Rows with a query and its passages, alone, with a score or with a label of NLI."""

    expects = "pairs of query and passage, alone or with scores"
    columns = ({"query", "passage"}, {"anchor", "positive"})
    target_columns = TARGETS
    needs_targets = False

    def recognizes(self, text, targets):
        return targets is None and isinstance(text, tuple)

    def row(self, place, text, target):
        if isinstance(text, dict):
            return text if target is None else self.with_target(text, target)
        if not isinstance(text, tuple) or len(text) < 2:
            expected = "a tuple of a query, its passage and, if there are any, wrong passages"
            raise ValueError(f"{place} must be {expected}. Received: {text!r:.100}")
        found = {"query": text[0], "passage": text[1]}
        if text[2:]:
            found["negatives"] = list(text[2:])
        if target is not None:
            found[_target_column(target)] = target
        return found

    def with_target(self, row, target):
        return {**self.without_targets(row), _target_column(target): target}

    def with_named_target(self, row, column):
        check_named_target(row, column)
        return super().with_named_target(row, column)


def _target_column(target):
    """Returns the column of a target: that of the labels of NLI, or that of scores."""
    return "label" if isinstance(target, str) else "score"
