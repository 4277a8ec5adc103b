"""Packed rows of records: each example once, resuming at any step, targets that stay in their example."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.pretraining.dataset import PackedRecords
from keras_bert.pretraining.example_builder import Settings
from tests.pretraining import numbered
from tests.pretraining.numbered import Numbered, batches, random_documents

LENGTH = 32
SOURCE = Numbered(random_documents(0, documents=30, sentences=(6, 12), words=(1, 5)))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of short pairs, and of the same with static masks."""
    folder = tmp_path_factory.mktemp("packed")
    for name, static in (("short", False), ("static", True)):
        SOURCE.generate(folder / name, Settings(LENGTH, static=static, short_seq_prob=0.9), shards=3)
    return folder


def examples(found):
    """Counts the examples of batches: ids before masking, segments and NSP label."""
    counted = collections.Counter()
    for inputs, targets, weights in found:
        ids, real = inputs["token_ids"].copy(), targets["mask_weights"] > 0
        rows, columns = np.nonzero(real)
        ids[rows, inputs["mask_positions"][rows, columns]] = targets["mask_labels"][rows, columns]
        for row in np.flatnonzero(weights):
            labels = targets["next_sentence_labels"][row]
            assert inputs["text_numbers"][row].max() == (labels >= 0).sum()
            for number, (start, label) in enumerate(zip(inputs["text_starts"][row], labels, strict=True), 1):
                part = np.flatnonzero(inputs["text_numbers"][row] == number)
                assert (len(part) == 0) == (label < 0)
                if len(part):
                    np.testing.assert_array_equal(inputs["position_ids"][row, part], part - start)
                    counted[(*ids[row, part], *inputs["segment_ids"][row, part], label)] += 1
    return counted


def test_every_example_once(folders):
    records, stored = PackedRecords(folders / "short", batch_size=7), numbered.arrays(folders / "short")
    lengths = stored["input_mask"].sum(1)
    expected = collections.Counter(
        (*ids[:length], *segments[:length], *label)
        for ids, segments, label, length in zip(
            stored["input_ids"], stored["segment_ids"], stored["next_sentence_labels"], lengths, strict=True
        )
    )
    assert (records.num_examples, records.tokens) == (len(lengths), lengths.sum())
    assert records.steps * 7 * LENGTH == records.computed < 1.15 * records.tokens < 0.8 * LENGTH * len(lengths)
    found, first = batches(records, 1), next(records.dataset(0).as_numpy_iterator())
    assert len(found) == records.steps
    assert examples(found) == expected
    for inputs, targets, weights in found:  # 15% of the tokens of each row are masked.
        real = (inputs["text_numbers"] > 0).sum(1)[weights > 0]
        assert targets["mask_weights"].sum(1)[weights > 0].tolist() == [max(1, round(0.15 * size)) for size in real]
    assert (found[0][0]["token_ids"] != first[0]["token_ids"]).any()
    for one, other in zip(batches(records, 1, start=2), found[2:], strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)


def test_causal_targets_stay_in_their_example(folders):
    for inputs, targets, _ in batches(PackedRecords(folders / "short", batch_size=7, causal=True)):
        numbers = inputs["text_numbers"]
        together = (numbers[:, 1:] == numbers[:, :-1]) & (numbers[:, 1:] > 0)
        np.testing.assert_array_equal(targets["mask_weights"], together)
        np.testing.assert_array_equal(targets["mask_labels"], inputs["token_ids"][:, 1:])


def test_static_masks_are_refused(folders):
    with pytest.raises(ValueError, match="records that already contain masks cannot be packed"):
        PackedRecords(folders / "static")
