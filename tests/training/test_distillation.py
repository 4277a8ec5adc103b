"""The losses of distillation, against SciPy."""

import re

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from keras_bert.training.distillation import distillation_loss, pretraining_distillation_losses, with_teacher
from keras_bert.training.losses import (
    Loss,
    classification_loss,
    multi_label_loss,
    pretraining_losses,
    regression_loss,
)

RNG = np.random.default_rng(0)
STUDENT, TEACHER = RNG.normal(size=(2, 4, 3)).astype("float32")
LABELS = np.array([0, 2, 1, 1])
LABELLED = np.array([1, 1, 0, 1], "float32")


def mean(loss, targets, student, rows=(1.0, 1.0, 1.0, 1.0)):
    total, weight = loss.sums(targets, {"logits": student}, tf.constant(rows))
    return float(total / weight)


def given(labels=LABELS, teacher=TEACHER, **more):
    return {"labels": tf.constant(labels), "teacher_logits": tf.constant(teacher), **more}


def softened(temperature):
    """Returns the divergence of each row by SciPy."""
    parts = (scipy.special.softmax(logits.astype(float) / temperature, -1) for logits in (TEACHER, STUDENT))
    return temperature**2 * scipy.stats.entropy(*parts, axis=-1)


def test_classification_by_rows():
    """Unlabelled rows have only the teacher's part, and filler rows none; class weights weight both parts."""
    hard = -scipy.special.log_softmax(STUDENT, -1)[np.arange(4), LABELS]
    rows = 0.3 * softened(4.0) + 0.7 * hard * LABELLED
    for class_weights, importance in ((None, np.ones(4)), ([1.0, 5.0, 2.0], np.array([1.0, 2.0, 1.0, 5.0]))):
        loss = distillation_loss(classification_loss(class_weights), temperature=4.0, alpha=0.3)
        for shape in ((4,), (4, 1)):
            targets = given(labelled=tf.reshape(LABELLED, shape))
            assert mean(loss, targets, STUDENT) == pytest.approx(np.average(rows, weights=importance), rel=1e-5)
        found = mean(loss, targets, STUDENT, rows=[0.0, 1.0, 1.0, 0.0])
        assert found == pytest.approx(np.average(rows[1:3], weights=importance[1:3]), rel=1e-5)


def test_several_labels():
    """Class weights weight both parts of each label, in rows without labels none."""
    targets = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 0]], "int32")
    teacher, student = (scipy.special.expit(logits.astype(float) / 2) for logits in (TEACHER, STUDENT))
    soft = 4 * (scipy.special.rel_entr(teacher, student) + scipy.special.rel_entr(1 - teacher, 1 - student))
    class_weights = np.array([[0.5, 4.0], [0.6, 3.0], [0.7, 2.0]])
    importance = np.where(targets, class_weights[:, 1], class_weights[:, 0])
    importance[2] = 1
    hard = multi_label_loss(class_weights.tolist())
    loss = distillation_loss(hard, alpha=0.25)
    with_labels = hard.values(tf.constant(targets), {"logits": STUDENT}).numpy()
    expected = 0.25 * (soft * importance).mean(-1) + 0.75 * with_labels * LABELLED
    assert mean(loss, given(targets, labelled=tf.constant(LABELLED)), STUDENT) == pytest.approx(
        expected.mean(), rel=1e-5
    )


