"""Students with some of the layers of another encoder, a teacher beside a student, GPT's auxiliary loss."""

import dataclasses

import numpy as np
import pytest
import scipy.special

import keras_bert
from keras_bert.rewirings.joined import add_language_model_loss, without_language_model_loss
from tests.conftest import to_numpy


@pytest.fixture(scope="module")
def deep(config):
    """An encoder of six layers."""
    return keras_bert.build_encoder(dataclasses.replace(config, num_hidden_layers=6), positions="sinusoid")


@pytest.mark.parametrize(("layers", "taken"), [(3, [2, 4, 6]), (4, [2, 3, 4, 6]), ([1, 5], [1, 5])])
def test_the_layers_of_a_student(deep, layers, taken):
    student = keras_bert.models.take_layers(deep, layers)
    found = keras_bert.describe(student)
    expected = keras_bert.describe(deep)
    assert (found.config.num_hidden_layers, found.positions) == (len(taken), "sinusoid")
    origins = {}
    for index, number in enumerate(taken):
        origins[f"block_{index}"] = f"block_{number - 1}"
    for name, layer in found.layers.items():
        other = expected.layers[origins.get(name, name)]
        assert layer is not other
        for weight, value in zip(layer.get_weights(), other.get_weights(), strict=True):
            np.testing.assert_array_equal(weight, value, err_msg=name)


def test_a_student_is_loaded_and_saved(deep, pieces, tmp_path):
    """`load(num_layers=)` keeps the heads; the saved student is a checkpoint like any other."""
    keras_bert.save(keras_bert.build_classifier(deep, 3), tmp_path / "teacher", pieces, labels=["a", "b", "c"])
    student = keras_bert.load(tmp_path / "teacher", num_layers=2, dtype="mixed_bfloat16", remat=True)
    block = student.encoder.get_layer("block_1")
    assert (student.config.num_hidden_layers, block.compute_dtype, block.remat) == (2, "bfloat16", True)
    keras_bert.save(student.model(), tmp_path / "student", pieces, labels=student.labels)
    again = keras_bert.load(tmp_path / "student")
    assert again.config.num_hidden_layers == 2
    for weight, other in zip(again.model().weights, student.model().weights, strict=True):
        np.testing.assert_array_equal(to_numpy(weight), to_numpy(other))
    with pytest.raises(ValueError, match="`layers` must be a number of layers, from 1 to 2"):
        keras_bert.load(tmp_path / "student", num_layers=3)


def ids_of(weights):
    """What tells the same weights from equal ones."""
    return [id(weight) for weight in weights]


def test_a_teacher_beside_a_student(config, batch):
    """Its outputs are those without dropout; its weights are not those of the model."""
    sizes = dataclasses.replace(config, hidden_size=16, num_attention_heads=2)
    student = keras_bert.build_pretrainer(keras_bert.build_encoder(sizes))
    teacher = keras_bert.build_pretrainer(keras_bert.build_encoder(config), next_sentence=False)
    model = keras_bert.pretraining.add_teacher(student, teacher)
    inputs = batch | {"mask_positions": np.array([[1, 5, 9], [2, 3, 6], [1, 2, 0]], "int32")}
    found = model(inputs, training=True)
    for name, value in teacher(inputs).items():
        np.testing.assert_allclose(to_numpy(found[f"teacher_{name}"]), to_numpy(value), rtol=1e-5, atol=1e-6)
    assert found.keys() == {"mlm_logits", "nsp_logits", "teacher_mlm_logits"}
    assert ids_of(model.weights) == ids_of(student.weights)
    alone = keras_bert.pretraining.without_teacher(model)
    assert keras_bert.describe(alone).config == sizes
    assert ids_of(alone.weights) == ids_of(student.weights)
    assert keras_bert.pretraining.without_teacher(student) is student


def test_mistakes(config, deep):
    for layers in (0, 7, [], [0, 1], [2, 7], [3, 2], [2, 2]):
        with pytest.raises(ValueError, match="`layers` must be a number of layers, from 1 to 6, or increasing layer"):
            keras_bert.models.take_layers(deep, layers)
    encoder = keras_bert.build_encoder(config)
    pretrainer = keras_bert.build_pretrainer(encoder)
    classifier = keras_bert.build_classifier(encoder, 2)
    for student, teacher, name in ((classifier, pretrainer, "student"), (pretrainer, classifier, "teacher")):
        with pytest.raises(ValueError, match=f"`{name}` must be a model from build_pretrainer. Received: a model with"):
            keras_bert.pretraining.add_teacher(student, teacher)
    keras_bert.enable_lora(classifier, 2)
    with pytest.raises(ValueError, match="`encoder` must not have LoRA adapters; merge_lora merges them into its ker"):
        keras_bert.models.take_layers(encoder, 1)


def test_the_loss_is_the_mean_over_the_next_tokens(config, batch):
    encoder = keras_bert.build_encoder(dataclasses.replace(config, hidden_dropout_prob=0.0), causal=True)
    pretrainer = keras_bert.build_pretrainer(encoder, next_sentence=False)
    classifier = keras_bert.build_classifier(encoder, 3)
    model = add_language_model_loss(classifier, pretrainer)
    found = {name: to_numpy(value) for name, value in model(batch).items()}
    np.testing.assert_array_equal(found["logits"], to_numpy(classifier(batch)["logits"]))
    ids = batch["token_ids"]
    real = batch["padding_mask"][:, 1:]
    positions = np.tile(np.arange(ids.shape[1] - 1, dtype="int32"), (len(ids), 1))
    logits = to_numpy(pretrainer(batch | {"mask_positions": positions})["mlm_logits"])
    losses = -np.take_along_axis(scipy.special.log_softmax(logits, -1), ids[:, 1:, None], -1)[..., 0]
    np.testing.assert_allclose(found["language_model_loss"], (losses * real).sum(1) / real.sum(1), rtol=1e-5)
    assert {weight.path for weight in pretrainer.trainable_weights} <= {weight.path for weight in model.weights}
    saved = without_language_model_loss(model)
    assert keras_bert.describe(saved).head == "classification"
    np.testing.assert_array_equal(to_numpy(saved(batch)["logits"]), found["logits"])


def test_other_models_are_refused(config):
    bidirectional = keras_bert.build_encoder(config)
    causal = keras_bert.build_encoder(config, causal=True)
    another = keras_bert.build_encoder(config, causal=True)
    for classified, modeled in ((bidirectional, bidirectional), (causal, another)):
        classifier = keras_bert.build_classifier(classified, 2)
        pretrainer = keras_bert.build_pretrainer(modeled, next_sentence=False)
        with pytest.raises(ValueError, match="must be built on the same encoder with `causal=True`"):
            add_language_model_loss(classifier, pretrainer)
