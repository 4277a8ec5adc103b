"""One training step of a replica: forward, backward, accumulation, all-reduce, clipping, update."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_bert.training.adamw import assign, is_narrow
from keras_bert.training.distribution import all_reduce, gather_rows, own_rows
from keras_bert.training.losses import mean_losses
from keras_bert.training.optimizer import check_optimizer
from keras_bert.training.schedule import linear_numbers, linear_rate

PENALTY = "regularization"  # In the logs: the sum of regularizers and `add_loss`.
# Of the scale of float16 losses: its first value, and the steps in sequence that double it.
_START = 2.0**15
_STEPS_TO_DOUBLE = 2000


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
        programs: `Programs` of several trainers, one after the other, of which each takes over the model and the
            optimizer of the last one, if its own differ in values alone. Defaults to `None`, its own.
    """

    micro_batches: int = 1
    steps_per_call: int = 10
    jit_compile: bool = False
    seed: int = 0
    rewire: Callable | None = None
    programs: Any = None


class RunInputs(NamedTuple):
    """What differs between runs of one graph, as tensors: the dropout seed, and the numbers of a linear schedule."""

    seed: tf.Tensor
    schedule: tf.Tensor


class TrainStep:
    """Trains on one replica's rows of a global batch. Call in `strategy.run`.

    Dropout masks are a function of (seed, step, micro-batch, replica), while Keras' generators draw the same masks on
    every replica. In float16, the loss is scaled, and steps with non-finite gradients are skipped, see `LossScale`.

    Weight regularizers are added to the loss. `add_loss` and updates of the forward pass, such as the statistics of
    BatchNormalization, depend on the rows that a layer sees: one replica without micro-batches behaves like Keras'
    `fit`; anything else raises an error when the step is traced.

    The model is built in the strategy's scope, the optimizer is an `AdamW` or a `LAMB` of this package, and the sum of
    the losses is minimized.
    """

    def __init__(self, model, optimizer, losses, options=StepOptions()):
        check_optimizer(optimizer, model)
        self.model = model
        self.optimizer = optimizer
        self.losses = losses
        self._rewired = model if options.rewire is None else options.rewire(model)
        self._micro_batches = options.micro_batches
        self._seed = options.seed
        self._part_count = options.micro_batches * tf.distribute.get_strategy().num_replicas_in_sync
        is_float16 = any(layer.compute_dtype == "float16" for layer in model._flatten_layers())
        self.scale = LossScale(active=is_float16)
        together = [loss.name for loss in losses if loss.together]
        if together and options.jit_compile:
            message = "`jit_compile` is not supported with a loss of all rows together."
            raise ValueError(f"{message} Received: {together[0]!r}")
        self._together = bool(together)
        trained = model.trainable_variables
        self._regularized = [weight for weight in trained if weight.regularizer is not None]
        self._penalized = bool(self._regularized)
        self._updated = []
        self._weights = [weight.value for weight in trained]
        self._generators = [v for v in model.non_trainable_variables if v.path.endswith("seed_generator_state")]
        if options.jit_compile:
            self._gradients = tf.function(self._gradients, jit_compile=True, autograph=False)

    @property
    def is_rewired(self):
        """Whether steps call another model than the one to evaluate, see `StepOptions`."""
        return self._rewired is not self.model

    @property
    def names(self):
        """The names of the numbers that a call returns, available after tracing."""
        names = ["stop"]
        names.extend(loss.name for loss in self.losses)
        if self._penalized:
            names.append(PENALTY)
        return [*names, "gradient_norm", "learning_rate", *self.scale.names]

    def run_inputs(self):
        """Returns the `RunInputs` of the present run."""
        return RunInputs(
            seed=tf.constant([self._seed, 0]),
            schedule=tf.constant(linear_numbers(self.optimizer.schedule)),
        )

    def start_over(self, seed):
        """Begins another run, with its own dropout seed: the scale of the loss is that of a first step."""
        self._seed = seed
        self.scale.start_over()

    def __call__(self, inputs, targets, weights, totals, step, stop, run):
        """Trains on one replica's rows; returns the float32 numbers of `names`, the same on each replica.

        `stop` is summed too, so that all workers learn of a SIGTERM. `run` are `RunInputs`.
        """
        replica = tf.distribute.get_replica_context()
        seed = tf.random.experimental.stateless_fold_in(run.seed, step)
        seed = tf.random.experimental.stateless_fold_in(seed, replica.replica_id_in_sync_group)
        # Gradients and losses of this replica's rows, summed over its micro-batches.
        accumulate = self._accumulate_together if self._together else self._accumulate
        gradients, losses, updates = accumulate((inputs, targets, weights), totals, seed)
        for variable, value in zip(self._updated, updates, strict=True):
            assign(variable.value, value)
        # Their sums over all replicas.
        if not self._penalized:
            losses = losses[:-1]  # Without the penalty, which comes last.
        shared = tf.concat([[stop], losses], 0)
        if replica.num_replicas_in_sync > 1:
            *gradients, shared = all_reduce([*gradients, shared])
        # One update, clipped by the norm of the summed gradients.
        return tf.concat([shared, tf.stack(self._update(gradients, run.schedule))], 0)

    def _accumulate(self, batch, totals, seed):
        """Returns the gradients, the share of each loss term, penalty last, and the new values of `self._updated`."""
        if self._micro_batches == 1:
            return self._gradients(*batch, totals, self._seeds(seed, 0))
        micro_batches = tf.nest.map_structure(self._in_micro_batches, batch)

        def compute(index):
            inputs, targets, weights = _at(micro_batches, index)
            seeds = self._seeds(seed, index)
            gradients, losses, _ = self._gradients(inputs, targets, weights, totals, seeds)
            return gradients, losses

        gradients, losses = self._sum_over_micro_batches(compute, tf.zeros(len(self.losses) + 1))
        return gradients, losses, []  # `_check_undivided` refuses models with variables to update.

    def _accumulate_together(self, batch, totals, seed):
        """Returns the same as `_accumulate` for losses of the whole global batch, such as in-batch negatives."""
        # They need the outputs of all rows, while the activations of only one micro-batch fit into memory. A first pass
        # keeps only the outputs of all micro-batches, from which the losses and the gradients of the outputs follow. A
        # second one computes each again, with the same dropout masks, and continues the backward pass from there: the
        # weights receive the same gradients as from the whole batch. One micro-batch needs no first pass.
        if self._micro_batches == 1:
            return self._gradients_together(batch, totals, seed)
        inputs, targets, weights = batch
        micro_batches = tf.nest.map_structure(self._in_micro_batches, inputs)

        def forward(index):
            return self._forward(_at(micro_batches, index), self._seeds(seed, index))

        def first_pass(index):
            outputs, _, _ = forward(index)
            return outputs

        outputs = self._all_outputs(first_pass)
        losses, output_gradients = self._output_gradients(targets, weights, outputs, totals)
        gradients_of_batches = tf.nest.map_structure(self._in_micro_batches, output_gradients)

        def second_pass(index):
            with tf.GradientTape() as tape:
                outputs, penalty, _ = forward(index)
            known = [_at(gradients_of_batches, index), self.scale.value]
            return self._weight_gradients(tape, [outputs, penalty], known), penalty

        gradients, penalty = self._sum_over_micro_batches(second_pass, tf.zeros([]))
        return gradients, tf.concat([losses, [penalty]], 0), []

    def _gradients_together(self, batch, totals, seed):
        """Returns the same as `_accumulate_together` for one micro-batch."""
        inputs, targets, weights = batch
        with tf.GradientTape() as tape:
            outputs, penalty, updates = self._forward(inputs, self._seeds(seed, 0))
        losses, output_gradients = self._output_gradients(targets, weights, outputs, totals)
        known = [output_gradients, self.scale.value]
        gradients = self._weight_gradients(tape, [outputs, penalty], known)
        return gradients, tf.concat([losses, [penalty]], 0), updates

    def _all_outputs(self, forward):
        """Returns the outputs of all micro-batches, without what gradients need; `forward` maps an index to some."""
        specs = self._rewired.output

        def created(spec):
            return tf.TensorArray(spec.dtype, self._micro_batches)

        def write(index, arrays):
            def write_one(array, value):
                return array.write(index, value)

            return tf.nest.map_structure(write_one, arrays, forward(index))

        def joined(array, spec):
            return tf.ensure_shape(array.concat(), spec.shape)

        empty = tf.nest.map_structure(created, specs)
        arrays = self._in_turn(write, empty)
        return tf.nest.map_structure(joined, arrays, specs)

    def _output_gradients(self, targets, weights, outputs, totals):
        """Returns this replica's share of each loss of all rows, and the gradients of its outputs, scaled."""
        targets, weights, outputs = gather_rows((targets, weights, outputs))
        with tf.GradientTape() as tape:
            tape.watch(outputs)
            losses = mean_losses(self.losses, targets, outputs, weights, totals)
            loss = tf.reduce_sum(losses) * self.scale.value
        gradients = tape.gradient(loss, outputs, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        replicas = tf.distribute.get_replica_context().num_replicas_in_sync
        return losses / replicas, own_rows(gradients)

    def _sum_over_micro_batches(self, compute, zero):
        """Returns the sums of the gradients and losses that `compute` returns for the index of each micro-batch."""
        zeros = []
        for weight in self._weights:
            dtype = tf.float32 if is_narrow(weight) else weight.dtype
            zeros.append(tf.zeros(weight.shape, dtype))

        def add(index, sums):
            return tf.nest.map_structure(tf.add, sums, compute(index))

        return self._in_turn(add, (zeros, zero))

    def _in_turn(self, body, state):
        """Returns the state after `body(index, state)`, the next one, for each micro-batch."""

        def is_left(index, _):
            return index < self._micro_batches

        def follow(index, state):
            return index + 1, body(index, state)

        # One at a time: the forward passes of the next ones would otherwise run meanwhile, and keep their activations.
        _, state = tf.while_loop(is_left, follow, (0, state), parallel_iterations=1)
        return state

    def _in_micro_batches(self, values):
        """Reshapes `(rows, ...)` to `(micro-batches, rows of each, ...)`."""
        return tf.reshape(values, tf.concat([[self._micro_batches, -1], tf.shape(values)[1:]], 0))

    def _seeds(self, seed, micro_batch):
        """Returns a state for each of the model's random generators."""
        seed = tf.random.experimental.stateless_fold_in(seed, micro_batch)
        return tf.random.stateless_uniform([len(self._generators), 2], seed, None, None, tf.uint32)

    def _forward(self, inputs, seeds):
        """Returns the outputs, this part's penalty, and the updates of the forward pass."""
        _check_inputs(self._rewired, inputs)
        # Keras' dropout layers draw from the states of their generators, variables that every replica would read and
        # advance alike: all replicas and, on resume, all runs would have the same masks in other places. In this scope
        # they read states that are functions of seed, step, micro-batch and replica, and variables stay untouched. It
        # can go once Keras' generators take a key.
        states = zip(self._generators, tf.unstack(seeds, len(self._generators)), strict=True)
        with keras.StatelessScope(state_mapping=states, collect_losses=True) as scope:
            outputs = self._rewired(inputs, training=True)
        return outputs, self._penalty(scope.losses), self._updates(scope)

    def _gradients(self, inputs, targets, weights, totals, seeds):
        """Returns the gradients of these rows; their share of each loss term, penalty last; the updates."""
        with tf.GradientTape() as tape:
            outputs, penalty, updates = self._forward(inputs, seeds)
            means = mean_losses(self.losses, targets, outputs, weights, totals)
            losses = tf.concat([means, [penalty]], 0)
            loss = tf.reduce_sum(losses) * self.scale.value
        return self._weight_gradients(tape, loss), losses, updates

    def _weight_gradients(self, tape, targets, target_gradients=None):
        """Returns dense gradients of the weights, never in 16 bits; the backward pass starts at the targets."""
        gradients = tape.gradient(
            targets,
            self._weights,
            target_gradients,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        dense = []
        for gradient in gradients:
            if is_narrow(gradient):
                gradient = tf.cast(gradient, tf.float32)
            dense.append(tf.convert_to_tensor(gradient))
        return dense

    def _penalty(self, added):
        """Returns this part's share of regularizers and `add_loss`."""
        if added:
            self._check_undivided(
                "a layer calls `add_loss` or has an `activity_regularizer`, whose sum", "make it a `Loss`"
            )
        self._penalized = bool(added or self._regularized)
        penalties = [weight.regularizer(weight.value) for weight in self._regularized]
        penalties.extend(added)
        terms = [tf.zeros([])]
        terms.extend(tf.reduce_sum(tf.cast(penalty, tf.float32)) for penalty in penalties)
        return tf.add_n(terms) / self._part_count

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
            self._check_undivided(f"the forward pass updates `{weights[0].path}`, which", "freeze the layer")
        self._updated = weights
        return [scope.get_current_value(weight) for weight in weights]

    def _check_undivided(self, what, instead):
        """Raises an error if a batch is split, on which `what` of the model would depend."""
        if self._part_count > 1:
            raise ValueError(
                f"{what} would depend on the number of replicas and micro-batches. Train on one replica with "
                f"micro_batches=1, or {instead}. Received: replicas={self._part_count // self._micro_batches}, "
                f"micro_batches={self._micro_batches}"
            )

    def _learning_rate(self, numbers):
        """Returns the rate of this step; of a linear schedule by its numbers in the run."""
        if numbers.shape[0]:
            return linear_rate(self.optimizer.iterations.value, numbers)
        return self.optimizer.learning_rate

    def _update(self, gradients, numbers):
        """Clips by the true global norm and updates the weights; returns it, the rate and, in float16, `skipped`."""
        learning_rate = self._learning_rate(numbers)
        optimizer = self.optimizer
        unscale = 1 / self.scale.value
        wide = [tf.cast(gradient, tf.float32) for gradient in gradients]
        norm = tf.linalg.global_norm(wide) * unscale
        factor = unscale
        clip = optimizer.global_clipnorm
        if clip:
            factor = unscale * (clip / tf.maximum(norm, clip))

        def apply():
            if not (optimizer.clipnorm or optimizer.clipvalue):
                optimizer.apply_reduced(gradients, learning_rate, factor)
                return
            scaled = [gradient * tf.cast(unscale, gradient.dtype) for gradient in gradients]
            if optimizer.clipnorm:
                clipped = [tf.clip_by_norm(gradient, optimizer.clipnorm) for gradient in scaled]
            else:
                limit = optimizer.clipvalue
                clipped = [tf.clip_by_value(gradient, -limit, limit) for gradient in scaled]
            optimizer.apply_reduced(clipped, learning_rate)

        return [norm, tf.cast(learning_rate, tf.float32), *self.scale.update(norm, apply)]


def _at(tree, index):
    """Returns one micro-batch."""
    return tf.nest.map_structure(lambda value: value[index], tree)


def _check_inputs(model, inputs):
    """Raises an error if batches lack inputs of the model."""
    expected = getattr(model, "input", None)
    if not isinstance(expected, dict) or not isinstance(inputs, dict):
        return
    missing = sorted(set(expected) - set(inputs))
    if missing:
        raise ValueError(
            f"the batches lack {', '.join(missing)}. `PackedBatches` and `PackedRecords` are for "
            "`rewire=keras_bert.models.build_packed`, all others for a trainer without it. Received: batches with "
            f"{', '.join(sorted(inputs))}"
        )


class LossScale:
    """Multiplies the loss, so that small gradients do not vanish in float16 (Micikevicius et al., 2018).

    A step with gradients that are not finite is skipped and halves the scale; 2,000 others in sequence double it.
    Unless `active`, for models that compute in float16, the scale is 1, and no step is skipped. `variables` are to be
    saved with a run; `names` are those of the numbers that `update` returns.
    """

    def __init__(self, active):
        self.value = 1.0
        self.variables = []
        self.names = []
        if active:
            self.value = tf.Variable(_START, trainable=False)
            self._good_steps = tf.Variable(0, trainable=False)
            self.variables = [self.value, self._good_steps]
            self.names = ["skipped"]

    def start_over(self):
        """Sets the scale to that of a first step."""
        if self.variables:
            self.value.assign(_START)
            self._good_steps.assign(0)

    def update(self, norm, apply):
        """Calls `apply`, or skips it if the norm is not finite; if active, returns a list of 1 if skipped, else 0."""
        if not self.variables:
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
