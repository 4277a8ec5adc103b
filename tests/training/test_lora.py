"""Training of adapters: frozen weights, snapshots, replicas and micro-batches."""

import dataclasses
import shutil

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.training.losses import classification_loss  # noqa: E402
from keras_bert.training.trainer import Trainer  # noqa: E402
from tests.training.small_run import metrics, steps_of  # noqa: E402

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
# Of two adapters of rank 2, the pooler and a head for 3 classes, on one block of width 32.
TRAINED = 2 * (32 + 96) + 2 * (32 + 32) + 32 * 32 + 32 + 32 * 3 + 3


@pytest.fixture
def train(config, batch):
    """Trains an adapted classifier for three epochs of two batches."""
    lengths = np.tile(batch["padding_mask"].sum(1), 2)
    inputs = {name: tf.RaggedTensor.from_tensor(np.tile(ids, (2, 1)), lengths) for name, ids in batch.items()}
    batches = keras_bert.Batches(inputs, np.array([0, 2, 1, 1, 0, 2]), batch_size=4)

    def run(directory=None, after_save=None, start=3, dropout=0.1, kind="adamw", dtype=None, remat=False, **options):
        keras.utils.set_random_seed(start)
        rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        small = dataclasses.replace(config, num_hidden_layers=1, **rates)

        def model():
            model = keras_bert.build_classifier(keras_bert.build_encoder(small, dtype=dtype, remat=remat), 3)
            keras_bert.enable_lora(model, 2)
            run.before = [weight.numpy() for weight in model.weights]
            return model

        def optimizer(model):
            return keras_bert.create_optimizer(model, 1e-2, 3 * batches.steps, kind=kind)

        trainer = Trainer(model, optimizer, classification_loss(), directory=directory, **options)
        best = {"evaluation": batches, "best": "-loss"} if directory else {}
        trainer.fit(batches, epochs=3, save_every=2, log_every=1, after_save=after_save, **best)
        return trainer

    return run


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"dtype": "mixed_bfloat16", "remat": True, "micro_batches": 2}, marks=pytest.mark.slow),
        pytest.param({"kind": "lamb"}, marks=pytest.mark.slow),
    ],
)
def test_frozen_weights_stay_equal(train, options):
    run = train(**options)
    trained = {id(weight) for weight in run.model.trainable_weights}
    for weight, before in zip(run.model.weights, train.before, strict=True):
        assert np.array_equal(weight.numpy(), before) == (id(weight) not in trained), weight.path
    # Two moments of each trained weight.
    moments = [variable for variable in run.optimizer.variables if len(variable.shape)]
    assert sum(np.prod(variable.shape) for variable in moments) == 2 * TRAINED


@pytest.mark.slow
def test_snapshots_have_only_what_is_trained_and_resume(train, tmp_path):
    """With dropout; a resumed run equals an uninterrupted one, to the bit."""

    def cut():
        if steps_of(tmp_path / "cut" / "snapshots")[-1] == 4:
            raise KeyboardInterrupt

    whole = train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut", cut)
    shutil.copytree(tmp_path / "cut", tmp_path / "copy")
    resumed = train(tmp_path / "cut")
    for variables in (lambda run: run.model.weights, lambda run: run.optimizer.variables):
        for one, other in zip(variables(resumed), variables(whole), strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy(), err_msg=one.path)
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
    for folder, copies in (("snapshots", 3), ("best", 1)):  # With two moments of each weight.
        newest = sorted((tmp_path / "whole" / folder).iterdir())[-1]
        shapes = tf.train.load_checkpoint(str(newest / "variables")).get_variable_to_shape_map().values()
        assert sum(np.prod(shape, dtype=int) for shape in shapes if shape) == copies * TRAINED
    with pytest.raises(ValueError, match="different settings: `frozen_weights` was '.*', is '.*'. Expected the same"):
        train(tmp_path / "copy", start=4)  # Another model to start from.


@pytest.mark.slow
def test_replicas_and_micro_batches_give_the_same_weights(train, mirrored):
    one = train(dropout=0.0)
    for other in (train(dropout=0.0, strategy=mirrored), train(dropout=0.0, micro_batches=2)):
        for weight, expected in zip(other.model.weights, one.model.weights, strict=True):
            np.testing.assert_allclose(weight.numpy(), expected.numpy(), atol=1e-5, err_msg=weight.path)
