"""GPT's auxiliary language model loss in fine-tuning."""

import dataclasses

import numpy as np
import pytest
import scipy.special

import keras_bert
from keras_bert.rewirings.joined import add_language_model_loss, without_language_model_loss
from tests.conftest import to_numpy


def test_the_loss_is_the_mean_over_the_next_tokens(config, batch):
    encoder = keras_bert.build_encoder(dataclasses.replace(config, hidden_dropout_prob=0.0), causal=True)
    pretrainer = keras_bert.build_pretrainer(encoder, next_sentence=False)
    classifier = keras_bert.build_classifier(encoder, 3)
    model = add_language_model_loss(classifier, pretrainer)
    found = {name: to_numpy(value) for name, value in model(batch).items()}
    np.testing.assert_array_equal(found["logits"], to_numpy(classifier(batch)["logits"]))
    ids, real = batch["token_ids"], batch["padding_mask"][:, 1:]
    positions = np.tile(np.arange(ids.shape[1] - 1, dtype="int32"), (len(ids), 1))
    logits = to_numpy(pretrainer({**batch, "mask_positions": positions})["mlm_logits"])
    losses = -np.take_along_axis(scipy.special.log_softmax(logits, -1), ids[:, 1:, None], -1)[..., 0]
    np.testing.assert_allclose(found["language_model_loss"], (losses * real).sum(1) / real.sum(1), rtol=1e-5)
    assert {weight.path for weight in pretrainer.trainable_weights} <= {weight.path for weight in model.weights}
    saved = without_language_model_loss(model)
    assert keras_bert.describe(saved).head == "classification"
    np.testing.assert_array_equal(to_numpy(saved(batch)["logits"]), found["logits"])


def test_other_models_are_refused(config):
    encoders = [keras_bert.build_encoder(config, causal=causal) for causal in (False, True, True)]
    for classified, modeled in ((0, 0), (1, 2)):
        pretrainer = keras_bert.build_pretrainer(encoders[modeled], next_sentence=False)
        with pytest.raises(ValueError, match="must be built on the same encoder with `causal=True`"):
            add_language_model_loss(keras_bert.build_classifier(encoders[classified], 2), pretrainer)
