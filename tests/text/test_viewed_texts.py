"""Texts as views in sequences, and one answer of the outputs of the views, compared with plain loops."""

import itertools

import numpy as np
import pytest

import keras_bert

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.text import viewed_texts  # noqa: E402
from keras_bert.text.viewed_texts import ViewedTexts  # noqa: E402
from keras_bert.text.views import READINGS, HeadOnly, SlidingWindows  # noqa: E402
from tests.text.test_views import slow_max_context, slow_windows  # noqa: E402

CLS = 2
SEP = 3
LENGTHS = [0, 13, 3, 40]
ASKED = [[11], [11, 12, 13], [], [11, 12]]


@pytest.fixture
def preprocessor(eager, pieces):
    return keras_bert.TextPreprocessor(pieces, 10, padding="longest")


def texts_of(lengths):
    """Returns texts whose tokens tell the text and the place."""
    texts = []
    for row, length in enumerate(lengths):
        texts.append([5 + (7 * row + place) % 20 for place in range(length)])
    return texts


def joined(rows):
    return list(itertools.chain.from_iterable(rows))


def ragged(rows):
    return tf.RaggedTensor.from_row_lengths(tf.constant(joined(rows), tf.int32), [len(row) for row in rows])


def sequences(viewed, *part):
    """Returns the tokens of the sequences, without padding."""
    return joined(inputs["token_ids"].to_list() for inputs in viewed.ragged_parts(*part))


def slow_sequences(viewed, texts, before=None):
    """Returns the tokens of each view: [CLS], what is asked, [SEP], the tokens of the text, [SEP]."""
    found = []
    for row, places in zip(viewed.views.row.numpy(), viewed.views.places().to_list(), strict=True):
        sequence = [CLS]
        if before is not None:
            sequence += [*before[row], SEP]
        sequence += [texts[row][place] for place in places]
        found.append([*sequence, SEP])
    return found


@pytest.mark.parametrize("kind", READINGS)
@pytest.mark.parametrize("before", [None, ASKED], ids=["alone", "asked"])
def test_sequences_equal_reference_loop(preprocessor, kind, before, monkeypatch):
    texts = texts_of(LENGTHS)
    asked = None if before is None else ragged(before)
    viewed = ViewedTexts(preprocessor, kind(), ragged(texts), before=asked)
    expected = slow_sequences(viewed, texts, before)
    assert sequences(viewed) == expected
    assert viewed.lengths.numpy().tolist() == list(map(len, expected))
    assert max(map(len, expected)) == 10
    monkeypatch.setattr(viewed_texts, "_PACKED", 2)
    assert sequences(viewed) == expected
    assert sequences(viewed, 1, 4) == expected[1:4]
    assert sequences(viewed, 2, 99) == expected[2:]


@pytest.mark.parametrize("kind", READINGS)
def test_where_the_text_begins_in_a_sequence(preprocessor, kind):
    """Behind [CLS], or behind [CLS], what is asked and [SEP]."""
    texts = ragged(texts_of(LENGTHS))
    alone = ViewedTexts(preprocessor, kind(), texts)
    assert set(alone.offset.numpy()) == {1}
    asked = ViewedTexts(preprocessor, kind(), texts, before=ragged(ASKED))
    begins = [3, 5, 2, 4]
    assert asked.offset.numpy().tolist() == [begins[row] for row in asked.views.row.numpy()]


def test_a_text_that_fits_is_packed_as_by_the_preprocessor(preprocessor):
    texts = ragged(texts_of([0, 1, 5, 8]))
    expected = preprocessor.pack(texts)
    for kind in READINGS:
        packed = ViewedTexts(preprocessor, kind(), texts).packed()
        assert packed.keys() == expected.keys()
        for name, ids in packed.items():
            np.testing.assert_array_equal(ids, expected[name])


def test_head_is_the_truncation_of_the_preprocessor(preprocessor):
    texts = ragged(texts_of(LENGTHS))
    packed = ViewedTexts(preprocessor, HeadOnly(), texts).packed()
    for name, ids in preprocessor.pack(texts).items():
        np.testing.assert_array_equal(packed[name], ids)


def test_rows_may_share_texts(preprocessor):
    texts = texts_of(LENGTHS)
    order = [3, 3, 0, 1]
    viewed = ViewedTexts(preprocessor, SlidingWindows(doc_stride=3), ragged(texts), before=ragged(ASKED), text=order)
    assert sequences(viewed) == slow_sequences(viewed, [texts[row] for row in order], ASKED)
    numbers = np.arange(sum(LENGTHS))
    values = viewed.values(tf.constant(numbers)).to_list()
    begin = np.cumsum([0, *LENGTHS])[order]
    for row, places, found in zip(viewed.views.row.numpy(), viewed.views.places().to_list(), values, strict=True):
        np.testing.assert_array_equal(found, begin[row] + np.array(places))


