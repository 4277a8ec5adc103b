"""Trimmed models, whose last block computes only what the head reads, and models on packed rows.

They have the outputs and gradients of the whole model.
"""

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import HEADS, to_numpy
from tests.rewirings.packed_rows import LENGTHS, PLACES, TEXTS, pack


@pytest.mark.parametrize("head", ["mlm", "next_sentence", "classification", "multiple_choice"])
def test_outputs(build, task, head):
    model = build(head)
    inputs, _, _ = task(head)
    trimmed = keras_bert.models.build_trimmed(model)
    assert {id(weight) for weight in trimmed.weights} == {id(weight) for weight in model.weights}
    expected = model(inputs)
    found = trimmed(inputs)
    assert list(found) == list(expected)
    for name in expected:
        np.testing.assert_allclose(to_numpy(found[name]), to_numpy(expected[name]), atol=2e-5)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("head", "options"),
    [("pretraining", {"positions": "none"}), ("classification", {"remat": True})],
)
def test_gradients(build, task, head, options):
    import tensorflow as tf

    model = build(head, **options)
    inputs, _, _ = task(head)
    gradients = []
    for called in (model, keras_bert.models.build_trimmed(model)):
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(tf.sin(value)) for value in called(inputs).values())
        found = tape.gradient(loss, model.trainable_variables, unconnected_gradients="zero")
        gradients.append([tf.convert_to_tensor(gradient).numpy() for gradient in found])
    for weight, one, other in zip(model.trainable_variables, *gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * max(1, np.abs(one).max()), err_msg=weight.path)


def test_the_last_block_computes_less(build, task, config, monkeypatch):
    """The masked positions and [CLS] only."""
    model = build("pretraining")
    last = model.get_layer(f"block_{config.num_hidden_layers - 1}")
    widths = []
    forward = last.feed_forward.call

    def remember(hidden, **options):
        widths.append(hidden.shape)
        return forward(hidden, **options)

    monkeypatch.setattr(last.feed_forward, "call", remember)
    keras_bert.models.build_trimmed(model)(task("pretraining")[0])
    assert widths[-1] == (3, 1 + 3, 32)


def test_other_models(build):
    inputs = keras.Input((3,))
    stranger = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    whole = [build(head) for head in ("encoder", "token_classification", "embedding")]
    whole += [build("classification", causal=True), stranger]
    for model in whole:
        assert keras_bert.models.build_trimmed(model) is model
    with pytest.raises(ValueError, match="is for training only: use the one that it was made from"):
        keras_bert.build_embedder(keras_bert.models.build_trimmed(build("classification")))


@pytest.mark.parametrize(
    ("head", "positions"),
    [
        ("encoder", "learned"),
        ("encoder", "sinusoid"),
        ("encoder", "relative"),
        ("next_sentence", "learned"),
        ("classification", "learned"),
        ("token_classification", "learned"),
    ],
)
def test_outputs_of_packed_rows(build, batch, head, positions):
    """Each text has what it has alone in a row."""
    model = build(head, positions=positions)
    inputs = pack(batch)
    packed = keras_bert.models.build_packed(model)
    assert [id(weight) for weight in packed.trainable_weights] == [id(weight) for weight in model.trainable_weights]
    expected = model(batch)
    found = packed({name: inputs[name] for name in packed.input})
    assert found.keys() == expected.keys()
    for name in expected:
        alone = to_numpy(expected[name])
        together = to_numpy(found[name])
        if name == "sequence_output" or head == "token_classification":
            for text, (row, start) in enumerate(PLACES):
                length = LENGTHS[text]
                np.testing.assert_allclose(together[row, start : start + length], alone[text, :length], atol=2e-6)
        else:
            np.testing.assert_allclose(together[TEXTS], alone, atol=2e-6)


@pytest.mark.parametrize(("head", "causal"), [("pretraining", False), ("mlm", True)])
def test_pretraining_outputs_of_packed_rows(build, batch, head, causal):
    model = build(head, causal=causal)
    alone = model(batch | {"mask_positions": np.array([[1, 5, 9], [2, 3, 6], [1, 2, 0]], "int32")})
    inputs = pack(batch)
    inputs["mask_positions"] = np.array([[1, 5, 9, 0, 0, 0], [2, 3, 6, 8, 9, 7]], "int32")
    packed = keras_bert.models.build_packed(model)
    found = packed({name: inputs[name] for name in packed.input})
    logits = to_numpy(found["mlm_logits"])
    logits_of_texts = np.stack([logits[0, :3], logits[1, :3], logits[1, 3:]])
    np.testing.assert_allclose(logits_of_texts, to_numpy(alone["mlm_logits"]), atol=2e-5)
    if "nsp_logits" in HEADS[head].outputs:
        np.testing.assert_allclose(to_numpy(found["nsp_logits"])[TEXTS], to_numpy(alone["nsp_logits"]), atol=2e-6)


@pytest.mark.parametrize(
    ("head", "options", "message"),
    [
        ("question_answering", {}, "the head 'question_answering' cannot be packed. Expected one of encoder"),
        ("classification", {"causal": True}, "pools the last token cannot be packed"),
    ],
)
def test_models_that_cannot_be_packed(build, head, options, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.models.build_packed(build(head, **options))
