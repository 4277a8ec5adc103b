"""What is written is read again, bit for bit, in every format and through all of them."""

import dataclasses
import json
import sys

import keras
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import keras_bert
from keras_bert.checkpoints.layout import slots
from tests.conftest import HEADS, HF_HEADS, to_numpy


def weights(model):
    return {variable.path: to_numpy(variable) for variable in model.weights if "seed_generator" not in variable.path}


def assert_same(left, right):
    left, right = weights(left), weights(right)
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


def perturb(model):
    """Gives every weight, zeros and ones too, a value of its own."""
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape).astype("float32"))
    return model


@pytest.mark.parametrize("head", ["encoder", *HEADS])
@pytest.mark.parametrize("format", ["huggingface", "google", "keras"])
def test_each_format_and_head(build, pieces, tmp_path, head, format):
    if format == "google" and keras.backend.backend() != "tensorflow":
        pytest.skip("Google's checkpoints need TensorFlow")
    model = perturb(build(head))
    if format == "google" and head in ("token_classification", "multiple_choice"):
        with pytest.raises(ValueError, match=f"Google's format has no names for a {head} head"):
            keras_bert.save(model, tmp_path / "bert", pieces, format=format)
        assert list(tmp_path.iterdir()) == []
        return
    keras_bert.save(model, tmp_path / "bert", pieces, format=format)
    bert = keras_bert.load(tmp_path / "bert")
    assert_same(bert.model(), model)
    assert bert.vocabulary.pieces == tuple(pieces)
    assert bert.lowercase
    assert bert.config == keras_bert.describe(model).config
    assert bert.left_out(bert.model()) == []


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["google_tf1_small", "tf1_toy_checkpoint"])
def test_google_to_ours_to_hugging_face_to_google(golden, tmp_path, name):
    import tensorflow as tf

    bert = keras_bert.load(golden / name)
    keras_bert.save(bert.pretrainer(), tmp_path / "hf", bert.vocabulary, format="huggingface")
    through = keras_bert.load(tmp_path / "hf")
    keras_bert.save(through.pretrainer(), tmp_path / "google", through.vocabulary, format="google")
    before = tf.train.load_checkpoint(str(golden / name / "bert_model.ckpt"))
    after = tf.train.load_checkpoint(str(tmp_path / "google" / "bert_model.ckpt"))
    names = {key for key in before.get_variable_to_shape_map() if "adam" not in key} - {"global_step"}
    assert set(after.get_variable_to_shape_map()) == names
    for key in names:
        np.testing.assert_array_equal(after.get_tensor(key), before.get_tensor(key), err_msg=key)
    ours, theirs = (
        json.loads((folder / name / "bert_config.json").read_text())
        for folder, name in ((tmp_path, "google"), (golden, name))
    )
    assert {
        key: value for key, value in theirs.items() if "pooler" not in key and key != "directionality"
    }.items() <= ours.items()
    if bert.vocabulary:
        assert (tmp_path / "google" / "vocab.txt").read_text().split() == list(bert.vocabulary.pieces)


@pytest.mark.parametrize("head", HF_HEADS)
def test_hugging_face_tensors_are_bit_exact(golden, tmp_path, head):
    bert = keras_bert.load(golden / "hf_small" / head)
    keras_bert.save(bert.model(), tmp_path / "hf", bert.vocabulary)
    before = safetensors.numpy.load_file(golden / "hf_small" / head / "model.safetensors")
    after = safetensors.numpy.load_file(tmp_path / "hf" / "model.safetensors")
    assert after.keys() == before.keys()
    for key in before:
        np.testing.assert_array_equal(after[key], before[key], err_msg=key)
    ours, theirs = (
        json.loads((path / "config.json").read_text()) for path in (tmp_path / "hf", golden / "hf_small" / head)
    )
    assert ours["architectures"] == theirs["architectures"]
    shared = set(ours) & set(theirs)
    assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}


@pytest.mark.parametrize("positions", ["sinusoid", "none"])
@pytest.mark.parametrize("causal", [False, True])
def test_ablations_open_elsewhere_too(build, batch, tmp_path, positions, causal):
    model = build("encoder", causal=causal, positions=positions)
    keras_bert.save(model, tmp_path / "bert", None)
    copy = keras_bert.load(tmp_path / "bert").encoder
    description = keras_bert.describe(copy)
    assert (description.causal, description.positions) == (causal, positions)
    expected = to_numpy(model(batch)["sequence_output"])
    np.testing.assert_array_equal(to_numpy(copy(batch)["sequence_output"]), expected)
    # A program that knows learned positions alone computes the same from the table that was written.
    config = json.loads((tmp_path / "bert" / "config.json").read_text())
    assert config["is_decoder"] == causal
    del config["keras_bert"]
    (tmp_path / "bert" / "config.json").write_text(json.dumps(config))
    learned = keras_bert.load(tmp_path / "bert").encoder
    np.testing.assert_allclose(to_numpy(learned(batch)["sequence_output"]), expected, atol=1e-5)


