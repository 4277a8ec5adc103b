"""Models are described from their graphs, and refused if no builder makes them."""

import dataclasses
from unittest import mock

import keras
import pytest

import keras_bert


def test_describe_recovers_all_settings(config):
    config = dataclasses.replace(config, classifier_dropout=0.3, hidden_act="gelu", layer_norm_eps=1e-6)
    model = keras_bert.build_encoder(config, causal=True, positions="sinusoid")
    description = keras_bert.describe(keras_bert.build_classifier(model, 5, dropout=0.3))
    assert description.config == config
    assert (description.head, description.num_classes) == ("classification", 5)
    assert (description.causal, description.positions) == (True, "sinusoid")
    assert not keras_bert.describe(keras_bert.build_pretrainer(model, next_sentence=False)).options["next_sentence"]


def custom_models(config):
    """Yields models that a user may build on an encoder, none of them from a builder."""
    encoder = keras_bert.build_encoder(config)
    other = keras_bert.build_encoder(config, name="other")
    inputs = encoder.input
    sequence = encoder.output["sequence_output"]
    pooled = encoder.output["pooled_output"]
    fresh = {name: keras.Input((None,), dtype="int32", name=name) for name in inputs}
    ours = keras_bert.layers.Dense
    drop = keras_bert.layers.Dropout(0.1)
    between = keras.layers.Dense(32, name="between")

    class Doubled(keras.Model):
        def call(self, inputs, training=None, mask=None):
            return {name: 2 * value for name, value in super().call(inputs, training=training).items()}

    yield from {
        "overridden call": Doubled(inputs, encoder.output),
        "two dense layers": keras.Model(inputs, {"logits": keras.layers.Dense(3)(between(pooled))}),
        "nested encoder": keras.Model(fresh, {"logits": ours(3)(drop(encoder(fresh)["pooled_output"]))}),
        "mean": keras.Model(inputs, {"logits": ours(3, name="classifier")(drop(keras.ops.mean(sequence, 1)))}),
        "no dropout": keras.Model(inputs, {"logits": ours(3, name="classifier")(pooled)}),
        "activation": keras.Model(inputs, {"logits": ours(3, activation="tanh", name="classifier")(drop(pooled))}),
        "layer between": keras.Model(inputs, {"logits": ours(3, name="classifier")(drop(between(sequence)))}),
        "one tensor": keras.Model(inputs, pooled),
        "one more output": keras.Model(inputs, {**encoder.output, "more": 2 * pooled}),
        "shifted": keras.Model(inputs, {**encoder.output, "sequence_output": sequence + 1.0}),
        "swapped columns": keras.Model(
            inputs, {"start_logits": (logits := ours(2, name="span")(sequence))[..., 1], "end_logits": logits[..., 0]}
        ),
        "swapped inputs": keras.Model(
            inputs, other({**inputs, "segment_ids": inputs["padding_mask"], "padding_mask": inputs["segment_ids"]})
        ),
        "two encoders": keras.Model(inputs, {"logits": pooled * other(inputs)["pooled_output"]}),
        "sequential": keras.Sequential([keras.layers.Dense(1)]),
    }.items()
    block = encoder.get_layer("block_0")
    for part, name, value in (
        (encoder.get_layer("pooler").dense, "activation", keras.activations.relu),
        (block.attention_norm, "epsilon", 0.1),
        (block, "activation", "relu"),  # Differs from that of its sublayer.
    ):
        with mock.patch.object(part, name, value):
            yield f"changed {name}", encoder
    assert keras_bert.describe(encoder).head == "encoder"


def test_custom_models_are_refused(config):
    for name, model in custom_models(config):
        with pytest.raises(ValueError, match=r"must come from a builder of keras_bert.* model.save\('model.keras'\)"):
            pytest.fail(f"{name}: {keras_bert.describe(model).head}")


@pytest.mark.tensorflow
def test_a_text_model_is_refused_with_a_hint(build, pieces):
    model = build("classification")
    text_model = keras_bert.build_text_model(model, keras_bert.TextPreprocessor(pieces, 12))
    with pytest.raises(ValueError, match="It takes strings: pass the model on token ids"):
        keras_bert.describe(text_model)
