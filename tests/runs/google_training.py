"""Twelve steps of Google's program: its data and settings, and what whoever repeats them must find."""

import shutil

import numpy as np

import keras_bert
from tests.conftest import to_numpy


class GoogleTraining:
    """The stored steps, of four examples each."""

    def __init__(self, golden):
        self.folder = golden / "google_tf1_training"
        self._data = dict(np.load(self.folder / "golden.npz"))
        rows = {name: values for name, values in self._data.items() if values.ndim > 1}
        self.rows = {name: each if each.dtype == "float32" else each.astype("int32") for name, each in rows.items()}
        self.targets = {name: self.rows.pop(name) for name in ("mask_labels", "mask_weights", "next_sentence_labels")}
        self._schedule = {name: self._data[name].item() for name in ("learning_rate", "total_steps", "warmup_steps")}

    def model(self):
        return keras_bert.load(self.folder).pretrainer()

    def optimizer(self, model):
        return keras_bert.create_optimizer(model, **self._schedule, bias_correction=False)

    def check(self, lines, model, folder):
        """Asserts that the lines of metrics.jsonl and the weights are Google's."""
        mlm = np.array([line["mlm_loss"] for line in lines])
        nsp = np.array([line["nsp_loss"] for line in lines])
        for name, values in {"mlm_loss": mlm, "nsp_loss": nsp, "loss": mlm + nsp}.items():
            np.testing.assert_allclose(values, self._data[name], atol=1e-4)
        rate, total, warmup = self._schedule.values()
        rates = [rate * (step / warmup if step < warmup else 1 - step / total) for step in range(12)]
        np.testing.assert_allclose([line["learning_rate"] for line in lines], rates, rtol=1e-6)
        for path in [self.folder / "bert_config.json", *(self.folder / "after").iterdir()]:
            shutil.copy(path, folder)
        after = {weight.path: to_numpy(weight) for weight in keras_bert.load(folder).pretrainer().weights}
        for weight in model.trainable_variables:
            np.testing.assert_allclose(to_numpy(weight), after[weight.path], atol=1e-4, err_msg=weight.path)
