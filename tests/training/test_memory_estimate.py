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
    shapes = (ROWS, LENGTH, WIDTH), (ROWS, queries, WIDTH), (ROWS, HEADS, queries, LENGTH), (ROWS, queries, INNER)
    expected = 0
    for in_float32, in_float16, shape in zip(wide, narrow, shapes, strict=True):
        expected += in_float32 * np.empty(shape, "float32").nbytes
        expected += in_float16 * np.empty(shape, "float16").nbytes
    assert memory_estimate.block_bytes(block(dtype, dropout), ROWS, LENGTH, queries) == expected


def needed(frozen=0, micro_batches=1, **options):
    """Returns the bytes of a step on 6 rows of 100 tokens, besides those of graphs, and those of a block alone."""
    config = keras_bert.BertConfig(
        vocab_size=20, hidden_size=64, num_hidden_layers=3, num_attention_heads=2, intermediate_size=128
    )
    model = keras_bert.build_classifier(keras_bert.build_encoder(config, **options), 2)
    if frozen:
        keras_bert.freeze_layers(model, frozen)
    weights = sum(np.prod(weight.shape) for weight in model.trainable_weights)
    size = memory_estimate.block_bytes(model.get_layer("block_0"), 6, 100, 100)
    gradients = 4 * weights * (2 if micro_batches > 1 else 1)
    return memory_estimate.step_bytes(model, [(6, 100)], None, micro_batches) - 120e6 - gradients, size


def test_the_blocks_of_a_step():
    """Three blocks, of which frozen ones keep nothing; recomputed ones keep their inputs, and two have all tensors."""
    each = needed()[1]
    inputs = 3 * 6 * 100 * 64 * 4
    for options, expected in (
        ({}, 3.8 * each),
        ({"micro_batches": 4}, 3.8 * each),
        ({"frozen": 2}, 1.8 * each),
        ({"remat": True}, 2.8 * each + inputs),
    ):
        assert needed(**options)[0] == pytest.approx(expected), options


def ragged(*lengths):
    return tf.RaggedTensor.from_row_lengths(np.ones(sum(lengths), "int32"), lengths)


def documents(passages):
    """Towers of two rows: queries of 3 and 1 windows, and lists of passages of one window."""
    ids = np.ones([4, 7], "int32")
    queries = DocumentRows(tf.RaggedTensor.from_tensor(ids), [3, 1])
    lists = DocumentRows(tf.RaggedTensor.from_tensor(np.ones([2 * passages, 5], "int32")), [1] * 2 * passages)
    inputs = {"query_token_ids": queries, "passage_token_ids": lists.uniform(passages)}
    return TowerBatches(inputs, np.zeros(2), batch_size=2)


SOURCES = {
    "masked": (small_run.data(8), ([(8, 12)], 4)),
    "towers": (small_towers.data(4), ([(4, 5), (4 * small_towers.PASSAGES, 12)], None)),
    "documents": (documents(4), ([(2 * 3, 7), (2 * 4, 5)], None)),
    "tokens": (keras_bert.data.Batches({"token_ids": ragged(2, 9, 9)}, tokens_per_batch=40), ([(4, 9)], None)),
    "pairs": (keras_bert.data.PairBatches(ragged(3, 8), ragged(4, 5), tokens_per_batch=64), ([(8, 8)], None)),
    "no texts": (small_run.numbered(3), ([], None)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_largest_batch_of_a_source(name):
    source, expected = SOURCES[name]
    assert memory_estimate.largest_batch(source) == expected


@pytest.mark.parametrize("share", [0.5, 0.8, 1.2])
@pytest.mark.usefixtures("eager")
def test_a_run_that_cannot_fit_is_refused_before_its_first_step(monkeypatch, caplog, share):
    """Of two phases the second one is too large: with the free memory as a share of what the estimate says.

    Others are cut at their first step.
    """
    run = small_run.trainer()
    need = memory_estimate.step_bytes(run.model, [(16384, 12)], 4)
    monkeypatch.setattr(memory_estimate, "available_memory", lambda: share * need)
    phases = Phases([(small_run.data(), 1), (small_run.data(16384), 1)])
    message = (
        r"^a training step on 16,384 rows of 12 tokens needs about \d+ MB of memory, of which \d+ MB are free: "
        r"compute it in (\d+) micro-batches \(`gradient_accumulation`=\1\), recompute activations \(`remat`=True\), or "
    )
    if share == 0.5:
        with pytest.raises(MemoryError, match=message):
            run.fit(phases)
    else:
        with cut_if(lambda name, step: True):
            run.fit(phases)
        assert bool(caplog.records) == (share == 0.8)
