"""AdamW (Loshchilov & Hutter, 2019) and LAMB (You et al., 2020), as used to train BERT."""

import functools

import keras
from keras import ops

_HAS_KERNEL = keras.config.backend() == "tensorflow"
if _HAS_KERNEL:
    import tensorflow as tf

_NARROW = ("float16", "bfloat16")
_LARGE = 2**16  # Weights with as many values are updated by XLA.


@keras.saving.register_keras_serializable(package="keras_bert")
class AdamW(keras.optimizers.AdamW):
    """`keras.optimizers.AdamW` with the update of each weight in one operation on TensorFlow.

    Keras composes the update from a dozen operations, each a pass over memory, which other backends fuse. The results
    follow the paper: Keras adds epsilon before the bias correction, and squares the gradient rows of a repeated token
    before summing them. Works eagerly, in `fit`, in `Trainer` and under `tf.distribute`.

    Its variables are never in 16 bits. Weights in float16 or bfloat16 have a float32 copy, which is updated and then
    rounded: most updates are smaller than the spacing of 16-bit numbers.

    Args:
        bias_correction: bool, whether to correct the bias of the moments. Google's BERT does not. Defaults to `True`.
        undecayed: list of paths of the weights without weight decay; set by `create_optimizer`. Defaults to `()`.
        rates: dict of learning rate multipliers by path, 1 for weights not listed. Defaults to `None`.
        *args, **kwargs: as in `keras.optimizers.AdamW`.

    Example:
        model.compile(keras_bert.AdamW(3e-5, weight_decay=0.01, global_clipnorm=1.0), loss)
    """

    _is_fused = _HAS_KERNEL

    def __init__(self, *args, bias_correction=True, undecayed=(), rates=None, **kwargs):
        super().__init__(*args, **kwargs)
        if self.amsgrad:
            raise ValueError("`amsgrad` is not supported. Received: amsgrad=True; use keras.optimizers.AdamW")
        if isinstance(self._learning_rate, keras.Variable) and is_narrow(self._learning_rate):
            raise ValueError(
                "`learning_rate` must not be in 16 bits. For a model in 16 bits use keras.config.set_dtype_policy. "
                f"Received: keras.config.floatx()={keras.config.floatx()!r}"
            )
        self.bias_correction = bias_correction
        self.undecayed = list(undecayed)
        self.rates = dict(rates or {})

    def build(self, variables):
        if self.built:
            return
        if self.use_ema and any(map(is_narrow, variables)):
            raise ValueError("`use_ema` is not supported for weights in 16 bits. Received: use_ema=True")
        super().build(variables)
        self._copies = []  # `None` for the weights that are not in 16 bits.
        for variable in variables:
            copy = None
            if is_narrow(variable):
                copy = self.add_variable_from_reference(variable, "copy")
            self._copies.append(copy)
        self._paths = [variable.path for variable in variables]
        unknown = {*self.undecayed, *self.rates} - set(self._paths)
        if unknown:
            raise ValueError(
                f"the optimizer was created for another model: {sorted(unknown)[0]!r} is not one of the weights to "
                "train. Create it after the model is built and weights are frozen"
            )

    def add_variable(self, shape, initializer="zeros", dtype=None, **options):
        """Like in Keras, but never in 16 bits."""
        dtype = keras.backend.standardize_dtype(dtype)
        if dtype in _NARROW:
            dtype = "float32"
        return super().add_variable(shape, initializer, dtype, **options)

    def apply(self, grads, trainable_variables=None):
        cast = tf.cast if _HAS_KERNEL else ops.cast  # Gradients of tables are sparse on TensorFlow.
        wide = []
        for grad in grads:
            if grad is not None and is_narrow(grad):
                grad = cast(grad, "float32")
            wide.append(grad)
        super().apply(wide, trainable_variables)

    @property
    def schedule(self):
        """The learning rate schedule; `None` for a constant rate."""
        if isinstance(self._learning_rate, keras.optimizers.schedules.LearningRateSchedule):
            return self._learning_rate
        return None

    def start_over(self, schedule):
        """Forgets all steps, as if the optimizer was just built, and follows another learning rate schedule."""
        for variable in self.variables:
            variable.assign(ops.zeros_like(variable))
        self._learning_rate = schedule

    def apply_reduced(self, gradients, learning_rate, factor=1.0):
        """Updates this replica's copy of the weights; gradients must already be summed over replicas and clipped.

        Clipping may be left to `factor`, by which all gradients are multiplied.
        """
        for gradient, variable in zip(gradients, self._trainable_variables, strict=True):
            self.update_step(gradient, variable.value, learning_rate, factor)
            if variable.constraint is not None:
                assign(variable.value, variable.constraint(tf.convert_to_tensor(variable.value)))
        iterations = self.iterations.value
        one = tf.ones([], iterations.dtype)
        tf.raw_ops.AssignAddVariableOp(resource=iterations.handle, value=one)

    def _clip_gradients(self, grads):
        """Clips only for `model.fit`, before its all-reduce; `TrainStep` clips by the norm over all replicas."""
        if not _HAS_KERNEL:
            return super()._clip_gradients(grads)
        if self.global_clipnorm or self.clipnorm or self.clipvalue:
            # Dense first, so that the rows of a repeated token are summed.
            grads = [_dense_or_none(gradient) for gradient in grads]
        if self.global_clipnorm:
            clipped, _ = tf.clip_by_global_norm(grads, self.global_clipnorm)
            return clipped
        return super()._clip_gradients(grads)

    def _apply_weight_decay(self, variables):
        """Does nothing: `update_step` decays weights, since it knows their learning rates."""

    def update_step(self, gradient, variable, learning_rate, factor=1.0):
        index = self._get_variable_index(variable)
        weight = self._exact(variable)
        state = (weight, _local(self._momentums[index]), _local(self._velocities[index]))
        scalars = self._scalars(variable, weight.dtype, learning_rate)
        gradient = _dense(gradient, weight.dtype)
        factor = ops.cast(factor, weight.dtype)
        if self._is_fused:
            self._fused_update(state, gradient, factor, scalars)
        else:
            self._composed_update(variable, state, gradient, factor, scalars)
        if weight is not variable:  # The float32 copy is rounded to its 16-bit variable.
            assign(variable, ops.cast(weight, variable.dtype))

    def _fused_update(self, state, gradient, factor, scalars):
        """Updates a weight and its moments in one operation of TensorFlow."""
        learning_rate, beta_1, beta_2, decay, power_1, power_2 = scalars
        weight, m, v = state
        if weight.shape.num_elements() >= _LARGE:
            scalars = (
                learning_rate,
                beta_1,
                beta_2,
                decay or 0.0,
                power_1,
                power_2,
                self.epsilon,
                factor,
            )
            tensors = [tf.convert_to_tensor(scalar, weight.dtype) for scalar in scalars]
            update = _compiled_update(weight.shape, weight.dtype)
            update(weight.handle, m.handle, v.handle, gradient, tensors)
            return
        if decay is not None:
            decrease = weight * (decay * learning_rate)
            tf.raw_ops.AssignSubVariableOp(resource=weight.handle, value=decrease)
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=m.handle,
            v=v.handle,
            beta1_power=power_1,
            beta2_power=power_2,
            lr=learning_rate,
            beta1=beta_1,
            beta2=beta_2,
            epsilon=self.epsilon * tf.sqrt(1 - power_2),  # The kernel adds it before bias correction.
            grad=gradient * factor,
        )

    def _composed_update(self, variable, state, gradient, factor, scalars):
        """Updates a weight and its moments by operations of any backend."""
        learning_rate, beta_1, beta_2, decay, power_1, power_2 = scalars
        weight, m, v = state
        scaled = gradient * factor
        step, m_next, v_next = _adam(m, v, scaled, beta_1, beta_2, power_1, power_2, self.epsilon)
        if decay is not None:
            step += decay * weight
        step = self._scaled(step, weight, variable)
        weight_next = weight - learning_rate * step
        assign(m, m_next)
        assign(v, v_next)
        assign(weight, weight_next)

    def _scaled(self, step, weight, variable):
        """Returns the step of a weight; subclasses scale it."""
        return step

    def _exact(self, variable):
        """Returns the variable to update: for 16 bits the float32 copy, refreshed if the variable was set elsewhere."""
        copy = self._copies[self._get_variable_index(variable)]
        if copy is None:
            return variable
        copy = _local(copy)
        narrow = ops.convert_to_tensor(variable)
        is_same = ops.equal(ops.cast(copy, narrow.dtype), narrow)
        assign(copy, ops.where(is_same, copy, ops.cast(narrow, "float32")))
        return copy

    def _scalars(self, variable, dtype, learning_rate):
        """Returns learning rate, betas, weight decay or None, and powers of the betas (0 without bias correction)."""
        learning_rate = ops.cast(learning_rate, dtype) * self.rates.get(self._path(variable), 1.0)
        beta_1 = ops.convert_to_tensor(self.beta_1, dtype)
        beta_2 = ops.convert_to_tensor(self.beta_2, dtype)
        step = float("inf")
        if self.bias_correction:
            step = ops.cast(self.iterations + 1, dtype)
        decay = None
        if self.weight_decay and self._decays(variable):
            decay = self.weight_decay
        return learning_rate, beta_1, beta_2, decay, beta_1**step, beta_2**step

    def _path(self, variable):
        return self._paths[self._get_variable_index(variable)]

    def _decays(self, variable):
        """Returns whether weight decay applies to a weight, even if the decay is 0."""
        return self._path(variable) not in self.undecayed and self._use_weight_decay(variable)

    def get_config(self):
        config = super().get_config()
        config["bias_correction"] = self.bias_correction
        config["undecayed"] = self.undecayed
        config["rates"] = self.rates
        return config

    def get_config_without_schedule(self):
        """Returns `get_config` with a learning rate of `None`: Keras cannot serialize each function of a schedule."""
        schedule = self._learning_rate
        self._learning_rate = None
        try:
            return self.get_config()
        finally:
            self._learning_rate = schedule


