"""The heads and tasks of users' files, and the built-in ones, keep every promise."""

import pytest

from tests.extending.conftest import registered

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.usefixtures("eager")]

from keras_bert.heads.registry import HEADS  # noqa: E402
from keras_bert.tasks.registry import TASKS, task_named  # noqa: E402
from keras_bert.testing import check_head, check_task  # noqa: E402
from keras_bert.testing.head_checks import HeadChecks  # noqa: E402
from keras_bert.testing.promises import promises_of  # noqa: E402
from keras_bert.testing.task_checks import TaskChecks  # noqa: E402

# The fields of the answers of built-in heads.
ANSWERS = {
    "encoder": {"embedding"},
    "embedding": {"embedding"},
    "next_sentence": {"probability"},
    "pretraining": {"fills"},
    "classification": {"label", "score", "scores"},
    "token_classification": {"entities"},
    "question_answering": {"answer", "score", "start", "end"},
    "replaced_token_detection": {"tokens"},
    "multiple_choice": {"choice", "scores"},
}
# Each starts a process, which takes most of the time: one built-in head, and what users wrote, do so.
PROCESSES = {"shell", "server", "verify"}
WHOLE = "token_classification"


def promised(checks, name):
    """Returns the names of the promises to check of a built-in head or task, `None` for all."""
    if name == WHOLE:
        return None
    names = [name for promise in promises_of(checks) for name in promise.names]
    return [name for name in names if name not in PROCESSES]


def test_a_head_of_a_user():
    with registered("topics_head") as module:
        options = {"num_classes": 3, "num_categories": 2}
        labels = ["sport/tennis", "sport/golf", "art/film"]
        checked = check_head(module.Topics, options, labels=labels, keys={"topic", "category"})
    assert checked.notes == ()
    assert PROCESSES | {"onnx", "int8"} <= set(checked.promises)


@pytest.mark.parametrize("head", [head for head in HEADS if head.name in ANSWERS], ids=lambda head: head.name)
def test_built_in_heads(head):
    checked = check_head(head, keys=ANSWERS[head.name], only=promised(HeadChecks, head.name))
    assert {note.partition(":")[0] for note in checked.notes} <= {"run", "confidence"}


def test_regression():
    head = next(head for head in HEADS if head.name == "classification")
    check_head(head, {"num_classes": 1}, keys={"value"}, only=promised(HeadChecks, "regression"))


TEXTS = ["a b c", "d e", "f g h i", "j", "b c", "e d", "h i k", "j j l"]
PAIRS = [(text, text[::-1]) for text in TEXTS]
CHOICES = [{"text": text, "choices": ["k", "l m", "n"]} for text in TEXTS]
ASKED = [{"question": "a", "context": f"c {word} e f g h"} for word in "abcdijkl"]
WORDS = [text.split() for text in TEXTS]
TAGS = [["B-X" if word in "aeh" else "O" for word in words] for words in WORDS]
TASK_ROWS = {
    "classification": (TEXTS, ["x", "y"] * 4),
    "regression": (PAIRS, [number + 0.5 for number in range(8)]),
    "multi_label": (TEXTS, [["x"], ["x", "y"], [], ["y"]] * 2),
    "tagging": (WORDS, TAGS),
    "questions": (ASKED, list("abcdijkl")),
    "multiple_choice": (CHOICES, [0, 1, 2, 0] * 2),
    "embedding": (PAIRS, None),
}
NAMES = [task.name for task in TASKS if task.name in TASK_ROWS]


@pytest.mark.parametrize("name", NAMES)
def test_built_in_tasks(name):
    settings = {"sequence_length": 16}
    checked = check_task(task_named(name), *TASK_ROWS[name], settings=settings, only=promised(TaskChecks, name))
    assert {"recognized", "evaluate", "folds", "lora", "resume"} <= set(checked.promises)


MARKED = [
    {"text": "a b c d", "subject": [0, 1], "object": [4, 5]},
    {"text": "c e d e f", "subject": [8, 9], "object": [2, 3]},
    {"text": "g h i", "subject": [4, 5], "object": [0, 1]},
    {"text": "i j k l m", "subject": [0, 3], "object": [8, 9]},
]


def test_a_task_with_rows_of_its_own():
    rows = [{**row, "text": f"{row['text']} {number}"} for number, row in enumerate(MARKED * 2)]
    with registered("relations_task") as module:
        settings = {"markers": "!?", "sequence_length": 24}
        checked = check_task(module.Relations, rows, ["owns", "founded"] * 4, settings=settings)
    assert {"recognized", "settings", "server", "labelled", "folds", "resume"} <= set(checked.promises)


def test_a_task_with_a_head_of_its_own():
    with registered("topics_head") as module:
        topics = ["sport/tennis", "sport/golf", "art/film"] * 4
        texts = [f"{text} {number}" for number, text in enumerate([*TEXTS, *TEXTS[:4]])]
        only = [*promised(TaskChecks, "topics"), "labelled"]
        checked = check_task(module.TopicTask, texts, topics, settings={"sequence_length": 8}, only=only)
    assert {"epochs", "results", "report", "model_card", "labelled"} <= set(checked.promises)


def test_a_task_whose_rows_have_their_targets():
    rows = []
    for number, word in enumerate("abcdefgh"):
        rows.append({"turns": [f"i {word}", f"{word} j k"], "intent": ("lost", "found")[number % 2]})
    with registered("intents_task") as module:
        only = [*promised(TaskChecks, "intents"), "labelled"]
        checked = check_task(module.Intents, rows, settings={"sequence_length": 12}, only=only)
    assert {"recognized", "epochs", "labelled", "folds", "resume"} <= set(checked.promises)
