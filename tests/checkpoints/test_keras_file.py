"""Models in files of Keras."""

import keras
import pytest

import keras_bert


def test_a_keras_file(models, tmp_path):
    path = tmp_path / "mine.keras"
    models("question_answering").save(path)
    bert = keras_bert.load(path)
    assert (bert.head, bert.vocabulary) == ("question_answering", None)
    assert set(bert.model().output) == {"start_logits", "end_logits"}
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"mine.keras: Keras cannot load this file"):
        keras_bert.load(path)
    inputs = keras.Input((3,))
    keras.Model(inputs, keras.layers.Dense(1)(inputs)).save(path)
    with pytest.raises(ValueError, match="`model` must come from a builder of keras_bert"):
        keras_bert.load(path)


def test_the_head_of_a_keras_file_is_left_out(models, saved, tmp_path):
    """So it is for a model of KerasHub; what the head has stored of its options goes with it."""
    models("classification").save(tmp_path / "mine.keras")
    bert = keras_bert.load(tmp_path / "mine.keras", head="encoder")
    assert (bert.head, bert.model().output.keys()) == ("encoder", {"sequence_output", "pooled_output"})
    assert keras_bert.load(saved("pretraining"), head="encoder").metadata.head_options is None
