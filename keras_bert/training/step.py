"""One training step of one replica: forward, backward, accumulation, one all-reduce, clip, one update."""

import keras
import tensorflow as tf

from keras_bert.training.release import all_reduce

_SCALE_AT_START, _STEPS_TO_DOUBLE = 2.0**15, 2000


class TrainStep:
    """What every replica does with its rows of a global batch. Call it in `strategy.run`.

    Dropout masks are a function of (seed, step, micro-batch, replica): Keras' own generators draw the same on every
    replica. In float16 the loss is scaled, and a step whose gradient is not finite is skipped.

    Args:
        model: the model, built in the strategy's scope.
        optimizer: an `AdamW` or a `LAMB` of this package.
        losses: list of `Loss`; their sum is minimised.
        micro_batches: in how many parts, one after the other, the rows are computed.
        seed: of the dropout.
        jit_compile: whether XLA compiles forward and backward.
    """

    def __init__(self, model, optimizer, losses, micro_batches=1, seed=0, jit_compile=False):
        self.model, self.optimizer, self.losses = model, optimizer, losses
        self.micro_batches, self.seed = micro_batches, seed
        self._weights = [weight.value for weight in model.trainable_variables]
        self._generators = [v for v in model.non_trainable_variables if v.path.endswith("seed_generator_state")]
        if jit_compile:
            self._gradients = tf.function(self._gradients, jit_compile=True, autograph=False)
        self.scaled = any(layer.compute_dtype == "float16" for layer in model._flatten_layers())
        self.variables = []
        if self.scaled:
            self.scale = tf.Variable(_SCALE_AT_START, trainable=False)
            self.good_steps = tf.Variable(0, trainable=False)
            self.variables = [self.scale, self.good_steps]

    @property
    def names(self):
        """Of the numbers that a call returns."""
        skipped = ["skipped"] if self.scaled else []
        return ["stop", *(loss.name for loss in self.losses), "gradient_norm", "learning_rate", *skipped]

    def __call__(self, inputs, targets, weights, totals, step, stop):
        """Trains on one replica's rows; `stop` is handed on, so that all workers know if one was told to stop.

        Returns:
            float32 numbers, the same on each replica, see `names`.
        """
        replica = tf.distribute.get_replica_context()
        seed = tf.random.experimental.stateless_fold_in([self.seed, 0], step)
        seed = tf.random.experimental.stateless_fold_in(seed, replica.replica_id_in_sync_group)
        gradients, losses = self._accumulate((inputs, targets, weights), totals, seed)
        shared = tf.concat([[stop], losses], 0)
        if replica.num_replicas_in_sync > 1:
            *gradients, shared = all_reduce([*gradients, shared])
        learning_rate = tf.cast(self.optimizer.learning_rate, tf.float32)
        norm, *skipped = self._update(gradients)
        return tf.concat([shared, tf.stack([norm, learning_rate, *skipped])], 0)

    def _accumulate(self, batch, totals, seed):
        """Gradients and losses of all micro-batches of this replica, summed."""
        if self.micro_batches == 1:
            return self._gradients(*batch, totals, self._seeds(seed, 0))
        parts = tf.nest.map_structure(
            lambda value: tf.reshape(value, tf.concat([[self.micro_batches, -1], tf.shape(value)[1:]], 0)), batch
        )

        def add(index, sums):
            part = tf.nest.map_structure(lambda value: value[index], parts)
            gradients, losses = self._gradients(*part, totals, self._seeds(seed, index))
            return index + 1, tf.nest.map_structure(tf.add, sums, (gradients, losses))

        start = ([tf.zeros(weight.shape, weight.dtype) for weight in self._weights], tf.zeros(len(self.losses)))
        _, sums = tf.while_loop(lambda index, _: index < self.micro_batches, add, (0, start))
        return sums

    def _seeds(self, seed, micro_batch):
        """A state for each of the model's random generators."""
        seed = tf.random.experimental.stateless_fold_in(seed, micro_batch)
        return tf.random.stateless_uniform([len(self._generators), 2], seed, None, None, tf.uint32)

    def _gradients(self, inputs, targets, weights, totals, seeds):
        """Dense gradients and the terms of the loss, both of these rows' share in the global batch."""
        states = zip(self._generators, tf.unstack(seeds, len(self._generators)), strict=True)
        with tf.GradientTape() as tape:
            with keras.StatelessScope(state_mapping=states):
                outputs = self.model(inputs, training=True)
            losses = tf.stack(
                [
                    tf.reduce_sum(
                        tf.cast(loss.values(targets, outputs), tf.float32) * loss.row_weights(targets, weights)
                    )
                    for loss in self.losses
                ]
            )
            losses = tf.math.divide_no_nan(losses, tf.ensure_shape(totals, losses.shape))
            loss = tf.reduce_sum(losses) * (self.scale if self.scaled else 1.0)
        gradients = tape.gradient(loss, self._weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return [tf.convert_to_tensor(gradient) for gradient in gradients], losses

    def _update(self, gradients):
        """Clips by the norm of the whole gradient and updates the weights; the norm, and 1 if a step was skipped."""
        unscale = 1 / self.scale if self.scaled else tf.ones([])
        norm = tf.linalg.global_norm([tf.cast(gradient, tf.float32) for gradient in gradients]) * unscale
        clip = self.optimizer.global_clipnorm
        factor = unscale * (clip / tf.maximum(norm, clip) if clip else 1.0)

        def apply():
            self.optimizer.apply_reduced([gradient * tf.cast(factor, gradient.dtype) for gradient in gradients])
            return 0.0

        if not self.scaled:
            apply()
            return (norm,)
        finite = tf.math.is_finite(norm)
        skipped = tf.cond(finite, apply, lambda: 1.0)
        good = tf.where(finite, self.good_steps + 1, 0)
        doubled = tf.where(good == _STEPS_TO_DOUBLE, self.scale * 2, self.scale)
        _assign(self.scale, tf.where(finite, doubled, self.scale / 2))
        _assign(self.good_steps, good % _STEPS_TO_DOUBLE)
        return norm, skipped


def _assign(variable, value):
    """Assigns this replica's copy: `variable.assign` would wait for the other replicas."""
    tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)
