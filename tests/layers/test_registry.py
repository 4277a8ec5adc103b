"""Positions by name, and those that model types of transformers have."""

import pytest

from keras_bert.layers.registry import positions_named, positions_of


@pytest.mark.parametrize("name", ["learned", "sinusoid", "none", "relative"])
def test_names(name):
    assert positions_named(name).name == name


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="`positions` must be one of learned, sinusoid, none, relative"):
        positions_named("rotary")


def test_model_types_of_transformers():
    assert positions_of("mpnet") == "relative"
    assert positions_of("bert") is None  # Several.
