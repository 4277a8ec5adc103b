"""Model inputs of queries and passages for a bi-encoder."""

import numpy as np
import tensorflow as tf


def tower_inputs(queries, passages, preprocessor):
    """Returns the inputs of `build_bi_encoder`, ragged. Equal texts are tokenized once.

    Shorter lists of `passages`, a list of lists, get absent passages, which have no tokens.
    """
    flat, count = _rectangle(passages)
    inputs = {f"query_{name}": ids for name, ids in _ragged(queries, preprocessor).items()}
    for name, ids in _ragged(flat, preprocessor).items():
        inputs[f"passage_{name}"] = tf.RaggedTensor.from_uniform_row_length(ids, count)
    return inputs


def text_ids(texts):
    """Returns a number for each text, equal for equal texts, in the order of their first occurrence; -1 for `None`."""
    known = {None: -1}
    return np.array([known.setdefault(text, len(known) - 1) for text in texts], "int32")


def row_ids(queries, passages):
    """Returns the targets of `in_batch_loss` and `triplet_loss`."""
    flat, count = _rectangle(passages)
    return {"query_ids": text_ids(queries), "passage_ids": text_ids(flat).reshape(-1, count)}


def distinct_passages(queries, passages):
    """Arranges pairs so that each distinct passage is in one row: a model computes it once.

    Returns:
        Queries and passages, first a row for each distinct passage, then the other queries without a passage; the
        number of the right passage of each row; the numbers of other right passages by row, for queries that occur
        with several; and the original row of each.
    """
    numbers = text_ids([row[0] for row in passages])
    _, first = np.unique(numbers, return_index=True)  # In increasing order, as are the numbers.
    order = np.concatenate([first, np.setdiff1d(np.arange(len(numbers)), first)])
    arranged = [passages[row][:1] if place < len(first) else [] for place, row in enumerate(order)]
    queries, right = [queries[row] for row in order], numbers[order]
    known = {}
    for query, number in zip(queries, right, strict=True):
        known.setdefault(query, set()).add(number)
    others = {row: sorted(known[query] - {right[row]}) for row, query in enumerate(queries) if len(known[query]) > 1}
    return queries, arranged, right, others, order


def _rectangle(passages):
    """Returns the passages of all rows, `None` for absent ones, and their number in each row."""
    count = max(1, *map(len, passages))
    return [text for row in passages for text in [*row, *[None] * (count - len(row))]], count


def _ragged(texts, preprocessor):
    """Returns the inputs of texts, without tokens for `None`."""
    numbers = text_ids(texts)
    distinct = [text for text in dict.fromkeys(texts) if text is not None]
    inputs = preprocessor.ragged(distinct)
    empty = tf.RaggedTensor.from_row_lengths(tf.zeros([0], tf.int32), [0])
    rows = np.where(numbers < 0, len(distinct), numbers)
    return {name: tf.gather(tf.concat([ids, tf.cast(empty, ids.dtype)], 0), rows) for name, ids in inputs.items()}
