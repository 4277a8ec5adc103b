"""Losses of distillation (Hinton et al., 2015): a student learns from the logits of a teacher and from labels."""

import math

import tensorflow as tf

from keras_bert.training.losses import Loss, divergence, part, pretraining_losses


def distillation_loss(loss: Loss, *, temperature: float = 2.0, alpha: float = 0.5) -> Loss:
    """The loss of a student: `alpha * (loss with the teacher) + (1 - alpha) * (loss with the labels)` of each row.

    The loss with the teacher is `temperature**2` times the Kullback-Leibler divergence of the student's probabilities
    from the teacher's, both at the temperature: for several labels per text the mean over the labels, for tags that of
    each token, for answers the mean of start and end, for regression the squared error with the teacher's value,
    without temperature.

    Targets are a dict: `labels`, the targets of `loss`; `teacher_logits`, in the shape of the student's logits, for
    answers `teacher_start_logits`, `teacher_end_logits` and `teacher_length`, the number of tokens; and optionally
    `labelled`, `(rows,)`, 0 for rows without a label, which have only the part of the teacher.

    Args:
        loss: a `Loss` with `soft`, the one with the labels, such as `classification_loss()`. Its class weights weight
            both parts of a row; the weight of rows without a label is 1.
        temperature: float, above 0; a higher one shows the student more of the teacher's small probabilities. Defaults
            to 2.0.
        alpha: float in [0, 1], the weight of the teacher's part. Defaults to 0.5.

    Returns:
        A `Loss`.

    Example:
        targets = {"labels": labels, "teacher_logits": logits}
        batches = Batches(inputs, targets, batch_size=32)
        trainer = Trainer(build, optimizer, distillation_loss(classification_loss()))
    """
    _check(temperature, alpha)
    if loss.soft is None:
        raise ValueError(
            f"the loss {loss.name!r} has no `soft`, the loss with the answers of a teacher. Expected "
            "Loss(..., soft=function of targets, outputs and temperature)"
        )

    def values(targets, outputs):
        soft = loss.soft(targets, outputs, temperature)
        hard = loss.values(part(targets, "labels"), outputs)
        return alpha * soft + (1 - alpha) * hard * _labelled(targets)

    def weights(targets):
        row_weights = tf.cast(loss.weights(part(targets, "labels")), tf.float32)
        return tf.where(_labelled(targets) > 0, row_weights, 1.0)

    return Loss(loss.name, values, loss.weights and weights)


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
    _check(temperature, alpha)
    heads = ("mlm_logits", "nsp_logits")
    return [
        _with_teacher(loss, head, temperature, alpha)
        for loss, head in zip(pretraining_losses(next_sentence), heads, strict=False)
    ]


def _with_teacher(loss, head, temperature, alpha):
    def values(targets, outputs):
        hard, teacher = loss.values(targets, outputs), outputs.get(f"teacher_{head}")
        if teacher is None:
            return hard
        student = outputs[head]
        pieces = min(teacher.shape[-1], student.shape[-1])  # Token tables may be padded, each to another size.
        teacher, student = (tf.cast(logits[..., :pieces], tf.float32) for logits in (teacher, student))
        return alpha * divergence(teacher, student, temperature) + (1 - alpha) * hard

    return Loss(loss.name, values, loss.weights)


def _labelled(targets):
    """Returns 1 for rows with a label and 0 for the others, or 1 for all."""
    return tf.reshape(tf.cast(targets["labelled"], tf.float32), [-1]) if "labelled" in targets else tf.ones([])


def _check(temperature, alpha):
    if not 0 < temperature < math.inf:
        raise ValueError(f"`temperature` must be a number above 0. Received: temperature={temperature}")
    if not 0 <= alpha <= 1:
        raise ValueError(f"`alpha` must be a number from 0 to 1. Received: alpha={alpha}")
