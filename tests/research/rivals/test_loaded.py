"""Models that BERT is compared with: saved and loaded with their facts, and built by name."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.runs.unchanged_inputs import differences
from research import rivals
from research.rivals.config import named_rival
from research.rivals.models import build_bidaf, build_bilm, build_rival, frozen_states
from tests.checkpoints.conftest import edit
from tests.conftest import to_numpy

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh")
NAMES = {"bilm": "bilm_H-4", "bilstm": "bilstm_H-4_L-1_E-6", "bidaf": "bidaf_H-4_E-6"}


def build(kind, features=False, **options):
    """Returns a new model, with the states of a language model as features or without."""
    if kind == "bilstm":
        options.setdefault("num_classes", 3)
    if features:
        language_model = named_rival("bilm_H-4_L-1", len(PIECES))
        options["language_model"] = build_rival(language_model)
    return build_rival(named_rival(NAMES[kind], len(PIECES)), **options)


@pytest.fixture(scope="module")
def language_model():
    """A language model. Tests must not change it."""
    return build("bilm")


@pytest.fixture(scope="module")
def bilm(language_model, tmp_path_factory):
    """The folder of the language model."""
    folder = tmp_path_factory.mktemp("bilm") / "bilm"
    keras_bert.save(language_model, folder, PIECES, lowercase=False)
    return folder


@pytest.fixture
def rows():
    ids = np.array([[2, 5, 3, 7, 3], [2, 3, 10, 3, 0]], "int32")
    segments = np.array([[0, 0, 0, 1, 1], [0, 0, 1, 1, 0]], "int32")
    return {"token_ids": ids, "segment_ids": segments, "padding_mask": (ids != 0).astype("int32")}


def outputs(model, rows):
    """Returns the outputs of a model but the hidden states."""
    tensors = model({name: rows[name] for name in model.input})
    return {name: to_numpy(value) for name, value in tensors.items() if name != "hidden_states"}


def graph(model):
    """Returns the description of a model, which specifies the whole graph."""
    return dataclasses.replace(keras_bert.describe(model), layers={})


def weights(model):
    return {weight.path: to_numpy(weight) for weight in model.weights}


def assert_same(model, expected):
    """Compares weights and descriptions."""
    assert graph(model) == graph(expected)
    found = weights(model)
    assert found.keys() == weights(expected).keys()
    for path, value in weights(expected).items():
        np.testing.assert_array_equal(found[path], value, err_msg=path)


@pytest.mark.parametrize(
    ("kind", "options", "facts"),
    [
        (
            "bilstm",
            {"pair": False},
            {"labels": ["no", "so", "yes"], "task": "mine", "pair": False, "sequence_length": 9},
        ),
        ("bidaf", {"features": True}, {"task": "squad", "null_threshold": -1.5}),
        ("bilm", {}, {}),
    ],
)
def test_saved_models_load_with_their_facts(tmp_path, kind, options, facts):
    model = build(kind, **options)
    keras_bert.save(model, tmp_path, PIECES, lowercase=False, **facts)
    bert = rivals.load(tmp_path)
    assert bert.vocabulary.pieces == PIECES
    assert bert.lowercase is False
    assert {name: getattr(bert, name) for name in facts} == facts
    assert bert.config == keras_bert.describe(model).config
    assert_same(bert.model(), model)


def test_a_loaded_model_is_saved_again(bilm, tmp_path):
    bert = rivals.load(bilm)
    keras_bert.save(bert.model(), tmp_path / "again", bert.vocabulary)
    assert rivals.load(tmp_path / "again" / "model.keras").config == bert.config


def test_labels_that_are_not_different(tmp_path):
    keras_bert.save(build("bilstm"), tmp_path, PIECES)
    edit(tmp_path / "config.json", labels=["no", "yes", "yes"])
    with pytest.raises(ValueError, match="config.json: `labels` must be 3 different names"):
        rivals.load(tmp_path)


def test_dtypes(tmp_path, rows):
    """Files are in float32."""
    model = build("bilstm", dtype="mixed_bfloat16")
    keras_bert.save(model, tmp_path, PIECES)
    exact = rivals.load(tmp_path).model()
    narrow = rivals.load(tmp_path, dtype="mixed_bfloat16").model()
    assert keras_bert.describe(exact).dtype == "float32"
    assert keras_bert.describe(narrow).dtype == "mixed_bfloat16"
    assert_same(narrow, model)
    few = {name: value[:, :3] for name, value in rows.items()}
    computed = outputs(narrow, few)
    for name, value in outputs(exact, few).items():
        np.testing.assert_allclose(computed[name], value, rtol=0.05, atol=0.02)


def test_a_language_model_in_16_bits(rows):
    language_model = build_bilm(13, width=4, dtype="bfloat16")
    assert np.isfinite(outputs(language_model, rows)["mlm_logits"]).all()


def test_trained_weights_stay_below_a_new_head(tmp_path, caplog):
    keras_bert.save(build("bilstm", features=True), tmp_path, PIECES)
    bert = rivals.load(tmp_path)
    old = weights(bert.model())
    model = bert.classifier(5)
    for path, value in weights(model).items():
        is_new = path.startswith("classifier")
        is_trained = path in old and old[path].shape == value.shape
        assert is_trained != is_new
        if is_trained:
            np.testing.assert_array_equal(value, old[path])
    assert model.output["logits"].shape == (None, 5)
    single = bert.classifier(2, pair=False)  # Without attention between two texts.
    assert keras_bert.describe(single).pair is False
    assert "has no weights for hidden: they are new" in caplog.text


def test_a_language_model_lends_its_vocabulary_and_weights(bilm, language_model):
    bert = rivals.load("bidaf_H-4", language_model=bilm)
    model = bert.span_labeler()
    assert (bert.vocabulary.pieces, bert.lowercase) == (PIECES, False)
    layers = {layer.name: layer for layer in model.layers}
    for name in ("token_embedding", "lstm_0", "lstm_1"):
        expected = language_model.get_layer(name)
        assert not layers[name].trainable
        for found, weight in zip(layers[name].weights, expected.weights, strict=True):
            np.testing.assert_array_equal(to_numpy(found), to_numpy(weight))


def test_the_vocabulary_of_a_new_model_is_one_of_its_facts():
    first = rivals.load("bilstm_H-4", vocabulary=[*PIECES, "i", "j"]).identity
    second = rivals.load("bilstm_H-4", vocabulary=[*PIECES, "j", "i"]).identity
    assert differences(first, second) == ["the vocabulary"]


def test_the_language_model_of_a_new_model_is_one_of_its_facts(tmp_path):
    def facts():
        return rivals.load("bilstm_H-4", language_model=tmp_path).identity

    keras_bert.save(build("bilm"), tmp_path, PIECES)
    first = facts()
    assert differences(first, facts()) == []
    keras_bert.save(build("bilm"), tmp_path, PIECES)
    assert differences(first, facts()) == ["the weights"]


def test_frozen_states_are_those_of_the_language_model(rows):
    model = build("bilm")
    inputs = {name: rows[name][:1, :1] for name in model.input}
    found = frozen_states(model, **inputs)
    for state, expected in zip(found, model(inputs)["hidden_states"], strict=True):
        np.testing.assert_allclose(to_numpy(state), to_numpy(expected), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bilstm", {}, "bilstm is a new model without a vocabulary, to be trained by run_glue"),
        ("bert", {"vocabulary": PIECES}, "bert: no such model"),
        ("elmo", {}, "elmo: no such model. Models without BERT are named bilstm"),
        ("{bilm}", {"lowercase": True}, "`lowercase` is for new models, such as bilstm"),
        (
            "bilstm",
            {"language_model": "{bilm}", "vocabulary": PIECES[:-1]},
            "`vocabulary` must be that of `language",
        ),
    ],
)
def test_models_that_cannot_be_loaded(bilm, name, options, message):
    if "language_model" in options:
        options = options | {"language_model": bilm}
    with pytest.raises(ValueError, match=message):
        rivals.load(name.format(bilm=bilm), **options)


def test_a_language_model_of_another_kind(tmp_path):
    keras_bert.save(build("bilstm"), tmp_path, PIECES)
    with pytest.raises(ValueError, match="must be a trained model of kind bilm"):
        rivals.load("bilstm", language_model=tmp_path)


@pytest.mark.parametrize("name", ["bilstm_H-4", "{bilm}", "{bilm}/model.keras"])
def test_keras_bert_loads_no_rival(bilm, name):
    with pytest.raises(ValueError, match="is not a BERT: research.rivals.load opens"):
        keras_bert.load(name.format(bilm=bilm))


def test_a_language_model_answers_no_texts(bilm):
    bert = rivals.load(bilm)
    with pytest.raises(ValueError, match="answers no texts. A bilm serves as `language_model`"):
        bert.predict("a b")
    with pytest.raises(ValueError, match="has no 'encode'"):
        bert.encode("a b")
    with pytest.raises(AttributeError, match="is not a BERT and has no 'encoder'"):
        _ = bert.encoder


def test_a_language_model_is_the_start_of_others_only(bilm):
    bert = rivals.load(bilm)
    with pytest.raises(ValueError, match="classification needs a bilstm, with this model as"):
        bert.classifier(2)
    with pytest.raises(ValueError, match="must be a model from build_bilm"):
        build_bidaf(13, language_model=bert)
    with pytest.raises(ValueError, match="the same vocabulary. Received: vocab_"):
        build_bidaf(14, language_model=bert.model())


def test_a_new_classifier():
    bert = rivals.load("bilstm_H-4", vocabulary=PIECES)
    with pytest.raises(ValueError, match="question answering needs a bidaf"):
        bert.span_labeler()
    with pytest.raises(ValueError, match="several labels per text need a BERT model"):
        bert.classifier(2, multi_label=True)
    with pytest.raises(ValueError, match="bilstm_H-4 has no weights. Build a model with"):
        bert.model()


def test_forms_that_a_language_model_does_not_have(language_model, tmp_path):
    with pytest.raises(ValueError, match="is saved with format='keras'"):
        keras_bert.save(language_model, tmp_path / "google", PIECES, format="google")
    with pytest.raises(ValueError, match="more than the token table's"):
        keras_bert.save(language_model, tmp_path / "more", (*PIECES, "i"))
    with pytest.raises(ValueError, match="`num_layers` must be at least 1"):
        build_bilm(13, num_layers=0)


@pytest.mark.tensorflow
def test_a_language_model_is_not_exported(language_model, bilm, tmp_path):
    preprocessor = rivals.load(bilm).preprocessor(8)
    with pytest.raises(ValueError, match="answers no texts: export the model"):
        keras_bert.export(language_model, preprocessor, tmp_path / "1")


def test_changed_models():
    model = build("bidaf")
    start = keras.layers.Activation("relu")(model.output["start_logits"])
    changed = keras.Model(model.input, model.output | {"start_logits": start}, name="bidaf")
    with pytest.raises(ValueError, match="must come from build_bilm, build_bilstm_classifier or"):
        rivals.describe(changed)
    with pytest.raises(ValueError, match="A bidaf that Keras loaded: pass it to research.rivals"):
        keras_bert.describe(changed)
