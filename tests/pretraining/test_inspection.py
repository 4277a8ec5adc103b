"""Readable examples, compared with manually written ones."""

import textwrap

import numpy as np
import tensorflow as tf

from keras_bert.pretraining.inspection import describe
from keras_bert.pretraining.record_files import serialize

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "house", "burn", "##ing", "##s", "tree", "."]


def write(path, *examples):
    """Writes examples given as text: tokens, the length of A, the label and `(position, label)` of the masks."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for words, first, label, masks in examples:
            ids, places = np.zeros((1, 14), int), np.arange(14)[None]
            size = len(words.split())
            ids[0, :size] = [PIECES.index(piece) for piece in words.split()]
            masks = np.array([(place, PIECES.index(piece), 1) for place, piece in masks] + [(0, 0, 0)] * 4)[None, :4]
            features = {"input_ids": ids, "input_mask": places < size, "next_sentence_labels": np.array([[label]])}
            features["segment_ids"] = (places >= first) & (places < size)
            features |= {"masked_lm_positions": masks[..., 0], "masked_lm_ids": masks[..., 1]}
            writer.write(serialize(features | {"masked_lm_weights": masks[..., 2].astype(np.float32)})[0])


def test_describe_examples(tmp_path):
    write(
        tmp_path / "a.tfrecord",
        # "the house burns." "the tree burning.", of which "house", "##s" and "tree" are predicted.
        (
            "[CLS] the [MASK] burn house . [SEP] the tree burn ##ing . [SEP]",
            *(7, 0, [(2, "house"), (4, "##s"), (8, "tree")]),
        ),
        ("[CLS] tree ##s [SEP] [UNK] [MASK] [SEP]", 4, 1, [(5, "##ing")]),
        ("[CLS] the burn ##ing house ##s . [SEP] tree ##s [SEP]", 11, 0, []),
    )
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
