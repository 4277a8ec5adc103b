"""The targets, losses and scores of students, without training."""

import types
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit, log_softmax

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.data.sources import PythonRows  # noqa: E402
from keras_bert.runs.fit_data import task_rows  # noqa: E402
from keras_bert.tasks.base import Start  # noqa: E402
from keras_bert.tasks.classification.data import own_data  # noqa: E402
from keras_bert.tasks.classification.examples import TextExamples  # noqa: E402
from keras_bert.tasks.classification.multi_label_task import MultiLabelTask  # noqa: E402
from keras_bert.tasks.classification.task import ClassificationTask  # noqa: E402
from keras_bert.tasks.registry import task_named  # noqa: E402
from keras_bert.tasks.teacher import Teacher  # noqa: E402
from keras_bert.training.losses import Loss, classification_loss  # noqa: E402

pytestmark = pytest.mark.tensorflow
TEXTS = ["a b", "c d", "e f", "g h", "a c", "b d"]
UNLABELED = ["h a", "d e"]
LABELS = {
    "classification": ["y", "x", "y", "y", "x", "y"],
    "multi_label": ["x", "x|y", "", "y", "x", "x"],
    "regression": ["1", "2.5", "3", "0", "1", "2"],
}
CLASS_IDS = np.array([1, 0, 1, 1, 0, 1])
SEVERAL = np.array([[1, 0], [1, 1], [0, 0], [0, 1], [1, 0], [1, 0]])
TASKS = {"classification": ClassificationTask, "multi_label": MultiLabelTask, "regression": ClassificationTask}


@pytest.fixture(scope="module")
def bert(checkpoint):
    """The model that students start from."""
    return keras_bert.load(checkpoint)


def make_task(kind, bert, folder):
    """Returns a task on six texts, with balanced classes."""
    path = folder / "all.csv"
    rows = [f"{text},{label}" for text, label in zip(TEXTS, LABELS[kind], strict=True)]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    cls = TASKS[kind]
    options = {"sequence_length": 8}
    if kind != "regression":
        options["class_weight"] = "balanced"
    start = Start("start", bert, new_head=True)
    return cls(own_data(kind, path, path), start, cls.Settings(**options))


def classifier_of(task, bert, folder):
    """Saves a classifier with the labels of a task, and returns it and the loaded model."""
    spec = task.data.task
    model = keras_bert.build_classifier(bert.encoder, spec.num_classes, multi_label=spec.multi_label)
    keras_bert.save(model, folder, bert.vocabulary, labels=list(spec.labels) or None)
    return model, keras_bert.load(folder)


def rows_of_loss(kind, logits):
    """Returns the loss of each of eight rows, of which six have labels, and their weights.

    The student's logits are all 0, and half of the loss is that of the teacher, with a temperature of 2.
    """
    balance = np.ones(8)
    if kind == "classification":
        balance[:6] = np.where(CLASS_IDS, 6 / 2 / 4, 6 / 2 / 2)
        logs = log_softmax(logits / 2, -1)
        soft = 4 * (np.exp(logs) * (logs + np.log(2))).sum(-1)
        hard = np.log(2)
    elif kind == "multi_label":
        chances = expit(logits / 2)
        entropy = -(chances * np.log(chances) + (1 - chances) * np.log(1 - chances))
        importance = 6 / 2 / np.where(SEVERAL, SEVERAL.sum(0), 6 - SEVERAL.sum(0))
        of_rows = np.vstack([importance, np.ones([2, 2])])
        soft = 4 * ((np.log(2) - entropy) * of_rows).mean(-1)
        hard = np.log(2) * importance.mean(-1)
    else:
        soft = logits[:, 0] ** 2
        hard = np.array(LABELS[kind], float) ** 2
    of_labels = np.append(np.broadcast_to(hard, 6), [0, 0])
    return (soft + of_labels) / 2, balance


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", list(LABELS))
def test_targets_losses_and_scores(kind, bert, tmp_path):
    task = make_task(kind, bert, tmp_path)
    model, loaded = classifier_of(task, bert, tmp_path / "teacher")
    more = TextExamples(UNLABELED, None, None, [0, 1])
    teacher = Teacher(task, tmp_path / "teacher", loaded, tmp_path / "logits", unlabeled=more)
    assert teacher.origins == {f"{tmp_path}/teacher": loaded.identity}
    assert teacher.facts["unlabeled examples"] == "2"
    assert teacher.run_settings["unlabeled"] == more.fingerprint()
    assert not task.training.keeps_head(loaded)

    stage = teacher.taught(task.training.stages({})[0])
    inputs, targets = stage.examples()
    assert inputs["token_ids"].shape[0] == 8
    assert inputs["token_ids"].to_list()[6] == [2, 12, 5, 3]  # [CLS] h a [SEP]
    logits = model(bert.preprocessor(8)([*TEXTS, *UNLABELED]))["logits"].numpy()
    np.testing.assert_allclose(targets["teacher_logits"], logits, atol=1e-5)
    assert targets["labeled"].tolist() == [1] * 6 + [0] * 2
    total, weight = stage.loss.sums(targets, {"logits": np.zeros_like(logits)}, tf.ones(8))
    rows, balance = rows_of_loss(kind, logits)
    assert float(total / weight) == pytest.approx(np.average(rows, weights=balance), rel=1e-4)

    ((_, dev_targets, _),) = stage.dev.dataset()
    order = np.concatenate(stage.dev.row_indices())[:6]
    np.testing.assert_allclose(dev_targets["teacher_logits"][:6], logits[order], atol=1e-5)
    scores = stage.score({"labels": task.targets(task.data.dev[kind])}, {"logits": logits[:6]})
    findings = teacher.compared(task.report.conclude({kind: logits[:6]}, {}, tmp_path))
    compared = findings.results["teacher"]
    assert compared["scores"] == pytest.approx(scores)
    if scores[task.report.metric] > 0:
        assert compared["share_kept"] == pytest.approx(1)
    assert findings.note.startswith("The teacher, teacher, has on the same rows: ")


