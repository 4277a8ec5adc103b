"""Settings of pre-training data, and records of rows, compared with rows that are written out."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.pretraining.example_builder import ExampleBuilder, Settings
from keras_bert.pretraining.token_store import Tokens
from tests.pretraining.numbered import CLS, FIRST, PAD, SEP, SPECIAL, UNK


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequence_length": 7}, "`sequence_length` must be at least 8. Received: sequence_length=7"),
        ({"sequence_length": 128.0}, "sequence_length=128.0"),
        ({"duplicates": 0}, "duplicates=0"),
        ({"seed": -1}, "seed=-1"),
        ({"short_seq_prob": 1.5}, "short_seq_prob=1.5"),
        ({"format": "lines"}, "format='lines'"),
        ({"special_tokens": False}, "next_sentence=False"),
    ],
)
def test_invalid_settings(options, message):
    with pytest.raises(ValueError, match=message):
        Settings(**options)


def test_text_without_special_tokens_needs_rows():
    assert not Settings(next_sentence=False, special_tokens=False).special_tokens


def test_records_and_statistics_of_rows():
    """Two full rows, and one of two tokens of text. Their order is random."""
    builder = ExampleBuilder([*SPECIAL, *"abcdefgh"], Settings(8, next_sentence=False))
    text = [*range(FIRST, FIRST + 8), UNK, UNK, *range(FIRST, FIRST + 4)]
    tokens = Tokens(np.array(text), np.array([0, 14]), np.array([0, 1]))

    rows = []
    counts = collections.Counter()
    for examples in builder.rows(tokens, shard=0, duplicate=0):
        records, counted = builder.serialize(examples)
        counts.update(counted)
        for record in records:
            feature = tf.train.Example.FromString(record).features.feature
            rows.append(list(feature["input_ids"].int64_list.value))

    expected = [
        [CLS, *text[:6], SEP],
        [CLS, *text[6:12], SEP],
        [CLS, *text[12:], SEP, PAD, PAD, PAD, PAD],
    ]
    assert sorted(rows) == sorted(expected)
    # Of 8 bins, two rows are in the last one, and the row of 4 tokens is in the fourth.
    lengths = {"length_7": 2, "length_3": 1}
    assert +counts == {"examples": 3, "tokens": 20, "unknown": 2, **lengths}
