"""The losses of distillation, against SciPy."""

import re

import numpy as np
import pytest
import tensorflow as tf
from scipy import special, stats

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
LABELED = np.array([1, 1, 0, 1], "float32")
ALL_ROWS = (1.0, 1.0, 1.0, 1.0)


def mean(loss, targets, student, rows=ALL_ROWS):
    total, weight = loss.sums(targets, {"logits": student}, tf.constant(rows))
    return float(total / weight)


def given(labels=LABELS, teacher=TEACHER, **more):
    """Targets: labels, the logits of the teacher, and which rows have labels."""
    return {"labels": tf.constant(labels), "teacher_logits": tf.constant(teacher), **more}


def near(value):
    return pytest.approx(value, rel=1e-5)


def softened(temperature, teacher=TEACHER, student=STUDENT):
    """Returns the divergence of each row by SciPy."""
    wanted = special.softmax(teacher.astype(float) / temperature, -1)
    found = special.softmax(student.astype(float) / temperature, -1)
    return temperature**2 * stats.entropy(wanted, found, axis=-1)


@pytest.mark.parametrize(
    ("class_weights", "importance"), [(None, [1.0, 1.0, 1.0, 1.0]), ([1.0, 5.0, 2.0], [1.0, 2.0, 1.0, 5.0])]
)
def test_classification_by_rows(class_weights, importance):
    """Unlabeled rows have only the teacher's part, and filler rows none; class weights weight both parts."""
    hard = -special.log_softmax(STUDENT, -1)[np.arange(4), LABELS]
    rows = 0.3 * softened(4.0) + 0.7 * hard * LABELED
    loss = distillation_loss(classification_loss(class_weights), temperature=4.0, alpha=0.3)
    for shape in ((4,), (4, 1)):
        targets = given(labeled=tf.reshape(LABELED, shape))
        assert mean(loss, targets, STUDENT) == near(np.average(rows, weights=importance))
        with_filler = mean(loss, targets, STUDENT, rows=[0.0, 1.0, 1.0, 0.0])
        assert with_filler == near(np.average(rows[1:3], weights=importance[1:3]))


def test_several_labels():
    """Class weights weight both parts of each label, in rows without labels none."""
    targets = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 0]], "int32")
    teacher = special.expit(TEACHER.astype(float) / 2)
    student = special.expit(STUDENT.astype(float) / 2)
    soft = 4 * (special.rel_entr(teacher, student) + special.rel_entr(1 - teacher, 1 - student))
    class_weights = np.array([[0.5, 4.0], [0.6, 3.0], [0.7, 2.0]])
    importance = np.where(targets, class_weights[:, 1], class_weights[:, 0])
    importance[2] = 1  # The row without labels.
    hard = multi_label_loss(class_weights.tolist())
    values = hard.values(tf.constant(targets), {"logits": STUDENT}).numpy()
    expected = 0.25 * (soft * importance).mean(-1) + 0.75 * values * LABELED
    loss = distillation_loss(hard, alpha=0.25)
    found = mean(loss, given(targets, labeled=tf.constant(LABELED)), STUDENT)
    assert found == near(expected.mean())


def random_logits():
    """Logits of 200 rows: in the first ones of both models nearly equal, in the last ones far apart."""
    rng = np.random.default_rng(1)
    teacher, student = (3 * rng.normal(size=(2, 200, 3))).astype("float32")
    student[:50] = teacher[:50] + 1e-3 * student[:50]
    teacher[-2:] = [9, -1e9, -1e9]
    student[-2:] = [-9, -1e9, -1e9]  # Padding.
    return teacher, student


