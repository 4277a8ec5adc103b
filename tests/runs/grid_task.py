"""A stand-in of a task, for grids whose runs train nothing."""

import types

from keras_bert.tasks.base import Start
from keras_bert.tasks.logits import mean_logits


def stand_in_task():
    """Returns what a grid reads of a task, which cannot be rehearsed."""
    report = types.SimpleNamespace(metric="f1", combine=mean_logits, can_combine=True, warnings=[], facts={})
    return types.SimpleNamespace(
        title="Mine",
        report=report,
        training=types.SimpleNamespace(rates_width=None),
        precision=None,
        origins={},
        run_settings={},
        start=Start("start", None),
    )
