"""Losses: sums over a global batch, divided by the total weight of that batch.

Those of sentence encoders, for models of `build_bi_encoder`, are cosine regression, in-batch negatives and triplets:
Reimers & Gurevych, 2019; Henderson et al., 2017; Gao et al., 2021.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.checks import check_choice, check_positive, is_number
from keras_bert.training.loss_names import NOT_LOSSES

_NEVER = -1e9  # Logit of padding.
_HIGH_TEMPERATURE = 10  # From here on, float32 does not resolve the differences of log-probabilities.


@dataclasses.dataclass(frozen=True)
class Loss:
    """One term of the loss: `sum(values * weights) / sum(weights)` over the rows of all replicas and micro-batches.

    It is a loss for `Trainer`, not one of Keras for `model.compile`. Filler rows have weight 0. Weights with fewer
    dimensions than the values apply to the leading dimensions: with one weight per row, the values of a row are summed.

    Args:
        name: str, name in the logs.
        values: function of `(targets, outputs)` that returns a float tensor `(rows, ...)`.
        weights: function of the targets that returns a tensor with the values' leading dimensions; `None` means 1 per
            row. It cannot use the outputs: its sum over the batch is computed before the replicas start.
        finish: function applied to the mean, such as `np.exp`; evaluations report its result. Defaults to `None`.
        together: bool, whether the value of a row depends on the other rows, as with in-batch negatives. `values` is
            then a function of `(targets, outputs, weights)` that receives the whole global batch, also with several
            replicas and micro-batches, and the row weights. Defaults to `False`.
        soft: function of `(targets, outputs, temperature)` that returns the loss with a teacher, in the shape of the
            values, see `distillation_loss`; the targets are a dict with `teacher_logits`, or `teacher_` and the name of
            another output. Defaults to `None`: a teacher is refused.
    """

    name: str
    values: Callable
    weights: Callable | None = None
    _: dataclasses.KW_ONLY
    finish: Callable | None = None
    together: bool = False
    soft: Callable | None = None

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name or self.name in NOT_LOSSES:
            expected = f"a string other than {', '.join(NOT_LOSSES)}, the names of other numbers in the logs"
            raise ValueError(f"`name` of a loss must be {expected}. Received: name={self.name!r}")

    def __call__(self, *args, **kwargs):
        raise ValueError(
            "the losses of keras_bert are for `Trainer`. Expected a loss of Keras for `model.compile`, such as "
            f"keras.losses.SparseCategoricalCrossentropy(from_logits=True). Received: a call of {self.name!r}"
        )

    def row_weights(self, targets, weights):
        """Returns the weights of the values, `(rows, ...)`: those of the rows, times those of this loss."""
        if self.weights is None:
            return weights
        own = tf.cast(self.weights(targets), tf.float32)
        return own * tf.reshape(weights, [-1] + [1] * (own.shape.rank - 1))

    def sums(self, targets, outputs, weights):
        """Returns the sums of the weighted values and of their weights; `weights` are those of the rows, `(rows,)`."""
        if isinstance(targets, tuple) and not targets:  # There are none, see `replica_dataset`.
            targets = None
        values = self._row_values(targets, outputs, weights)
        value_weights = self.row_weights(targets, weights)
        self._check_leading_dimensions(values, value_weights)
        # Filler rows and padded tokens have the weight 0: here their losses become 0, and their gradients with them.
        new_dimensions = [None] * (values.shape.rank - value_weights.shape.rank)
        spread = tf.broadcast_to(value_weights[(..., *new_dimensions)], tf.shape(values))
        return tf.reduce_sum(values * spread), tf.reduce_sum(value_weights)

    def _row_values(self, targets, outputs, weights):
        """Returns the values of the rows, float32 `(rows, ...)`."""
        if self.together:
            values = self.values(targets, outputs, weights)
        else:
            values = self.values(targets, outputs)
        values = tf.cast(values, tf.float32)
        if not values.shape.rank or not values.shape[:1].is_compatible_with(weights.shape):
            raise ValueError(
                f"`values` of the loss {self.name!r} must be a tensor of shape (rows, ...). "
                f"Received: values.shape={values.shape} for {weights.shape[0]} rows"
            )
        return values

    def _check_leading_dimensions(self, values, weights):
        """Raises an error unless weights can be multiplied with values of as many or more dimensions."""
        fit = weights.shape.rank <= values.shape.rank
        for weight_size, value_size in zip(weights.shape, values.shape, strict=False):
            is_known = weight_size is not None and value_size is not None
            if is_known and weight_size not in (1, value_size):
                fit = False
        if not fit:
            raise ValueError(
                f"`weights` of the loss {self.name!r} must have the leading dimensions of its values. "
                f"Received: weights.shape={weights.shape}, values.shape={values.shape}"
            )


def total_weights(losses, targets, weights):
    """Returns the total weight of a global batch for each loss, float32 `(losses,)`, by which `mean_losses` divides."""
    if not losses:
        return tf.stack([0.0])
    return tf.stack([tf.reduce_sum(loss.row_weights(targets, weights)) for loss in losses])


def mean_losses(losses, targets, outputs, weights, totals):
    """Returns these rows' share of each loss of the global batch, float32 `(losses,)`.

    `weights` `(rows,)` are 0 for filler rows: `Loss.sums` multiplies their losses by 0. `totals` are those of
    `total_weights`.
    """
    sums = []
    for loss in losses:
        value_sum, _ = loss.sums(targets, outputs, weights)
        sums.append(value_sum)
    stacked = tf.stack(sums)
    return tf.math.divide_no_nan(stacked, tf.ensure_shape(totals, stacked.shape))


class Score(NamedTuple):
    """A metric of `Trainer` that does not need the outputs of the evaluation, such as one that decodes texts."""

    compute: Callable  # Without arguments; returns a dict.


def classification_loss(class_weights: Sequence[float] | None = None) -> Loss:
    """Cross-entropy of `logits` with class indices, `(rows,)` or `(rows, 1)`; also for multiple choice.

    Args:
        class_weights: list of floats, the weight of the rows of each class. The loss is the weighted mean. Defaults to
            `None`, equal weights.
    """

    def values(targets, outputs):
        return _cross_entropy(targets, outputs["logits"])

    def weights(targets):
        labels = tf.reshape(_required(targets, "targets"), [-1])
        return tf.gather(tf.constant(class_weights, tf.float32), labels)

    if class_weights is None:
        return Loss("loss", values, soft=soft_classes)
    return Loss("loss", values, weights, soft=soft_classes)


def multi_label_loss(class_weights: Any = None) -> Loss:
    """Binary cross-entropy of `logits` with targets of 0 and 1, both `(rows, classes)`: the mean over the classes.

    Args:
        class_weights: array `(classes, 2)`, the weights of the rows without and with each class. Defaults to `None`,
            equal weights.
    """

    def importance(targets):
        absent, present = tf.unstack(tf.constant(class_weights, tf.float32), axis=-1)
        return tf.where(tf.convert_to_tensor(targets) > 0, present, absent)

    def values(targets, outputs):
        logits = tf.cast(outputs["logits"], tf.float32)
        labels = tf.cast(in_shape(targets, logits.shape, "targets", squeeze=False), tf.float32)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
        if class_weights is not None:
            losses *= importance(labels)
        return tf.reduce_mean(losses, -1)

    def soft(targets, outputs, temperature):
        teacher, student = _teacher_and_student(targets, outputs, "logits")
        losses = divergence(_with_absence(teacher), _with_absence(student), temperature)
        if class_weights is not None:
            has_label = tf.reshape(labeled(targets), [-1, 1]) > 0
            losses *= tf.where(has_label, importance(target_named(targets, "labels")), 1.0)
        return tf.reduce_mean(losses, -1)

    return Loss("loss", values, soft=soft)


def _with_absence(logits):
    """Returns the logits of two classes for each label, the label and its absence, whose logit is 0."""
    return tf.stack([logits, tf.zeros_like(logits)], -1)


def regression_loss(activation: str = "linear") -> Loss:
    """Squared error of `logits` `(rows, 1)`, or their sigmoids, with target values, `(rows,)` or `(rows, 1)`.

    Args:
        activation: str, "linear" or "sigmoid", as in `build_classifier`. Defaults to "linear".
    """

    def values(targets, outputs):
        logits = tf.convert_to_tensor(outputs["logits"])
        if logits.shape.rank != 2 or logits.shape[1] != 1:
            raise ValueError(
                "`regression_loss` requires a model with logits of shape (rows, 1). "
                f"Received: logits.shape={logits.shape}"
            )
        expected = in_shape(targets, logits.shape[:1], "targets")
        predicted = tf.cast(logits[:, 0], tf.float32)
        if activation == "sigmoid":
            predicted = tf.sigmoid(predicted)
        return tf.square(predicted - tf.cast(expected, tf.float32))

    return Loss("loss", values, soft=soft_numbers)


def token_loss(label_smoothing: float = 0.0) -> Loss:
    """Cross-entropy of `logits` with a class index per token, `(rows, length)`; negative indices are ignored.

    Args:
        label_smoothing: float, share of the probability that is spread evenly over all classes (Vaswani et al., 2017,
            section 5.4). Defaults to 0.0.
    """

    if not is_number(label_smoothing) or not 0 <= label_smoothing <= 1:
        raise ValueError(f"`label_smoothing` must be a number in [0, 1]. Received: label_smoothing={label_smoothing!r}")

    def values(targets, outputs):
        logits = tf.convert_to_tensor(outputs["logits"])
        indices = in_shape(targets, logits.shape[:-1], "targets", squeeze=False)
        labels = tf.maximum(indices, 0)  # Ignored ones have the weight 0.
        if not label_smoothing:
            return _cross_entropy(labels, logits)
        classes = tf.shape(logits)[-1]
        rest = label_smoothing / tf.cast(classes, tf.float32)
        class_indices = _class_indices(labels, logits, "targets", squeeze=False)
        of_label = 1 - label_smoothing + rest
        smoothed = tf.one_hot(class_indices, classes, on_value=of_label, off_value=rest)
        losses = tf.nn.softmax_cross_entropy_with_logits(smoothed, tf.cast(logits, tf.float32))
        return tf.where(labels < tf.cast(classes, labels.dtype), losses, math.nan)  # There is no such class.

    def weights(targets):
        return _required(targets, "targets") >= 0

    return Loss("loss", values, weights, soft=soft_classes)


def span_loss() -> Loss:
    """Mean of the cross-entropies of the `start` and the `end` position, each `(rows,)` or `(rows, 1)`."""

    def values(targets, outputs):
        start = _cross_entropy(target_named(targets, "start"), outputs["start_logits"], "targets['start']")
        end = _cross_entropy(target_named(targets, "end"), outputs["end_logits"], "targets['end']")
        return (start + end) / 2

    return Loss("loss", values, soft=soft_spans)


def divergence(teacher, student, temperature):
    """Returns `temperature**2` times the Kullback-Leibler divergence of the last axis, both at the temperature."""
    teacher_logs = tf.nn.log_softmax(teacher / temperature)
    student_logs = tf.nn.log_softmax(student / temperature)
    probabilities = tf.exp(teacher_logs)
    kl = tf.reduce_sum(probabilities * (teacher_logs - student_logs), -1)
    if temperature >= _HIGH_TEMPERATURE:
        # It is also the logarithm of the mean of exp(x), with the mean 0 of x over the teacher's probabilities. Where
        # all x are small, that is log(1 + mean of exp(x) - 1 - x), whose terms are not negative.
        x = (student - teacher) / temperature
        x -= tf.reduce_sum(probabilities * x, -1, keepdims=True)
        is_small = tf.reduce_max(tf.abs(x), -1) < 1
        terms = probabilities * _exp_minus_line(tf.clip_by_value(x, -1, 1))
        small_kl = tf.math.log1p(tf.reduce_sum(terms, -1))
        kl = tf.where(is_small, small_kl, kl)
    return temperature**2 * kl


def _exp_minus_line(x):
    """Returns `exp(x) - 1 - x`, by its series around 0."""
    series = x * x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6))))
    return tf.where(tf.abs(x) < 0.1, series, tf.math.expm1(x) - x)


def soft_classes(targets, outputs, temperature):
    """The loss with the teacher of classes, of rows or of tokens; see `Loss`."""
    teacher, student = _teacher_and_student(targets, outputs, "logits")
    return divergence(teacher, student, temperature)


def soft_numbers(targets, outputs, temperature):
    """The squared error with the teacher's value, without temperature; see `Loss`."""
    teacher, student = _teacher_and_student(targets, outputs, "logits")
    return tf.square(teacher - student)[..., 0]


