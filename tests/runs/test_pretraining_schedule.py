"""Schedules of runs that are extended, which are only known by their snapshots' settings."""

import json
import re

import keras
import pytest

from keras_bert.runs.pretraining_schedule import extended_schedule

FIRST = {"phases": [{"length": 16, "steps": 2, "batch": 4}], "examples": [48]}


MORE = {"phases": [{**FIRST["phases"][0], "steps": 3}, {"length": 16, "steps": 2, "batch": 8}], "examples": [48, 48]}


def write_snapshot(folder, settings, schedule, step):
    """Writes what a run leaves at a step."""
    total = sum(phase["steps"] for phase in settings["phases"])
    stored = {"optimizer": {"learning_rate": keras.saving.serialize_keras_object(schedule)}, "total_steps": total}
    path = folder / "snapshots" / f"step-{step:09}"
    path.mkdir(parents=True)
    (path / "state.json").write_text(json.dumps({"step": step, "settings": {**settings, **stored}}))


@pytest.fixture
def extended(tmp_path):
    """A run of two steps, with three more to come: its folder and its schedule."""
    write_snapshot(tmp_path, FIRST, extended_schedule(tmp_path, FIRST, 1e-4, 0.5), 2)
    return tmp_path, extended_schedule(tmp_path, MORE, 0.5, 0.5)


def test_new_steps_have_their_own_warmup_and_decay(extended):
    folder, schedule = extended
    # By hand: half of two steps, then half of three steps, rounded to two, are warmup.
    parts = [part["config"] for part in schedule.get_config()["schedules"]]
    assert [list(part.values()) for part in parts] == [[1e-4, 2, 1], [0.5, 3, 2]]
    assert [float(schedule(step)) for step in range(5)] == pytest.approx([0, 5e-5, 0, 0.25, 0.5 / 3])
    write_snapshot(folder, MORE, schedule, 4)  # A resumed extension has the same schedule.
    assert extended_schedule(folder, MORE, 0.5, 0.5).get_config() == schedule.get_config()


LARGER = [{"length": 16, "steps": 3, "batch": 8}]


SHORTER = [{"length": 16, "steps": 1, "batch": 4}, {"length": 16, "steps": 9, "batch": 4}]


@pytest.mark.parametrize("phases", [LARGER, SHORTER])
def test_a_finished_run_can_only_get_more_steps(extended, phases):
    message = "`phases`: a finished run can only get more steps in its last phase, or more phases, with the same data"
    with pytest.raises(ValueError, match=message):
        extended_schedule(extended[0], {"phases": phases, "examples": [48] * len(phases)}, 0.5, 0.5)


@pytest.mark.parametrize(
    "settings", [FIRST, {**MORE, "phases": [MORE["phases"][0], {**MORE["phases"][1], "steps": 3}]}]
)
def test_an_unfinished_run_is_finished_first(extended, settings):
    folder, schedule = extended
    write_snapshot(folder, MORE, schedule, 4)
    message = (
        f"`phases`: the run in {folder} is at step 4 of 5. Repeat its command to finish it first, with "
        "`phases=length:16,steps:3,batch:4` `phases=length:16,steps:2,batch:8`, or choose another folder"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        extended_schedule(folder, settings, 0.5, 0.5)
