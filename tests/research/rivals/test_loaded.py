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


def build(kind, features=False, dtype=None, **options):
    language_model = build_rival(named_rival("bilm_H-4_L-1", len(PIECES)), dtype=dtype) if features else None
    options = {"num_classes": 3, **options} if kind == "bilstm" else options
    return build_rival(named_rival(NAMES[kind], len(PIECES)), language_model=language_model, dtype=dtype, **options)


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
    found = model({name: rows[name] for name in model.input})
    return {name: value for name, value in found.items() if name != "hidden_states"}


def assert_same(found, model):
    """Compares weights and descriptions, which specify the whole graph."""
    described, expected = (dataclasses.replace(keras_bert.describe(each), layers={}) for each in (found, model))
    assert described == expected
    weights = {weight.path: to_numpy(weight) for weight in found.weights}
    assert weights.keys() == {weight.path for weight in model.weights}
    for weight in model.weights:
        np.testing.assert_array_equal(weights[weight.path], to_numpy(weight), err_msg=weight.path)


@pytest.mark.parametrize(
    ("kind", "features", "facts"),
    [
        ("bilstm", False, {"labels": ["no", "so", "yes"], "task": "mine", "pair": False, "sequence_length": 9}),
        ("bidaf", True, {"task": "squad", "null_threshold": -1.5}),
        ("bilm", False, {}),
    ],
)
def test_saved_models_load_with_their_facts(tmp_path, kind, features, facts):
    model = build(kind, features, **({"pair": False} if kind == "bilstm" else {}))
    keras_bert.save(model, tmp_path, PIECES, lowercase=False, **facts)
    bert = rivals.load(tmp_path)
    assert (bert.vocabulary.pieces, bert.lowercase) == (PIECES, False)
    assert {name: getattr(bert, name) for name in facts} == facts
    assert bert.config == keras_bert.describe(model).config
    assert_same(bert.model(), model)
    if kind == "bilm":
        keras_bert.save(bert.model(), tmp_path / "again", bert.vocabulary)
        assert rivals.load(tmp_path / "again" / "model.keras").config == bert.config
    elif kind == "bilstm":
        edit(tmp_path / "config.json", labels=["no", "yes", "yes"])
        with pytest.raises(ValueError, match="config.json: `labels` must be 3 different names, in the order of the lo"):
            rivals.load(tmp_path)


def test_dtypes(tmp_path, rows):
    """Files are in float32."""
    model = build("bilstm", dtype="mixed_bfloat16")
    keras_bert.save(model, tmp_path, PIECES)
    exact = rivals.load(tmp_path).model()
    narrow = rivals.load(tmp_path, dtype="mixed_bfloat16").model()
    assert [keras_bert.describe(each).dtype for each in (exact, narrow)] == ["float32", "mixed_bfloat16"]
    assert_same(narrow, model)
    few = {name: value[:, :3] for name, value in rows.items()}
    computed = outputs(narrow, few)
    for name, value in outputs(exact, few).items():
        np.testing.assert_allclose(to_numpy(computed[name]), to_numpy(value), rtol=0.05, atol=0.02)
    language_model = build_bilm(13, width=4, dtype="bfloat16")
    assert np.isfinite(to_numpy(outputs(language_model, few)["mlm_logits"])).all()


def test_trained_weights_stay_below_a_new_head(tmp_path, caplog):
    keras_bert.save(build("bilstm", features=True), tmp_path, PIECES)
    bert = rivals.load(tmp_path)
    found = bert.classifier(5)
    old = {weight.path: to_numpy(weight) for weight in bert.model().weights}
    for weight in found.weights:
        same = weight.path in old and old[weight.path].shape == weight.shape
        assert same == (not weight.path.startswith("classifier"))
        if same:
            np.testing.assert_array_equal(to_numpy(weight), old[weight.path])
    assert found.output["logits"].shape == (None, 5)
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


def test_facts_of_a_new_model(tmp_path):
    """The vocabulary and the language model."""
    facts = [rivals.load("bilstm_H-4", vocabulary=[*PIECES, *more]).identity for more in ("ij", "ji")]
    assert differences(*facts) == ["the vocabulary"]
    facts.clear()
    for count in (2, 1):
        keras_bert.save(build("bilm"), tmp_path / "bilm", PIECES)
        options = {"language_model": tmp_path / "bilm"}
        facts += [rivals.load("bilstm_H-4", **options).identity for _ in range(count)]
    assert [differences(facts[0], other) for other in facts] == [[], [], ["the weights"]]