def soft_spans(targets, outputs, temperature):
    """The loss with the teacher of start and end over the `teacher_length` tokens of a row; see `Loss`."""
    losses = []
    for name in ("start_logits", "end_logits"):
        teacher, student = _teacher_and_student(targets, outputs, name)
        lengths = tf.reshape(target_named(targets, "teacher_length"), [-1])
        is_token = tf.sequence_mask(lengths, tf.shape(student)[1])
        teacher = tf.where(is_token, teacher, _NEVER)
        student = tf.where(is_token, student, _NEVER)
        losses.append(divergence(teacher, student, temperature))
    return (losses[0] + losses[1]) / 2


def labeled(targets):
    """Returns 1 for rows with a label and 0 for the others, or 1 for all."""
    if "labeled" not in targets:
        return tf.ones([])
    return tf.reshape(tf.cast(targets["labeled"], tf.float32), [-1])


def _teacher_and_student(targets, outputs, name):
    """Returns an output of the teacher, which is one of the targets, and that of the student, both float32."""
    student = tf.cast(outputs[name], tf.float32)
    key = f"teacher_{name}"
    teacher = target_named(targets, key)
    teacher = in_shape(teacher, student.shape, f"targets['{key}']", squeeze=False)
    return tf.cast(teacher, tf.float32), student


