"""Pre-training that continues after its last step: the learning rate schedule of each part."""

import pathlib

import keras

from keras_bert.training.schedule import LinearSchedule, SequentialSchedule
from keras_bert.training.snapshots import Snapshots

EXTENDABLE = ("phases", "examples")  # Settings that an extension adds to.


def extended_schedule(directory, settings, learning_rate, warmup):
    """Returns the learning rate schedule of a pre-training run.

    A finished run in the directory continues if there are more steps, in the last phase or in new ones: with its
    weights and its optimizer's moments, and with a warm-up and a decay of its own over the additional steps.

    Args:
        directory: path of the run; `None` for a run that is not kept.
        settings: dict with `phases`, dicts with `length`, `steps` and `batch`, and `examples`, the examples of each.
        learning_rate: float, peak learning rate of the new steps.
        warmup: float, fraction of the new steps used for warm-up.
    """
    steps = sum(phase["steps"] for phase in settings["phases"])
    earlier = [] if directory is None else _earlier_schedules(pathlib.Path(directory), settings, steps)
    steps -= sum(schedule.total_steps for schedule in earlier)
    schedule = LinearSchedule(learning_rate, steps, warmup_steps=round(warmup * steps))
    return SequentialSchedule([*earlier, schedule]) if earlier else schedule


def _earlier_schedules(directory, settings, steps):
    """Returns the schedules of the parts before the last one."""
    found = Snapshots(directory / "snapshots", write=False).newest()
    if found is None:
        return []
    before, total = found["settings"], found["settings"]["total_steps"]
    schedule = keras.saving.deserialize_keras_object(before["optimizer"]["learning_rate"])
    parts = schedule.schedules if isinstance(schedule, SequentialSchedule) else [schedule]
    if steps != total:
        _check_finished(directory, found)
    if steps > total:
        _check_extension(directory, before, settings)
        return parts
    # Fewer steps are another run, which `Trainer` refuses.
    return parts[:-1] if steps == total else []


def _check_finished(directory, found):
    step, total = found["step"], found["settings"]["total_steps"]
    if step < total:
        phases = " ".join(f"--phase={_phase_text(phase)}" for phase in found["settings"]["phases"])
        raise ValueError(
            f"--phase: the run in {directory} is at step {step:,} of {total:,}. Repeat its command to finish it first, "
            f"with {phases}, or choose another --output_dir"
        )


def _check_extension(directory, before, settings):
    count = len(before["phases"])
    steps = before["phases"][-1]["steps"]
    last = settings["phases"][count - 1 : count]
    same = [*settings["phases"][: count - 1], *({**phase, "steps": min(steps, phase["steps"])} for phase in last)]
    if same != before["phases"] or settings["examples"][:count] != before["examples"]:
        raise ValueError(
            f"--phase: a finished run can only get more steps in its last phase, or more phases, with the same data. "
            f"Expected it to begin like the run in {directory}: {_text(before)}. Received: {_text(settings)}"
        )


def _text(settings):
    pairs = zip(settings["phases"], settings["examples"], strict=True)
    return "; ".join(f"{_phase_text(phase)} of {examples:,} examples" for phase, examples in pairs)


def _phase_text(phase):
    return ",".join(f"{name}:{value}" for name, value in phase.items())
