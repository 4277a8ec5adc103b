"""The learning rate of a pre-training run, also of one that goes on after a finished one in its folder."""

import pathlib

import keras

from keras_bert.training.schedule import LinearSchedule, SequentialSchedule
from keras_bert.training.snapshots import Snapshots


def extended_schedule(directory, settings, learning_rate, warmup):
    """Returns the learning rate schedule of a pre-training run.

    A finished run in the directory continues if there are more steps, in the last phase or in new ones: with its
    weights and its optimizer's moments, and with a warm-up, a share of the new steps, and a decay of its own over
    these. `settings` has the `phases` and `examples`, those of each.
    """
    steps = sum(phase["steps"] for phase in settings["phases"])
    earlier = []
    if directory is not None:
        earlier = _earlier_schedules(pathlib.Path(directory), settings, steps)
    new_steps = steps - sum(schedule.total_steps for schedule in earlier)
    schedule = LinearSchedule(learning_rate, new_steps, warmup_steps=round(warmup * new_steps))
    if not earlier:
        return schedule
    return SequentialSchedule([*earlier, schedule])


def _earlier_schedules(directory, settings, steps):
    """Returns the schedules of the parts before the last one."""
    snapshot = Snapshots(directory / "snapshots", write=False).newest()
    if snapshot is None:
        return []
    stored = snapshot["settings"]
    schedule = keras.saving.deserialize_keras_object(stored["optimizer"]["learning_rate"])
    schedules = [schedule]
    if isinstance(schedule, SequentialSchedule):
        schedules = schedule.schedules
    if steps == stored["total_steps"]:
        return schedules[:-1]  # The same run, which resumes in its last part.
    _check_finished(directory, snapshot)
    if steps < stored["total_steps"]:
        return []  # Another run, which `Trainer` refuses.
    _check_extension(directory, stored, settings)
    return schedules


def _check_finished(directory, snapshot):
    """Raises for a run that is not finished, and so cannot be extended."""
    step = snapshot["step"]
    stored = snapshot["settings"]
    total = stored["total_steps"]
    if step < total:
        phases = " ".join(f"`phases={_phase_text(phase)}`" for phase in stored["phases"])
        raise ValueError(
            f"`phases`: the run in {directory} is at step {step:,} of {total:,}. Repeat its command to finish it "
            f"first, with {phases}, or choose another folder"
        )


def _check_extension(directory, stored, settings):
    """Raises for settings that do not begin like the stored ones of the finished run."""
    count = len(stored["phases"])
    begin = [dict(phase) for phase in settings["phases"][:count]]
    if len(begin) == count:
        # The last phase may have more steps now.
        begin[-1]["steps"] = min(begin[-1]["steps"], stored["phases"][-1]["steps"])
    if begin != stored["phases"] or settings["examples"][:count] != stored["examples"]:
        raise ValueError(
            f"`phases`: a finished run can only get more steps in its last phase, or more phases, with the same data. "
            f"Expected it to begin like the run in {directory}: {_settings_text(stored)}. "
            f"Received: {_settings_text(settings)}"
        )


def _settings_text(settings):
    """Returns the phases and the numbers of their examples as text."""
    texts = []
    for phase, examples in zip(settings["phases"], settings["examples"], strict=True):
        texts.append(f"{_phase_text(phase)} of {examples:,} examples")
    return "; ".join(texts)


def _phase_text(phase):
    return ",".join(f"{name}:{value}" for name, value in phase.items())
