"""Model inputs of questions with choices."""

import numpy as np
import tensorflow as tf

from keras_bert.tasks.summary import token_counts

_ROWS = 2048  # Rows to tokenize at a time.


def choice_inputs(examples, preprocessor):
    """Returns the model inputs of `ChoiceExamples` for `Batches`, `(rows, choices, length)`, ragged in length.

    All rows have as many choices as the longest; absent choices have the length 0.
    """
    texts, choices = examples.text, _rectangle(examples.choices)
    parts = []
    for start in range(0, len(texts), _ROWS):
        packed = preprocessor.with_choices(texts[start : start + _ROWS], choices[start : start + _ROWS])
        lengths = tf.reshape(tf.reduce_sum(packed["padding_mask"], -1), [-1])
        flat = {name: tf.reshape(ids, [-1, tf.shape(ids)[-1]]) for name, ids in packed.items()}
        parts.append({name: tf.RaggedTensor.from_tensor(ids, lengths) for name, ids in flat.items()})
    width = len(choices[0])
    flat = {name: tf.concat([part[name] for part in parts], 0) for name in parts[0]}
    return {name: tf.RaggedTensor.from_uniform_row_length(values, width) for name, values in flat.items()}


def choice_lengths(inputs):
    """Returns the number of tokens of each choice, `(rows, choices)`; 0 for absent ones."""
    ids = inputs["token_ids"]
    return ids.values.row_lengths().numpy().reshape(int(ids.nrows()), -1)


def full_lengths(examples, preprocessor, lengths):
    """Returns the number of tokens of the longest choice of each row, with its text and without truncation."""
    choices = _rectangle(examples.choices)
    width = len(choices[0])
    text = [text for text in examples.text for _ in range(width)]
    columns = [text, [choice for row in choices for choice in row]]
    counts = token_counts(preprocessor, columns, lengths.reshape(-1))
    return counts.reshape(-1, width).max(1)


def check_answers(path, examples, lengths):
    """Raises an error if a right choice has no tokens, such as one of control characters only."""
    rows = np.flatnonzero(lengths[np.arange(len(examples)), examples.labels] == 0)
    if len(rows):
        row = rows[0]
        choice = examples.choices[row][examples.labels[row]]
        raise ValueError(
            f"{path}:{examples.lines[row]}: the right choice has no tokens. Expected text. Received: {choice!r:.80}"
        )


def _rectangle(choices):
    """Pads the lists of choices with empty ones."""
    width = max(map(len, choices))
    return [[*row, *[""] * (width - len(row))] for row in choices]
