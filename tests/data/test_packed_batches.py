"""Packed rows: each text once, hardly any padding, and the same losses and weights as rows of one text."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.data.packed_batches import PackedBatches
from keras_bert.training import losses


def texts(lengths, tag=False):
    """Returns inputs whose token ids tell the text, 5 to 49, and targets of texts or tokens."""
    numbers = np.repeat(np.arange(len(lengths)), lengths)
    ragged = {"token_ids": 5 + numbers % 45, "segment_ids": np.arange(len(numbers)) % 2}
    inputs = {name: tf.RaggedTensor.from_row_lengths(values, lengths) for name, values in ragged.items()}
    return inputs, tf.RaggedTensor.from_row_lengths(numbers % 3, lengths) if tag else np.arange(len(lengths)) % 3


@pytest.mark.parametrize("spread", ["long", "equal"])
def test_every_text_once(spread):
    rng = np.random.default_rng(0)
    lengths = rng.integers(20, 104, 400) if spread == "long" else np.full(400, 9)
    inputs, _ = texts(lengths)
    batches = PackedBatches(inputs, np.arange(400), batch_size=32)
    assert batches.computed <= 1.06 * batches.tokens
    assert abs(400 / batches.steps - 32) < 4
    seen, elements = [], list(batches.dataset().as_numpy_iterator())
    for features, targets, weights in elements:
        real = weights > 0
        seen.extend(targets[real])
        rows, starts = np.arange(batches.batch_size).repeat(batches.texts), features["text_starts"].ravel()
        for row, start, text in zip(rows[real], starts[real], targets[real], strict=True):
            place = row, slice(start, start + lengths[text])
            assert set(features["token_ids"][place]) == {5 + text % 45}
            assert len(set(features["text_numbers"][place])) == 1
            np.testing.assert_array_equal(features["position_ids"][place], np.arange(lengths[text]))
        numbers = features["text_numbers"]
        assert numbers.shape == (batches.batch_size, batches.sequence_length)
        assert (numbers > 0).sum() == lengths[targets[real]].sum()
    first, second = (np.concatenate(batches.row_indices(epoch)) for epoch in range(2))
    np.testing.assert_array_equal(first[first >= 0], seen)
    assert sorted(seen) == sorted(second[second >= 0]) == list(range(400))
    assert (first != second).any()
    for resumed, expected in zip(batches.dataset(0, 2).as_numpy_iterator(), elements[2:], strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, resumed, expected)


def test_few_texts():
    """Longer rows would have more padding."""
    batches = PackedBatches(texts(np.array([9, 3]))[0], np.arange(2), batch_size=2)
    assert (batches.steps, batches.batch_size, batches.sequence_length, batches.computed) == (1, 1, 13, 13)


def test_features_of_other_lengths():
    """Tags and segments stay with their text; a feature must not be longer than its text."""
    tokens = tf.ragged.constant([[11, 12, 13], [21, 22, 23]], dtype=tf.int32)
    inputs = {"token_ids": tokens, "segment_ids": tf.ragged.constant([[0], [1, 1, 1]], dtype=tf.int32)}
    tags = tf.ragged.constant([[1], [2, 2, 2]], dtype=tf.int32)
    ((features, targets, _),) = PackedBatches(inputs, tags, batch_size=2, sequence_length=6, shuffle=False).dataset()
    first = features["token_ids"].numpy()[0, 0] == 11
    assert targets.numpy().tolist() == [[1, -1, -1, 2, 2, 2] if first else [2, 2, 2, 1, -1, -1]]
    assert features["segment_ids"].numpy().tolist() == [[0, 0, 0, 1, 1, 1] if first else [1, 1, 1, 0, 0, 0]]
    with pytest.raises(ValueError, match="longer than `token_ids`. Received: text 1 with 3 tokens and 4 values"):
        PackedBatches(inputs, tf.ragged.constant([[1], [2, 2, 2, 2]], dtype=tf.int32), batch_size=2)


def trained(config, batches, **options):
    """Returns the loss and the weights after a step."""
    keras.utils.set_random_seed(1)
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = dataclasses.replace(config, **rates)
    trainer = keras_bert.Trainer(
        lambda: keras_bert.build_classifier(keras_bert.build_encoder(config), 3),
        lambda model: keras_bert.create_optimizer(model, 1e-3, 4),
        losses.classification_loss(),
        **options,
    )
    return trainer.fit(batches)["loss"], trainer.model.get_weights()


@pytest.mark.usefixtures("eager")
def test_training_equals_that_of_single_texts(config, mirrored):
    """Losses and weights, on two devices. One batch has all texts, so that the order does not matter."""
    inputs, targets = texts(np.array([9, 3, 12, 5, 5, 7, 2, 11]))
    plain = {**inputs, "padding_mask": tf.ones_like(inputs["token_ids"])}
    packed = PackedBatches(inputs, targets, batch_size=8, sequence_length=14)
    assert (packed.steps, packed.batch_size) == (1, 4)
    found = trained(config, packed, rewire=keras_bert.models.build_packed, micro_batches=2, strategy=mirrored)
    expected = trained(config, keras_bert.data.Batches(plain, targets, batch_size=8, boundaries=[12]))
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    for together, alone in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(together, alone, atol=1e-5)


@pytest.mark.usefixtures("eager")
def test_packed_batches_need_a_packed_model():
    inputs = {name: keras.Input((None,), name=name) for name in ("token_ids", "segment_ids", "padding_mask")}
    model = keras.Model(inputs, {"logits": keras.layers.Dense(3)(keras.ops.sum(inputs["token_ids"], 1, True))})
    trainer = keras_bert.Trainer(lambda: model, lambda model: keras_bert.AdamW(0.1), losses.classification_loss())
    packed = PackedBatches(*texts(np.array([9, 3])), batch_size=2)
    with pytest.raises(ValueError, match="the batches lack padding_mask. .*`rewire=keras_bert.models.build_packed`"):
        trainer.fit(packed)
    with pytest.raises(ValueError, match="`evaluation` must have single texts, such as `Batches`"):
        trainer.fit(packed, evaluation=packed)


def test_bad_arguments():
    (inputs, targets), (tagged, tags) = texts(np.array([9, 3])), texts(np.array([9, 3]), tag=True)
    for given, options, message in (
        ((inputs, targets), {"sequence_length": 8}, "must be an integer of at least 9. Received: sequence_length=8"),
        ((inputs, targets), {"batch_size": 0}, "`batch_size` must be a positive integer"),
        (({"token_ids": np.ones((2, 3))},), {}, "must have the `tf.RaggedTensor`s token_ids and segment_ids. Rec"),
        (texts(np.array([9, 0])), {}, "texts must have tokens, at least .CLS.. Received: text 1 without any"),
        ((tagged, {"one": tags, "other": targets}), {}, "or all a value per token. Received: both"),
    ):
        with pytest.raises(ValueError, match=message):
            PackedBatches(*given, **options)
