"""Packed rows: each text once, hardly any padding, and the same losses and weights as rows of one text."""

import dataclasses

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.training import losses  # noqa: E402
from keras_bert.training.packed_batches import PackedBatches  # noqa: E402
from tests.conftest import eagerly  # noqa: E402

pytestmark = pytest.mark.tensorflow


def texts(lengths, tag=False):
    """Returns inputs whose token ids tell the text, 5 to 49, and targets of texts or tokens."""
    numbers = np.repeat(np.arange(len(lengths)), lengths)
    ragged = {"token_ids": 5 + numbers % 45, "segment_ids": np.arange(len(numbers)) % 2}
    inputs = {name: tf.RaggedTensor.from_row_lengths(values, lengths) for name, values in ragged.items()}
    return inputs, tf.RaggedTensor.from_row_lengths(numbers % 3, lengths) if tag else np.arange(len(lengths)) % 3


@pytest.mark.parametrize("spread", ["long", "short", "equal"])
def test_every_text_once(spread):
    rng = np.random.default_rng(0)
    spreads = {"long": rng.integers(20, 104, 1200), "short": 4 + rng.poisson(7, 1200), "equal": np.full(1200, 9)}
    lengths = spreads[spread]
    inputs, _ = texts(lengths)
    batches = PackedBatches(inputs, np.arange(1200), batch_size=32)
    assert batches.computed <= 1.03 * batches.tokens
    assert abs(1200 / batches.steps - 32) < 4
    seen = []
    for features, targets, weights in batches.dataset().as_numpy_iterator():
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
    assert sorted(seen) == sorted(second[second >= 0]) == list(range(1200))
    assert (first != second).any()


def test_an_epoch_starts_at_any_step():
    batches = PackedBatches(texts(np.arange(3, 24))[0], np.arange(21), batch_size=6)
    assert batches.steps > 2
    rest = zip(batches.dataset(1, 2), list(batches.dataset(1))[2:], strict=True)
    for resumed, expected in rest:
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
    ((features, targets, _),) = PackedBatches(inputs, tags, 2, sequence_length=6, shuffle=False).dataset()
    first = features["token_ids"].numpy()[0, 0] == 11
    assert targets.numpy().tolist() == [[1, -1, -1, 2, 2, 2] if first else [2, 2, 2, 1, -1, -1]]
    assert features["segment_ids"].numpy().tolist() == [[0, 0, 0, 1, 1, 1] if first else [1, 1, 1, 0, 0, 0]]
    with pytest.raises(ValueError, match="longer than `token_ids`. Received: text 1 with 3 tokens and 4 values"):
        PackedBatches(inputs, tf.ragged.constant([[1], [2, 2, 2, 2]], dtype=tf.int32), 2)


def trained(config, batches, loss, build, packed, steps=2, **options):
    """Returns the loss and the weights after some steps."""
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = dataclasses.replace(config, **rates)
    trainer = keras_bert.Trainer(
        lambda: build(keras_bert.build_encoder(config)),
        lambda model: keras_bert.create_optimizer(model, 1e-3, 4),
        loss,
        rewire=keras_bert.build_packed if packed else None,
        **options,
    )
    return trainer.fit(batches, steps=steps)["loss"], trainer.model.get_weights()


@pytest.mark.parametrize(("tag", "parts"), [(True, "micro-batches"), (False, "two")])
def test_training_equals_that_of_single_texts(config, mirrored, tag, parts):
    """Losses and weights, also on two devices. One batch has all texts, so that the order does not matter."""
    inputs, targets = texts(np.array([9, 3, 12, 5, 5, 7, 2, 11]), tag)
    plain = {**inputs, "padding_mask": tf.ones_like(inputs["token_ids"])}
    build = keras_bert.build_token_classifier if tag else keras_bert.build_classifier
    loss = losses.token_loss() if tag else losses.classification_loss()
    options = {"micro-batches": {"micro_batches": 2}, "two": {"strategy": mirrored}}[parts]
    steps = 1 if parts == "two" else 2  # Those of two devices take a second each.
    packed = PackedBatches(inputs, targets, batch_size=8, sequence_length=14)
    assert (packed.steps, packed.batch_size) == (1, 4)
    keras.utils.set_random_seed(1)
    with eagerly():
        found = trained(config, packed, loss, lambda encoder: build(encoder, 3), True, steps, **options)
    keras.utils.set_random_seed(1)
    single = keras_bert.Batches(plain, targets, 8, boundaries=[12])
    with eagerly():
        expected = trained(config, single, loss, lambda encoder: build(encoder, 3), False, steps)
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    for together, alone in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(together, alone, atol=1e-5)


def test_packed_batches_need_a_packed_model(config):
    inputs, targets = texts(np.array([9, 3]))
    packed = PackedBatches(inputs, targets, batch_size=2)
    loss, message = losses.classification_loss(), "the batches lack padding_mask. .*`rewire=keras_bert.build_packed`"
    with eagerly(), pytest.raises(ValueError, match=message):
        trained(config, packed, loss, lambda encoder: keras_bert.build_classifier(encoder, 3), False)
    trainer = keras_bert.Trainer(
        lambda: keras_bert.build_classifier(keras_bert.build_encoder(config), 3),
        lambda model: keras_bert.create_optimizer(model, 1e-3, 4),
        loss,
        rewire=keras_bert.build_packed,
    )
    with pytest.raises(ValueError, match="`evaluation` must have single texts, such as `Batches`"):
        trainer.fit(packed, evaluation=packed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequence_length": 8}, "`sequence_length` must be an integer of at least 9. Received: sequence_length=8"),
        ({"batch_size": 0}, "`batch_size` must be a positive integer"),
    ],
)
def test_bad_arguments(options, message):
    inputs, targets = texts(np.array([9, 3]))
    with pytest.raises(ValueError, match=message):
        PackedBatches(inputs, targets, **options)


def test_bad_data():
    with pytest.raises(ValueError, match="`inputs` must have the `tf.RaggedTensor`s token_ids and segment_ids. Rec"):
        PackedBatches({"token_ids": np.ones((2, 3))}, np.arange(2))
    inputs, targets = texts(np.array([9, 0]))
    with pytest.raises(ValueError, match="texts must have tokens, at least .CLS.. Received: text 1 without any"):
        PackedBatches(inputs, targets)
    inputs, targets = texts(np.array([9, 3]), tag=True)
    with pytest.raises(ValueError, match="all have a value per text, or all a value per token. Received: both"):
        PackedBatches(inputs, {"one": targets, "other": np.arange(2)})
