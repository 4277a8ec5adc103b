"""TensorFlow graph features beyond `keras.ops`: custom gradients and remat without leaks, and a run-time check."""

import functools

import keras
from keras import ops

# The only backend-specific file of the layers: only TensorFlow needs more than `keras.ops` provides.
if keras.config.backend() == "tensorflow":
    import tensorflow as tf
    from tensorflow.python.eager import record
    from tensorflow.python.ops import control_flow_util

_WIDE = 512


def custom_gradient(function):
    """A `keras.ops.custom_gradient` that does not leak deleted models.

    TensorFlow keeps every custom gradient in a global registry, and with it the graph and the model. Here, the gradient
    belongs to an operation of the graph, like the gradient of a function call. A SavedModel contains the plain
    operations instead, which any program can differentiate.

    `function` takes tensors but no variables; it returns a tensor and a function from the upstream gradient to those of
    the arguments.
    """

    @ops.custom_gradient
    def outside_graphs(*tensors):
        result, gradient = function(*tensors)

        def backward(*args, upstream=None):
            # The PyTorch backend passes the arguments and `upstream`, the others only the upstream gradient.
            if upstream is None:
                upstream = args[0]
            return gradient(upstream)

        return result, backward

    @functools.wraps(function)
    def wrapper(*tensors):
        if not _in_graph():
            return outside_graphs(*tensors)
        tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
        result, gradient = function(*tensors)
        return _attach([result], tensors, lambda upstream: tf.nest.flatten(gradient(upstream)))[0]

    return wrapper


def compiled(function):
    """Compiles an elementwise function of one shape by XLA in TensorFlow graphs: one pass over memory instead of many.

    A forward and a backward GELU of 4,096 rows of width 1,024 take 3 ms instead of 14 in bfloat16. The compilation of
    each shape takes 70 ms, so that tensors with a width under `_WIDE` are not compiled.
    """
    if keras.config.backend() != "tensorflow":  # The others compile the whole model.
        return function
    in_one_pass = tf.function(function, jit_compile=True, autograph=False, reduce_retracing=True)

    @functools.wraps(function)
    def wrapper(*tensors):
        shape = tensors[0].shape
        if not _in_graph() or not shape.rank or (shape[-1] or 0) < _WIDE:
            return function(*tensors)
        return tf.ensure_shape(in_one_pass(*tensors), shape)

    return wrapper


def remat(function):
    """A `keras.remat` that does not leak deleted models, for a deterministic function of tensors.

    The result keeps only its arguments for the backward pass, which calls `function` again; it may read variables.
    """

    def wrapper(*inputs):
        if not _in_graph():
            return keras.remat(function)(*inputs)
        with tf.GradientTape() as tape:
            results = function(*inputs)
        variables = tape.watched_variables()

        def backward(*upstream):
            with tf.GradientTape() as tape:
                # Depends on the gradient; otherwise compilers would merge both copies of the operations.
                again = []
                for tensor in inputs:
                    zero = tf.cast(_zero_after(upstream[0]), tensor.dtype)
                    again.append(tensor + zero)
                tape.watch(again)
                repeated = function(*again)
            sources = [*again, *variables]
            return tape.gradient(tf.nest.flatten(repeated), sources, upstream, tf.UnconnectedGradients.ZERO)

        # Convert here, where the caller's tapes record it.
        tensors = [tf.convert_to_tensor(value) for value in (*inputs, *variables)]
        return tf.nest.pack_sequence_as(results, _attach(tf.nest.flatten(results), tensors, backward))

    return wrapper


