"""What a head has by default, and what `config.json` tells of its classes."""

import types

import numpy as np
import pytest

from keras_bert.heads.head import (
    Head,
    check_inputs,
    count_classes,
    is_same_option,
    our_activation,
    with_head_options,
    with_options,
)
from keras_bert.metadata import Metadata


class Scorer(Head):
    """A head of a user, with a layer that has a part."""

    name = "scorer"
    layer = "scorer"
    reads = ("pooled",)
    tensors = {"scorer": "classifier", "scorer.steps": "steps", "other.bias": "bias"}  # noqa: RUF012
    units = {"num_classes": "scorer"}  # noqa: RUF012
    saved = ("slope",)
    has_classes = True
    onnx = {"extra": None}  # noqa: RUF012

    def build(self, encoder, num_classes, slope=1.0):
        raise AssertionError("no model is built here")


def described(num_classes=3, multi_label=False, **options):
    return types.SimpleNamespace(num_classes=num_classes, multi_label=multi_label, options=options)


def test_names_of_layers_come_from_tensors_and_graphs():
    assert Scorer().layer_names() == {"scorer", "other", "extra"}


def test_sizes_come_from_layers_and_from_tensors():
    layers = {"scorer": types.SimpleNamespace(units=3)}
    assert Scorer().described(layers) == {"num_classes": 3}
    assert Scorer().sizes({"classifier.weight": np.zeros((3, 8))}) == {"num_classes": 3}


def test_parts_of_layers_by_the_names_of_their_tensors():
    layer = types.SimpleNamespace(steps="the steps")
    assert Scorer().parts({"scorer": layer}) == {"classifier": layer, "steps": "the steps"}


def test_options_are_those_that_build_takes():
    assert Scorer().options({"num_classes": 3, "slope": None, "dropout": 0.1}) == {"num_classes": 3}
    assert Scorer().options_to_store(described(slope=2.0, dropout=0.1)) == {"slope": 2.0}
    assert Head.options_to_store(Head(), described()) is None


def test_a_head_that_requires_pairs_takes_them():
    class Pairs(Head):
        requires_pair = True

    assert Pairs.takes_pair
    assert Pairs().inputs(None) == [("text", "pair")]
    assert Scorer().inputs(None) == [("text",)]


def test_logits_come_from_what_answers_tell():
    logits = np.array([[1.0, 2.0]])
    assert Scorer().class_logits({"logits": logits}) is logits
    probabilities = np.array([[0.25, 0.75]])
    np.testing.assert_allclose(np.exp(Scorer().class_logits({"probabilities": probabilities})), probabilities)
    assert Scorer().class_logits({"value": np.array([2.0])}).tolist() == [[2.0]]


def test_answers_that_tell_no_classes_are_refused():
    with pytest.raises(ValueError, match="'logits'"):
        Scorer().class_logits({"stars": np.zeros(1)})
    with pytest.raises(ValueError, match=r"must keep the shape .* Received: the shape \(1,\)"):
        Scorer().class_logits({"logits": np.zeros(1)})


def test_labels_are_written_and_read():
    config = Scorer().to_config(described(num_classes=2), ["x", "y"])
    assert config == {"id2label": {"0": "x", "1": "y"}, "label2id": {"x": 0, "y": 1}}
    assert Scorer().read_config(config, Metadata()).labels == ["x", "y"]
    without_names = Scorer().to_config(described(num_classes=2), None)
    assert without_names["id2label"] == {"0": "LABEL_0", "1": "LABEL_1"}
    assert Scorer().read_config(without_names, Metadata()).labels is None


def test_labels_may_start_at_one():
    table = {"2": "y", "1": "x"}
    assert Scorer().read_config({"id2label": table}, Metadata()).labels == ["x", "y"]


@pytest.mark.parametrize("table", [{"0": "x", "2": "y"}, {"2": "x"}, {"0": "x", "1": "x"}, {"a": "x"}, {"0": None}])
def test_tables_that_are_no_list_of_labels(table):
    with pytest.raises(ValueError, match="`id2label` must map the numbers from 0 or 1 on to different names"):
        Scorer().read_config({"id2label": table}, Metadata())


@pytest.mark.parametrize(("problem", "labels"), [("regression", 2), ("single_label_classification", 1), ("ranking", 2)])
def test_problem_types_that_do_not_match(problem, labels):
    config = {"problem_type": problem, "num_labels": labels}
    with pytest.raises(ValueError, match="`problem_type`"):
        Scorer().read_config(config, Metadata())


def test_the_number_of_classes():
    assert count_classes({"id2label": {"0": "x"}}) == 1
    assert count_classes({"num_labels": 4}) == 4
    assert count_classes({}) == 2


def test_tuples_are_lists_in_options():
    assert is_same_option({"pooling": ("cls", "max")}, {"pooling": ["cls", "max"]})
    assert not is_same_option(["cls"], ["cls", "max"])
    assert not is_same_option({"a": 1}, {"b": 1})


def test_options_of_a_head_by_the_names_of_parameters():
    def respond(outputs, labels, slope=1.0):
        return slope

    assert with_head_options(respond, {"slope": 2.0, "other": 3}, count=2)(None, None) == 2.0


def test_unknown_options_of_signatures():
    def build(model, n_best=1):
        return n_best

    description = types.SimpleNamespace(head="scorer")
    assert with_options(build, description, {"n_best": 3}, "model") == 3
    with pytest.raises(ValueError, match="has no option 'stride' .* Expected one of: n_best"):
        with_options(build, description, {"stride": 3}, "model")


def test_inputs_that_are_not_computed_from_texts():
    model = types.SimpleNamespace(input={"token_ids": None, "price": None})
    with pytest.raises(ValueError, match="Received: price"):
        check_inputs(Scorer(), model)


def test_activations_of_pytorch():
    known = {"linear": "torch.nn.modules.linear.Identity"}
    assert our_activation("activation_fn", "torch.nn.Identity", known) == "linear"
    for other in ("torch.nn.ReLU", "mine.Identity", None):
        with pytest.raises(ValueError, match="`activation_fn`"):
            our_activation("activation_fn", other, known)