def test_low_precision_policies_write_float32(build, tmp_path):
    model = build("classification", dtype="bfloat16")
    keras_bert.save(model, tmp_path / "bert", None)
    assert {value.dtype for value in safetensors.numpy.load_file(tmp_path / "bert/model.safetensors").values()} == {
        np.dtype("float32")
    }
    assert_same(keras_bert.load(tmp_path / "bert", dtype="bfloat16").model(), model)


def test_weights_in_half_precision(build, pieces, tmp_path):
    model = build("pretraining")
    for dtype in ("float32", "float16", "bfloat16"):
        keras_bert.save(model, tmp_path / dtype, pieces, weights_dtype=dtype)
    full, *halves = (
        (tmp_path / dtype / "model.safetensors").stat().st_size for dtype in ("float32", "float16", "bfloat16")
    )
    for dtype, half in zip((np.float16, ml_dtypes.bfloat16), halves, strict=True):
        assert 0.5 < half / full < 0.55
        loaded = keras_bert.load(tmp_path / np.dtype(dtype).name).pretrainer()
        for before, after in zip(model.weights, loaded.weights, strict=True):
            assert after.dtype == "float32"
            np.testing.assert_array_equal(to_numpy(after), to_numpy(before).astype(dtype).astype("float32"))


def test_weights_that_half_precision_does_not_hold(build, pieces, tmp_path):
    model = build("pretraining")
    model.weights[0].assign(keras.ops.full(model.weights[0].shape, 70000.0))
    with pytest.raises(ValueError, match="`weights_dtype`='float16' does not hold the largest weight, 70000.0"):
        keras_bert.save(model, tmp_path / "a", pieces, weights_dtype="float16")
    assert not (tmp_path / "a").exists()
    with pytest.raises(ValueError, match="`weights_dtype` must be 'float32', or 'float16' or 'bfloat16' with format"):
        keras_bert.save(model, tmp_path / "a", pieces, weights_dtype="float16", format="google")


def test_labels_casing_task_and_dropout_travel(config, pieces, tmp_path):
    config = dataclasses.replace(config, classifier_dropout=0.3)
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 2, dropout=0.3)
    for format in ("huggingface", "keras"):
        path = tmp_path / format
        keras_bert.save(model, path, pieces, lowercase=False, labels=["schön", "no"], task="sst2", format=format)
        bert = keras_bert.load(path)
        assert (bert.labels, bert.task, bert.lowercase) == (["schön", "no"], "sst2", False)
        assert keras_bert.describe(bert.model()).config.classifier_dropout == 0.3


def test_a_trained_model_is_saved_as_it_is(build, task, tmp_path):
    inputs, targets, losses = task("classification")
    model = build("classification")
    model.compile("adam", losses)
    model.fit(inputs, targets, epochs=2, verbose=0)
    keras_bert.save(model, tmp_path / "bert", None)
    np.testing.assert_array_equal(
        to_numpy(keras_bert.load(tmp_path / "bert").model()(inputs)["logits"]), to_numpy(model(inputs)["logits"])
    )


