"""Snapshots, best weights and early stopping, without training."""

import dataclasses
import shutil

import keras
import pytest
import tensorflow as tf

from keras_bert.data.batch_source import Stream
from keras_bert.training import run_state
from tests.training.small_run import steps_of

NAN = float("nan")


@dataclasses.dataclass
class Result:
    """A run after its last step."""

    state: run_state.RunState
    variable: keras.Variable
    step: int

    @property
    def weight(self):
        return float(self.variable[0, 0])


def run(directory, scores=(), metric="score", patience=None, save_every=1):
    """Resumes a run whose weight is its step number; scores are numbers, or pairs of score and loss."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, name="dense")], name="model")
    (weight,) = model.weights
    selection = run_state.Selection(metric, patience, losses=["loss"])
    state = run_state.RunState(directory, tf.distribute.get_strategy(), model, {}, {}, selection)
    step = state.restore()
    for score in scores:
        if state.done:
            break
        step += 1
        weight.assign([[step]])
        loss = 1.0
        if isinstance(score, tuple):
            score, loss = score
        state.update(step, {"score": score, "loss": loss})
        if step % save_every == 0:
            state.save(step, None)
    return Result(state, weight, step)


@pytest.mark.parametrize(
    ("scores", "options", "best", "last", "undefined"),
    [
        ([0.1, 0.5, 0.4, 0.3, 0.9], {"patience": 2}, 2, 4, []),
        ([0.4, 0.1, 0.3], {"metric": "-score"}, 2, 3, []),
        # Of equal scores, the one with the lower loss.
        ([(0.5, 2.0), (0.5, 1.0), (0.4, 0.1), (0.5, 1.0)], {"patience": 2}, 2, 4, []),
        ([(0.5, 1.0), (0.5, NAN)], {"metric": "-score"}, 1, 2, []),
        # NaN is worse than any number.
        ([0.3, NAN, 0.2, 0.4, 0.1, NAN], {}, 4, 6, [2, 6]),
        ([NAN, NAN, 0.2, 0.4, 0.1, 0.3], {"patience": 3}, 4, 6, [1, 2]),
        ([NAN, NAN, 0.2], {"patience": 2}, 2, 2, [1, 2]),  # The last step, since there is no best one.
        ([NAN] * 3, {}, 3, 3, [1, 2, 3]),
    ],
)
def test_best_weights_and_patience(tmp_path, caplog, scores, options, best, last, undefined):
    result = run(tmp_path, scores, **options)
    result.state.finish()
    assert result.weight == best
    assert result.state.result["step"] == best
    assert result.step == last
    messages = [f"`score` is NaN at step {step}, which counts as worse than any number" for step in undefined]
    if best in undefined:
        messages.append("`score` was NaN at every evaluation: the model keeps the weights of the last step")
    assert caplog.messages == messages


def test_a_new_run_removes_the_best_of_an_old_one(tmp_path):
    run(tmp_path, [0.1, 0.2, 0.9])
    shutil.rmtree(tmp_path / "snapshots")
    state = run(tmp_path, [0.1, 0.3, 0.2]).state
    assert state.result == {"score": 0.3, "loss": 1.0, "step": 2}
    assert steps_of(tmp_path / "best") == [2]


def test_a_resumed_run_keeps_the_best_of_its_snapshot(tmp_path):
    """Interrupted after two better scores since the snapshot of step 3; after resuming, they are worse."""
    run(tmp_path, [0.5, 0.1, 0.1, 0.6, 0.7], save_every=3)
    result = run(tmp_path, [0.2, 0.1, 0.2], save_every=3)
    result.state.finish()
    assert result.weight == 1
    assert result.state.result == {"score": 0.5, "loss": 1.0, "step": 1}
    assert result.step == 6
    best = tmp_path / "best"
    assert steps_of(best) == [1]
    (best / "step-000000001").rename(best / "step-000000009")
    with pytest.raises(ValueError, match="has no weights of step 1, the best step of the run to resume. Restore"):
        run(tmp_path)
    assert steps_of(best) == [9]  # Nothing is removed.


def test_a_damaged_snapshot_falls_back_to_the_previous_one(tmp_path, caplog):
    run(tmp_path, [0.9, 0.1, 0.95])  # The previous snapshot refers to other best weights.
    assert steps_of(tmp_path / "snapshots") == [2, 3]
    assert steps_of(tmp_path / "best") == [1, 3]
    path = tmp_path / "snapshots" / "step-000000003" / "variables.data-00000-of-00001"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    resumed = run(tmp_path)
    assert resumed.weight == 2
    assert resumed.step == 2
    assert "step-000000003 is damaged, using the previous snapshot" in caplog.text
    for path in (tmp_path / "snapshots").glob("*/state.json"):
        path.write_text("{")
    with pytest.raises(ValueError, match="has no readable snapshot. Remove it to start over"):
        run(tmp_path)


class Frozen:
    """A run of a dense layer, whose kernel is frozen or not."""

    def __init__(self, directory, kernel, frozen=True):
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, name="dense")], name="model")
        (self.layer,) = model.layers
        self.layer.kernel.assign([[kernel]])
        self.layer.kernel.trainable = not frozen
        batches = Stream(tf.data.Dataset.range(1))
        settings = run_state.run_settings({}, batches, 1, {}, keras.optimizers.SGD(), model)
        self.state = run_state.RunState(directory, tf.distribute.get_strategy(), model, {}, settings)
        self.step = self.state.restore()


def test_frozen_weights_are_not_saved(tmp_path):
    """A snapshot without them resumes only with equal ones."""
    first = Frozen(tmp_path, kernel=2.0)
    first.layer.bias.assign([5.0])
    first.state.save(1, None)
    variables = tf.train.load_checkpoint(str(tmp_path / "snapshots" / "step-000000001" / "variables"))
    assert list(variables.get_variable_to_shape_map()) == ["model/1/model/dense/bias"]
    resumed = Frozen(tmp_path, kernel=2.0)
    assert float(resumed.layer.kernel[0, 0]) == 2.0
    assert float(resumed.layer.bias[0]) == 5.0
    assert resumed.step == 1
    with pytest.raises(ValueError, match="`frozen_weights` was '.*', is '.*'. Expected the same settings to resume it"):
        Frozen(tmp_path, kernel=2.5)


def test_a_snapshot_of_all_weights_is_not_resumed_with_frozen_ones(tmp_path):
    Frozen(tmp_path, kernel=2.0, frozen=False).state.save(1, None)
    with pytest.raises(ValueError, match="`frozen_weights` is set only now"):
        Frozen(tmp_path, kernel=2.0)


def test_a_score_that_is_not_computed(tmp_path):
    with pytest.raises(ValueError, match="`best` must be one of score, loss, or '-' and a name. Received: best='f1'"):
        run(tmp_path, [0.1], "f1")


def test_workers_with_different_snapshots(tmp_path, monkeypatch):
    monkeypatch.setattr(run_state, "sum_over_replicas", lambda strategy, number: number + 4.0)
    with pytest.raises(ValueError, match="the workers found different snapshots, this one of step 0. Expected"):
        run(tmp_path)