@keras.saving.register_keras_serializable(package="keras_bert")
class LAMB(AdamW):
    """AdamW with each update scaled to the norm of the weight, for large batches.

    The norm of the update includes weight decay, as in the paper. Weights excluded from weight decay are not scaled, as
    in its authors' code; all others are scaled even with `weight_decay=0`.

    Args:
        fused: list of paths of the weights that combine query, key and value: each part has its own trust ratio.
        *args, **kwargs: as in `AdamW`.

    Example:
        optimizer = create_optimizer(model, 6e-3, total_steps=7000, warmup_steps=2000, kind="lamb")
    """

    _is_fused = False

    def __init__(self, *args, fused=(), **kwargs):
        super().__init__(*args, **kwargs)
        self.fused = list(fused)

    def _scaled(self, step, weight, variable):
        """Scales the step to the norm of the weight, separately for query, key and value."""
        if not self._decays(variable):
            return step
        parts = 3 if self._path(variable) in self.fused else 1
        width = step.shape[-1] if len(step.shape) else 1
        shape = [-1, parts, width // parts]
        weight_parts = ops.reshape(weight, shape)
        step_parts = ops.reshape(step, shape)
        weight_norm = _norm_of_parts(weight_parts)
        step_norm = _norm_of_parts(step_parts)
        are_positive = (weight_norm > 0) & (step_norm > 0)
        ratio = ops.where(are_positive, ops.divide_no_nan(weight_norm, step_norm), 1.0)
        return ops.reshape(step_parts * ratio, step.shape)

    def get_config(self):
        config = super().get_config()
        config["fused"] = self.fused
        return config


def _norm_of_parts(values):
    """Returns the norm of each part, `(1, parts, 1)`, of values `(rows, parts, width)`."""
    return ops.sqrt(ops.sum(ops.square(values), axis=(0, 2), keepdims=True))


def _adam(m, v, gradient, beta_1, beta_2, power_1, power_2, epsilon):
    """Returns the step of Adam, before weight decay and learning rate, and the next moments."""
    m = beta_1 * m + (1 - beta_1) * gradient
    v = beta_2 * v + (1 - beta_2) * ops.square(gradient)
    return m / (1 - power_1) / (ops.sqrt(v / (1 - power_2)) + epsilon), m, v


@functools.cache
def _compiled_update(shape, dtype):
    """Returns a function compiled by XLA that updates a weight of this shape."""
    # One pass over memory for clipping, weight decay and Adam. TensorFlow's kernel of Adam needs further passes for the
    # first two: on two cores it takes 16 ms for 12 million values, this function 9 ms. Small weights would not repay
    # its compilation. It can go once Keras fuses its optimizers on TensorFlow.

    def update(weight, m, v, gradient, scalars):
        learning_rate, beta_1, beta_2, decay, power_1, power_2, epsilon, factor = scalars
        old = tf.raw_ops.ReadVariableOp(resource=weight, dtype=dtype)
        old_m = tf.raw_ops.ReadVariableOp(resource=m, dtype=dtype)
        old_v = tf.raw_ops.ReadVariableOp(resource=v, dtype=dtype)
        scaled = gradient * factor
        step, m_next, v_next = _adam(
            old_m,
            old_v,
            scaled,
            beta_1,
            beta_2,
            power_1,
            power_2,
            epsilon,
        )
        weight_next = old - learning_rate * (step + decay * old)
        tf.raw_ops.AssignVariableOp(resource=weight, value=weight_next)
        tf.raw_ops.AssignVariableOp(resource=m, value=m_next)
        tf.raw_ops.AssignVariableOp(resource=v, value=v_next)

    return tf.function(update, jit_compile=True, autograph=False)


def assign(variable, value):
    """Assigns; on TensorFlow, only this replica's copy."""
    # Under a strategy, `variable.assign` makes all replicas wait for each other, once for every weight. The gradients
    # are already equal on all replicas, and so are the new values. It can go once `tf.distribute` has mirrored
    # variables that are assigned without synchronization.
    if _HAS_KERNEL:
        tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)
    else:
        variable.assign(value)


def _local(variable):
    """Returns what `assign` takes: on TensorFlow, this replica's copy of a Keras variable."""
    return variable.value if _HAS_KERNEL else variable


def _dense_or_none(gradient):
    return None if gradient is None else tf.convert_to_tensor(gradient)


def _dense(gradient, dtype):
    """Returns a gradient in a type; rows of tables, which are sparse on TensorFlow, become a whole table."""
    if _HAS_KERNEL:
        return tf.convert_to_tensor(tf.cast(gradient, dtype))
    return ops.cast(gradient, dtype)


def is_narrow(value):
    """Returns whether a variable or tensor is in 16 bits."""
    return keras.backend.standardize_dtype(value.dtype) in _NARROW
