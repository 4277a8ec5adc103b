"""Heads that keep every promise, and heads that are wrong in one thing, of which `check_head` names the promise."""

import functools

import keras
import pytest

from tests.extending.conftest import registered

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

from keras_bert.heads.default_signatures import responder  # noqa: E402
from keras_bert.heads.registry import HEADS  # noqa: E402
from keras_bert.testing import BrokenPromises, check_head  # noqa: E402
from keras_bert.testing.head_checks import HeadChecks  # noqa: E402
from tests.testing.topics import LABELS, OPTIONS, PROCESSES, unregistered, without_processes  # noqa: E402


@pytest.fixture
def user():
    """The module of a head and of its task, which are right and not registered."""
    with unregistered() as module:
        yield module


def sequence_logits(user):
    """Logits of each token."""

    def run(self, layers, encoded, inputs):
        outputs = user.Topics.run(self, layers, encoded, inputs)
        return outputs | {"logits": outputs["logits"][:, None, None] + encoded["sequence_output"][:, None, :, :3]}

    return {"run": run}


def depends_on_other_rows(user):
    def run(self, layers, encoded, inputs):
        outputs = user.Topics.run(self, layers, encoded, inputs)
        return outputs | {"logits": outputs["logits"] - keras.ops.mean(outputs["logits"], 0, keepdims=True)}

    return {"run": run}


def another_forward_pass(user):
    def build(self, encoder, num_classes, num_categories, dropout=0.1):
        model = user.Topics.build(self, encoder, num_classes, num_categories, dropout)
        outputs = model.output | {"logits": model.output["logits"] * 2.0}
        return keras.Model(encoder.input, outputs, name="topic_classifier")

    return {"build": build}


def forgets_an_option(user):
    return {"units": {"num_classes": "topic"}}


def another_layer(user):
    return {"layer": "pooling_of_attention"}


def forgets_a_weight(user):
    tensors = dict(user.Topics.tensors)
    del tensors["attention_pooling.query"]
    return {"tensors": tensors}


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
        return keras.Model(encoder.input | {"metadata_values": values}, model.output, name="topic_classifier")

    return {"build": build}


def reads_the_padding(user):
    def run(self, layers, encoded, inputs):
        outputs = user.Topics.run(self, layers, encoded, inputs)
        return outputs | {"logits": outputs["logits"] + keras.ops.mean(encoded["sequence_output"], 1)[:, :3]}

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
NAMES = [make.__name__ for make, _, _ in WRONG_HEADS]


@pytest.mark.parametrize(("make", "promise", "message"), WRONG_HEADS, ids=NAMES)
def test_wrong_heads(user, make, promise, message):
    if promise == "onnx":
        pytest.importorskip("onnxruntime")
    head = type("Wrong", (user.Topics,), make(user))
    with pytest.raises(BrokenPromises) as found:
        check_head(head, OPTIONS, labels=LABELS, keys=["topic", "category"], only=[promise])
    assert message in found.value.broken[promise]
    assert f"the head topics breaks 1 of the promises of keras_bert:\n{promise}: expected" in str(found.value)


def test_unknown_promises(user):
    with pytest.raises(ValueError, match="`only` must be names of promises, build, outputs, run"):
        check_head(user.Topics, OPTIONS, only=["pack"])


@pytest.mark.slow
def test_a_head_of_a_user():
    with registered("topics_head") as module:
        checked = check_head(module.Topics, OPTIONS, labels=LABELS, keys={"topic", "category"})
    assert checked.notes == ()
    assert set(checked.promises) >= PROCESSES | {"onnx", "int8"}


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
BUILT_IN = [head for head in HEADS if head.name in ANSWERS]
WITH_PROCESSES = "token_classification"


@pytest.mark.slow
@pytest.mark.parametrize("head", BUILT_IN, ids=lambda head: head.name)
def test_built_in_heads(head):
    only = None
    if head.name != WITH_PROCESSES:
        only = without_processes(HeadChecks)
    checked = check_head(head, keys=ANSWERS[head.name], only=only)
    assert {note.partition(":")[0] for note in checked.notes} <= {"run", "confidence"}


@pytest.mark.slow
def test_regression():
    (head,) = [head for head in HEADS if head.name == "classification"]
    check_head(head, {"num_classes": 1}, keys={"value"}, only=without_processes(HeadChecks))
