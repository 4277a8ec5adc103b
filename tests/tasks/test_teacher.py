"""The targets, losses and scores of students, without training."""

import dataclasses
import types

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
from keras_bert.tasks.classification.task import ClassificationTask, check_teacher  # noqa: E402
from keras_bert.tasks.registry import task_named  # noqa: E402
from keras_bert.tasks.teacher import Teacher  # noqa: E402
from keras_bert.training.losses import Loss, classification_loss  # noqa: E402

pytestmark = pytest.mark.tensorflow
TEXTS = ["a b", "c d", "e f", "g h", "a c", "b d"]
LABELS = {
    "classification": ["y", "x", "y", "y", "x", "y"],
    "multi_label": ["x", "x|y", "", "y", "x", "x"],
    "regression": ["1", "2.5", "3", "0", "1", "2"],
}
CLASS_IDS = np.array([1, 0, 1, 1, 0, 1])
SEVERAL = np.array([[1, 0], [1, 1], [0, 0], [0, 1], [1, 0], [1, 0]])


def make_data(kind, tmp_path):
    rows = [f"{text},{label}" for text, label in zip(TEXTS, LABELS[kind], strict=True)]
    (tmp_path / "all.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    return own_data(kind, tmp_path / "all.csv", tmp_path / "all.csv")


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", list(LABELS))
def test_targets_losses_and_scores(kind, checkpoint, pieces, tmp_path):
    data = make_data(kind, tmp_path)
    bert = keras_bert.load(checkpoint)
    several, classes = kind == "multi_label", len(data.task.labels) or 1
    model = keras_bert.build_classifier(bert.encoder, classes, multi_label=several)
    keras_bert.save(model, tmp_path / "teacher", pieces, labels=list(data.task.labels) or None)
    options = {} if kind == "regression" else {"class_weight": "balanced"}
    kind_of_task = MultiLabelTask if several else ClassificationTask
    settings = kind_of_task.Settings(sequence_length=8, **options)
    task = kind_of_task(data, Start("start", bert, new_head=True), settings)
    more = TextExamples(["h a", "d e"], None, None, [0, 1])
    loaded = keras_bert.load(tmp_path / "teacher")
    teacher = Teacher(task, tmp_path / "teacher", loaded, tmp_path / "logits", unlabelled=more)
    assert teacher.origins == {f"{tmp_path}/teacher": loaded.identity}
    stage = teacher.taught(task.training.stages({})[0])
    inputs, targets = stage.examples()
    assert inputs["token_ids"].shape[0] == 8
    assert inputs["token_ids"].to_list()[6] == [2, 12, 5, 3]  # [CLS] h a [SEP]
    read = bert.preprocessor(8)
    logits = model(read([*TEXTS, *more.text]))["logits"].numpy()
    np.testing.assert_allclose(targets["teacher_logits"], logits, atol=1e-5)
    assert targets["labelled"].tolist() == [1] * 6 + [0] * 2

    # A student whose logits are all 0.
    total, weight = stage.loss.sums(targets, {"logits": np.zeros([8, classes], "float32")}, tf.ones(8))
    balance = np.ones(8)
    if kind == "classification":
        balance[:6] = np.where(CLASS_IDS, 6 / 2 / 4, 6 / 2 / 2)
        logs = log_softmax(logits / 2, -1)
        soft, hard = 4 * (np.exp(logs) * (logs + np.log(2))).sum(-1), np.log(2)
    elif several:
        chances = expit(logits / 2)
        entropy = -(chances * np.log(chances) + (1 - chances) * np.log(1 - chances))
        importance = 6 / 2 / np.where(SEVERAL, SEVERAL.sum(0), 6 - SEVERAL.sum(0))
        soft = 4 * ((np.log(2) - entropy) * np.vstack([importance, np.ones([2, classes])])).mean(-1)
        hard = np.log(2) * importance.mean(-1)
    else:
        soft, hard = logits[:, 0] ** 2, np.array(LABELS[kind], float) ** 2
    rows = soft / 2 + np.append(np.broadcast_to(hard, 6), [0, 0]) / 2
    assert float(total / weight) == pytest.approx(np.average(rows, weights=balance), rel=1e-4)

    ((_, dev_targets, _),) = stage.dev.dataset()
    order = np.concatenate(stage.dev.row_indices())
    np.testing.assert_allclose(dev_targets["teacher_logits"][: len(TEXTS)], logits[order[:6]], atol=1e-5)
    scores = stage.score({"labels": task.targets(data.dev[kind])}, {"logits": logits[:6]})
    findings = teacher.compared(task.report.conclude({kind: logits[:6]}, {}, tmp_path))
    assert findings.results["teacher"]["scores"] == pytest.approx(scores)
    if scores[task.report.metric] > 0:
        assert findings.results["teacher"]["share_kept"] == pytest.approx(1)
    assert findings.note.startswith("The teacher, teacher, has on the same rows: ")
    assert teacher.facts["unlabelled examples"] == "2"
    assert teacher.run_settings["unlabelled"] == more.fingerprint()
    assert not task.training.keeps_head(loaded)


TAGGED = [["a", "b", "c"], ["d"], ["e", "f"]], [["B-X", "O", "O"], ["O"], ["O", "B-X"]]
QUESTIONS = [{"question": "a", "context": "b c d"}, {"question": "e", "context": "f g"}], ["c d", "g"]
TOKENS = {"tagging": (TAGGED, ["logits"]), "questions": (QUESTIONS, ["start_logits", "end_logits"])}


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", list(TOKENS))
def test_teachers_of_tokens(name, checkpoint, tmp_path):
    """The loss of each token, or of the positions of each row, against SciPy's formula; padding has no part in it."""
    (texts, targets), outputs = TOKENS[name]
    cls, bert = task_named(name), keras_bert.load(checkpoint)
    rows = PythonRows("texts", task_rows(cls, "texts", texts, targets))
    settings = cls.Settings(sequence_length=8)
    task = cls(cls.rows.read(rows, rows, settings, name=name), Start("start", bert), settings)
    trained = task.training.build(bert)
    options = {"labels": task.labels} if task.labels else {}
    keras_bert.save(trained, tmp_path / "teacher", bert.vocabulary, **options)
    loaded = keras_bert.load(tmp_path / "teacher")
    (stage,) = task.training.stages({})
    taught = Teacher(task, "teacher", loaded, tmp_path / "logits", temperature=3.0, alpha=0.25).taught(stage)
    ((inputs, found, weights),) = stage.batches(*taught.examples(), batch_size=8, seed=1, grouped=False).dataset()
    given = trained(inputs)
    student = {key: np.random.default_rng(7).normal(size=given[key].shape).astype("float32") for key in outputs}
    real = inputs["padding_mask"].numpy() > 0
    soft = [divergence(given[key].numpy(), student[key], real if name == "questions" else None, 3.0) for key in outputs]
    hard = stage.loss.values(found["labels"], {key: tf.constant(values) for key, values in student.items()}).numpy()
    expected = 0.25 * np.mean(soft, 0) + 0.75 * hard
    importance = weights.numpy() if name == "questions" else (found["labels"].numpy() >= 0) * weights.numpy()[:, None]
    total, weight = taught.loss.sums(found, student, weights)
    assert float(weight) == importance.sum()
    assert float(total / weight) == pytest.approx(np.average(expected, weights=importance), rel=1e-4)


def divergence(teacher, student, real, temperature):
    if real is not None:
        teacher, student = (np.where(real, logits, -np.inf) for logits in (teacher, student))
    with np.errstate(invalid="ignore"):
        logs, own = log_softmax(teacher / temperature, -1), log_softmax(student / temperature, -1)
        return temperature**2 * np.nansum(np.exp(logs) * (logs - own), -1)


def test_tasks_with_several_losses(checkpoint, tmp_path):
    """The loss with `soft` is that of the teacher; without one, the error is there before the teacher answers."""
    bert, data = keras_bert.load(checkpoint), make_data("classification", tmp_path)
    task = ClassificationTask(data, Start("start", bert, new_head=True), ClassificationTask.Settings(sequence_length=8))
    teacher = types.SimpleNamespace(model=None, head="classification")  # It cannot answer.
    own = Loss("own", lambda labels, outputs: outputs["logits"][:, 0])
    task.training.loss = [own]
    with pytest.raises(ValueError, match="needs one loss with `soft`, .* Received: none, of the losses own"):
        Teacher(task, "it", teacher, tmp_path)
    with pytest.raises(ValueError, match="`alpha` must be a number from 0 to 1. Received: alpha='x'"):
        Teacher(task, "it", teacher, tmp_path, alpha="x")
    task.training.loss = [own, classification_loss()]
    model = keras_bert.build_classifier(bert.encoder, 2)
    keras_bert.save(model, tmp_path / "teacher", bert.vocabulary, labels=["x", "y"])
    taught = Teacher(task, "it", keras_bert.load(tmp_path / "teacher"), tmp_path / "logits").taught(
        task.training.stages({})[0]
    )
    assert [loss.name for loss in taught.loss] == ["own", "loss"]
    _, targets = taught.examples()
    assert taught.loss[0].sums(targets, {"logits": np.ones([6, 2], "float32")}, tf.ones(6)) == (6.0, 6.0)


def test_wrong_teachers():
    class_task = types.SimpleNamespace(title="T", name="t", multi_label=False, labels=("x", "y"), num_classes=2)
    cases = [
        ({"head": "question_answering"}, "a model with the head 'question_answering'. Expected a classifier"),
        ({"score_activation": "sigmoid"}, "its scores are sigmoids of the logits that a student learns"),
        ({"multi_label": True}, "a classifier with several labels per text. Expected a classifier for T"),
        ({"labels": ["y", "x"]}, "labels y, x. Expected a classifier for T, such as the output of run_gl"),
    ]
    for changes, message in cases:
        known = {"head": "classification", "multi_label": False, "labels": ["x", "y"], "pair": None, **changes}
        output = types.SimpleNamespace(output={"logits": np.zeros([1, 2])})
        bert = types.SimpleNamespace(model=lambda output=output: output, **known)
        with pytest.raises(ValueError, match="Expected") as error:
            check_teacher(bert, "it", class_task)
        assert str(error.value).startswith(f"`teacher=it`: {message}")


def test_wrong_teachers_of_tokens(checkpoint):
    texts, targets = TAGGED
    cls, bert = task_named("tagging"), keras_bert.load(checkpoint)
    rows = PythonRows("texts", task_rows(cls, "texts", texts, targets))
    settings = cls.Settings(sequence_length=8)
    task = cls(cls.rows.read(rows, rows, settings), Start("start", bert), settings)
    known = {name: getattr(bert, name) for name in ("vocabulary", "lowercase", "strip_accents")}
    known |= {"head": "token_classification", "labels": task.labels}
    for changes, message in (
        ({"head": "classification"}, "a model with the head 'classification'. Expected a model of Tagging of texts"),
        ({"labels": ["O"]}, "a model with the labels O. Expected a model of Tagging of texts"),
        ({"lowercase": not bert.lowercase}, "it differs in vocabulary or casing from start. A teacher of the task"),
    ):
        teacher = types.SimpleNamespace(**{**known, **changes})
        with pytest.raises(ValueError, match="Expected") as error:
            task.training.check_teacher(teacher, "it")
        assert str(error.value).startswith(f"`teacher=it`: {message}")
    bert.config = dataclasses.replace(bert.config, max_position_embeddings=7)
    teacher = types.SimpleNamespace(**known, preprocessor=bert.preprocessor)
    with pytest.raises(ValueError, match="`teacher=it`: it reads the tokens .* `sequence_length` must be at most 7, "):
        task.training.check_teacher(teacher, "it")
