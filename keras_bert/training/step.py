"""One training step of a replica: forward, backward, accumulation, all-reduce, clipping, update."""

import dataclasses
from collections.abc import Callable

import keras
import tensorflow as tf

from keras_bert.training.adamw import AdamW, assign, is_narrow
from keras_bert.training.collectives import all_reduce
from keras_bert.training.gradient_cache import GradientCache, product
from keras_bert.training.loss_scale import LossScale
from keras_bert.training.losses import mean_losses

PENALTY = "regularization"  # In the logs: the sum of regularizers and `add_loss`.

# Settings of an optimizer that `TrainStep` does not support, and the alternatives.
_UNSUPPORTED = {
    "use_ema": "Train with model.fit",
    "gradient_accumulation_steps": "Make the batches larger and set `micro_batches`",
    "loss_scale_factor": "Float16 losses are scaled automatically",
}


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """How training steps are computed.

    Args:
        micro_batches: int, number of parts in which a replica processes its rows sequentially. Defaults to 1.
        steps_per_call: int, steps per call of the training graph. Defaults to 10.
        jit_compile: bool, whether XLA compiles the forward and backward pass. Not needed on TPU. Defaults to `False`.
        seed: int, dropout seed. Defaults to 0.
        rewire: function that takes the model and returns the one that training steps call, with the same weights, such
            as `build_packed`. The model itself is evaluated. Defaults to `None`, the model.
    """

    micro_batches: int = 1
    steps_per_call: int = 10
    jit_compile: bool = False
    seed: int = 0
    rewire: Callable | None = None


