"""AdamW (Loshchilov & Hutter, 2019) in one pass over weights, moments and gradients."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="keras_bert")
class AdamW(keras.optimizers.AdamW):
    """`keras.optimizers.AdamW` with the update of each weight in one kernel of TensorFlow's.

    Keras composes the update of a dozen operations, each a pass over memory. The numbers are the same to rounding,
    but for embeddings: where a token is repeated in a batch, Keras squares the rows of its gradient before it adds
    them, in the second moment and in the global norm. It runs eagerly, in `fit` and under `tf.distribute`.

    Example:
        model.compile(keras_bert.AdamW(3e-5, weight_decay=0.01, global_clipnorm=1.0), loss)
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.amsgrad:
            raise ValueError("`amsgrad` is not supported. Received: amsgrad=True; use keras.optimizers.AdamW")

    def _clip_gradients(self, grads):
        if not self.global_clipnorm:
            return super()._clip_gradients(grads)
        # Dense first, so that the rows of a repeated token are added.
        grads = [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in grads]
        return tf.clip_by_global_norm(grads, self.global_clipnorm)[0]

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        step = tf.cast(self.iterations + 1, variable.dtype)
        scalars = (learning_rate, self.beta_1, self.beta_2, self.epsilon)
        learning_rate, beta_1, beta_2, epsilon = (tf.cast(scalar, variable.dtype) for scalar in scalars)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=beta_1**step,
            beta2_power=beta_2**step,
            lr=learning_rate,
            beta1=beta_1,
            beta2=beta_2,
            epsilon=epsilon,
            grad=tf.cast(tf.convert_to_tensor(gradient), variable.dtype),
        )