def test_names():
    assert dataclasses.astuple(named_rival("bilstm", 7))[1:5] == (7, 1500, 2, 300)  # GLUE's baseline.
    sizes = named_rival("bilstm_H-256_L-1_E-100", 7)
    assert (sizes.width, sizes.num_layers, sizes.embedding_size) == (256, 1, 100)
    assert named_rival("bilm_H-8", 7).embedding_size == 8
    assert [named_rival(name, 7) for name in ("bilstm_", "bidaf_H256", "bert", "L-2_H-4")] == [None] * 4
    with pytest.raises(ValueError, match="bidaf_L-2: bidaf has no num_layers. Expected sizes H, E"):
        named_rival("bidaf_L-2", 7)
    with pytest.raises(ValueError, match="bilstm_H-4_H-8: each size must be given once. Received: H, H"):
        named_rival("bilstm_H-4_H-8", 7)


def test_frozen_states_are_those_of_the_language_model(rows):
    model = build("bilm")
    inputs = {name: rows[name][:1, :1] for name in model.input}
    found = frozen_states(model, **inputs)
    for state, expected in zip(found, model(inputs)["hidden_states"], strict=True):
        np.testing.assert_allclose(to_numpy(state), to_numpy(expected), atol=1e-6)


@pytest.mark.tensorflow
def test_mistakes(bilm, language_model, tmp_path):
    keras_bert.save(build("bilstm"), tmp_path / "bilstm", PIECES)
    load = rivals.load
    save = keras_bert.save
    export = keras_bert.export
    bert = load(bilm)
    other = load("bilstm_H-4", vocabulary=PIECES)
    changed = build("bidaf")
    start = keras.layers.Activation("relu")(changed.output["start_logits"])
    changed = keras.Model(changed.input, {**changed.output, "start_logits": start}, name="bidaf")
    for call, message in (
        (lambda: load("bilstm"), "bilstm is a new model without a vocabulary, to be trained by run_glue"),
        (lambda: load("bert", vocabulary=PIECES), "bert: no such model"),
        (lambda: load("elmo"), "elmo: no such model. Models without BERT are named bilstm"),
        (lambda: keras_bert.load("bilstm_H-4"), "bilstm_H-4 is not a BERT: research.rivals.load opens it"),
        (lambda: keras_bert.load(bilm), "bilm is not a BERT: research.rivals.load opens it"),
        (lambda: keras_bert.load(bilm / "model.keras"), "model.keras is not a BERT: research.rivals.load opens"),
        (lambda: load(bilm, lowercase=True), "`lowercase` is for new models, such as bilstm"),
        (lambda: load("bilstm", language_model=tmp_path / "bilstm"), "must be a trained model of kind bilm"),
        (lambda: load("bilstm", language_model=bilm, vocabulary=PIECES[:-1]), "`vocabulary` must be that of `language"),
        (lambda: bert.predict("a b"), "answers no texts. A bilm serves as `language_model` .--language_model"),
        (lambda: bert.encode("a b"), "is not a BERT and has no 'encode'. A bilm serves as"),
        (lambda: build_bidaf(13, language_model=bert), "must be a model from build_bilm; of what"),
        (lambda: build_bidaf(14, language_model=bert.model()), "the same vocabulary. Received: vocab_"),
        (lambda: bert.classifier(2), "classification needs a bilstm, with this model as `language_model`. Received: a"),
        (lambda: other.span_labeler(), "question answering needs a bidaf. Received: a bilstm"),
        (lambda: other.classifier(2, multi_label=True), "several labels per text need a BERT model"),
        (lambda: other.model(), "bilstm_H-4 has no weights. Build a model with `classifier` or `span_labeler`"),
        (lambda: save(language_model, tmp_path / "google", PIECES, format="google"), "is saved with format='keras'"),
        (lambda: export(language_model, bert.preprocessor(8), tmp_path / "1"), "answers no texts: export the model"),
        (lambda: save(language_model, tmp_path / "more", (*PIECES, "i")), "more than the token table's"),
        (lambda: build_bilm(13, num_layers=0), "`num_layers` must be at least 1"),
        (lambda: rivals.describe(changed), "must come from build_bilm, build_bilstm_classifier or build"),
        (lambda: keras_bert.describe(changed), "A bidaf that Keras loaded: pass it to research.rivals.describe f"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(AttributeError, match="is not a BERT and has no 'encoder'"):
        _ = bert.encoder