def in_parts(function, inputs, specs, *, is_there, most, size, variables, generators):
    """Returns the outputs of a function for many rows; in TensorFlow graphs, it is called on parts of them.

    The rows that are not there are left out, and their outputs are zeros. The backward pass computes each part again,
    so that memory has the activations of one part. Up to `most` rows are computed at once, whether they are there or
    not, and other backends always do so.

    Args:
        function: maps a dict of tensors `(rows, ...)` to a dict of floats `(rows, ...)`, each row by itself.
        inputs: dict of tensors `(rows, ...)`, which have no gradients.
        specs: dict of the outputs as symbolic tensors. A free axis behind that of the rows is that of the inputs.
        is_there: bool `(rows,)`.
        most: int, the number of rows up to which all are computed at once, and only once. `None` for graphs that
            have no backward pass: they are traced once then.
        size: int, the largest number of rows of a part, at least one is taken; all parts have equally many.
        variables: list of all Keras variables that `function` reads, besides the states of the generators.
        generators: list of the `keras.random.SeedGenerator`s that it draws from. Each part has seeds of its own.
    """
    if not _in_graph():
        return function(inputs)
    seeds = [generator.next() for generator in generators]

    def compute(part, index, values):
        """Calls the function with values of the variables: it reads tensors, and loops need not know of variables."""
        states = list(zip(variables, values, strict=True))
        for generator, seed in zip(generators, seeds, strict=True):
            of_part = tf.stack([tf.cast(index, seed.dtype), tf.zeros([], seed.dtype)])
            states.append((generator.state, seed + of_part))
        return _stateless(function, part, states)

    values = [tf.convert_to_tensor(variable.value) for variable in variables]
    trained = [number for number, variable in enumerate(variables) if variable.trainable]
    rows = _RowsInParts(compute, inputs, specs, is_there, size, trained)
    if most is None:
        return rows.outputs(values)
    is_small = ops.shape(is_there)[0] <= most
    if is_small is True:
        return compute(inputs, 0, values)
    if is_small is False:
        return rows.outputs(values)
    if control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        return rows.outputs(values)  # XLA does not compile the gradient of a condition whose shapes it must know.
    at_once = tf.function(lambda: compute(inputs, 0, values), autograph=False)
    # The gradient of a condition does not find what `custom_gradient` keeps, that of a function call does.
    return tf.cond(is_small, at_once, lambda: rows.outputs(values))


def _stateless(function, inputs, states):
    """Returns the outputs of a function that reads given values of Keras variables, and changes none."""
    with keras.StatelessScope(state_mapping=states, collect_losses=True) as scope:
        before = dict(scope.state_mapping)
        outputs = function(inputs)
    generators = set()
    for variable, _ in states:
        if variable.path.endswith("seed_generator_state"):
            generators.add(id(variable))
    changed = []
    for index, value in scope.state_mapping.items():
        if index not in generators and before.get(index) is not value:
            changed.append(index)
    if scope.losses or changed:
        raise ValueError(
            "a model of windows must not have layers that call `add_loss` or update variables in the forward pass, "
            "such as BatchNormalization: each part of a batch would do so. Expected a `Loss`, or another layer"
        )
    return outputs


