"""Packed rows: each text once, hardly any padding, and the same losses and weights as rows of one text."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.data.packed_batches import PackedBatches
from keras_bert.training import losses


def inputs_of(lengths):
    """Returns inputs whose token ids tell the text, 5 to 49."""
    numbers = np.repeat(np.arange(len(lengths)), lengths)
    return {
        "token_ids": tf.RaggedTensor.from_row_lengths(5 + numbers % 45, lengths),
        "segment_ids": tf.RaggedTensor.from_row_lengths(np.arange(len(numbers)) % 2, lengths),
    }


def texts(*lengths):
    """Returns inputs, and a target of three classes for each text."""
    return inputs_of(np.array(lengths)), np.arange(len(lengths)) % 3


SPREADS = {
    "long": np.random.default_rng(0).integers(20, 104, 400),
    "equal": np.full(400, 9),
}


@pytest.fixture(scope="module", params=SPREADS)
def lengths(request):
    return SPREADS[request.param]


@pytest.fixture(scope="module")
def batches(lengths):
    return PackedBatches(inputs_of(lengths), np.arange(400), batch_size=32)


@pytest.fixture(scope="module")
def elements(batches):
    return list(batches.dataset().as_numpy_iterator())


def test_there_is_hardly_any_padding(batches):
    """Steps have as many texts as asked for, on average."""
    assert batches.computed <= 1.06 * batches.tokens
    assert abs(400 / batches.steps - 32) < 4


def test_every_text_once(lengths, batches, elements):
    seen = []
    for features, targets, weights in elements:
        is_text = weights > 0
        seen.extend(targets[is_text])
        rows = np.arange(batches.batch_size).repeat(batches.texts)
        starts = features["text_starts"].ravel()
        for row, start, text in zip(rows[is_text], starts[is_text], targets[is_text], strict=True):
            place = (row, slice(start, start + lengths[text]))
            assert set(features["token_ids"][place]) == {5 + text % 45}
            assert len(set(features["text_numbers"][place])) == 1
            np.testing.assert_array_equal(features["position_ids"][place], np.arange(lengths[text]))
        numbers = features["text_numbers"]
        assert numbers.shape == (batches.batch_size, batches.sequence_length)
        assert (numbers > 0).sum() == lengths[targets[is_text]].sum()
    assert sorted(seen) == list(range(400))
    order = np.concatenate(batches.row_indices(0))
    np.testing.assert_array_equal(order[order >= 0], seen)


def test_epochs_have_different_orders(batches):
    first = np.concatenate(batches.row_indices(0))
    second = np.concatenate(batches.row_indices(1))
    assert sorted(second[second >= 0]) == list(range(400))
    assert (first != second).any()


def test_an_epoch_starts_at_any_step(batches, elements):
    resumed = batches.dataset(0, 2).as_numpy_iterator()
    for found, expected in zip(resumed, elements[2:], strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, found, expected)


def test_few_texts():
    """Longer rows would have more padding."""
    batches = PackedBatches(*texts(9, 3), batch_size=2)
    assert batches.steps == 1
    assert batches.batch_size == 1
    assert batches.sequence_length == 13
    assert batches.computed == 13


def test_features_of_other_lengths():
    """Tags and segments stay with their text; a feature must not be longer than its text."""
    tokens = tf.ragged.constant([[11, 12, 13], [21, 22, 23]], dtype=tf.int32)
    inputs = {"token_ids": tokens, "segment_ids": tf.ragged.constant([[0], [1, 1, 1]], dtype=tf.int32)}
    tags = tf.ragged.constant([[1], [2, 2, 2]], dtype=tf.int32)
    packed = PackedBatches(inputs, tags, batch_size=2, sequence_length=6, shuffle=False)
    ((features, targets, _),) = packed.dataset()
    found = np.concatenate([features["token_ids"], targets, features["segment_ids"]]).reshape(3, 2, 3)
    if found[0, 0, 0] == 21:  # The second text may be the first one of the row.
        found = found[:, ::-1]
    assert found[0].tolist() == [[11, 12, 13], [21, 22, 23]]
    assert found[1].tolist() == [[1, -1, -1], [2, 2, 2]]
    assert found[2].tolist() == [[0, 0, 0], [1, 1, 1]]
    with pytest.raises(ValueError, match="longer than `token_ids`. Received: text 1 with 3 tokens and 4 values"):
        PackedBatches(inputs, tf.ragged.constant([[1], [2, 2, 2, 2]], dtype=tf.int32), batch_size=2)


def trained(config, batches, **options):
    """Returns the loss and the weights after a step."""
    keras.utils.set_random_seed(1)
    config = dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
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
    inputs, targets = texts(9, 3, 12, 5, 5, 7, 2, 11)
    plain = inputs | {"padding_mask": tf.ones_like(inputs["token_ids"])}
    packed = PackedBatches(inputs, targets, batch_size=8, sequence_length=14)
    assert packed.steps == 1
    assert packed.batch_size == 4
    options = {"rewire": keras_bert.models.build_packed, "micro_batches": 2, "strategy": mirrored}
    loss, weights = trained(config, packed, **options)
    single = keras_bert.data.Batches(plain, targets, batch_size=8, boundaries=[12])
    expected_loss, expected_weights = trained(config, single)
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    for together, alone in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(together, alone, atol=1e-5)


@pytest.mark.usefixtures("eager")
def test_packed_batches_need_a_packed_model():
    inputs = {name: keras.Input((None,), name=name) for name in ("token_ids", "segment_ids", "padding_mask")}
    model = keras.Model(inputs, {"logits": keras.layers.Dense(3)(keras.ops.sum(inputs["token_ids"], 1, True))})
    trainer = keras_bert.Trainer(lambda: model, lambda model: keras_bert.AdamW(0.1), losses.classification_loss())
    packed = PackedBatches(*texts(9, 3), batch_size=2)
    with pytest.raises(ValueError, match="the batches lack padding_mask. .*`rewire=keras_bert.models.build_packed`"):
        trainer.fit(packed)
    with pytest.raises(ValueError, match="`evaluation` must have single texts, such as `Batches`"):
        trainer.fit(packed, evaluation=packed)


@pytest.mark.parametrize(
    ("lengths", "options", "message"),
    [
        ([9, 3], {"sequence_length": 8}, "must be an integer of at least 9. Received: sequence_length=8"),
        ([9, 3], {"batch_size": 0}, "`batch_size` must be a positive integer"),
        ([9, 0], {}, "texts must have tokens, at least .CLS.. Received: text 1 without any"),
    ],
)
def test_bad_arguments(lengths, options, message):
    with pytest.raises(ValueError, match=message):
        PackedBatches(*texts(*lengths), **options)


def test_bad_features():
    with pytest.raises(ValueError, match="must have the `tf.RaggedTensor`s token_ids and segment_ids. Rec"):
        PackedBatches({"token_ids": np.ones((2, 3))})


def test_targets_are_of_texts_or_of_tokens():
    inputs, of_texts = texts(9, 3)
    targets = {"one": inputs["segment_ids"], "other": of_texts}
    with pytest.raises(ValueError, match="or all a value per token. Received: both"):
        PackedBatches(inputs, targets)
