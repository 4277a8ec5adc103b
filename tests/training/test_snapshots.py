"""Snapshots of variables on disk, without a run."""

import pytest
import tensorflow as tf

from keras_bert.training.snapshots import Snapshots, newest_step


@pytest.fixture
def snapshots(tmp_path):
    return Snapshots(tmp_path / "snapshots")


def save(snapshots, *steps):
    """Saves a variable whose value is the step."""
    for step in steps:
        snapshots.save(step, {"w": tf.Variable(float(step))}, {"epoch": step * 2})


def restore(snapshots, **options):
    """Returns the restored variable and state."""
    variable = tf.Variable(0.0)
    state = snapshots.restore({"w": variable}, **options)
    return variable.numpy(), state


def damage(snapshots, step):
    (path,) = snapshots.folder(step).glob("variables.data-*")
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


def test_the_newest_two_are_kept(snapshots):
    save(snapshots, 1, 2, 10)
    assert snapshots.steps() == [10, 2]
    assert restore(snapshots) == (10.0, {"step": 10, "epoch": 20})
    assert restore(snapshots, step=2) == (2.0, {"step": 2, "epoch": 4})


def test_all_are_kept(tmp_path):
    snapshots = Snapshots(tmp_path, keep=None)
    save(snapshots, 1, 2, 3)
    assert snapshots.steps() == [3, 2, 1]
    snapshots.keep_only(1)
    assert snapshots.steps() == [1]


def test_no_snapshot(snapshots):
    assert restore(snapshots) == (0.0, None)
    assert snapshots.newest() is None


def test_a_damaged_one_is_skipped(snapshots, caplog):
    save(snapshots, 1, 2)
    damage(snapshots, 2)
    assert restore(snapshots) == (1.0, {"step": 1, "epoch": 2})
    assert "step-000000002 is damaged, using the previous snapshot" in caplog.text


def test_a_check_may_refuse_a_snapshot_before_it_is_restored(snapshots):
    save(snapshots, 1)
    variable = tf.Variable(0.0)

    def refuse(state):
        raise ValueError(f"epoch {state['epoch']}")

    with pytest.raises(ValueError, match="epoch 2"):
        snapshots.restore({"w": variable}, refuse)
    assert variable.numpy() == 0


def test_other_workers_only_read(snapshots):
    save(snapshots, 1)
    reader = Snapshots(snapshots.directory, write=False)
    save(reader, 2)
    reader.keep_only()
    assert reader.steps() == [1]


def test_the_step_at_which_a_run_resumes(tmp_path, snapshots):
    assert newest_step(tmp_path) == 0
    save(snapshots, 3, 7)
    assert newest_step(tmp_path) == 7
    (snapshots.folder(7) / "state.json").write_text("{")
    assert newest_step(tmp_path) == 3
