"""The model that `fit` returns, with its scores and its history."""

import functools
from unittest import mock

import pytest

import keras_bert
from keras_bert.files import one_writer
from keras_bert.runs.finetuning import Finetuning
from tests.runs.fit_rows import CLASSES, TEXTS

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


def test_other_numbers_in_the_same_folder(start, tmp_path, caplog):
    """The run that was asked for is returned, also if an earlier one was as good."""
    fit = functools.partial(keras_bert.load(start).fit, TEXTS, CLASSES, output_dir=tmp_path, verbose=False)
    with mock.patch.object(Finetuning, "finish", return_value=""), caplog.at_level("INFO", "keras_bert"):
        for epochs in (1, 2):
            trained = fit(epochs=epochs, learning_rate=0.0, batch_size=8)
            assert trained.results["setting"]["epochs"] == len(trained.results["history"]) == epochs
    assert "do not count: learning_rate=0.0,batch_size=8,epochs=1,seed=1" in caplog.text
    with one_writer(tmp_path), pytest.raises(ValueError, match=f"another run writes to {tmp_path}: process"):
        fit(epochs=3)