class Tokens(NamedTuple):
    """Rows of a task with an output for each token, and the outputs that its loss reads."""

    texts: list
    targets: list
    outputs: list


TOKENS = {
    "tagging": Tokens(
        texts=[["a", "b", "c"], ["d"], ["e", "f"]],
        targets=[["B-X", "O", "O"], ["O"], ["O", "B-X"]],
        outputs=["logits"],
    ),
    "questions": Tokens(
        texts=[{"question": "a", "context": "b c d"}, {"question": "e", "context": "f g"}],
        targets=["c d", "g"],
        outputs=["start_logits", "end_logits"],
    ),
}


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", list(TOKENS))
def test_teachers_of_tokens(name, bert, tmp_path):
    """The loss of each token, or of the positions of each row, against SciPy's formula; padding has no part in it."""
    task = task_of_tokens(name, bert)
    model = task.training.build(bert)
    options = {}
    if task.labels:
        options["labels"] = task.labels
    keras_bert.save(model, tmp_path / "teacher", bert.vocabulary, **options)
    loaded = keras_bert.load(tmp_path / "teacher")
    (stage,) = task.training.stages({})
    teacher = Teacher(task, "teacher", loaded, tmp_path / "logits", temperature=3.0, alpha=0.25)
    taught = teacher.taught(stage)
    batches = stage.batches(*taught.examples(), batch_size=8, seed=1, grouped=False)
    ((inputs, targets, weights),) = batches.dataset()

    given = model(inputs)
    rng = np.random.default_rng(7)
    student = {}
    soft = []
    for key in TOKENS[name].outputs:
        student[key] = rng.normal(size=given[key].shape).astype("float32")
        is_token = None
        if name == "questions":  # Whose positions are compared with each other.
            is_token = inputs["padding_mask"].numpy() > 0
        soft.append(divergence(given[key].numpy(), student[key], is_token, temperature=3.0))
    tensors = {key: tf.constant(values) for key, values in student.items()}
    hard = stage.loss.values(targets["labels"], tensors).numpy()
    importance = weights.numpy()
    if name == "tagging":
        has_label = targets["labels"].numpy() >= 0
        importance = has_label * importance[:, None]
    expected = 0.25 * np.mean(soft, 0) + 0.75 * hard
    total, weight = taught.loss.sums(targets, student, weights)
    assert float(weight) == importance.sum()
    assert float(total / weight) == pytest.approx(np.average(expected, weights=importance), rel=1e-4)


def task_of_tokens(name, bert):
    cls = task_named(name)
    tokens = TOKENS[name]
    rows = PythonRows("texts", task_rows(cls, "texts", tokens.texts, tokens.targets))
    settings = cls.Settings(sequence_length=8)
    return cls(cls.rows.read(rows, rows, settings, name=name), Start("start", bert), settings)


def divergence(teacher, student, is_token, temperature):
    """Returns the Kullback-Leibler divergence of the last axis, of tokens alone if there is a mask of them."""
    if is_token is not None:
        teacher = np.where(is_token, teacher, -np.inf)
        student = np.where(is_token, student, -np.inf)
    with np.errstate(invalid="ignore"):
        logs = log_softmax(teacher / temperature, -1)
        own = log_softmax(student / temperature, -1)
        return temperature**2 * np.nansum(np.exp(logs) * (logs - own), -1)


def first_logit(labels, outputs):
    return outputs["logits"][:, 0]


OWN = Loss("own", first_logit)


@pytest.mark.usefixtures("eager")
def test_the_teacher_is_part_of_one_of_several_losses(bert, tmp_path, monkeypatch):
    """Of the one with `soft`."""
    task = make_task("classification", bert, tmp_path)
    monkeypatch.setattr(task.training, "loss", [OWN, classification_loss()])
    _, loaded = classifier_of(task, bert, tmp_path / "teacher")
    teacher = Teacher(task, "it", loaded, tmp_path / "logits")
    taught = teacher.taught(task.training.stages({})[0])
    assert [loss.name for loss in taught.loss] == ["own", "loss"]
    _, targets = taught.examples()
    total, weight = taught.loss[0].sums(targets, {"logits": np.ones([6, 2], "float32")}, tf.ones(6))
    assert (float(total), float(weight)) == (6, 6)


def test_errors_come_before_the_answers_of_the_teacher(bert, tmp_path, monkeypatch):
    """The teacher cannot answer."""
    task = make_task("classification", bert, tmp_path)
    teacher = types.SimpleNamespace(model=None, head="classification")
    monkeypatch.setattr(task.training, "loss", [OWN])
    with pytest.raises(ValueError, match="needs one loss with `soft`, .* Received: none, of the losses own"):
        Teacher(task, "it", teacher, tmp_path)
    with pytest.raises(ValueError, match="`alpha`"):
        Teacher(task, "it", teacher, tmp_path, alpha="x")
    monkeypatch.setattr(task.training, "can_teach", False)
    with pytest.raises(ValueError, match="`teacher`: the task classification has none"):
        Teacher(task, "it", teacher, tmp_path)