def pretraining_losses(next_sentence: bool = True) -> list[Loss]:
    """Masked LM over `mask_labels` with `mask_weights`, and next sentence prediction over `next_sentence_labels`."""
    losses = [Loss("mlm_loss", _masked_lm(_cross_entropy), _mask_weights)]
    if next_sentence:
        losses.append(_next_sentence("nsp_loss", _cross_entropy))
    return losses


def pretraining_metrics(next_sentence=True):
    """Accuracy and perplexity of the masked LM, accuracy of next sentence prediction: metrics for `Trainer`."""
    metrics = [
        Loss("mlm_accuracy", _masked_lm(_is_right), _mask_weights),
        Loss("mlm_perplexity", _masked_lm(_cross_entropy), _mask_weights, finish=np.exp),
    ]
    if next_sentence:
        metrics.append(_next_sentence("nsp_accuracy", _is_right))
    return metrics


def _masked_lm(compare):
    """Returns the `values` of a `Loss` of masked tokens; `compare` is a function of labels and logits."""

    def values(targets, outputs):
        # Ragged labels are padded with -1, which has weight 0.
        labels = tf.maximum(target_named(targets, "mask_labels"), 0)
        return compare(labels, outputs["mlm_logits"], "targets['mask_labels']", squeeze=False)

    return values