def test_blocks_keep_the_views_of_a_row_together(preprocessor):
    """Rows with 1, 4, 1 and 13 windows."""
    viewed = ViewedTexts(preprocessor, SlidingWindows(doc_stride=3), ragged(texts_of([3, 15, 4, 44])))
    counts = np.bincount(viewed.views.row)
    assert counts.tolist() == [1, 4, 1, 13]
    assert viewed.blocks(100) == [(0, 19)]
    assert viewed.blocks(2) == [(0, 5), (5, 6), (6, 19)]


def test_outputs_of_tokens_equal_reference_loop(preprocessor):
    """Each from the window with the most context; of a range of windows, those of its tokens."""
    viewed = ViewedTexts(preprocessor, SlidingWindows(), ragged(texts_of(LENGTHS)))
    windows = slow_windows(LENGTHS, [8] * 4, 4)
    outputs = np.random.default_rng(0).normal(size=(len(windows), 10, 3)).astype("float32")
    expected = []
    for window, is_best in zip(outputs, slow_max_context(windows), strict=True):
        tokens = window[1 : 1 + len(is_best)]
        expected.append(tokens[np.array(is_best, bool)])
    np.testing.assert_array_equal(viewed.of_tokens(outputs), joined(expected))
    np.testing.assert_array_equal(viewed.of_tokens(outputs[3:6], 3, 6), joined(expected[3:6]))
    assert len(viewed.of_tokens(outputs)) == sum(LENGTHS)


@pytest.mark.parametrize("name", ["mean", "maximum"])
@pytest.mark.parametrize("kind", READINGS)
def test_one_answer_of_a_row(preprocessor, name, kind):
    """Over the views of each row, eagerly and in a graph; a row with one view keeps its bits."""
    viewed = ViewedTexts(preprocessor, kind(), ragged(texts_of(LENGTHS)))
    rows = viewed.views.row.numpy()
    logits = np.random.default_rng(0).normal(size=(len(rows), 3)).astype("float32")
    expected = []
    for row in range(4):
        own = logits[rows == row].astype("float64")
        expected.append(own.mean(0) if name == "mean" else own.max(0))
    found = getattr(viewed, name)(logits).numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(found[0], logits[0])

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)], autograph=False)
    def graph(texts):
        return getattr(ViewedTexts(preprocessor, kind(), texts), name)(logits)

    np.testing.assert_array_equal(graph(ragged(texts_of(LENGTHS))), found)


def test_answers_of_bfloat16_are_float32(preprocessor):
    viewed = ViewedTexts(preprocessor, SlidingWindows(), ragged(texts_of([12])))
    logits = tf.constant([[1.0], [2.0]], tf.bfloat16)
    assert viewed.mean(logits).numpy().tolist() == [[1.5]]
    assert viewed.maximum(logits).dtype == tf.float32


def test_outputs_without_padding(preprocessor):
    viewed = ViewedTexts(preprocessor, SlidingWindows(doc_stride=3), ragged(texts_of(LENGTHS)))
    lengths = viewed.lengths.numpy()
    outputs = np.random.default_rng(0).normal(size=(len(lengths), 12)).astype("float32")
    expected = [row[:length] for row, length in zip(outputs, lengths, strict=True)]
    flat = viewed.flat(outputs)
    np.testing.assert_array_equal(flat, np.concatenate(expected))
    np.testing.assert_array_equal(viewed.flat(outputs[2:5], 2, 5), np.concatenate(expected[2:5]))
    padded = viewed.padded(flat, 2, 5).numpy()
    for row, values in zip(padded, expected[2:5], strict=True):
        assert row[: len(values)].tolist() == values.tolist()
        assert not row[len(values) :].any()
    assert viewed.padded(flat).shape == (len(lengths), lengths.max())


def test_a_model_runs_on_some_views_at_a_time(preprocessor, monkeypatch):
    """The same outputs for all sizes of the parts, also of no texts."""
    config = keras_bert.BertConfig(
        vocab_size=len(preprocessor.vocabulary),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
    )
    model = keras_bert.build_span_labeler(keras_bert.build_encoder(config))
    viewed = ViewedTexts(preprocessor, SlidingWindows(doc_stride=3), ragged(texts_of(LENGTHS)))
    expected = model(viewed.packed())
    for rows in (1, 4, 99):
        monkeypatch.setattr(viewed_texts, "_ROWS", rows)
        for name, values in viewed.outputs(model).items():
            np.testing.assert_allclose(values, expected[name], atol=1e-6)
    none = ViewedTexts(preprocessor, SlidingWindows(), ragged([[], []])[:0])
    assert none.outputs(model)["start_logits"].shape[0] == 0
