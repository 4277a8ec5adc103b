"""Serving signatures, and batches computed in groups of similar length."""

import functools

import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.text.graph_checks import require
from keras_bert.text.token_counts import STRONGEST_END, STRONGEST_START
from keras_bert.text.viewed_texts import outputs_in_parts

_WINDOWS = 256  # Windows to compute at once where texts are: more would only need more memory.
_OWN_LENGTH = ("source", "target", "mask")  # How the names of inputs begin whose length is not that of the others.


def texts(answer, *names):
    """Wraps a function of a dict in a `tf.function` with string inputs `(batch,)` of these names."""
    specs = [tf.TensorSpec([None], tf.string, name) for name in names]

    def signature(*values):
        return answer(dict(zip(names, values, strict=True)))

    return tf.function(signature, input_signature=specs, autograph=False)


def text_with_lists(answer, name):
    """Wraps a function of texts `(batch,)` and of lists of strings, `(batch, values)`, with `""` for absent ones."""
    specs = [tf.TensorSpec([None], tf.string, "text"), tf.TensorSpec([None, None], tf.string, name)]
    return tf.function(answer, input_signature=specs, autograph=False)


def not_empty(lists, name):
    """Returns lists of strings, `(batch, values)`, in which there must be values."""
    has_values = tf.debugging.Assert(tf.shape(lists)[1] > 0, [f"`{name}` must not be empty lists"])
    with tf.control_dependencies([has_values]):
        return tf.identity(lists)


def speaks_for_class(logits, of_texts):
    """Returns how much windows spoke for the classes of their texts: the logarithms of their probabilities."""
    return tf.gather(tf.nn.log_softmax(logits), tf.argmax(of_texts, -1), batch_dims=1)


def speaks_for_label(logits, of_texts):
    """Returns how much windows spoke for the most probable labels of their texts: their logits."""
    return tf.gather(logits, tf.argmax(of_texts, -1), batch_dims=1)


def outputs_of_texts(run, preprocessor, inputs, deciding=None, speaks=None):
    """Returns the outputs for strings, or for pairs of them, a row for each text, and the numbers of their tokens.

    `run` maps model inputs to a dict of outputs `(sequences, ...)`. Of a text with several windows, the outputs are the
    means of theirs; of `deciding`, the output with the logits of classes, the logarithms of the means of exponentials.
    The numbers then also tell where the strongest window is: `speaks` maps the logits of windows and those of their
    texts, `(windows, classes)` each, to how much each window spoke for the answer, `(windows,)`.
    """
    if not preprocessor.reads_windows:
        packed, counts = preprocessor.counted(inputs)
        return run(packed), counts
    views = preprocessor.windows(inputs, offsets=deciding is not None)
    return joined_outputs(run, views, deciding, speaks)


def outputs_of_choices(model, preprocessor, text, choices, deciding):
    """Returns the same for texts `(batch,)` with choices `(batch, choices)`; `deciding` has the logits of choices."""
    if not preprocessor.reads_windows:
        packed, counts = preprocessor.counted_choices(text, choices)
        return model(packed, training=False), counts
    views = preprocessor.windows_with_choices(text, choices, offsets=True)
    run = functools.partial(outputs_in_parts, model)
    return joined_outputs(run, views, deciding, speaks_for_class)


def joined_outputs(run, views, deciding=None, speaks=None):
    """Returns the same for `ViewedTexts`; with `deciding`, they have the offsets of their tokens."""
    of_windows = run(views.packed())
    outputs = {name: views.mean(values) for name, values in of_windows.items() if name != deciding}
    counts = views.token_counts()
    if deciding is not None:
        logits = of_windows[deciding]
        outputs[deciding] = views.log_mean_exp(logits)
        of_texts = tf.gather(outputs[deciding], views.views.row)
        counts[STRONGEST_START], counts[STRONGEST_END] = views.strongest(speaks(logits, of_texts))
    return outputs, counts


def traced_once(function):
    """Makes all signatures call one graph: tracing takes most of the time of an export. Nothing changes eagerly."""
    traced = tf.function(function, autograph=False)

    def call(inputs):
        if tf.inside_function():
            return traced(inputs)
        return function(inputs)

    return call


