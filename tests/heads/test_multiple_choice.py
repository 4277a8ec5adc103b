"""Multiple choice: its inputs, its axes, and the output in which a window of a long text decides."""

import keras_bert
from keras_bert.heads.multiple_choice import MultipleChoice


def test_inputs_have_an_axis_of_choices(config):
    model = keras_bert.build_multiple_choice(keras_bert.build_encoder(config))
    assert {tensor.shape for tensor in model.inputs} == {(None, None, None)}
    assert model.output["logits"].shape == (None, None)
    assert MultipleChoice().axes("token_ids") == ("batch", "choices", "length")
    assert MultipleChoice().inputs(None) == [("text", "choices")]


def test_a_window_decides_in_the_logits():
    """Other heads without names of classes have no such output."""
    assert MultipleChoice().deciding_output(None) == "logits"