def test_saving_twice_replaces_and_keeps_other_files(build, tmp_path):
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "notes.txt").write_text("mine")
    for _ in range(2):
        model = perturb(build("encoder"))
        keras_bert.save(model, tmp_path / "bert", None)
    assert_same(keras_bert.load(tmp_path / "bert").encoder, model)
    assert (tmp_path / "bert" / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["bert"]


@pytest.mark.tensorflow
def test_a_keras_file_beside_googles_would_not_be_loaded(build, tmp_path):
    keras_bert.save(build("encoder"), tmp_path / "bert", None, format="google")
    with pytest.raises(ValueError, match="holds bert_config.json of another format"):
        keras_bert.save(build("encoder"), tmp_path / "bert", None, format="keras")


@pytest.mark.parametrize("format", ["google", "keras"])
def test_a_format_that_would_not_be_loaded_is_refused(build, tmp_path, format):
    model = perturb(build("encoder"))
    keras_bert.save(model, tmp_path / "bert", None)
    with pytest.raises(ValueError, match="of another format, which would be loaded instead. Expected a new directory"):
        keras_bert.save(build("encoder"), tmp_path / "bert", None, format=format)
    assert_same(keras_bert.load(tmp_path / "bert").encoder, model)


def test_a_failed_save_leaves_what_was_there(build, pieces, tmp_path, monkeypatch):
    model = perturb(build("encoder"))
    keras_bert.save(model, tmp_path / "bert", pieces)

    def full_disk(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr(safetensors.numpy, "save_file", full_disk)
    with pytest.raises(OSError, match="No space left"):
        keras_bert.save(build("classification"), tmp_path / "bert", pieces, labels=["a", "b", "c"])
    assert [path.name for path in tmp_path.iterdir()] == ["bert"]
    assert_same(keras_bert.load(tmp_path / "bert").model(), model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "onnx"}, "`format` must be one of huggingface, google, keras. Received: format='onnx'"),
        ({"labels": ["a"]}, "`labels` must be 3 different names"),
        ({"labels": ["a", "b", "b"]}, "`labels` must be 3 different names"),
    ],
)
def test_bad_arguments_of_save(build, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.save(build("classification"), tmp_path / "bert", None, **options)
    assert list(tmp_path.iterdir()) == []


def test_labels_need_a_classification_head(build, tmp_path):
    with pytest.raises(
        ValueError, match="`labels` belong to a classification head. Received: a model with head='encoder'"
    ):
        keras_bert.save(build("encoder"), tmp_path / "bert", None, labels=["a"])


def test_a_vocabulary_longer_than_the_table(build, pieces, tmp_path):
    with pytest.raises(ValueError, match="`vocabulary` has 51 pieces, more than the token table's vocab_size=50 rows"):
        keras_bert.save(build("encoder"), tmp_path / "bert", [*pieces, "more"])


@pytest.mark.tensorflow
def test_what_googles_format_cannot_say(build, tmp_path):
    with pytest.raises(ValueError, match=r"Google's format can only say .* causal=True"):
        keras_bert.save(build("encoder", causal=True), tmp_path / "bert", None, format="google")


def test_the_target_is_a_file(build, tmp_path):
    (tmp_path / "bert").write_text("")
    with pytest.raises(ValueError, match="`directory` must be a directory. Received: the file"):
        keras_bert.save(build("encoder"), tmp_path / "bert", None)


def test_googles_format_without_tensorflow(build, tmp_path, monkeypatch):
    model = build("encoder")
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ValueError, match="Google's checkpoints need TensorFlow, which is not installed"):
        keras_bert.save(model, tmp_path / "bert", None, format="google")
    assert list(tmp_path.iterdir()) == []


MORE_HEADS = {
    "multi_label": lambda encoder: keras_bert.build_classifier(encoder, 3, multi_label=True),
    "next_sentence": keras_bert.build_next_sentence,
    "untied": lambda encoder: keras_bert.build_pretrainer(encoder, tied=False),
    "embedding": lambda encoder: keras_bert.build_embedder(encoder, "max", normalize=True),
}


@pytest.mark.parametrize("format", ["huggingface", "keras"])
@pytest.mark.parametrize("head", MORE_HEADS)
def test_the_rarer_heads(config, tmp_path, head, format):
    """Also after int8, whose tables are written as what they stand for, and after Keras loaded them."""
    model = perturb(MORE_HEADS[head](keras_bert.build_encoder(config)))
    if format == "huggingface":
        with pytest.warns(UserWarning, match="InputLayer"):
            model.quantize("int8")
        description = keras_bert.describe(model)
    keras_bert.save(model, tmp_path / "bert", None, format=format)
    bert = keras_bert.load(tmp_path / "bert")
    twin = bert.model()
    if format == "keras":
        assert_same(twin, model)
        return
    found = keras_bert.describe(twin)
    told = ("head", "num_classes", "multi_label", "next_sentence", "tied")
    assert [getattr(found, name) for name in told] == [getattr(description, name) for name in told]
    tables = {slot.name: slot.value() for slot in slots(description)}
    assert tables.keys() == {slot.name for slot in slots(found)}
    for slot in slots(found):
        np.testing.assert_array_equal(slot.value(), tables[slot.name])


@pytest.mark.tensorflow
@pytest.mark.parametrize("head", ["multi_label", "untied", "embedding"])
def test_rarer_heads_that_googles_format_has_no_names_for(config, tmp_path, head):
    with pytest.raises(ValueError, match="Google's format has "):
        keras_bert.save(MORE_HEADS[head](keras_bert.build_encoder(config)), tmp_path / "bert", None, format="google")
