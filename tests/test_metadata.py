"""Metadata of a checkpoint: what is written beside its config, and what of it is read."""

import types

import pytest

from keras_bert.metadata import Metadata, answer_length


def test_only_what_is_no_default_is_written():
    assert Metadata().to_json() == {}
    metadata = Metadata(head="classification", pair=False, sequence_length=64, labels=["a"], lowercase=False)
    assert metadata.to_json() == {"head": "classification", "pair": False, "sequence_length": 64}


def test_what_is_written_is_read():
    metadata = Metadata(
        task="classification",
        thresholds=[0.5, 0.25],
        columns={"text": "review", "choices": ["a", "b"]},
        keep_special_tokens=["[MASK]"],
    )
    assert Metadata.from_json(metadata.to_json()) == metadata


def test_keys_of_other_versions_are_ignored():
    assert Metadata.from_json({"later": 1, "task": None}) == Metadata()


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"pair": 1}, "pair"),
        ({"sequence_length": True}, "sequence_length"),
        ({"sequence_length": "64"}, "sequence_length"),
        ({"thresholds": "half"}, "thresholds"),
        ({"keep_special_tokens": ["[MASK]", 3]}, "keep_special_tokens"),
        ({"columns": {"text": 3}}, "columns"),
        ({"columns": {"choices": ["a", 3]}}, "columns"),
        ({"columns": ["text"]}, "columns"),
        ([], "keras_bert"),
    ],
)
def test_values_of_another_type(values, name):
    with pytest.raises(ValueError, match=f"`{name}`.* must be"):
        Metadata.from_json(values)


def test_settings_of_save():
    settings = Metadata.of_settings(lowercase=False, labels=["no", "yes"]).settings
    assert settings["labels"] == ["no", "yes"]
    assert set(settings) == set(Metadata.setting_names())
    with pytest.raises(ValueError, match="`save` has no setting 'treshold'"):
        Metadata.of_settings(treshold=0.5)


def test_accents_are_those_of_the_vocabulary():
    assert Metadata().strip_accents is None
    assert Metadata(vocabulary=types.SimpleNamespace(strip_accents=False)).strip_accents is False


def test_the_length_of_a_text_to_answer():
    """A given one, that of training, or the model's."""
    config = types.SimpleNamespace(max_position_embeddings=512)
    trained = types.SimpleNamespace(sequence_length=128, config=config)
    untrained = types.SimpleNamespace(sequence_length=None, config=config)
    assert answer_length(trained, 32) == 32
    assert answer_length(trained) == 128
    assert answer_length(untrained) == 512
