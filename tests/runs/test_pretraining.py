"""Google's training: twelve steps of its own program."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.data.bucketing import Batches
from keras_bert.training import losses
from keras_bert.training.trainer import Trainer
from tests.runs.google_training import GoogleTraining


@pytest.mark.tensorflow
def test_training_equals_google_tf1(golden, tmp_path):
    """Equal losses and weights."""
    google = GoogleTraining(golden)
    rows = {name: np.concatenate(each) for name, each in google.rows.items()}
    targets = {name: np.concatenate(each) for name, each in google.targets.items()}
    rows["token_ids"] = tf.RaggedTensor.from_tensor(rows["token_ids"])
    trainer = Trainer(google.model, google.optimizer, losses.pretraining_losses(), directory=tmp_path / "run")
    trainer.fit(Batches(rows, targets, batch_size=4, shuffle=False), epochs=1, log_every=1)
    lines = list(map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()))
    google.check(lines, trainer.model, tmp_path)
