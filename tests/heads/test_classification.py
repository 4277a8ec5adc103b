"""Classifiers: the activation of their scores, in arguments and in the `config.json` of sentence-transformers."""

import types

import pytest

import keras_bert
from keras_bert.heads.classification import Classification, default_activation, stored_activation
from keras_bert.metadata import Metadata

SIGMOID = "torch.nn.modules.activation.Sigmoid"
IDENTITY = "torch.nn.modules.linear.Identity"


@pytest.mark.parametrize(
    ("num_classes", "options"),
    [(3, {"score_activation": "sigmoid"}), (1, {"score_activation": "tanh"})]
    + [(1, {"score_activation": "sigmoid", "multi_label": True})],
)
def test_activations_that_a_model_cannot_have(config, num_classes, options):
    encoder = keras_bert.build_encoder(config)
    with pytest.raises(ValueError, match="`score_activation` must be 'linear', or 'sigmoid' for a model with one"):
        keras_bert.build_classifier(encoder, num_classes, **options)


def test_the_newer_key_comes_first():
    old = {"sbert_ce_default_activation_function": "old"}
    assert stored_activation(old) == ("sbert_ce_default_activation_function", "old")
    assert stored_activation(old | {"sentence_transformers": {"activation_fn": "new"}}) == ("activation_fn", "new")
    assert stored_activation({})[1] is None


def test_defaults_of_sentence_transformers():
    assert default_activation({"num_labels": 1}) == SIGMOID
    assert default_activation({"num_labels": 3}) == IDENTITY


def read(activation, labels, **config):
    config |= {"num_labels": labels, "sentence_transformers": {"activation_fn": activation}}
    return Classification().read_config(config, Metadata())


def test_activations_that_are_read():
    """A sigmoid of one logit is a score; sigmoids of several are those of independent labels."""
    assert read(SIGMOID, 1).score_activation == "sigmoid"
    assert read(IDENTITY, 1).score_activation == "linear"
    assert read(SIGMOID, 3).multi_label
    assert not read(IDENTITY, 3).multi_label


def test_activations_that_are_not_read():
    with pytest.raises(ValueError, match="`activation_fn` must be one of .*head='encoder'"):
        read("torch.nn.ReLU", 1)
    with pytest.raises(ValueError, match="`activation_fn` must be the identity"):
        read(SIGMOID, 3, problem_type="single_label_classification")


def test_activations_that_are_written():
    def activation(**facts):
        description = types.SimpleNamespace(**facts)
        return Classification().to_config(description, None).get("sentence_transformers")

    assert activation(num_classes=1, multi_label=False, score_activation="linear") == {"activation_fn": IDENTITY}
    assert activation(num_classes=1, multi_label=False, score_activation="sigmoid") == {"activation_fn": SIGMOID}
    assert activation(num_classes=3, multi_label=True, score_activation="linear") == {"activation_fn": SIGMOID}
    assert activation(num_classes=3, multi_label=False, score_activation="linear") is None


def test_one_output_is_a_number():
    def is_regression(num_classes, multi_label):
        description = types.SimpleNamespace(num_classes=num_classes, multi_label=multi_label)
        return Classification().is_regression(description)

    assert is_regression(1, multi_label=False)
    assert not is_regression(1, multi_label=True)
    assert not is_regression(2, multi_label=False)
