"""Heads and tasks that are wrong in one thing: `check_head` and `check_task` name the promise that is broken."""

import dataclasses
import functools

import keras
import numpy as np
import pytest

from tests.extending.conftest import registered

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

import keras_bert  # noqa: E402
from keras_bert.heads.default_signatures import responder  # noqa: E402
from keras_bert.heads.registry import HEADS  # noqa: E402
from keras_bert.tasks import setting  # noqa: E402
from keras_bert.tasks.registry import TASKS  # noqa: E402
from keras_bert.testing import BrokenPromises, check_head, check_task, promises  # noqa: E402

OPTIONS = {"num_classes": 3, "num_categories": 2}
LABELS = ["sport/tennis", "sport/golf", "art/film"]
TEXTS = ["a b c", "d e", "f g h i", "j", "b c", "e d", "h i k", "j j l", "k a", "l m", "a m", "b k"]
TOPICS = LABELS * 4


@pytest.fixture
def user():
    """The module of a head and of its task, which are right; they are not registered: wrong ones take their place."""
    with registered("topics_head") as module:
        HEADS[:] = [head for head in HEADS if type(head) is not module.Topics]
        TASKS[:] = [task for task in TASKS if task is not module.TopicTask]
        yield module


def wrong_head(user, **changes):
    return type("Wrong", (user.Topics,), changes)


def sequence_logits(user):
    """Logits of each token."""

    def run(self, layers, encoded, inputs):
        outputs = user.Topics.run(self, layers, encoded, inputs)
        return {**outputs, "logits": outputs["logits"][:, None, None] + encoded["sequence_output"][:, None, :, :3]}

    return {"run": run}


def depends_on_other_rows(user):
    def run(self, layers, encoded, inputs):
        outputs = user.Topics.run(self, layers, encoded, inputs)
        return {**outputs, "logits": outputs["logits"] - keras.ops.mean(outputs["logits"], 0, keepdims=True)}

    return {"run": run}


def another_forward_pass(user):
    def build(self, encoder, num_classes, num_categories, dropout=0.1):
        model = user.Topics.build(self, encoder, num_classes, num_categories, dropout)
        outputs = {**model.output, "logits": model.output["logits"] * 2.0}
        return keras.Model(encoder.input, outputs, name="topic_classifier")

    return {"build": build}


def forgets_an_option(user):
    return {"units": {"num_classes": "topic"}}


def another_layer(user):
    return {"layer": "pooling_of_attention"}


def forgets_a_weight(user):
    return {"tensors": {name: path for name, path in user.Topics.tensors.items() if name != "attention_pooling.query"}}


def answers_less(user):
    def answer(self, output, row, n_best):
        answer = user.Topics.answer(self, output, row, n_best)
        del answer["category"]
        return answer

    return {"answer": answer}


def responds_less(user):
    def respond(self, outputs, labels):
        answers = user.Topics.respond(self, outputs, labels)
        del answers["category"]
        return answers

    return {"respond": respond, "answer": lambda self, output, row, n_best: {"topic": "a"}}


def reads_metadata(user):
    def build(self, encoder, num_classes, num_categories, dropout=0.1):
        model = user.Topics.build(self, encoder, num_classes, num_categories, dropout)
        values = keras.Input((4,), name="metadata_values")
        return keras.Model({**encoder.input, "metadata_values": values}, model.output, name="topic_classifier")

    return {"build": build}


def reads_the_padding(user):
    def run(self, layers, encoded, inputs):
        outputs = user.Topics.run(self, layers, encoded, inputs)
        return {**outputs, "logits": outputs["logits"] + keras.ops.mean(encoded["sequence_output"], 1)[:, :3]}

    return {"run": run}


def ignores_the_temperature(user):
    """A signature of its own that takes the option."""

    def signature_builder(self, description):
        def build(model, preprocessor, labels, confidence=None):
            right = responder(functools.partial(user.Topics.respond, self), "logits")
            return right(model, preprocessor, labels, False, description)

        return build

    return {"text_options": ("confidence",), "signature_builder": signature_builder}


def takes_other_columns(user):
    return {"inputs": lambda self, bert: [("text", "source", "price")]}


def another_graph(user):
    def write(graph, layer, sequence, mask):
        return graph.add("ReduceMean", sequence, axes=[1], keepdims=0)

    return {"onnx": {"attention_pooling": write}}


