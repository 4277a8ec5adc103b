"""The scale of float16 losses."""

import tensorflow as tf

from keras_bert.training.adamw import assign

_START, _STEPS_TO_DOUBLE = 2.0**15, 2000


class LossScale:
    """Multiplies the loss, so that small gradients do not vanish in float16 (Micikevicius et al., 2018).

    A step with gradients that are not finite is skipped and halves the scale; 2,000 others in sequence double it.
    Unless `active`, for models that compute in float16, the scale is 1, and no step is skipped.

    Attributes:
        value: the scale, a variable if active.
        variables: list of variables to save with a run.
        names: list of the names of the numbers that `update` returns.
    """

    def __init__(self, active):
        self.active, self.value, self.variables, self.names = active, 1.0, [], []
        if active:
            self.value, self._good_steps = tf.Variable(_START, trainable=False), tf.Variable(0, trainable=False)
            self.variables, self.names = [self.value, self._good_steps], ["skipped"]

    def update(self, norm, apply):
        """Calls `apply`, or skips it if the global norm of the gradients is not finite.

        If active, returns a list of 1 if skipped, else 0.
        """
        if not self.active:
            apply()
            return []

        def apply_step():
            apply()
            return 0.0

        finite = tf.math.is_finite(norm)
        skipped = tf.cond(finite, apply_step, lambda: 1.0)
        good = tf.where(finite, self._good_steps + 1, 0)
        doubled = tf.where(good == _STEPS_TO_DOUBLE, self.value * 2, self.value)
        assign(self.value, tf.where(finite, doubled, self.value / 2))
        assign(self._good_steps, good % _STEPS_TO_DOUBLE)
        return [skipped]