@pytest.mark.parametrize("temperature", [0.01, 9.0, 11.0, 100.0, 1e4])
def test_exact_at_all_temperatures(temperature):
    """Values and gradients equal those of float64; several labels are classes with a logit of 0 beside them."""
    rng = np.random.default_rng(1)
    teacher, student = (3 * rng.normal(size=(2, 200, 3))).astype("float32")
    student[:50] = teacher[:50] + 1e-3 * student[:50]
    teacher[-2:] = [9, -1e9, -1e9]
    student[-2:] = [-9, -1e9, -1e9]  # Padding.
    doubles = [logits.astype(float) / temperature for logits in (teacher, student)]
    logs = [scipy.special.log_softmax(logits, -1) for logits in doubles]
    chances = np.exp(logs)
    changes = doubles[1] - doubles[0]
    changes -= (chances[0] * changes).sum(-1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.log1p((chances[0] * (np.expm1(changes) - changes)).sum(-1))
    far = (chances[0] * (logs[0] - logs[1])).sum(-1)
    expected = temperature**2 * np.where(np.abs(changes).max(-1) < 1, near, far)
    logits = tf.Variable(student)
    with tf.GradientTape() as tape:
        found = classification_loss().soft({"teacher_logits": teacher}, {"logits": logits}, temperature)
    close = {"rtol": 1e-3, "atol": 2e-5}
    np.testing.assert_allclose(found, expected, **close)
    slopes = temperature * (chances[1] - chances[0])
    np.testing.assert_allclose(tape.gradient(found, logits), slopes, **close)
    labels = multi_label_loss().soft({"teacher_logits": teacher[:-2]}, {"logits": student[:-2]}, temperature)
    pairs = [np.stack([logits, 0 * logits], -1)[:-2] for logits in (teacher, student)]
    classes = classification_loss().soft({"teacher_logits": pairs[0]}, {"logits": pairs[1]}, temperature)
    np.testing.assert_allclose(labels, classes.numpy().mean(-1), **close)


def test_one_of_several_losses_has_the_teacher():
    """Others stay as they are, on rows with labels; `finish` and `together` are kept."""

    def spread(labels, outputs, weights):
        return tf.cast(labels, tf.float32) * tf.reduce_sum(weights)

    own = [
        classification_loss(),
        Loss("first", lambda labels, outputs: outputs["logits"][:, 0]),
        Loss("weighted", lambda labels, outputs: outputs["logits"], lambda labels: labels, finish=np.exp),
        Loss("all", spread, together=True),
    ]
    taught, first, weighted, together = with_teacher(own, temperature=4.0, alpha=0.3)
    targets = given(labelled=tf.constant(LABELLED))
    expected = mean(distillation_loss(own[0], temperature=4.0, alpha=0.3), targets, STUDENT)
    assert mean(taught, targets, STUDENT) == expected
    assert mean(first, targets, STUDENT) == pytest.approx(np.average(STUDENT[:, 0], weights=LABELLED), rel=1e-5)
    assert mean(first, given(), STUDENT) == pytest.approx(STUDENT[:, 0].mean(), rel=1e-5)
    assert mean(weighted, targets, STUDENT) == pytest.approx(
        np.average(STUDENT.sum(-1), weights=LABELS * LABELLED), rel=1e-5
    )
    assert weighted.finish is np.exp
    assert mean(together, targets, STUDENT) == pytest.approx(3 * np.average(LABELS, weights=LABELLED))
    soft = Loss("all", spread, together=True, finish=np.exp, soft=own[0].soft)
    loss = distillation_loss(soft, temperature=4.0, alpha=0.3)
    rows = 0.3 * softened(4.0) + 0.7 * 3 * LABELS * LABELLED
    assert mean(loss, targets, STUDENT) == pytest.approx(rows.mean(), rel=1e-5)
    assert (loss.together, loss.finish) == (True, np.exp)
    for losses, received in (
        (own[1:], "none, of the losses first"),
        ([own[0], own[0]], "loss, loss, of the losses lo"),
    ):
        with pytest.raises(ValueError, match=f"needs one loss with `soft`.* Received: {received}"):
            with_teacher(losses)


def test_regression():
    """The temperature has no part in it."""
    labels = np.float32([1, 2, 3, 4])
    teacher = STUDENT[:, :1]
    student = TEACHER[:, :1]
    loss = distillation_loss(regression_loss(), temperature=9.0, alpha=0.25)
    expected = 0.25 * (student - teacher)[:, 0] ** 2 + 0.75 * (student[:, 0] - labels) ** 2
    assert mean(loss, given(labels, teacher), student) == pytest.approx(expected.mean(), rel=1e-5)


def test_pretraining():
    """A teacher without next sentence prediction has no part in that loss; rows that pad its token table are cut."""
    targets = {
        "mask_labels": tf.constant([[1, 0], [1, 2]]),
        "mask_weights": tf.constant([[1.0, 0.5], [0.0, 1.0]]),
        "next_sentence_labels": tf.constant([1, 1]),
    }
    outputs = {"mlm_logits": STUDENT.reshape(2, 2, 3), "nsp_logits": STUDENT[:2, :2]}
    outputs |= {"teacher_mlm_logits": TEACHER.reshape(2, 2, 3)}
    soft = softened(3.0)
    rows = tf.ones(2)
    importance = targets["mask_weights"].numpy().ravel()
    masked_lm, nsp = pretraining_distillation_losses(temperature=3.0, alpha=0.25)
    plain, plain_nsp = pretraining_losses()
    total, weight = masked_lm.sums(targets, outputs, rows)
    expected = 0.25 * np.average(soft, weights=importance) + 0.75 * float(
        plain.sums(targets, outputs, rows)[0] / weight
    )
    assert float(total / weight) == pytest.approx(expected, rel=1e-5)
    padded = {"teacher_mlm_logits": np.pad(outputs["teacher_mlm_logits"], ((0, 0), (0, 0), (0, 2)))}
    assert float(masked_lm.sums(targets, outputs | padded, rows)[0] / weight) == pytest.approx(expected, rel=1e-5)
    assert nsp.sums(targets, outputs, rows) == plain_nsp.sums(targets, outputs, rows)
    outputs["teacher_nsp_logits"] = TEACHER[:2, :2]
    chances = (scipy.special.softmax(logits[:2, :2].astype(float) / 3, -1) for logits in (TEACHER, STUDENT))
    soft = 9 * scipy.stats.entropy(*chances, axis=-1)
    expected = 0.25 * soft + 0.75 * plain_nsp.values(targets, outputs).numpy()
    np.testing.assert_allclose(nsp.values(targets, outputs), expected, rtol=1e-5)
    assert [loss.name for loss in pretraining_distillation_losses(next_sentence=False)] == ["mlm_loss"]


def test_errors():
    for name, expected, values in (
        ("temperature", "from 0.01 to 10,000", (0, 10_001, -1.0, float("nan"), "2", None, [1, 2], True)),
        ("alpha", "from 0 to 1", (1.5, -0.1, float("nan"), "x", None, True)),
    ):
        for value in values:
            message = re.escape(f"`{name}` must be a number {expected}. Received: {name}={value!r}")
            with pytest.raises(ValueError, match=message):
                distillation_loss(classification_loss(), **{name: value})
            with pytest.raises(ValueError, match=message):
                pretraining_distillation_losses(**{name: value})
    with pytest.raises(ValueError, match="the loss 'mine' has no `soft`"):
        distillation_loss(Loss("mine", None))
    for targets, message in (
        (tf.constant(LABELS), "`targets` must be a dict with 'teacher_logits'"),
        (given(teacher=TEACHER[:, :2]), r"`targets\['teacher_logits'\]` must be of shape \(4, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            distillation_loss(classification_loss()).values(targets, {"logits": STUDENT})
