"""Tasks that keep every promise, and tasks that are wrong in one thing, of which `check_task` names the promise."""

import dataclasses

import pytest

from tests.extending.conftest import registered

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

import keras_bert  # noqa: E402
from keras_bert.tasks import setting  # noqa: E402
from keras_bert.tasks.registry import TASKS, task_named  # noqa: E402
from keras_bert.testing import BrokenPromises, check_task  # noqa: E402
from keras_bert.testing.task_checks import TaskChecks  # noqa: E402
from tests.testing.topics import TEXTS, TOPICS, unregistered, without_processes  # noqa: E402


@pytest.fixture
def user():
    """The module of a head and of its task, which are right and not registered."""
    with unregistered() as module:
        yield module


def wrong_task(user, part=None, **changes):
    """Returns a task of which one of the three parts, or else the class itself, has other methods."""
    keras_bert.register_head(user.Topics)
    if part == "rows":
        rows = type("WrongRows", (type(user.TopicTask.rows),), changes)
        changes = {"rows": rows()}
    elif part is not None:
        base = getattr(user.TopicTask, part)
        changes = {part: type(f"Wrong{part}", (base,), changes)}
    return type("WrongTask", (user.TopicTask,), changes)


def loses_the_text(user):
    return wrong_task(user, "rows", convert=lambda self, place, row, settings: {"body": row["text"]})


def another_option(user):
    return wrong_task(user, head_options=lambda self: {"num_classes": 3, "num_parents": 2})


def an_infinite_loss(user):
    def head_loss(self, class_weights):
        return keras_bert.losses.Loss("topics_loss", lambda targets, outputs: outputs["logits"][:, 0] / 0.0)

    return wrong_task(user, "Training", head_loss=head_loss)


def a_loss_of_another_output(user):
    def head_loss(self, class_weights):
        return keras_bert.losses.Loss("topics_loss", lambda targets, outputs: outputs["subcategory"][:, 0])

    return wrong_task(user, "Training", head_loss=head_loss)


def a_loss_named_like_a_score(user):
    def head_loss(self, class_weights):
        return keras_bert.losses.Loss("accuracy", user.TopicTraining.head_loss(self, class_weights).values)

    return wrong_task(user, "Training", head_loss=head_loss)


def a_metric_that_is_no_score(user):
    return wrong_task(user, "Report", score=lambda self, targets, outputs: {"accuracy": 1.0})


def a_score_that_is_no_number(user):
    def score(self, targets, outputs):
        return {"joint_accuracy": outputs["logits"].argmax(-1) == targets}

    return wrong_task(user, "Report", score=score)


def concludes_nothing(user):
    return wrong_task(user, "Report", conclude=lambda self, dev, test, output: {"joint_accuracy": 1.0})


def a_card_without_data(user):
    return wrong_task(user, "Report", make_card=lambda self: self.task.data.source_file)


def saves_other_labels(user):
    def save_options(self, kept):
        return user.TopicTask.save_options(self, kept) | {"labels": ["a", "b"]}

    return wrong_task(user, save_options=save_options)


def exports_a_range(user):
    def export_options(self, bert):
        return user.TopicTask.export_options(self, bert) | {"score_range": (0, 1)}

    return wrong_task(user, export_options=export_options)


def another_score_each_time(user):
    calls = []

    def score(self, targets, outputs):
        calls.append(None)
        return user.TopicReport.score(self, targets, outputs) | {"joint_accuracy": 1 / len(calls)}

    return wrong_task(user, "Report", score=score)


def forgets_a_setting(user):
    """The setting decides the texts, and is not stored with the model."""

    @dataclasses.dataclass(frozen=True)
    class Settings(user.TopicTask.Settings):
        ending: str = setting("", "What is added to each text.")

    rows = type(user.TopicTask.rows)

    class Rows(rows):
        columns = ({"text"},)

        def convert(self, place, row, settings):
            text = row["text"] if isinstance(row, dict) else row
            return {"text": text + settings.ending}

    return wrong_task(user, Settings=Settings, rows=Rows())


