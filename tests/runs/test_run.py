"""A run of a grid."""

import functools
from unittest import mock

import pytest

from keras_bert.runs.run import Run
from tests.runs.fit_rows import CLASSES, TEXTS

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


def test_default_learning_rate_and_advice(loaded, caplog):
    fit = functools.partial(loaded.fit, TEXTS, CLASSES, verbose=False, batch_size=8)
    with caplog.at_level("INFO", "keras_bert"):
        with mock.patch.object(Run, "train", side_effect=SystemExit), pytest.raises(SystemExit):
            fit(epochs=1)
        assert "  learning rate: 0.0003, the default for a width of 32; `learning_rate` sets others" in caplog.messages
        lines = [{"kind": "train", "loss": 0.7}] * 20
        with mock.patch("keras_bert.runs.run.read_lines", return_value=lines):
            trained = fit(epochs=1, learning_rate=1e-9)
    assert trained.results["advice"].endswith("try a learning_rate of 0.0003, or more epochs")
    assert caplog.text.count("the loss did not fall, from 0.7 to 0.7") == 1
