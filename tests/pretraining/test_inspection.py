"""Readable examples, compared with manually written ones."""

import textwrap

import numpy as np
import tensorflow as tf

from keras_bert.pretraining.inspection import describe
from keras_bert.pretraining.record_files import serialize

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "house", "burn", "##ing", "##s", "tree", "."]


def example(words, first, label, masks):
    """Returns the record of an example given as text: tokens, the length of A, label, `(position, piece)` of masks."""
    words = words.split()
    columns = np.arange(14)
    is_text = columns < len(words)
    ids = np.zeros(14, int)
    ids[: len(words)] = [PIECES.index(word) for word in words]
    positions = np.zeros(4, int)
    labels = np.zeros(4, int)
    weights = np.zeros(4, np.float32)
    for number, (position, piece) in enumerate(masks):
        positions[number] = position
        labels[number] = PIECES.index(piece)
        weights[number] = 1
    features = {
        "input_ids": ids,
        "input_mask": is_text,
        "segment_ids": (columns >= first) & is_text,
        "next_sentence_labels": np.array([label]),
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": weights,
    }
    (record,) = serialize({name: values[None] for name, values in features.items()})
    return record


def test_describe_examples(tmp_path):
    examples = [
        # "the house burns." "the tree burning.", of which "house", "##s" and "tree" are predicted.
        example(
            "[CLS] the [MASK] burn house . [SEP] the tree burn ##ing . [SEP]",
            first=7,
            label=0,
            masks=[(2, "house"), (4, "##s"), (8, "tree")],
        ),
        example("[CLS] tree ##s [SEP] [UNK] [MASK] [SEP]", first=4, label=1, masks=[(5, "##ing")]),
        example("[CLS] the burn ##ing house ##s . [SEP] tree ##s [SEP]", first=11, label=0, masks=[]),
    ]
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for record in examples:
            writer.write(record)
    expected = """\
        example 1: 13 of 14 tokens, 3 predicted, B follows A
          A: [CLS] the [MASK for house] burn [house for ##s] . [SEP]
          B: the [tree itself] burning . [SEP]

        example 2: 7 of 14 tokens, 1 predicted, B is random
          A: [CLS] trees [SEP]
          B: [UNK] [MASK for ##ing] [SEP]

        example 3: 11 of 14 tokens, 0 predicted
          [CLS] the burning houses . [SEP] trees [SEP]"""
    expected = textwrap.dedent(expected)
    assert describe(tmp_path / "a.tfrecord", 9, PIECES) == expected
    assert describe(f"{tmp_path}/a.*", 2, PIECES) == expected[: expected.index("\n\nexample 3")]