WRONG_TASKS = [
    (loses_the_text, "rows", "text"),
    (another_option, "build", "num_parents"),
    (an_infinite_loss, "loss", "must be a finite number"),
    (a_loss_of_another_output, "loss", "subcategory"),
    (a_loss_named_like_a_score, "score", "a loss and a score must have different names"),
    (a_metric_that_is_no_score, "score", "`score` must have the metric 'joint_accuracy'. Received: accuracy"),
    (a_score_that_is_no_number, "score", "`score` must be numbers. Received: joint_accuracy=array"),
    (concludes_nothing, "conclude", "measured"),
    (a_card_without_data, "card", "source_file"),
    (saves_other_labels, "save", "labels"),
    (exports_a_range, "export", "is exported, and its SavedModel answers. ValueError: `score_range` must be None"),
    (another_score_each_time, "evaluate", "`evaluate` to have joint_accuracy"),
    (forgets_a_setting, "settings", "`convert` reads to be `stored`, received ending"),
]
NAMES = [make.__name__ for make, _, _ in WRONG_TASKS]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "promise", "message"), WRONG_TASKS, ids=NAMES)
def test_wrong_tasks(user, make, promise, message):
    rows = [{"text": text, "label": topic} for text, topic in zip(TEXTS, TOPICS, strict=True)]
    with pytest.raises(BrokenPromises) as found:
        check_task(make(user), rows, settings={"sequence_length": 12}, only=[promise])
    assert message in found.value.broken[promise]
    assert f"the task topics breaks 1 of the promises of keras_bert:\n{promise}: expected" in str(found.value)


def test_what_is_no_task(user):
    with pytest.raises(ValueError, match="`task` must be a subclass of keras_bert.tasks.Task. Received: task=<class"):
        check_task(user.Topics, TEXTS, TOPICS)


def pairs_of(texts):
    """Returns each text with its letters in the other order."""
    return [(text, text[::-1]) for text in texts]


EIGHT = TEXTS[:8]
CHOICES = [{"text": text, "choices": ["k", "l m", "n"]} for text in EIGHT]
ANSWERS = list("abcdijkl")
QUESTIONS = [{"question": "a", "context": f"c {word} e f g h"} for word in ANSWERS]
WORDS = [text.split() for text in EIGHT]
TAGS = [
    ["B-X", "O", "O"],
    ["O", "B-X"],
    ["O", "O", "B-X", "O"],
    ["O"],
    ["O", "O"],
    ["B-X", "O"],
    ["B-X", "O", "O"],
    ["O", "O", "O"],
]
TASK_ROWS = {
    "classification": (EIGHT, ["x", "y"] * 4),
    "regression": (pairs_of(EIGHT), [number + 0.5 for number in range(8)]),
    "multi_label": (EIGHT, [["x"], ["x", "y"], [], ["y"]] * 2),
    "tagging": (WORDS, TAGS),
    "questions": (QUESTIONS, ANSWERS),
    "multiple_choice": (CHOICES, [0, 1, 2, 0] * 2),
    "embedding": (pairs_of(EIGHT), None),
}
BUILT_IN = [task.name for task in TASKS if task.name in TASK_ROWS]


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_tasks(name):
    texts, targets = TASK_ROWS[name]
    settings = {"sequence_length": 16}
    checked = check_task(task_named(name), texts, targets, settings=settings, only=without_processes(TaskChecks))
    assert set(checked.promises) >= {"recognized", "evaluate", "folds", "lora", "resume"}


MARKED = [
    {"text": "a b c d", "subject": [0, 1], "object": [4, 5]},
    {"text": "c e d e f", "subject": [8, 9], "object": [2, 3]},
    {"text": "g h i", "subject": [4, 5], "object": [0, 1]},
    {"text": "i j k l m", "subject": [0, 3], "object": [8, 9]},
]


@pytest.mark.slow
def test_a_task_with_rows_of_its_own():
    """It keeps the promises that start processes, too."""
    rows = []
    for number, row in enumerate(MARKED * 2):
        rows.append(row | {"text": f"{row['text']} {number}"})
    settings = {"markers": "!?", "sequence_length": 24}
    with registered("relations_task") as module:
        checked = check_task(module.Relations, rows, ["owns", "founded"] * 4, settings=settings)
    assert set(checked.promises) >= {"recognized", "settings", "server", "labeled", "folds", "resume"}


@pytest.mark.slow
def test_a_task_with_a_head_of_its_own():
    texts = [f"{text} {number}" for number, text in enumerate([*EIGHT, *EIGHT[:4]])]
    settings = {"sequence_length": 8}
    only = [*without_processes(TaskChecks), "labeled"]
    with registered("topics_head") as module:
        checked = check_task(module.TopicTask, texts, TOPICS, settings=settings, only=only)
    assert set(checked.promises) >= {"epochs", "results", "report", "model_card", "labeled"}


@pytest.mark.slow
def test_a_task_whose_rows_have_their_targets():
    rows = []
    for number, word in enumerate("abcdefgh"):
        intent = ("lost", "found")[number % 2]
        rows.append({"turns": [f"i {word}", f"{word} j k"], "intent": intent})
    settings = {"sequence_length": 12}
    only = [*without_processes(TaskChecks), "labeled"]
    with registered("intents_task") as module:
        checked = check_task(module.Intents, rows, settings=settings, only=only)
    assert set(checked.promises) >= {"recognized", "epochs", "labeled", "folds", "resume"}
