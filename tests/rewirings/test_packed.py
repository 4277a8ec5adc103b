"""Models on packed rows give each text what it gets alone in a row."""

import numpy as np
import pytest

import keras_bert
from tests.conftest import HEADS, to_numpy

# The texts of `batch`, of lengths 12, 7 and 3: the second and the third share a row.
PLACES = [(0, 0), (1, 0), (1, 7)]
LENGTHS = [12, 7, 3]


def pack(batch):
    """Returns two rows of 12 tokens, which have two texts at most."""
    packed = {name: np.zeros((2, 12), "int32") for name in ("token_ids", "segment_ids", "text_numbers", "position_ids")}
    for text, ((row, start), length) in enumerate(zip(PLACES, LENGTHS, strict=True)):
        part = row, slice(start, start + length)
        for name in ("token_ids", "segment_ids"):
            packed[name][part] = batch[name][text, :length]
        packed["text_numbers"][part] = 1 + (start > 0)
        packed["position_ids"][part] = np.arange(length)
    return packed


TEXT_STARTS = np.array([[0, 0], [0, 7]], "int32")
TEXTS = [0, 2, 3]  # The rows of the outputs of texts; the first packed row has one text.


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
def test_outputs(build, batch, head, positions):
    model = build(head, positions=positions)
    inputs = {**pack(batch), "text_starts": TEXT_STARTS}
    packed = keras_bert.models.build_packed(model)
    assert [id(weight) for weight in packed.trainable_weights] == [id(weight) for weight in model.trainable_weights]
    expected = model(batch)
    found = packed({name: inputs[name] for name in packed.input})
    assert found.keys() == expected.keys()
    for name in expected:
        alone, together = to_numpy(expected[name]), to_numpy(found[name])
        if name == "sequence_output" or head == "token_classification":
            for text, ((row, start), length) in enumerate(zip(PLACES, LENGTHS, strict=True)):
                np.testing.assert_allclose(together[row, start : start + length], alone[text, :length], atol=2e-6)
        else:
            np.testing.assert_allclose(together[TEXTS], alone, atol=2e-6)


@pytest.mark.parametrize(("head", "causal"), [("pretraining", False), ("mlm", True)])
def test_pretraining_outputs(build, batch, head, causal):
    model = build(head, causal=causal)
    alone = model(batch | {"mask_positions": np.array([[1, 5, 9], [2, 3, 6], [1, 2, 0]], "int32")})
    inputs = {**pack(batch), "text_starts": TEXT_STARTS}
    inputs["mask_positions"] = np.array([[1, 5, 9, 0, 0, 0], [2, 3, 6, 8, 9, 7]], "int32")
    packed = keras_bert.models.build_packed(model)
    found = packed({name: inputs[name] for name in packed.input})
    logits = to_numpy(found["mlm_logits"])
    np.testing.assert_allclose(
        np.stack([logits[0, :3], logits[1, :3], logits[1, 3:]]), to_numpy(alone["mlm_logits"]), atol=2e-5
    )
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
