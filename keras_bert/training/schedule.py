"""Learning rate schedules: BERT's linear warm-up and decay (appendix A.2), the Transformer's, functions, sequences."""

import keras
import numpy as np
from keras import ops

from keras_bert.checks import check_count, check_not_negative, first_line


@keras.saving.register_keras_serializable(package="keras_bert")
class LinearSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Rises from 0 over `warmup_steps`, then follows the line from `learning_rate` at step 0 to 0 at `total_steps`.

    The decay counts from step 0, as in Google's code: the first step after the warm-up has
    `1 - warmup_steps / total_steps` of the rate.

    Args:
        learning_rate: float, peak learning rate without warm-up.
        total_steps: int, the step at which the rate reaches 0.
        warmup_steps: int, number of warm-up steps. Defaults to 0.

    Example:
        LinearSchedule(1e-4, total_steps=1_000_000, warmup_steps=10_000)
    """

    def __init__(self, learning_rate: float, total_steps: int, *, warmup_steps: int = 0):
        super().__init__()
        check_not_negative("learning_rate", learning_rate)
        check_count("total_steps", total_steps)
        if not 0 <= warmup_steps <= total_steps:
            raise ValueError(
                "`warmup_steps` must be between 0 and `total_steps`. "
                f"Received: warmup_steps={warmup_steps}, total_steps={total_steps}"
            )
        self.learning_rate = learning_rate
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        decay = 1 - ops.minimum(step, self.total_steps) / self.total_steps
        warmup = step / max(self.warmup_steps, 1)
        return self.learning_rate * ops.where(step < self.warmup_steps, warmup, decay)

    def get_config(self):
        return dict(vars(self))


@keras.saving.register_keras_serializable(package="keras_bert")
class InverseSquareRootSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly to `learning_rate` at step `warmup_steps`, then falls with the inverse square root of the step.

    The schedule of Vaswani et al., 2017, section 5.3, whose peak is `(hidden_size * warmup_steps) ** -0.5`. Steps count
    from 1.

    Args:
        learning_rate: float, peak learning rate.
        warmup_steps: int, number of warm-up steps. Defaults to 4000.

    Example:
        InverseSquareRootSchedule((512 * 4000) ** -0.5)
    """

    def __init__(self, learning_rate: float, warmup_steps: int = 4000):
        super().__init__()
        if warmup_steps < 1:
            raise ValueError(f"`warmup_steps` must be at least 1. Received: warmup_steps={warmup_steps}")
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1
        warmup = step / self.warmup_steps
        decay = ops.sqrt(self.warmup_steps / step)
        return self.learning_rate * ops.minimum(warmup, decay)

    def get_config(self):
        return dict(vars(self))


@keras.saving.register_keras_serializable(package="keras_bert")
class FunctionSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate as a function of the step, a float32 tensor that counts from 0."""

    def __init__(self, function):
        super().__init__()
        if isinstance(function, dict):
            function = keras.saving.deserialize_keras_object(function)
        self.function = function
        try:
            self._rate(0)
        except Exception as error:  # Functions of users raise many types.
            wanted = "a number, or a function of the step that returns one"
            message = f"`learning_rate` must be {wanted}. Received: {first_line(error)}"
            raise ValueError(message) from error

    def __call__(self, step):
        return self.function(ops.cast(step, "float32"))

    def _rate(self, step):
        return float(ops.convert_to_numpy(self(step)))

    def rates(self):
        """Returns the rates at some steps: two functions are the same if these are."""
        steps = [0]
        for power in range(21):
            steps.append(2**power)
        return [self._rate(step) for step in steps]

    def get_config(self):
        return {"function": keras.saving.serialize_keras_object(self.function)}


@keras.saving.register_keras_serializable(package="keras_bert")
class SequentialSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Schedules one after the other, each with its own warm-up and decay: for runs that are extended.

    Configs from `keras.saving.serialize_keras_object` may stand for schedules.

    Example:
        SequentialSchedule([LinearSchedule(1e-4, 10_000, warmup_steps=100), LinearSchedule(5e-5, 2_000)])
    """

    def __init__(self, schedules):
        super().__init__()
        self.schedules = []
        for schedule in schedules:
            if isinstance(schedule, dict):
                schedule = keras.saving.deserialize_keras_object(schedule)
            self.schedules.append(schedule)
        if not self.schedules:
            raise ValueError("`schedules` must not be empty. Received: schedules=[]")

    @property
    def total_steps(self):
        return sum(schedule.total_steps for schedule in self.schedules)

    def __call__(self, step):
        rate = self.schedules[0](step)
        start = 0
        for before, schedule in zip(self.schedules, self.schedules[1:], strict=False):
            start += before.total_steps
            later_rate = schedule(ops.maximum(step - start, 0))
            rate = ops.where(ops.cast(step, "float32") < start, rate, later_rate)
        return rate

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {"schedules": [serialize(schedule) for schedule in self.schedules]}


def linear_numbers(schedule):
    """Returns the numbers of a `LinearSchedule` for `linear_rate`, float32; none for any other schedule.

    A graph that takes them as an input serves all schedules which differ in them alone.
    """
    if type(schedule) is not LinearSchedule:
        return np.zeros(0, "float32")
    rate = np.float32(schedule.learning_rate)
    total = np.float32(schedule.total_steps)
    warmup = np.float32(schedule.warmup_steps)
    return np.stack([rate, total, 1 / total, warmup, 1 / np.maximum(warmup, 1)])


def linear_rate(step, numbers):
    """Returns the rate of a `LinearSchedule` at a step, given its `linear_numbers` as a tensor."""
    # In a graph, TensorFlow replaces divisions by a constant by products with its reciprocal. With the reciprocals
    # among the numbers, the rates are to the bit those of a graph that has the schedule as constants.
    rate, total, inverse_total, warmup, inverse_warmup = ops.unstack(numbers, 5)
    step = ops.cast(step, "float32")
    decay = 1 - ops.minimum(step, total) * inverse_total
    return rate * ops.where(step < warmup, step * inverse_warmup, decay)