def _mask_weights(targets):
    return target_named(targets, "mask_weights")


def _next_sentence(name, compare):
    """Returns a `Loss` of the pairs; packed rows have several, `(rows, pairs)`, with the label -1 for missing ones."""
    key = "next_sentence_labels"

    def values(targets, outputs):
        labels = tf.convert_to_tensor(target_named(targets, key))
        logits = outputs["nsp_logits"]
        if not _has_several_pairs(labels):
            return compare(labels, logits, f"targets[{key!r}]")
        pair_labels = tf.reshape(tf.maximum(labels, 0), [-1])
        pair_values = compare(pair_labels, logits, f"targets[{key!r}]")
        return tf.reshape(pair_values, tf.shape(labels))

    def weights(targets):
        labels = tf.convert_to_tensor(target_named(targets, key))
        if _has_several_pairs(labels):
            return labels >= 0
        if labels.shape.rank > 1:
            return tf.ones_like(labels[..., 0])
        return tf.ones_like(labels)

    return Loss(name, values, weights)


def _has_several_pairs(labels):
    return labels.shape.rank == 2 and labels.shape[1] != 1


def _cross_entropy(labels, logits, name="targets", squeeze=True):
    logits = tf.cast(logits, tf.float32)
    classes = _class_indices(labels, logits, name, squeeze)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(classes, logits)


