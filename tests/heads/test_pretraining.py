"""Heads of pre-training: what their files tell, what they read, and what they answer."""

import types

import numpy as np

from keras_bert.heads.pretraining import NextSentence, Pretraining


def described(next_sentence, causal=False):
    return types.SimpleNamespace(options={"next_sentence": next_sentence}, causal=causal)


def test_the_class_of_transformers():
    head = Pretraining()
    assert head.architecture(described(next_sentence=True)) == "BertForPreTraining"
    assert head.architecture(described(next_sentence=False)) == "BertForMaskedLM"
    assert head.architecture(described(next_sentence=False, causal=True)) == "BertLMHeadModel"


def test_layers_and_tensors_tell_the_options():
    head = Pretraining()
    assert head.described({"next_sentence": None}) == {"next_sentence": True, "tied": True}
    assert head.described({"mlm_decoder": None}) == {"next_sentence": False, "tied": False}
    assert head.sizes({"cls.seq_relationship.weight": None}) == {"next_sentence": True}
    assert head.sizes({}) == {"next_sentence": False}


def test_pairs_need_next_sentence_prediction():
    def inputs(*outputs):
        model = types.SimpleNamespace(output=dict.fromkeys(outputs))
        return Pretraining().inputs(types.SimpleNamespace(model=lambda: model))

    assert inputs("mlm_logits") == [("text",)]
    assert inputs("mlm_logits", "nsp_logits") == [("text",), ("text", "pair")]
    assert NextSentence().inputs(None) == [("text", "pair")]


def test_answers_of_both_signatures():
    fills = {
        "mask_count": 1,
        "tokens": np.array([[b"a", b"b"], [b"", b""]]),
        "probabilities": np.array([[0.75, 0.25], [0.0, 0.0]]),
    }
    best = [[{"token": "a", "score": 0.75}]]
    assert Pretraining().answer(fills, {"text": "[MASK]"}, 1) == {"fills": best}
    assert Pretraining().answer({"probability": np.array(0.5)}, {}, None) == {"probability": 0.5}
