"""Losses of distillation (Hinton et al., 2015): a student learns from the logits of a teacher and from labels."""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from keras_bert.checks import is_number
from keras_bert.training.losses import Loss, divergence, labeled, pretraining_losses, target_named

_TEMPERATURES = (0.01, 10_000)  # The lowest and the highest one.


def distillation_loss(loss: Loss, *, temperature: float = 2.0, alpha: float = 0.5) -> Loss:
    """The loss of a student: `alpha * (loss with the teacher) + (1 - alpha) * (loss with the labels)` of each row.

    The loss with the teacher is `temperature**2` times the Kullback-Leibler divergence of the student's probabilities
    from the teacher's, both at the temperature: for several labels per text the mean over the labels, for tags that of
    each token, for answers the mean of start and end, for regression the squared error with the teacher's value,
    without temperature.

    Targets are a dict: `labels`, the targets of `loss`; `teacher_logits`, in the shape of the student's logits, for
    answers `teacher_start_logits`, `teacher_end_logits` and `teacher_length`, the number of tokens; and optionally
    `labeled`, `(rows,)`, 0 for rows without a label, which have only the part of the teacher.

    Args:
        loss: a `Loss` with `soft`, the one with the labels, such as `classification_loss()`. Its class weights weight
            both parts of a row, with several labels per text those of each label; the weight of rows without a label
            is 1.
        temperature: float in [0.01, 10000]; a higher one shows the student more of the teacher's small probabilities.
            Defaults to 2.0.
        alpha: float in [0, 1], the weight of the teacher's part. Defaults to 0.5.

    Returns:
        A `Loss`.

    Example:
        targets = {"labels": labels, "teacher_logits": logits}
        batches = Batches(inputs, targets, batch_size=32)
        trainer = Trainer(build, optimizer, distillation_loss(classification_loss()))
    """
    check_distillation(temperature, alpha)
    if loss.soft is None:
        raise ValueError(
            f"the loss {loss.name!r} has no `soft`, the loss with the answers of a teacher. Expected "
            "Loss(..., soft=function of targets, outputs and temperature)"
        )
    with_labels = _of_labels(loss)

    def values(targets, outputs, *row_weights):
        soft = loss.soft(targets, outputs, temperature)
        hard = with_labels.values(targets, outputs, *row_weights)
        return alpha * soft + (1 - alpha) * hard * labeled(targets)

    def weights(targets):
        row_weights = tf.cast(loss.weights(target_named(targets, "labels")), tf.float32)
        return tf.where(labeled(targets) > 0, row_weights, 1.0)

    if loss.weights is None:
        return dataclasses.replace(loss, values=values, soft=None)
    return dataclasses.replace(loss, values=values, weights=weights, soft=None)


def with_teacher(
    loss: Loss | Sequence[Loss],
    *,
    temperature: float = 2.0,
    alpha: float = 0.5,
) -> Loss | list[Loss]:
    """Returns the losses of a student: of several, the only one with `soft` is that of `distillation_loss`.

    The others stay as they are, on rows with labels. The targets are those of `distillation_loss`.
    """
    if isinstance(loss, Loss):
        return distillation_loss(loss, temperature=temperature, alpha=alpha)
    names = [each.name for each in loss if each.soft is not None]
    if len(names) != 1:
        raise ValueError(
            "a student of a teacher needs one loss with `soft`, the loss with the answers of the teacher. Received: "
            f"{', '.join(names) or 'none'}, of the losses {', '.join(each.name for each in loss)}"
        )
    losses = []
    for each in loss:
        if each.soft is None:
            losses.append(_of_labels(each))
        else:
            losses.append(distillation_loss(each, temperature=temperature, alpha=alpha))
    return losses


def _of_labels(loss):
    """Returns a loss of the `labels` of targets, on rows that have one."""

    def values(targets, outputs, *row_weights):
        labeled_weights = [weights * labeled(targets) for weights in row_weights]
        return loss.values(target_named(targets, "labels"), outputs, *labeled_weights)

    def weights(targets):
        has_label = labeled(targets)
        if loss.weights is None:
            return has_label
        own = tf.cast(loss.weights(target_named(targets, "labels")), tf.float32)
        return own * tf.reshape(has_label, [-1] + [1] * (own.shape.rank - 1))

    return dataclasses.replace(loss, values=values, weights=weights)


def pretraining_distillation_losses(
    next_sentence: bool = True, *, temperature: float = 2.0, alpha: float = 0.5
) -> list[Loss]:
    """`pretraining_losses` with the parts of a teacher, as in `distillation_loss`.

    Args:
        next_sentence: bool, whether the student predicts next sentences. Defaults to `True`.
        temperature, alpha: see `distillation_loss`.

    Returns:
        A list of `Loss` for a model from `add_teacher`. A teacher without next sentence prediction has no part in it.
    """
    check_distillation(temperature, alpha)
    losses = pretraining_losses(next_sentence)
    masked_lm = _with_its_teacher(losses[0], "mlm_logits", temperature, alpha)
    if not next_sentence:
        return [masked_lm]
    return [masked_lm, _with_its_teacher(losses[1], "nsp_logits", temperature, alpha)]


def _with_its_teacher(loss, head, temperature, alpha):
    """Returns a loss of pre-training with the part of the teacher's output for a head, if the teacher has one."""

    def values(targets, outputs):
        hard = loss.values(targets, outputs)
        teacher = outputs.get(f"teacher_{head}")
        if teacher is None:
            return hard
        student = outputs[head]
        pieces = min(teacher.shape[-1], student.shape[-1])  # Token tables may be padded, each to another size.
        teacher_logits = tf.cast(teacher[..., :pieces], tf.float32)
        student_logits = tf.cast(student[..., :pieces], tf.float32)
        soft = divergence(teacher_logits, student_logits, temperature)
        return alpha * soft + (1 - alpha) * hard

    return dataclasses.replace(loss, values=values)


def check_distillation(temperature=2.0, alpha=0.5):
    """Raises an error for a temperature or a weight of the teacher that no training can have."""
    lowest, highest = _TEMPERATURES
    if not is_number(temperature) or not lowest <= temperature <= highest:
        expected = f"a number from {lowest} to {highest:,}"
        raise ValueError(f"`temperature` must be {expected}. Received: temperature={temperature!r}")
    if not is_number(alpha) or not 0 <= alpha <= 1:
        raise ValueError(f"`alpha` must be a number from 0 to 1. Received: alpha={alpha!r}")