class TrainStep:
    """Trains on one replica's rows of a global batch. Call in `strategy.run`.

    Dropout masks are a function of (seed, step, micro-batch, replica), while Keras' generators draw the same masks on
    every replica. In float16, the loss is scaled, and steps with non-finite gradients are skipped, see `LossScale`. A
    loss of all rows together needs a `GradientCache`.

    Weight regularizers are added to the loss. `add_loss` and updates of the forward pass, such as the statistics of
    BatchNormalization, depend on the rows that a layer sees: one replica without micro-batches behaves like Keras'
    `fit`; anything else raises an error when the step is traced.

    Args:
        model: the model, built in the strategy's scope.
        optimizer: an `AdamW` or a `LAMB` of this package.
        losses: list of `Loss`; their sum is minimized.
        options: a `StepOptions`.
    """

    def __init__(self, model, optimizer, losses, options=StepOptions()):
        _check_optimizer(optimizer, model)
        self.model, self.optimizer, self.losses = model, optimizer, losses
        self._rewired = model if options.rewire is None else options.rewire(model)
        self._micro_batches, self._seed = options.micro_batches, options.seed
        self._parts = options.micro_batches * tf.distribute.get_strategy().num_replicas_in_sync
        self.scale = LossScale(any(layer.compute_dtype == "float16" for layer in model._flatten_layers()))
        together = [loss.name for loss in losses if loss.together]
        if together and options.jit_compile:
            message = "`jit_compile` is not supported with a loss of all rows together."
            raise ValueError(f"{message} Received: {together[0]!r}")
        self._cache = GradientCache(losses, self.scale, options.micro_batches) if together else None
        self._regularized = [weight for weight in model.trainable_variables if weight.regularizer is not None]
        self._penalized = bool(self._regularized)
        self._updated = []
        self._weights = [weight.value for weight in model.trainable_variables]
        self._generators = [v for v in model.non_trainable_variables if v.path.endswith("seed_generator_state")]
        if options.jit_compile:
            self._gradients = tf.function(self._gradients, jit_compile=True, autograph=False)

    @property
    def names(self):
        """The names of the numbers that a call returns, available after tracing."""
        penalty = [PENALTY] if self._penalized else []
        names = [loss.name for loss in self.losses]
        return ["stop", *names, *penalty, "gradient_norm", "learning_rate", *self.scale.names]

    def __call__(self, inputs, targets, weights, totals, step, stop):
        """Trains on one replica's rows; `stop` is summed too, so that all workers learn of a SIGTERM.

        Returns:
            A float32 vector, the same on each replica, see `names`.
        """
        replica = tf.distribute.get_replica_context()
        seed = tf.random.experimental.stateless_fold_in([self._seed, 0], step)
        seed = tf.random.experimental.stateless_fold_in(seed, replica.replica_id_in_sync_group)
        gradients, losses, updates = self._accumulate((inputs, targets, weights), totals, seed)
        for variable, value in zip(self._updated, updates, strict=True):
            assign(variable.value, value)
        shared = tf.concat([[stop], losses if self._penalized else losses[:-1]], 0)
        if replica.num_replicas_in_sync > 1:
            *gradients, shared = all_reduce([*gradients, shared])
        learning_rate = tf.cast(self.optimizer.learning_rate, tf.float32)
        return tf.concat([shared, tf.stack(self._update(gradients, learning_rate))], 0)

    def _accumulate(self, batch, totals, seed):
        """Returns gradients and losses summed over this replica's micro-batches; new values of `self._updated`."""
        if self._micro_batches == 1:
            return self._gradients(*batch, totals, self._seeds(seed, 0))
        inputs, targets, weights = tf.nest.map_structure(self._parted, batch)
        losses, upstream = tf.zeros(len(self.losses) + 1), ()
        if self._cache:  # The first pass: the gradients of the outputs of all micro-batches.
            outputs = self._cache.outputs(
                lambda index: self._forward(_at(inputs, index), self._seeds(seed, index))[0], self._rewired.output
            )
            known, upstream = self._cache.gradients(*batch[1:], outputs, totals)
            losses, upstream = _with_penalty(known, 0.0), tf.nest.map_structure(self._parted, upstream)

        def add(index, sums):
            *part, gradient = _at((inputs, targets, weights, upstream), index)
            gradients, losses, _ = self._gradients(*part, totals, self._seeds(seed, index), gradient or None)
            return index + 1, tf.nest.map_structure(tf.add, sums, (gradients, losses))

        # The second pass, or without a cache the only one: the gradients of the weights, summed.
        zeros = [tf.zeros(weight.shape, tf.float32 if is_narrow(weight) else weight.dtype) for weight in self._weights]
        _, sums = tf.while_loop(lambda index, _: index < self._micro_batches, add, (0, (zeros, losses)))
        return *sums, []

    def _parted(self, values):
        """Reshapes `(rows, ...)` to `(micro-batches, rows of each, ...)`."""
        return tf.reshape(values, tf.concat([[self._micro_batches, -1], tf.shape(values)[1:]], 0))

    def _seeds(self, seed, micro_batch):
        """Returns a state for each of the model's random generators."""
        seed = tf.random.experimental.stateless_fold_in(seed, micro_batch)
        return tf.random.stateless_uniform([len(self._generators), 2], seed, None, None, tf.uint32)

    def _forward(self, inputs, seeds):
        """Returns the outputs, and the scope with the losses and the updates of the forward pass."""
        _check_inputs(self._rewired, inputs)
        # Keras' dropout layers draw from the states of their generators, variables that every replica would read and
        # advance alike: all replicas and, on resume, all runs would have the same masks in other places. In this scope
        # they read states that are functions of seed, step, micro-batch and replica, and variables stay untouched. It
        # can go once Keras' generators take a key.
        states = zip(self._generators, tf.unstack(seeds, len(self._generators)), strict=True)
        with keras.StatelessScope(state_mapping=states, collect_losses=True) as scope:
            return self._rewired(inputs, training=True), scope

    def _gradients(self, inputs, targets, weights, totals, seeds, upstream=None):
        """Returns dense gradients, never in 16 bits; the rows' share of each loss term, penalty last; the updates.

        With `upstream`, the gradients of the outputs, the loss terms but for the penalty are 0: they are known.
        """
        known, scale = tf.zeros(len(self.losses)), self.scale.value
        with tf.GradientTape() as tape:
            outputs, scope = self._forward(inputs, seeds)
            penalty = self._penalty(scope.losses)
            if self._cache and upstream is None:
                with tape.stop_recording():
                    known, upstream = self._cache.gradients(targets, weights, outputs, totals)
            if upstream is None:
                losses = _with_penalty(mean_losses(self.losses, targets, outputs, weights, totals), penalty)
                loss = tf.reduce_sum(losses) * scale
            else:
                losses = _with_penalty(known, penalty)
                loss = product(outputs, upstream) + penalty * scale
        gradients = tape.gradient(loss, self._weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        gradients = [tf.cast(gradient, tf.float32) if is_narrow(gradient) else gradient for gradient in gradients]
        return [tf.convert_to_tensor(gradient) for gradient in gradients], losses, self._updates(scope)

    def _penalty(self, added):
        """Returns this part's share of regularizers and `add_loss`."""
        if added:
            self._check_parts(
                "a layer calls `add_loss` or has an `activity_regularizer`, whose sum", "make it a `Loss`"
            )
        self._penalized = bool(added or self._regularized)
        penalties = [*(weight.regularizer(weight.value) for weight in self._regularized), *added]
        penalties = [tf.reduce_sum(tf.cast(penalty, tf.float32)) for penalty in penalties]
        return tf.add_n([tf.zeros([]), *penalties]) / self._parts

    def _updates(self, scope):
        """Returns the new values of the weights that the forward pass updates, `self._updated`."""
        changed = set(scope.state_mapping) - {id(generator) for generator in self._generators}
        weights = [weight for weight in self.model.non_trainable_weights if id(weight) in changed]
        if len(weights) < len(changed):
            known = (*self.model.trainable_weights, *self.model.metrics_variables)
            path = next((variable.path for variable in known if id(variable) in changed), "the state of a generator")
            raise ValueError(
                "the forward pass of the model updates a variable that is neither a non-trainable weight nor a "
                "`keras.random.SeedGenerator` of a layer. `Trainer` would lose the update: train with model.fit. "
                f"Received: {path}"
            )
        if weights:
            self._check_parts(f"the forward pass updates `{weights[0].path}`, which", "freeze the layer")
        self._updated = weights
        return [scope.get_current_value(weight) for weight in weights]

    def _check_parts(self, what, instead):
        """Raises an error if a batch is split, on which `what` of the model would depend."""
        if self._parts > 1:
            raise ValueError(
                f"{what} would depend on the number of replicas and micro-batches. Train on one replica with "
                f"micro_batches=1, or {instead}. Received: replicas={self._parts // self._micro_batches}, "
                f"micro_batches={self._micro_batches}"
            )

    def _update(self, gradients, learning_rate):
        """Clips the summed gradients by their true global norm and updates the weights.

        Returns:
            The norm before clipping, the learning rate, and in float16 whether the step was skipped.
        """
        unscale = 1 / self.scale.value
        norm = tf.linalg.global_norm([tf.cast(gradient, tf.float32) for gradient in gradients]) * unscale
        clip = self.optimizer.global_clipnorm
        factor = unscale * (clip / tf.maximum(norm, clip) if clip else 1.0)

        def apply():
            if self.optimizer.clipnorm or self.optimizer.clipvalue:
                scaled = [gradient * tf.cast(unscale, gradient.dtype) for gradient in gradients]
                self.optimizer.apply_reduced([self._clipped(gradient) for gradient in scaled])
            else:
                self.optimizer.apply_reduced(gradients, factor)

        return [norm, learning_rate, *self.scale.update(norm, apply)]

    def _clipped(self, gradient):
        """Clips one gradient by `clipnorm` or `clipvalue`."""
        norm, value = self.optimizer.clipnorm, self.optimizer.clipvalue
        return tf.clip_by_norm(gradient, norm) if norm else tf.clip_by_value(gradient, -value, value)


def _at(tree, index):
    """Returns one micro-batch."""
    return tf.nest.map_structure(lambda value: value[index], tree)


def _with_penalty(losses, penalty):
    return tf.concat([losses, [penalty]], 0)


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


def _check_optimizer(optimizer, model):
    """Raises an error for settings that a step would ignore."""
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
