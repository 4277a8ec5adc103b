"""Batches of records for a language model of both directions."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from keras_bert.pretraining.example_builder import Settings
from research.rivals.pretraining import BidirectionalRecords, NewLanguageModel
from tests.pretraining.numbered import PAD, Numbered, batches, random_documents

pytestmark = pytest.mark.tensorflow

SOURCE = Numbered(random_documents(0, documents=4, sentences=(10, 20), words=(2, 9)))


def test_targets_of_both_directions(tmp_path):
    """Each real token is predicted from its left neighbor, and each left neighbor of a real token from that token."""
    SOURCE.generate(tmp_path, Settings(32, next_sentence=False), shards=1)
    for inputs, targets, _ in batches(BidirectionalRecords(tmp_path, batch_size=7)):
        assert inputs.keys() == {"token_ids", "padding_mask"}
        ids = inputs["token_ids"]
        next_tokens, previous = np.split(targets["mask_labels"], 2, axis=1)
        np.testing.assert_array_equal(next_tokens, ids[:, 1:])
        np.testing.assert_array_equal(previous, ids[:, :-1])
        is_real = ids[:, 1:] != PAD
        np.testing.assert_array_equal(targets["mask_weights"], np.tile(is_real, 2))


def test_records_with_masks(tmp_path):
    SOURCE.generate(tmp_path, Settings(32, static=True), shards=1)
    with pytest.raises(ValueError, match=f"{tmp_path}: .* needs records without masks"):
        BidirectionalRecords(tmp_path)


def test_a_language_model_has_no_options_of_bert():
    with pytest.raises(ValueError, match="^--config=bilm_H-8: a bilm has no positions$"):
        NewLanguageModel("bilm_H-8").build(20, positions="none", causal=False)