WRONG_HEADS = [
    (another_layer, "build", "a layer 'pooling_of_attention', the `layer` of the head"),
    (sequence_logits, "outputs", "the output logits, the `classes` of the head, to have rank 2 or 3"),
    (depends_on_other_rows, "outputs", "logits of a row not to depend on other rows"),
    (another_forward_pass, "run", "the output logits of `run` to be that of the model"),
    (reads_metadata, "build", "can read the inputs token_ids, segment_ids, padding_mask: metadata become part of the"),
    (forgets_an_option, "describe", "num_categories"),
    (forgets_a_weight, "weights", "attention_pooling/query is another one after `save` and `load`"),
    (answers_less, "predict", "answers with the fields topic, category"),
    (
        reads_the_padding,
        "explain",
        "'a charming film', compared with leaving out each word by a loop, to have",
    ),
    (ignores_the_temperature, "confidence", "probabilities with confidence={'temperature': 2.0} to be those of logits"),
    (takes_other_columns, "predict", "must be inputs of its signature, of text, pair"),
    (responds_less, "export", "`respond` to return the `outputs` of the head, topic, category"),
    (another_graph, "onnx", "logits"),
]


@pytest.mark.parametrize(("make", "promise", "message"), WRONG_HEADS, ids=lambda value: getattr(value, "__name__", ""))
def test_wrong_heads(user, make, promise, message):
    if promise == "onnx":
        pytest.importorskip("onnxruntime")
    head = wrong_head(user, **make(user))
    with pytest.raises(BrokenPromises) as found:
        check_head(head, OPTIONS, labels=LABELS, keys=["topic", "category"], only=[promise])
    assert message in found.value.broken[promise]
    assert f"the head topics breaks 1 of the promises of keras_bert:\n{promise}: expected" in str(found.value)


def wrong_task(user, part=None, **changes):
    """Returns a task of which one of the three parts, or else the class itself, has other methods."""
    keras_bert.register_head(user.Topics)
    if part is not None:
        base = getattr(user.TopicTask, part)
        cls = type(base) if part == "rows" else base
        made = type(f"Wrong{part}", (cls,), changes)
        changes = {part: made() if part == "rows" else made}
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
        return {**user.TopicTask.save_options(self, kept), "labels": ["a", "b"]}

    return wrong_task(user, save_options=save_options)


def exports_a_range(user):
    def export_options(self, bert):
        return {**user.TopicTask.export_options(self, bert), "score_range": (0, 1)}

    return wrong_task(user, export_options=export_options)


def another_score_each_time(user):
    calls = []

    def score(self, targets, outputs):
        calls.append(None)
        return {**user.TopicReport.score(self, targets, outputs), "joint_accuracy": 1 / len(calls)}

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


@pytest.mark.slow
@pytest.mark.parametrize(("make", "promise", "message"), WRONG_TASKS, ids=lambda value: getattr(value, "__name__", ""))
def test_wrong_tasks(user, make, promise, message):
    rows = [{"text": text, "label": topic} for text, topic in zip(TEXTS, TOPICS, strict=True)]
    with pytest.raises(BrokenPromises) as found:
        check_task(make(user), rows, settings={"sequence_length": 12}, only=[promise])
    assert message in found.value.broken[promise]
    assert f"the task topics breaks 1 of the promises of keras_bert:\n{promise}: expected" in str(found.value)


def test_names_of_promises(user):
    with pytest.raises(ValueError, match=r"`only` must be names of promises, build, outputs, run, .* Received: 'pack'"):
        check_head(user.Topics, OPTIONS, only=["pack"])
    with pytest.raises(ValueError, match="`task` must be a subclass of keras_bert.tasks.Task. Received: task=<class"):
        check_task(user.Topics, TEXTS, TOPICS)


@pytest.mark.parametrize(
    ("received", "expected", "place"),
    [
        ({"a": [1.0, 2.0]}, {"a": [1.0, 2.1]}, "a [1] 2.1"),
        ({"a": 1}, {"b": 1}, "the fields ['b']"),
        ({"a": [1, 2]}, {"a": [1]}, "a the length 1, received 2"),
        ("a", "b", "'b'"),
        (True, 1.5, "1.5"),
    ],
)
def test_the_place_of_a_difference(received, expected, place):
    with pytest.raises(promises.DifferenceError) as found:
        promises.expect_equal(received, expected, "the answer")
    assert f"expected the answer to have {place}" in str(found.value)
    promises.expect_equal(np.array([1.0, 2.0]), [1.0, 2.00001], "the answer")