def _is_right(labels, logits, name="targets", squeeze=True):
    """Returns 1.0 where the highest logit is that of the label, else 0.0."""
    logits = tf.convert_to_tensor(logits)
    classes = _class_indices(labels, logits, name, squeeze)
    predicted = tf.argmax(logits, axis=-1, output_type=classes.dtype)
    return tf.cast(predicted == classes, tf.float32)


def _class_indices(labels, logits, name, squeeze):
    """Returns class indices in the shape of the logits without the last dimension."""
    labels = in_shape(labels, logits.shape[:-1], name, squeeze)
    if not labels.dtype.is_integer:
        raise ValueError(f"`{name}` must be integer class indices. Received: {name}.dtype={labels.dtype.name}")
    if labels.dtype in (tf.int32, tf.int64):
        return labels
    return tf.cast(labels, tf.int64)


def in_shape(targets, shape, name, squeeze=True):
    """Checks the shape of targets to rule out broadcasting; `squeeze` allows an extra dimension of 1."""
    targets = tf.convert_to_tensor(_required(targets, name))
    if squeeze and targets.shape.rank == len(shape) + 1 and targets.shape[-1] in (1, None):
        targets = tf.squeeze(targets, -1)
    if not targets.shape.is_compatible_with(shape):
        also = f" or {(*shape, 1)}" if squeeze else ""
        raise ValueError(f"`{name}` must be of shape {tuple(shape)}{also}. Received: {name}.shape={targets.shape}")
    return tf.ensure_shape(targets, shape)


def _required(targets, name):
    """Returns targets, which are `None` if the batches have none: then raises an error."""
    if targets is None:
        raise ValueError(f"`{name}` are required by the loss. Received: batches without targets")
    return targets


def target_named(targets, name):
    """Returns one entry of a dict of targets."""
    _required(targets, "targets")
    if not isinstance(targets, dict) or name not in targets:
        received = list(targets) if isinstance(targets, dict) else type(targets).__name__
        raise ValueError(f"`targets` must be a dict with {name!r}. Received: {received}")
    return targets[name]


def cosine_loss() -> Loss:
    """Squared error of the cosine similarity of a query and its first passage with a target score, `(rows,)`."""

    def values(targets, outputs):
        scores = in_shape(targets, outputs["query_embedding"].shape[:1], "targets")
        queries = _unit(outputs["query_embedding"])
        passages = _unit(outputs["passage_embedding"][:, 0])
        similarity = tf.reduce_sum(queries * passages, -1)
        return tf.square(similarity - tf.cast(scores, tf.float32))

    return Loss("loss", values)


