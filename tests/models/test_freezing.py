"""Frozen layers."""

import pytest

import keras_bert


@pytest.mark.parametrize("head", ["classification", "multiple_choice"])
def test_what_is_frozen(build, head):
    model = build(head)
    trainable = len(model.trainable_weights)
    keras_bert.freeze_layers(model, 1)
    paths = {weight.path for weight in model.trainable_weights}
    assert len(paths) < trainable
    assert not [path for path in paths if "embedding" in path or "block_0" in path]
    assert [path for path in paths if "block_1" in path]


def test_embeddings_alone(build):
    model = build("classification")
    frozen = sum(weight.path.startswith(("token_embedding", "embeddings")) for weight in model.trainable_weights)
    trainable = len(model.trainable_weights)
    keras_bert.freeze_layers(model, 0)
    assert len(model.trainable_weights) == trainable - frozen


@pytest.mark.parametrize("count", [-1, 3])
def test_too_many(build, count):
    with pytest.raises(
        ValueError, match=f"`count` must be from 0 to the 2 blocks of the model. Received: count={count}"
    ):
        keras_bert.freeze_layers(build("classification"), count)
