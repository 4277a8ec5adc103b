"""One training step of a replica: forward, backward, accumulation, all-reduce, clipping, update."""

import keras
import tensorflow as tf

from keras_bert.training.collectives import all_reduce, gather_rows, own_rows
from keras_bert.training.optimizer import AdamW, assign, is_narrow

_SCALE_AT_START, _STEPS_TO_DOUBLE = 2.0**15, 2000

PENALTY = "regularization"  # In the logs: the sum of regularizers and `add_loss`.

# Settings of an optimizer that `TrainStep` does not support, and the alternatives.
_UNSUPPORTED = {
    "use_ema": "Train with model.fit",
    "gradient_accumulation_steps": "Make the batches larger and set `micro_batches`",
    "loss_scale_factor": "Float16 losses are scaled automatically",
}


class TrainStep:
    """Trains on one replica's rows of a global batch. Call in `strategy.run`.

    Dropout masks are a function of (seed, step, micro-batch, replica), while Keras' generators draw the same masks on
    every replica. In float16, the loss is scaled, and steps with non-finite gradients are skipped.

    Weight regularizers are added to the loss. `add_loss` and updates of the forward pass, such as the statistics of
    BatchNormalization, depend on the rows that a layer sees: one replica without micro-batches behaves like Keras'
    `fit`; anything else raises an error when the step is traced.

    Args:
        model: the model, built in the strategy's scope.
        optimizer: an `AdamW` or a `LAMB` of this package.
        losses: list of `Loss`; their sum is minimized.
        micro_batches: int, number of parts in which the rows are processed sequentially. Defaults to 1.
        seed: int, dropout seed. Defaults to 0.
        jit_compile: bool, whether XLA compiles the forward and backward pass. Defaults to `False`.
        rewired: the model to call, with the weights of `model`. Defaults to `model`.
    """

    def __init__(self, model, optimizer, losses, micro_batches=1, seed=0, jit_compile=False, rewired=None):
        _check_optimizer(optimizer, model)
        self.model, self.optimizer, self.losses = model, optimizer, losses
        self._rewired = rewired or model
        self.micro_batches, self.seed = micro_batches, seed
        self._together = any(loss.together for loss in losses)
        if self._together and jit_compile:
            name = next(loss.name for loss in losses if loss.together)
            raise ValueError(f"`jit_compile` is not supported with a loss of all rows together. Received: {name!r}")
        self._parts = micro_batches * tf.distribute.get_strategy().num_replicas_in_sync
        self._regularized = [weight for weight in model.trainable_variables if weight.regularizer is not None]
        self._penalized = bool(self._regularized)
        self._updated = []
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
        """The names of the numbers that a call returns, available after tracing."""
        penalty, skipped = [PENALTY] if self._penalized else [], ["skipped"] if self.scaled else []
        return ["stop", *(loss.name for loss in self.losses), *penalty, "gradient_norm", "learning_rate", *skipped]

    def __call__(self, inputs, targets, weights, totals, step, stop):
        """Trains on one replica's rows; `stop` is summed too, so that all workers learn of a SIGTERM.

        Returns:
            A float32 vector, the same on each replica, see `names`.
        """
        replica = tf.distribute.get_replica_context()
        seed = tf.random.experimental.stateless_fold_in([self.seed, 0], step)
        seed = tf.random.experimental.stateless_fold_in(seed, replica.replica_id_in_sync_group)
        gradients, losses, updates = self._accumulate((inputs, targets, weights), totals, seed)
        for variable, value in zip(self._updated, updates, strict=True):
            assign(variable.value, value)
        shared = tf.concat([[stop], losses if self._penalized else losses[:-1]], 0)
        if replica.num_replicas_in_sync > 1:
            *gradients, shared = all_reduce([*gradients, shared])
        learning_rate = tf.cast(self.optimizer.learning_rate, tf.float32)
        norm, *skipped = self._update(gradients)
        return tf.concat([shared, tf.stack([norm, learning_rate, *skipped])], 0)

    def _accumulate(self, batch, totals, seed):
        """Returns gradients and losses summed over this replica's micro-batches; new values of `self._updated`."""
        if self.micro_batches == 1:
            return self._gradients(*batch, totals, self._seeds(seed, 0))
        parts = tf.nest.map_structure(self._parted, batch)

        losses, upstream = tf.zeros(len(self.losses) + 1), ()
        if self._together:
            losses, upstream = self._loss_gradients(*batch[1:], self._all_outputs(parts[0], seed), totals)
            upstream = tf.nest.map_structure(self._parted, upstream)

        def add(index, sums):
            *part, gradient = tf.nest.map_structure(lambda value: value[index], (*parts, upstream))
            gradients, losses, _ = self._gradients(*part, totals, self._seeds(seed, index), gradient or None)
            return index + 1, tf.nest.map_structure(tf.add, sums, (gradients, losses))

        zeros = [tf.zeros(weight.shape, tf.float32 if is_narrow(weight) else weight.dtype) for weight in self._weights]
        _, sums = tf.while_loop(lambda index, _: index < self.micro_batches, add, (0, (zeros, losses)))
        return *sums, []

    def _parted(self, values):
        """Reshapes `(rows, ...)` to `(micro-batches, rows of each, ...)`."""
        return tf.reshape(values, tf.concat([[self.micro_batches, -1], tf.shape(values)[1:]], 0))

    def _all_outputs(self, inputs, seed):
        """Returns the outputs for all rows of this replica's micro-batches, without what gradients need.

        The gradient cache of Gao et al., 2021: each micro-batch is computed a second time, with the same dropout, once
        the gradients of its outputs are known.
        """
        outputs = self._rewired.output

        def add(index, arrays):
            part = tf.nest.map_structure(lambda value: value[index], inputs)
            computed, _ = self._forward(part, self._seeds(seed, index))
            return index + 1, tf.nest.map_structure(lambda array, value: array.write(index, value), arrays, computed)

        arrays = tf.nest.map_structure(lambda output: tf.TensorArray(output.dtype, self.micro_batches), outputs)
        _, arrays = tf.while_loop(lambda index, _: index < self.micro_batches, add, (0, arrays))
        return tf.nest.map_structure(lambda array, output: _shaped(array.concat(), output), arrays, outputs)

    def _loss_gradients(self, targets, weights, outputs, totals):
        """Returns this replica's share of each loss term, 0 for the penalty; the gradients of its outputs."""
        targets, weights, outputs = gather_rows((targets, weights, outputs))
        with tf.GradientTape() as tape:
            tape.watch(outputs)
            losses = self._losses(targets, outputs, weights, totals)
            loss = tf.reduce_sum(losses) * (self.scale if self.scaled else 1.0)
        gradients = tape.gradient(loss, outputs, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        share = losses / tf.distribute.get_replica_context().num_replicas_in_sync
        return tf.concat([share, [0.0]], 0), own_rows(gradients)

    def _seeds(self, seed, micro_batch):
        """Returns a state for each of the model's random generators."""
        seed = tf.random.experimental.stateless_fold_in(seed, micro_batch)
        return tf.random.stateless_uniform([len(self._generators), 2], seed, None, None, tf.uint32)

    def _forward(self, inputs, seeds):
        """Returns the outputs, and the scope with the losses and the updates of the forward pass."""
        _check_inputs(self._rewired, inputs)
        states = zip(self._generators, tf.unstack(seeds, len(self._generators)), strict=True)
        with keras.StatelessScope(state_mapping=states, collect_losses=True) as scope:
            return self._rewired(inputs, training=True), scope

    def _losses(self, targets, outputs, weights, totals):
        losses = tf.stack([loss.sums(targets, outputs, weights)[0] for loss in self.losses])
        return tf.math.divide_no_nan(losses, tf.ensure_shape(totals, losses.shape))

    def _gradients(self, inputs, targets, weights, totals, seeds, upstream=None):
        """Returns dense gradients, never in 16 bits; the rows' share of each loss term, penalty last; the updates.

        With `upstream`, the gradients of the outputs, the loss terms but for the penalty are 0: they are known.
        """
        scale, known = self.scale if self.scaled else 1.0, tf.zeros(len(self.losses) + 1)
        with tf.GradientTape() as tape:
            outputs, scope = self._forward(inputs, seeds)
            if self._together and upstream is None:
                with tape.stop_recording():
                    known, upstream = self._loss_gradients(targets, weights, outputs, totals)
            penalty = self._penalty(scope.losses)
            if upstream is None:
                losses = tf.concat([self._losses(targets, outputs, weights, totals), [penalty]], 0)
                loss = tf.reduce_sum(losses) * scale
            else:
                losses = known + tf.one_hot(len(self.losses), len(self.losses) + 1, penalty)
                loss = _product(outputs, upstream) + penalty * scale
        gradients = tape.gradient(loss, self._weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        gradients = [tf.cast(gradient, tf.float32) if is_narrow(gradient) else gradient for gradient in gradients]
        return [tf.convert_to_tensor(gradient) for gradient in gradients], losses, self._updates(scope)

    def _penalty(self, added):
        """Returns this part's share of regularizers and `add_loss`."""
        if added and self._parts > 1:
            raise ValueError(
                "a layer of the model calls `add_loss` or has an `activity_regularizer`, whose sum over replicas and "
                "micro-batches may differ from that of the whole batch. Train on one replica with micro_batches=1, "
                f"or make it a `Loss`. Received: {self._received()}"
            )
        self._penalized = bool(added or self._regularized)
        penalties = [weight.regularizer(weight.value) for weight in self._regularized]
        return tf.add_n([tf.zeros([]), *(tf.reduce_sum(tf.cast(x, tf.float32)) for x in (*penalties, *added))]) / (
            self._parts
        )

    def _updates(self, scope):
        """Returns the new values of the weights that the forward pass updates, `self._updated`."""
        changed = set(scope.state_mapping) - {id(generator) for generator in self._generators}
        weights = [weight for weight in self.model.non_trainable_weights if id(weight) in changed]
        if len(weights) < len(changed):
            known = (*self.model.trainable_weights, *self.model.metrics_variables)
            found = next((variable.path for variable in known if id(variable) in changed), "the state of a generator")
            raise ValueError(
                "the forward pass of the model updates a variable that is neither a non-trainable weight nor a "
                "`keras.random.SeedGenerator` of a layer. `Trainer` would lose the update: train with model.fit. "
                f"Received: {found}"
            )
        if weights and self._parts > 1:
            raise ValueError(
                f"the forward pass of the model updates `{weights[0].path}`, which would depend on the number of "
                "replicas and micro-batches. Train on one replica with micro_batches=1, or freeze the layer. "
                f"Received: {self._received()}"
            )
        self._updated = weights
        return [scope.get_current_value(weight) for weight in weights]

    def _received(self):
        return f"replicas={self._parts // self.micro_batches}, micro_batches={self.micro_batches}"

    def _update(self, gradients):
        """Clips by the global norm and updates the weights; returns the norm and, in float16, 1 for a skipped step."""
        unscale = 1 / self.scale if self.scaled else tf.ones([])
        norm = tf.linalg.global_norm([tf.cast(gradient, tf.float32) for gradient in gradients]) * unscale
        clip = self.optimizer.global_clipnorm
        factor = unscale * (clip / tf.maximum(norm, clip) if clip else 1.0)

        def apply():
            if self.optimizer.clipnorm or self.optimizer.clipvalue:
                scaled = [gradient * tf.cast(unscale, gradient.dtype) for gradient in gradients]
                self.optimizer.apply_reduced([self._clipped(gradient) for gradient in scaled])
            else:
                self.optimizer.apply_reduced(gradients, factor)
            return 0.0

        if not self.scaled:
            apply()
            return (norm,)
        finite = tf.math.is_finite(norm)
        skipped = tf.cond(finite, apply, lambda: 1.0)
        good = tf.where(finite, self.good_steps + 1, 0)
        doubled = tf.where(good == _STEPS_TO_DOUBLE, self.scale * 2, self.scale)
        assign(self.scale, tf.where(finite, doubled, self.scale / 2))
        assign(self.good_steps, good % _STEPS_TO_DOUBLE)
        return norm, skipped

    def _clipped(self, gradient):
        """Clips one gradient by `clipnorm` or `clipvalue`."""
        norm, value = self.optimizer.clipnorm, self.optimizer.clipvalue
        if norm:
            return tf.clip_by_norm(gradient, norm)
        return tf.clip_by_value(gradient, -value, value) if value else gradient


def _check_inputs(model, inputs):
    """Raises an error if batches lack inputs of the model."""
    expected = getattr(model, "input", None)
    if not isinstance(expected, dict) or not isinstance(inputs, dict):
        return
    if missing := sorted(set(expected) - set(inputs)):
        raise ValueError(
            f"the batches lack {', '.join(missing)}. `PackedBatches` and `PackedRecords` are for "
            "`rewire=keras_bert.build_packed`, all others for a trainer without it. Received: batches with "
            f"{', '.join(sorted(inputs))}"
        )


def _product(outputs, gradients):
    """Returns the sum of the products of two structures: a loss whose gradients are given."""
    pairs = zip(tf.nest.flatten(outputs), tf.nest.flatten(gradients), strict=True)
    return tf.add_n([tf.reduce_sum(tf.cast(output * gradient, tf.float32)) for output, gradient in pairs])


def _shaped(values, output):
    return tf.ensure_shape(values, output.shape)


def _check_optimizer(optimizer, model):
    """Raises for settings that a step would ignore."""
    if not isinstance(optimizer, AdamW):
        raise ValueError(
            "`optimizer_fn` must return keras_bert's `AdamW` or `LAMB`, without a wrapper; see `create_optimizer`. "
            f"Other optimizers are for model.fit. Received: {type(optimizer).__module__}.{type(optimizer).__name__}"
        )
    for name, instead in _UNSUPPORTED.items():
        if value := getattr(optimizer, name):
            raise ValueError(
                f"`{name}` of the optimizer is not supported by `Trainer`. {instead}. Received: {name}={value!r}"
            )
    for weight in model.trainable_variables:
        if getattr(weight, "overwrite_with_gradient", False):
            raise ValueError(
                f"`Trainer` does not train models in float8; use model.fit. Received: a model with `{weight.path}`"
            )
