"""The heads and tasks of users' files, and the built-in ones, keep every promise."""

import pytest

from tests.extending.conftest import registered

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

from keras_bert.heads.registry import HEADS  # noqa: E402
from keras_bert.tasks.registry import TASKS, task_named  # noqa: E402
from keras_bert.testing import check_head, check_task  # noqa: E402

TOPICS = ["sport/tennis", "art/film", "sport/golf"]
GUESTS = {
    "ordinal_head": ("Ordinal", {"num_classes": 4, "spread": 0.5}, {"grade", "rank", "at_least"}, None),
    "topics_head": ("Topics", {"num_classes": 3, "num_categories": 2}, {"topic", "category", "score"}, TOPICS),
}
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


@pytest.mark.parametrize("name", GUESTS)
def test_heads_of_users(name):
    cls, options, keys, labels = GUESTS[name]
    with registered(name) as module:
        checked = check_head(getattr(module, cls), options, labels=labels, keys=keys)
    assert checked.notes == ()
    assert {"shell", "server", "onnx", "verify"} <= set(checked.promises)


@pytest.mark.parametrize("head", [head for head in HEADS if head.name in ANSWERS], ids=lambda head: head.name)
def test_built_in_heads(head):
    checked = check_head(head, keys=ANSWERS[head.name])
    assert {note.partition(":")[0] for note in checked.notes} <= {"run"}


def test_regression():
    check_head(next(head for head in HEADS if head.name == "classification"), {"num_classes": 1}, keys={"value"})


TEXTS = ["a b c", "d e", "f g h i", "j", "b c", "e d", "h i k", "j j l"]
PAIRS = [(text, text[::-1]) for text in TEXTS]
CHOICES = [{"text": text, "choices": ["k", "l m", "n"]} for text in TEXTS]
ASKED = [{"question": "a", "context": f"c {word} e f g h"} for word in "abcdijkl"]
WORDS = [text.split() for text in TEXTS]
TAGS = [["B-X" if word in "aeh" else "O" for word in words] for words in WORDS]
TASK_ROWS = {
    "classification": (TEXTS, ["x", "y"] * 4),
    "regression": (PAIRS, [float(number) for number in range(8)]),
    "multi_label": (TEXTS, [["x"], ["x", "y"], [], ["y"]] * 2),
    "tagging": (WORDS, TAGS),
    "questions": (ASKED, list("abcdijkl")),
    "multiple_choice": (CHOICES, [0, 1, 2, 0] * 2),
    "embedding": (PAIRS, [1.0, 0.9, 0.5, 0.2, 0.8, 0.1, 0.0, 0.4]),
}
NAMES = [task.name for task in TASKS if task.name in TASK_ROWS]


@pytest.mark.parametrize("name", NAMES)
def test_built_in_tasks(name):
    check_task(task_named(name), *TASK_ROWS[name], settings={"sequence_length": 16})


MARKED = [
    {"text": "a b c d", "subject": [0, 1], "object": [4, 5]},
    {"text": "c e d e f", "subject": [8, 9], "object": [2, 3]},
    {"text": "g h i", "subject": [4, 5], "object": [0, 1]},
    {"text": "i j k l m", "subject": [0, 3], "object": [8, 9]},
]


def test_relations():
    rows = [{**row, "text": f"{row['text']} {number}"} for number, row in enumerate(MARKED * 2)]
    with registered("relations_task") as module:
        settings = {"markers": "!?", "sequence_length": 24}
        checked = check_task(module.Relations, rows, ["owns", "founded"] * 4, settings=settings)
    assert {"recognized", "shell", "folds", "resume"} <= set(checked.promises)


def test_grading():
    with registered("ordinal_head") as module:
        settings = {"labels": ["poor", "fair"], "sequence_length": 8}
        checked = check_task(module.Grading, TEXTS, ["poor", "fair"] * 4, settings=settings)
    assert {"shell", "folds", "resume"} <= set(checked.promises)


def test_topics():
    with registered("topics_head") as module:
        settings = {"sequence_length": 8, "class_weight": "balanced"}
        checked = check_task(module.TopicTask, [*TEXTS, "a", "b", "c", "d"], TOPICS * 4, settings=settings)
    assert {"results", "report", "shell", "labelled", "folds", "resume"} <= set(checked.promises)