class TracedOnce:
    """A model that all signatures call as one function."""

    def __init__(self, model):
        self.input = model.input
        self.output = model.output
        self._answer = traced_once(lambda inputs: model(inputs, training=False))

    def __call__(self, inputs, training=False):
        return self._answer(inputs)


def on_ids(model, length=None):
    """Returns a signature on token ids of a length, `None` for any: for clients that tokenize, without TF-Text.

    Inputs of a user's head that are no numbers of tokens have the shape and the type of the model's input.
    """
    names = list(model.input)
    specs = [_spec(model.input[name], name, length) for name in names]

    def run(*values):
        ids = {}
        for name, value in zip(names, values, strict=True):
            if _is_of_tokens(model.input[name]):
                ids[name] = value
        # Otherwise an error of the model may come first.
        with tf.control_dependencies(_shape_checks(ids)):
            checked = [tf.identity(value) for value in values]
        outputs = model(dict(zip(names, checked, strict=True)), training=False)
        return {name: value for name, value in outputs.items() if not isinstance(value, list)}

    return tf.function(run, input_signature=specs, autograph=False)


def _shape_checks(ids):
    """Returns checks that refuse empty sequences, and inputs of different shapes, which the model would broadcast.

    `ids` are tensors by the names of inputs. Those whose names begin alike with one of `_OWN_LENGTH` have the same
    shape, and so do all others.
    """
    shapes = {name: tf.shape(values) for name, values in ids.items()}
    first_of_group = {}
    first_of_all = None
    checks = []
    for name, shape in shapes.items():
        start = name.partition("_")[0]
        group = start if start in _OWN_LENGTH else ""
        if group in first_of_group:
            known = first_of_group[group]
            checks.append(require(shape == shapes[known], f"`{name}` must have the shape of `{known}`", shape=shape))
            continue
        first_of_group[group] = name
        if group != "mask":
            checks.append(require(shape[1:] > 0, f"`{name}` must have at least one token in each row", shape=shape))
        if first_of_all is None:
            first_of_all = name
        else:
            has_rows = shape[0] == shapes[first_of_all][0]
            checks.append(require(has_rows, f"`{name}` must have as many rows as `{first_of_all}`", shape=shape))
    return checks


def _is_of_tokens(tensor):
    """Whether an input of a model has an integer for each token."""
    return tensor.dtype == "int32" and len(tensor.shape) > 1 and tensor.shape[-1] is None


def _spec(tensor, name, length):
    """Returns the `TensorSpec` of an input of the model."""
    if not _is_of_tokens(tensor):
        return tf.TensorSpec(tensor.shape, tensor.dtype, name)
    if name == "mask_positions":
        return tf.TensorSpec(tensor.shape, tf.int32, name)
    return tf.TensorSpec((*tensor.shape[:-1], length), tf.int32, name)


def readable(strings):
    """Removes bytes that are not valid UTF-8, which JSON cannot represent."""
    return tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="ignore")


def rows_of_call(preprocessor, rows_together):
    """Returns the `rows_together` of `in_groups`: windows of long documents are limited, whose number is not known."""
    if rows_together is None and preprocessor.reads_windows:
        return _WINDOWS
    return rows_together


def in_groups(run, inputs, shape, rows):
    """Computes rows of similar length together, so that short texts are not padded to the longest one of the request.

    Otherwise, half of the work of a mixed request on CPU is padding. On GPU, one large call is faster. `run` maps model
    inputs to float32 `(rows, *shape)`; `rows` are computed together, `None` for all.
    """
    if rows is None:
        return run(inputs)
    check_count("rows_together", rows)
    unsorted_lengths = tf.reduce_sum(inputs["padding_mask"], -1)
    order = tf.argsort(unsorted_lengths, stable=True)
    lengths = tf.gather(unsorted_lengths, order)
    shortest_first = {name: tf.gather(ids, order) for name, ids in inputs.items()}
    count = tf.size(lengths)

    def are_left(start, _):
        return start < count

    def with_next(start, done):
        end = tf.minimum(start + rows, count)
        length = lengths[end - 1]
        part = run({name: ids[start:end, :length] for name, ids in shortest_first.items()})
        return end, tf.concat([done, part], 0)

    _, outputs = tf.while_loop(
        are_left,
        with_next,
        (0, tf.zeros([0, *shape])),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, *shape])),
        parallel_iterations=2,
    )
    return tf.gather(outputs, tf.argsort(order))
