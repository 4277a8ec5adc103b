"""Models that no builder makes are refused."""

import keras
import pytest

import keras_bert
from keras_bert.layers import Dense, Dropout


@pytest.fixture(scope="module")
def encoder(config):
    """An encoder, on whose graph each test puts layers of its own."""
    return keras_bert.build_encoder(config)


@pytest.fixture(scope="module")
def other(config):
    return keras_bert.build_encoder(config, name="other")


def classifier(encoder, *layers, kind=Dense, read="pooled_output", **options):
    """A classifier on layers that no builder puts there."""
    hidden = encoder.output[read]
    for layer in layers:
        hidden = layer(hidden)
    return keras.Model(encoder.input, {"logits": kind(3, **options)(hidden)})


class Doubled(keras.Model):
    """A model whose outputs are not those of its graph."""

    def call(self, inputs, training=None, mask=None):
        outputs = super().call(inputs, training=training)
        return {name: 2 * value for name, value in outputs.items()}


def overridden_call(encoder, other):
    return Doubled(encoder.input, encoder.output)


def two_dense_layers(encoder, other):
    between = keras.layers.Dense(32, name="between")
    return classifier(encoder, between, kind=keras.layers.Dense)


def nested_encoder(encoder, other):
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in encoder.input}
    pooled = encoder(inputs)["pooled_output"]
    return keras.Model(inputs, {"logits": Dense(3)(Dropout(0.1)(pooled))})


def mean_of_tokens(encoder, other):
    def mean(hidden):
        return keras.ops.mean(hidden, 1)

    return classifier(encoder, mean, Dropout(0.1), read="sequence_output", name="classifier")


def no_dropout(encoder, other):
    return classifier(encoder, name="classifier")


def activation(encoder, other):
    return classifier(encoder, Dropout(0.1), activation="tanh", name="classifier")


def layer_between(encoder, other):
    between = keras.layers.Dense(32, name="between")
    return classifier(encoder, between, Dropout(0.1), read="sequence_output", name="classifier")


def one_tensor(encoder, other):
    return keras.Model(encoder.input, encoder.output["pooled_output"])


def one_more_output(encoder, other):
    return keras.Model(encoder.input, encoder.output | {"more": 2 * encoder.output["pooled_output"]})


def shifted(encoder, other):
    hidden = encoder.output["sequence_output"]
    return keras.Model(encoder.input, encoder.output | {"sequence_output": hidden + 1.0})


def swapped_columns(encoder, other):
    logits = Dense(2, name="span")(encoder.output["sequence_output"])
    return keras.Model(encoder.input, {"start_logits": logits[..., 1], "end_logits": logits[..., 0]})


def swapped_inputs(encoder, other):
    inputs = dict(encoder.input)
    inputs["segment_ids"] = encoder.input["padding_mask"]
    inputs["padding_mask"] = encoder.input["segment_ids"]
    return keras.Model(encoder.input, other(inputs))


def two_encoders(encoder, other):
    second = other(encoder.input)["pooled_output"]
    return keras.Model(encoder.input, {"logits": encoder.output["pooled_output"] * second})


def sequential(encoder, other):
    return keras.Sequential([keras.layers.Dense(1)])


def assert_refused(model):
    message = r"must come from a builder of keras_bert.* model.save\('model.keras'\)"
    with pytest.raises(ValueError, match=message):
        keras_bert.describe(model)


@pytest.mark.parametrize(
    "build",
    [
        overridden_call,
        two_dense_layers,
        nested_encoder,
        mean_of_tokens,
        no_dropout,
        activation,
        layer_between,
        one_tensor,
        one_more_output,
        shifted,
        swapped_columns,
        swapped_inputs,
        two_encoders,
        sequential,
    ],
    ids=lambda build: build.__name__,
)
def test_custom_models_are_refused(encoder, other, build):
    assert_refused(build(encoder, other))


def test_changed_settings_of_layers_are_refused(encoder, monkeypatch):
    """Also the activation of a block that differs from that of its sublayer."""
    block = encoder.get_layer("block_0")
    for part, name, value in (
        (encoder.get_layer("pooler").dense, "activation", keras.activations.relu),
        (block.attention_norm, "epsilon", 0.1),
        (block, "activation", "relu"),
    ):
        with monkeypatch.context() as changes:
            changes.setattr(part, name, value)
            assert_refused(encoder)
    assert keras_bert.describe(encoder).head == "encoder"


@pytest.mark.tensorflow
def test_a_text_model_is_refused_with_a_hint(build, pieces):
    model = build("classification")
    text_model = keras_bert.build_text_model(model, keras_bert.TextPreprocessor(pieces, 12))
    with pytest.raises(ValueError, match="It takes strings: pass the model on token ids"):
        keras_bert.describe(text_model)