class _RowsInParts:
    """The rows of `in_parts`, those that are there first, in parts of `size` rows."""

    def __init__(self, compute, inputs, specs, is_there, size, trained):
        self._compute = compute
        self._trained = trained  # The numbers of the values that have gradients.
        self._specs = specs
        self._is_there = is_there
        rows = tf.size(is_there)
        self._count = -(-rows // tf.maximum(size, 1))
        self._size = -(-rows // tf.maximum(self._count, 1))
        self._needed = -(-tf.reduce_sum(tf.cast(is_there, tf.int32)) // tf.maximum(self._size, 1))
        order = tf.argsort(tf.cast(is_there, tf.int32), direction="DESCENDING", stable=True)
        self._place = tf.argsort(order)  # Of each row among the ordered ones.
        self._inputs = {}
        for name, values in inputs.items():
            self._inputs[name] = self._parted(tf.gather(values, order))

    def _parted(self, values):
        """Reshapes `(rows, ...)` to `(parts, size, ...)`, with zeros at the end."""
        lacking = self._count * self._size - tf.shape(values)[0]
        widths = [[0, lacking]]
        widths += [[0, 0]] * len(values.shape[1:])
        shape = tf.concat([[self._count, self._size], tf.shape(values)[1:]], 0)
        return tf.reshape(tf.pad(values, widths), shape)

    def _part(self, index):
        return {name: values[index] for name, values in self._inputs.items()}

    def outputs(self, values):
        """Returns the outputs of all rows, a dict of `(rows, ...)`, given the values of the variables."""
        # The operations of the forward pass must not be recorded: `_attach` tells their gradient.
        with record.stop_recording():
            parts = self._forward(values)
        names = sorted(parts)
        attached = _attach([parts[name] for name in names], values, self._backward(names, values))
        outputs = {}
        for name, of_parts in zip(names, attached, strict=True):
            flat = tf.reshape(of_parts, tf.concat([[-1], tf.shape(of_parts)[2:]], 0))
            of_rows = tf.gather(flat, self._place)
            of_rows = tf.ensure_shape(of_rows, [None, *self._specs[name].shape[1:]])
            ones = [1] * len(of_rows.shape[1:])
            is_there = tf.reshape(self._is_there, [-1, *ones])
            outputs[name] = tf.where(is_there, of_rows, tf.zeros([], of_rows.dtype))
        return outputs

    def _forward(self, values):
        """Returns the outputs of the parts, a dict of `(parts, size, ...)`."""
        buffers = {}
        axes = tf.unstack(tf.shape(next(iter(self._inputs.values()))))[2:]
        for name, spec in self._specs.items():
            sizes = []
            for place, size in enumerate(spec.shape[1:]):
                if size is None:  # A free axis is that of the inputs.
                    size = axes[place]
                sizes.append(size)
            buffers[name] = tf.zeros([self._count, self._size, *sizes], spec.dtype)

        def with_part(index, buffers):
            outputs = self._compute(self._part(index), index, values)
            filled = {}
            for name, buffer in buffers.items():
                filled[name] = tf.tensor_scatter_nd_update(buffer, [[index]], outputs[name][tf.newaxis])
            return index + 1, filled

        return self._in_turn(with_part, buffers)

    def _backward(self, names, values):
        """Returns the function from the gradients of the outputs, in the order of their names, to those of values."""

        def backward(*upstream):
            def with_part(index, sums):
                upstream_of_part = [gradient[index] for gradient in upstream]
                gradients = self._part_gradients(index, names, upstream_of_part, values)
                totals = [total + gradient for total, gradient in zip(sums, gradients, strict=True)]
                return index + 1, totals

            zeros = [tf.zeros_like(values[number]) for number in self._trained]
            gradients = [None] * len(values)
            for number, gradient in zip(self._trained, self._in_turn(with_part, zeros), strict=True):
                gradients[number] = gradient
            return gradients

        return backward

    def _part_gradients(self, index, names, upstream, values):
        """Returns the gradients of the trained values from one part, whose outputs are computed again."""
        sources = [tf.identity(values[number]) for number in self._trained]
        watched = list(values)
        for number, source in zip(self._trained, sources, strict=True):
            watched[number] = source
        with tf.GradientTape() as tape:
            tape.watch(sources)
            outputs = self._compute(self._part(index), index, watched)
        targets = [outputs[name] for name in names]
        gradients = tape.gradient(targets, sources, upstream, tf.UnconnectedGradients.ZERO)
        return [tf.convert_to_tensor(gradient) for gradient in gradients]

    def _in_turn(self, with_part, state):
        """Returns the state after all parts with rows that are there, one at a time, for the sake of memory."""
        _, final = tf.while_loop(
            lambda index, _: index < self._needed,
            with_part,
            (0, state),
            parallel_iterations=1,
        )
        return final


def expect_at_most(tensor, size, limit, message):
    """Returns the tensor; a TensorFlow graph raises an error with `message` if `size` exceeds `limit` at run time.

    XLA drops the check, and other backends do not have it.
    """
    if not _in_graph():
        return tensor
    check = tf.raw_ops.Assert(condition=size <= limit, data=[message, size])
    with tf.control_dependencies([check]):
        return tf.identity(tensor)


def _in_graph():
    return keras.config.backend() == "tensorflow" and not tf.executing_eagerly()


def _attach(results, tensors, backward):
    """Returns the results as outputs of an operation on `tensors` whose gradient is `backward`."""

    def gradient(*upstream):
        return [None] * len(results) + list(backward(*upstream[: len(results)]))

    nodes = [*results, *tensors]
    with record.stop_recording():
        outputs = tf.identity_n(nodes)
    # Tapes use the record; gradients of graphs, such as loops and functions, use the operation.
    record.record_operation("IdentityN", outputs, nodes, gradient)
    outputs[0].op._gradient_function = lambda _, *upstream: gradient(*upstream)
    return outputs[: len(results)]


def _zero_after(tensor):
    """Returns a scalar 0 that depends on the tensor; NaN if the first value is NaN."""
    first = tf.reshape(tensor, [-1])[:1]
    return tf.reduce_min(tf.minimum(tf.abs(first), 0))