def in_batch_loss(temperature: float = 0.05, symmetric: bool = True) -> Loss:
    """Cross-entropy of the right passage among all passages of a global batch, by their cosine similarities.

    The first passage of each row is the right one; the others of the row, hard negatives, and all passages of other
    rows are wrong. The loss does not depend on the number of replicas and micro-batches. Two rows are not negatives of
    each other if they share the query or the passage: targets are `{"query_ids": (rows,), "passage_ids": (rows,
    passages)}`, integers that are equal for equal texts, and -1 for absent passages. A row without its right passage
    has weight 0.

    Args:
        temperature: float, divides the similarities. Defaults to 0.05.
        symmetric: bool, whether to add the cross-entropy of the right query for each passage; the loss is the mean of
            both. Defaults to `True`.
    """
    check_positive("temperature", temperature)

    def values(targets, outputs, rows):
        queries = _unit(outputs["query_embedding"])
        passages = _unit(outputs["passage_embedding"])
        query_ids = _ids(targets, "query_ids", rank=1)
        passage_ids = _ids(targets, "passage_ids", rank=2)
        count = tf.shape(passages)[1]
        flat = tf.reshape(passages, [-1, passages.shape[-1]])
        flat_ids = tf.reshape(passage_ids, [-1])
        scores = tf.matmul(queries, flat, transpose_b=True) / temperature  # (rows, rows * passages)

        # Wrong passages of a row: its own and those of real rows with another query and another right passage.
        others = _other_rows(query_ids, passage_ids, rows)
        own = tf.eye(tf.shape(rows)[0], dtype=tf.bool)
        may_be_wrong = tf.repeat(own | others, count, axis=1)
        wrong = may_be_wrong & (flat_ids >= 0) & (passage_ids[:, :1] != flat_ids)
        right = tf.linalg.diag_part(scores[:, ::count])
        losses = _contrast(right, scores, wrong)
        if symmetric:
            losses += _contrast(right, tf.transpose(scores[:, ::count]), others)
            losses /= 2
        return losses

    def weights(targets):
        return _ids(targets, "passage_ids", rank=2)[:, 0] >= 0

    return Loss("loss", values, weights, together=True)


def triplet_loss(
    margin: float = 1.0,
    distance: Literal["euclidean", "cosine"] = "euclidean",
) -> Loss:
    """The excess of a query's distance to its passage, plus a margin, over its distance to a wrong passage.

    The first passage of each row is the right one; the loss is the mean over the others. Targets are
    `{"passage_ids": (rows, passages)}`, -1 for absent passages. A row without wrong passages has weight 0.

    Args:
        margin: float. Defaults to 1.0.
        distance: str, "euclidean" or "cosine", which is 1 minus the similarity. Defaults to "euclidean".
    """
    check_positive("margin", margin)
    check_choice("distance", distance, ("cosine", "euclidean"))

    def values(targets, outputs):
        queries = outputs["query_embedding"][:, None]
        passages = outputs["passage_embedding"]
        if distance == "cosine":
            distances = 1 - tf.reduce_sum(_unit(queries) * _unit(passages), -1)
        else:
            squared = tf.reduce_sum(tf.square(queries - passages), -1)
            distances = tf.sqrt(tf.maximum(squared, 1e-12))  # The gradient of the root is infinite at 0.
        present = tf.cast(_has_wrong_passage(targets), tf.float32)
        excess = tf.nn.relu(distances[:, :1] - distances[:, 1:] + margin)
        total = tf.reduce_sum(excess * present, -1)
        return tf.math.divide_no_nan(total, tf.reduce_sum(present, -1))

    def weights(targets):
        return tf.reduce_any(_has_wrong_passage(targets), -1)

    return Loss("loss", values, weights)


def _has_wrong_passage(targets):
    """Returns whether each passage of a row after the first, the right one, is there."""
    return _ids(targets, "passage_ids", rank=2)[:, 1:] >= 0


def _other_rows(query_ids, passage_ids, rows):
    """Returns whether the rows on the second axis, `(rows, rows)`, are real ones that may be negatives of the first."""
    first = passage_ids[:, 0]
    return (rows > 0) & (first >= 0) & (query_ids[:, None] != query_ids) & (first[:, None] != first)


def _contrast(right, scores, wrong):
    """Returns the cross-entropy of the score `right` among itself and the scores that are `wrong`."""
    others = tf.where(wrong, scores, -math.inf)
    return tf.reduce_logsumexp(tf.concat([right[:, None], others], 1), 1) - right


def _unit(vectors):
    return tf.math.l2_normalize(tf.cast(vectors, tf.float32), -1)


def _ids(targets, name, rank):
    ids = tf.convert_to_tensor(target_named(targets, name))
    if ids.shape.rank != rank or not ids.dtype.is_integer:
        raise ValueError(f"`targets[{name!r}]` must be integers of rank {rank}. Received: {ids.dtype.name} {ids.shape}")
    return ids