def exact_divergence(teacher, student):
    """The divergence of softmaxes in float64, also of nearly equal ones."""
    logs_of_teacher = special.log_softmax(teacher, -1)
    chances = np.exp(logs_of_teacher)
    changes = student - teacher
    changes -= (chances * changes).sum(-1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        near_ones = np.log1p((chances * (np.expm1(changes) - changes)).sum(-1))
    far_ones = (chances * (logs_of_teacher - special.log_softmax(student, -1))).sum(-1)
    return np.where(np.abs(changes).max(-1) < 1, near_ones, far_ones)


CLOSE = {"rtol": 1e-3, "atol": 2e-5}


@pytest.mark.parametrize("temperature", [0.01, 9.0, 11.0, 100.0, 1e4])
def test_exact_at_all_temperatures(temperature):
    """Values and gradients equal those of float64."""
    teacher, student = random_logits()
    wanted = teacher.astype(float) / temperature
    predicted = student.astype(float) / temperature
    logits = tf.Variable(student)
    with tf.GradientTape() as tape:
        found = classification_loss().soft({"teacher_logits": teacher}, {"logits": logits}, temperature)
    expected = temperature**2 * exact_divergence(wanted, predicted)
    np.testing.assert_allclose(found, expected, **CLOSE)
    slopes = temperature * (special.softmax(predicted, -1) - special.softmax(wanted, -1))
    np.testing.assert_allclose(tape.gradient(found, logits), slopes, **CLOSE)


@pytest.mark.parametrize("temperature", [0.01, 9.0, 11.0, 100.0, 1e4])
def test_several_labels_are_classes_beside_a_logit_of_zero(temperature):
    teacher, student = random_logits()
    teacher = teacher[:-2]
    student = student[:-2]
    labels = multi_label_loss().soft({"teacher_logits": teacher}, {"logits": student}, temperature)
    teacher_pairs = np.stack([teacher, 0 * teacher], -1)
    student_pairs = np.stack([student, 0 * student], -1)
    pairs = classification_loss().soft({"teacher_logits": teacher_pairs}, {"logits": student_pairs}, temperature)
    np.testing.assert_allclose(labels, pairs.numpy().mean(-1), **CLOSE)


def spread(labels, outputs, weights):
    """A loss of all rows together."""
    return tf.cast(labels, tf.float32) * tf.reduce_sum(weights)


def test_one_of_several_losses_has_the_teacher():
    """Others stay as they are, on rows with labels; `finish` and `together` are kept."""
    own = [
        classification_loss(),
        Loss("first", lambda labels, outputs: outputs["logits"][:, 0]),
        Loss("weighted", lambda labels, outputs: outputs["logits"], lambda labels: labels, finish=np.exp),
        Loss("all", spread, together=True),
    ]
    taught, first, weighted, together = with_teacher(own, temperature=4.0, alpha=0.3)
    targets = given(labeled=tf.constant(LABELED))
    alone = distillation_loss(own[0], temperature=4.0, alpha=0.3)
    assert mean(taught, targets, STUDENT) == mean(alone, targets, STUDENT)
    assert mean(first, targets, STUDENT) == near(np.average(STUDENT[:, 0], weights=LABELED))
    assert mean(first, given(), STUDENT) == near(STUDENT[:, 0].mean())
    sums = STUDENT.sum(-1)
    assert mean(weighted, targets, STUDENT) == near(np.average(sums, weights=LABELS * LABELED))
    assert weighted.finish is np.exp
    assert mean(together, targets, STUDENT) == near(3 * np.average(LABELS, weights=LABELED))


def test_a_loss_of_all_rows_with_a_teacher():
    soft = Loss("all", spread, together=True, finish=np.exp, soft=classification_loss().soft)
    loss = distillation_loss(soft, temperature=4.0, alpha=0.3)
    rows = 0.3 * softened(4.0) + 0.7 * 3 * LABELS * LABELED
    assert mean(loss, given(labeled=tf.constant(LABELED)), STUDENT) == near(rows.mean())
    assert loss.together
    assert loss.finish is np.exp


@pytest.mark.parametrize(
    ("losses", "received"),
    [
        ([Loss("first", None)], "none, of the losses first"),
        ([classification_loss(), classification_loss()], "loss, loss, of the losses lo"),
    ],
)
def test_a_teacher_needs_one_loss(losses, received):
    with pytest.raises(ValueError, match=f"needs one loss with `soft`.* Received: {received}"):
        with_teacher(losses)


def test_regression():
    """The temperature has no part in it."""
    labels = np.float32([1, 2, 3, 4])
    teacher = STUDENT[:, :1]
    student = TEACHER[:, :1]
    loss = distillation_loss(regression_loss(), temperature=9.0, alpha=0.25)
    soft = (student - teacher)[:, 0] ** 2
    hard = (student[:, 0] - labels) ** 2
    expected = 0.25 * soft + 0.75 * hard
    assert mean(loss, given(labels, teacher), student) == near(expected.mean())


PRETRAINING_TARGETS = {
    "mask_labels": tf.constant([[1, 0], [1, 2]]),
    "mask_weights": tf.constant([[1.0, 0.5], [0.0, 1.0]]),
    "next_sentence_labels": tf.constant([1, 1]),
}


def pretraining_outputs(**teacher):
    return {"mlm_logits": STUDENT.reshape(2, 2, 3), "nsp_logits": STUDENT[:2, :2], **teacher}


def test_masked_tokens():
    """Rows that pad the token table of a teacher are cut."""
    masked_lm, _ = pretraining_distillation_losses(temperature=3.0, alpha=0.25)
    plain, _ = pretraining_losses()
    teacher = TEACHER.reshape(2, 2, 3)
    importance = PRETRAINING_TARGETS["mask_weights"].numpy().ravel()
    rows = tf.ones(2)
    hard, _ = plain.sums(PRETRAINING_TARGETS, pretraining_outputs(), rows)
    soft = np.average(softened(3.0), weights=importance)
    expected = 0.25 * soft + 0.75 * float(hard) / importance.sum()
    for padding in (0, 2):
        padded = np.pad(teacher, ((0, 0), (0, 0), (0, padding)))
        outputs = pretraining_outputs(teacher_mlm_logits=padded)
        total, weight = masked_lm.sums(PRETRAINING_TARGETS, outputs, rows)
        assert float(total / weight) == near(expected)


def test_next_sentences():
    """A teacher without next sentence prediction has no part in that loss."""
    _, loss = pretraining_distillation_losses(temperature=3.0, alpha=0.25)
    _, plain = pretraining_losses()
    rows = tf.ones(2)
    outputs = pretraining_outputs(teacher_mlm_logits=TEACHER.reshape(2, 2, 3))
    expected = plain.sums(PRETRAINING_TARGETS, outputs, rows)
    assert loss.sums(PRETRAINING_TARGETS, outputs, rows) == expected
    outputs["teacher_nsp_logits"] = TEACHER[:2, :2]
    hard = plain.values(PRETRAINING_TARGETS, outputs).numpy()
    expected = 0.25 * softened(3.0, TEACHER[:2, :2], STUDENT[:2, :2]) + 0.75 * hard
    np.testing.assert_allclose(loss.values(PRETRAINING_TARGETS, outputs), expected, rtol=1e-5)
    without = pretraining_distillation_losses(next_sentence=False)
    assert [loss.name for loss in without] == ["mlm_loss"]


@pytest.mark.parametrize(
    ("name", "expected", "values"),
    [
        ("temperature", "from 0.01 to 10,000", [0, 10_001, -1.0, float("nan"), "2", None, [1, 2], True]),
        ("alpha", "from 0 to 1", [1.5, -0.1, float("nan"), "x", None, True]),
    ],
)
def test_numbers_out_of_range(name, expected, values):
    for value in values:
        message = re.escape(f"`{name}` must be a number {expected}. Received: {name}={value!r}")
        with pytest.raises(ValueError, match=message):
            distillation_loss(classification_loss(), **{name: value})
        with pytest.raises(ValueError, match=f"`{name}`"):
            pretraining_distillation_losses(**{name: value})


def test_a_loss_without_a_soft_one():
    with pytest.raises(ValueError, match="the loss 'mine' has no `soft`"):
        distillation_loss(Loss("mine", None))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (tf.constant(LABELS), "`targets` must be a dict with 'teacher_logits'"),
        (given(teacher=TEACHER[:, :2]), r"`targets\['teacher_logits'\]` must be of shape \(4, 3\)"),
    ],
)
def test_targets_without_logits_of_the_teacher(targets, message):
    with pytest.raises(ValueError, match=message):
        distillation_loss(classification_loss()).values(targets, {"logits": STUDENT})
