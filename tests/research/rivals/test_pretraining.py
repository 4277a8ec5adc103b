"""Batches of records for a language model of both directions, and mistakes in the flags of its pre-training."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from keras_bert.pretraining.example_builder import Settings
from research.rivals.pretraining import BidirectionalRecords
from tests.pipelines.programs import flags_of, mistake
from tests.pretraining.numbered import PAD, Numbered, batches, random_documents

pytestmark = pytest.mark.tensorflow

SOURCE = Numbered(random_documents(0, documents=4, sentences=(10, 20), words=(2, 9)))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reading")
    SOURCE.generate(folder / "static", Settings(32, static=True), shards=1)
    SOURCE.generate(folder / "rows", Settings(32, next_sentence=False), shards=1)
    return folder


def test_targets_of_both_directions(folders):
    for inputs, targets, _ in batches(BidirectionalRecords(folders / "rows", batch_size=7)):
        assert inputs.keys() == {"token_ids", "padding_mask"}
        ids = inputs["token_ids"]
        next_tokens, previous = np.split(targets["mask_labels"], 2, axis=1)
        np.testing.assert_array_equal(next_tokens, ids[:, 1:])
        np.testing.assert_array_equal(previous, ids[:, :-1])
        # Each real token is predicted from its left neighbor, and each left neighbor of a real token from that token.
        np.testing.assert_array_equal(targets["mask_weights"], np.tile(ids[:, 1:] != PAD, 2))
    with pytest.raises(ValueError, match="a bidirectional language model needs records without masks"):
        BidirectionalRecords(folders / "static")


def test_mistakes(folders, tmp_path):
    given = {"data": folders / "rows", "phases": "length:32,steps:2,batch:4", "output_dir": tmp_path / "out"}
    for changes, message in (
        ({}, "--config: a bilm is trained without next sentence prediction. Add --next_sentence=false"),
        ({"config": "bidaf"}, "--config must be a bilm, such as bilm_H-256. Received: --config=bidaf"),
        ({"causal": "true", "next_sentence": "false"}, "a bilm reads in both directions. Received: --causal"),
        ({"positions": "none", "next_sentence": "false"}, "--config=bilm_H-8: a bilm has no positions"),
        ({"teacher": "a"}, "--teacher: not for a bilm. Received: --config=bilm_H-8"),
        ({"pack": "true"}, "--pack: not for a bilm. Received: --config=bilm_H-8"),
    ):
        told = mistake("research.run_pretraining", *flags_of(given, **{"config": "bilm_H-8", **changes}))
        assert told.startswith(message), told
