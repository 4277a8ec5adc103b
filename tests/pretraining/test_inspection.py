"""Examples as a person reads them, beside ones written down by hand."""

import textwrap

import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.pretraining.generate import generate  # noqa: E402
from keras_bert.pretraining.inspection import describe  # noqa: E402
from keras_bert.pretraining.settings import Settings  # noqa: E402
from tests.pretraining import numbered  # noqa: E402

pytestmark = pytest.mark.tensorflow
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "house", "burn", "##ing", "##s", "tree", "."]


def write(path, *examples):
    """Writes examples given by words: ids, the length of A, the length, label and `(position, label)` of the masks."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for pieces, first, label, masks in examples:
            size, pieces = len(pieces.split()), [PIECES.index(piece) for piece in pieces.split()]
            masks += [(0, "[PAD]")] * (4 - len(masks))
            values = {
                "input_ids": pieces + [0] * (14 - size),
                "input_mask": [1] * size + [0] * (14 - size),
                "segment_ids": [0] * first + [1] * (size - first) + [0] * (14 - size),
                "next_sentence_labels": [label],
                "masked_lm_positions": [position for position, _ in masks],
                "masked_lm_ids": [PIECES.index(piece) for _, piece in masks],
            }
            weights = [float(piece != "[PAD]") for _, piece in masks]
            feature = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=value)) for name, value in values.items()
            }
            feature["masked_lm_weights"] = tf.train.Feature(float_list=tf.train.FloatList(value=weights))
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def test_examples_by_hand(tmp_path):
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
        example 1: 13 of 14 pieces, 3 predicted, B follows A
          A: [CLS] the [MASK for house] burn [house for ##s] . [SEP]
          B: the [tree itself] burning . [SEP]

        example 2: 7 of 14 pieces, 1 predicted, B is random
          A: [CLS] trees [SEP]
          B: [UNK] [MASK for ##ing] [SEP]

        example 3: 11 of 14 pieces, 0 predicted
          [CLS] the burning houses . [SEP] trees [SEP]"""
    expected = textwrap.dedent(expected)
    assert describe(tmp_path / "a.tfrecord", 9, PIECES) == expected
    assert describe(f"{tmp_path}/a.*", 2, PIECES) == expected[: expected.index("\n\nexample 3")]


def test_a_folder(tmp_path):
    numbered.write(tmp_path / "a.txt", "the house.\nburning trees.\n\nthe trees\nthe house burns\n")
    generate(tmp_path / "a.txt", tmp_path / "data", PIECES, Settings(16), shards=1)
    text = describe(tmp_path / "data", 1)
    assert text.startswith("example 1: ")
    assert " of 16 pieces, " in text
    assert "\n  A: " in text
    with pytest.raises(ValueError, match="does not say of which vocabulary its records are: give `vocabulary`"):
        describe(f"{tmp_path}/data/examples-*", 1)
