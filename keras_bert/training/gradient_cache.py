"""The gradient cache (Gao et al., 2021): losses of all rows together, in several micro-batches and replicas."""

import tensorflow as tf

from keras_bert.training.collectives import gather_rows, own_rows
from keras_bert.training.losses import mean_losses


class GradientCache:
    """Computes a loss of the whole global batch, such as in-batch negatives, and the gradients of a model's outputs.

    The loss needs the outputs of all rows, while the activations of only one micro-batch fit into memory. Two passes:

    1. `outputs` computes all micro-batches and keeps only the outputs; `gradients` computes the loss and its gradients
       with respect to these.
    2. Each micro-batch is computed again, with the same dropout masks, and the backward pass continues from there: the
       weights receive the same gradients as from the whole batch.

    One micro-batch of a replica needs no first pass.
    """

    def __init__(self, losses, scale, micro_batches):
        self._losses, self._scale, self._micro_batches = losses, scale, micro_batches

    def outputs(self, forward, specs):
        """Returns the outputs for all rows of this replica, without what gradients need.

        `forward` maps the index of a micro-batch to its outputs; `specs` are the symbolic outputs of the model.
        """

        def add(index, arrays):
            return index + 1, tf.nest.map_structure(
                lambda array, value: array.write(index, value), arrays, forward(index)
            )

        arrays = tf.nest.map_structure(lambda spec: tf.TensorArray(spec.dtype, self._micro_batches), specs)
        more = {"cond": lambda index, _: index < self._micro_batches, "parallel_iterations": 1}  # See `TrainStep`.
        _, arrays = tf.while_loop(body=add, loop_vars=(0, arrays), **more)
        return tf.nest.map_structure(lambda array, spec: tf.ensure_shape(array.concat(), spec.shape), arrays, specs)

    def gradients(self, targets, weights, outputs, totals):
        """Returns this replica's share of each loss, and the gradients of its outputs, scaled."""
        targets, weights, outputs = gather_rows((targets, weights, outputs))
        with tf.GradientTape() as tape:
            tape.watch(outputs)
            losses = mean_losses(self._losses, targets, outputs, weights, totals)
            loss = tf.reduce_sum(losses) * self._scale.value
        gradients = tape.gradient(loss, outputs, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return losses / tf.distribute.get_replica_context().num_replicas_in_sync, own_rows(gradients)
