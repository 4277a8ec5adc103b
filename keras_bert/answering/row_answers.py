"""Answers of a signature to rows, in batches of similar length."""

import inspect
import itertools
import sys

import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.heads.answers import each_text
from keras_bert.heads.head import with_head_options
from keras_bert.heads.registry import describe
from keras_bert.progress import is_live, track
from keras_bert.text.token_counts import CutTexts

_ANSWERED = 3  # Parameters of `Head.answer` besides options.


def answer_rows(answer, signature, names, rows, batch_size, n_best=None, cut=None):
    """Returns the answers of a signature to rows, see `outputs_of_rows`; `answer` is that of a `Head`."""
    answers = [None] * len(rows)
    for numbers, batch, outputs in outputs_of_rows(signature, names, rows, batch_size, cut):
        found = each_text(answer, outputs, batch, n_best)
        for number, each in zip(numbers, found, strict=True):
            answers[number] = each
    return answers


def outputs_of_rows(signature, names, rows, batch_size, cut=None):
    """Yields the numbers and the rows of batches, and the outputs of a signature; tells at the end what was cut.

    `cut` are the `CutTexts` that count them.
    """
    if cut is None:
        cut = CutTexts()
    for numbers, batch in _batches(rows, batch_size):
        outputs = _call(signature, names, batch)
        cut.add(outputs, numbers)
        yield numbers, batch, outputs
    cut.tell()


def with_model_options(head, bert):
    """Returns the `answer` of a head with the options of the model that it names."""
    if len(inspect.signature(head.answer).parameters) <= _ANSWERED:
        return head.answer
    return with_head_options(head.answer, describe(bert.model()).options, _ANSWERED)


def _batches(rows, batch_size):
    """Yields row numbers and rows of batches of similar length, longest first, with the same number of choices."""
    check_count("batch_size", batch_size)
    choices = [len(row.get("choices", ())) for row in rows]
    lengths = [sum(map(len, row.values())) for row in rows]

    def size(number):
        return choices[number], lengths[number]

    order = sorted(range(len(rows)), key=size, reverse=True)
    batches = []
    for _, group in itertools.groupby(order, key=choices.__getitem__):
        numbers = list(group)
        for start in range(0, len(numbers), batch_size):
            numbers_of_batch = numbers[start : start + batch_size]
            batches.append((numbers_of_batch, [rows[number] for number in numbers_of_batch]))
    is_shown = len(batches) > 1 and is_live(sys.stderr)
    yield from track(batches, "predicting, batches", show=is_shown)


def _call(signature, names, rows):
    """Returns the outputs of a signature as NumPy arrays."""
    inputs = []
    for name in names:
        values = [row[name] for row in rows]
        inputs.append(tf.constant(_encoded(values), tf.string))
    return {name: value.numpy() for name, value in signature(*inputs).items()}


def _encoded(value):
    """Encodes nested lists of strings, which may contain surrogates, as the preprocessor does."""
    if isinstance(value, list):
        return [_encoded(part) for part in value]
    return value.encode(errors="surrogatepass")
