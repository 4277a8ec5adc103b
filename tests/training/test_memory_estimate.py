"""The memory of a training step: estimates that are sums of tensors by hand, and runs that are refused before it."""

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.data.batch_source import Phases
from keras_bert.data.document_batches import DocumentRows
from keras_bert.data.pair_bucketing import TowerBatches
from keras_bert.training import memory_estimate
from tests.pipelines.programs import cut_if
from tests.training import small_run, small_towers

ROWS = 3
LENGTH = 5
HEADS = 2
WIDTH = 4
INNER = 8


def block(dtype, dropout):
    layer = keras_bert.layers.TransformerBlock(
        WIDTH, HEADS, INNER, dropout=dropout, attention_dropout=dropout, dtype=dtype
    )
    layer.build((None, None, WIDTH))
    return layer


@pytest.mark.parametrize(
    ("dtype", "dropout", "queries", "wide", "narrow"),
    [
        # Vectors of all and of the computed positions, scores, and vectors of the intermediate size, in float32; then
        # those in the precision of the products: input, key, value; query, context, LayerNorm, two masks of dropout.
        ("float32", 0.1, 5, (3, 7, 3, 2), (0, 0, 0, 0)),
        ("float32", 0.0, 1, (3, 5, 1, 2), (0, 0, 0, 0)),
        ("mixed_bfloat16", 0.1, 5, (0, 2, 1, 0), (3, 5, 2, 2)),
        ("mixed_float16", 0.0, 2, (0, 2, 1, 0), (3, 3, 1, 2)),
    ],
)
def test_a_block_keeps_these_tensors(dtype, dropout, queries, wide, narrow):
    shapes = [
        (ROWS, LENGTH, WIDTH),
        (ROWS, queries, WIDTH),
        (ROWS, HEADS, queries, LENGTH),
        (ROWS, queries, INNER),
    ]
    expected = 0
    for in_float32, in_float16, shape in zip(wide, narrow, shapes, strict=True):
        expected += in_float32 * np.empty(shape, "float32").nbytes
        expected += in_float16 * np.empty(shape, "float16").nbytes
    assert memory_estimate.block_bytes(block(dtype, dropout), ROWS, LENGTH, queries) == expected


GRAPHS = 120e6  # Bytes of the graphs of a step.
INPUTS = 3 * 6 * 100 * 64 * 4  # Of three blocks.


@pytest.mark.parametrize(
    ("options", "frozen", "micro_batches", "copies_of_gradients", "blocks", "others"),
    [
        ({}, 0, 1, 1, 3.8, 0),
        ({}, 0, 4, 2, 3.8, 0),
        ({}, 2, 1, 1, 1.8, 0),
        ({"remat": True}, 0, 1, 1, 2.8, INPUTS),
    ],
    ids=["plain", "micro-batches", "frozen", "recomputed"],
)
def test_the_blocks_of_a_step(options, frozen, micro_batches, copies_of_gradients, blocks, others):
    """Three blocks, of which frozen ones keep nothing; recomputed ones keep their inputs, and two have all tensors."""
    config = keras_bert.BertConfig(
        vocab_size=20, hidden_size=64, num_hidden_layers=3, num_attention_heads=2, intermediate_size=128
    )
    model = keras_bert.build_classifier(keras_bert.build_encoder(config, **options), 2)
    if frozen:
        keras_bert.freeze_layers(model, frozen)
    weights = sum(np.prod(weight.shape) for weight in model.trainable_weights)
    gradients = 4 * weights * copies_of_gradients
    each = memory_estimate.block_bytes(model.get_layer("block_0"), 6, 100, 100)
    found = memory_estimate.step_bytes(model, [(6, 100)], None, micro_batches)
    assert found - GRAPHS - gradients == pytest.approx(blocks * each + others)


def ragged(*lengths):
    return tf.RaggedTensor.from_row_lengths(np.ones(sum(lengths), "int32"), lengths)


def documents(passages):
    """Towers of two rows: queries of 3 and 1 windows, and lists of passages of one window."""
    of_queries = np.ones([4, 7], "int32")
    of_passages = np.ones([2 * passages, 5], "int32")
    queries = DocumentRows(tf.RaggedTensor.from_tensor(of_queries), [3, 1])
    lists = DocumentRows(tf.RaggedTensor.from_tensor(of_passages), [1] * 2 * passages)
    inputs = {"query_token_ids": queries, "passage_token_ids": lists.uniform(passages)}
    return TowerBatches(inputs, np.zeros(2), batch_size=2)


@pytest.mark.parametrize(
    ("source", "shapes", "masked"),
    [
        (small_run.data(8), [(8, 12)], 4),
        (small_towers.data(4), [(4, 5), (4 * small_towers.PASSAGES, 12)], None),
        (documents(4), [(2 * 3, 7), (2 * 4, 5)], None),
        (keras_bert.data.Batches({"token_ids": ragged(2, 9, 9)}, tokens_per_batch=40), [(4, 9)], None),
        (keras_bert.data.PairBatches(ragged(3, 8), ragged(4, 5), tokens_per_batch=64), [(8, 8)], None),
        (small_run.numbered(3), [], None),
    ],
    ids=["masked", "towers", "documents", "tokens", "pairs", "no texts"],
)
def test_the_largest_batch_of_a_source(source, shapes, masked):
    assert memory_estimate.largest_batch(source) == (shapes, masked)


@pytest.fixture
def run_with_memory(monkeypatch):
    """Trains a run of two phases, of which the second one is too large, with a share of the memory that it needs."""
    run = small_run.trainer()
    need = memory_estimate.step_bytes(run.model, [(16384, 12)], 4)
    phases = Phases([(small_run.data(), 1), (small_run.data(16384), 1)])

    def fit(share):
        monkeypatch.setattr(memory_estimate, "available_memory", lambda: share * need)
        run.fit(phases)

    return fit


@pytest.mark.usefixtures("eager")
def test_a_run_that_cannot_fit_is_refused_before_its_first_step(run_with_memory):
    message = (
        r"^a training step on 16,384 rows of 12 tokens needs about \d+ MB of memory, of which \d+ MB are free: "
        r"compute it in (\d+) micro-batches \(`gradient_accumulation`=\1\), recompute activations \(`remat`=True\), or "
    )
    with pytest.raises(MemoryError, match=message):
        run_with_memory(0.5)


@pytest.mark.parametrize(("share", "is_warned"), [(0.8, True), (1.2, False)])
@pytest.mark.usefixtures("eager")
def test_a_run_that_may_fit_starts(run_with_memory, caplog, share, is_warned):
    """It is cut at its first step here."""
    with cut_if(lambda name, step: True):
        run_with_memory(share)
    assert bool(caplog.records) == is_warned
