"""Saved models load bit for bit, in each format and after conversion between formats."""

import dataclasses
import json
import math
import pathlib
import shutil
import sys

import keras
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import keras_bert
from keras_bert.checkpoints.tensors import slots
from keras_bert.text.tokenizer_json import STANDARD
from tests.checkpoints.conftest import edit
from tests.conftest import HF_HEADS, to_numpy


def read_json(*path):
    return json.loads(pathlib.Path(*path).read_text())


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["google_tf1_small", "tf1_toy_checkpoint"])
def test_google_to_ours_to_hugging_face_to_google(golden, loaded, tmp_path, caplog, name):
    import tensorflow as tf

    bert = loaded(name)
    keras_bert.save(bert.pretrainer(), tmp_path / "hf", bert.vocabulary, format="huggingface")
    through = keras_bert.load(tmp_path / "hf")
    keras_bert.save(through.pretrainer(), tmp_path / "google", through.vocabulary, task="mrpc", format="google")
    assert "Google's format has no place for task: not saved" in caplog.text
    before = tf.train.load_checkpoint(str(golden / name / "bert_model.ckpt"))
    after = tf.train.load_checkpoint(str(tmp_path / "google" / "bert_model.ckpt"))
    names = {key for key in before.get_variable_to_shape_map() if "adam" not in key} - {"global_step"}
    assert set(after.get_variable_to_shape_map()) == names
    for key in names:
        np.testing.assert_array_equal(after.get_tensor(key), before.get_tensor(key), err_msg=key)
    ours = read_json(tmp_path / "google", "bert_config.json")
    theirs = read_json(golden / name, "bert_config.json")
    assert {
        key: theirs[key] for key in theirs if "pooler" not in key and key != "directionality"
    }.items() <= ours.items()
    if bert.vocabulary:
        assert (tmp_path / "google" / "vocab.txt").read_text().split() == list(bert.vocabulary.pieces)


@pytest.mark.parametrize("head", HF_HEADS)
def test_hugging_face_tensors_are_bit_exact(golden, loaded, loaded_model, tmp_path, head):
    keras_bert.save(loaded_model(f"hf_small/{head}", dtype="float32"), tmp_path / "hf", None)
    before = safetensors.numpy.load_file(golden / "hf_small" / head / "model.safetensors")
    after = safetensors.numpy.load_file(tmp_path / "hf" / "model.safetensors")
    assert after.keys() == before.keys()
    for key in before:
        np.testing.assert_array_equal(after[key], before[key], err_msg=key)
    ours = read_json(tmp_path / "hf", "config.json")
    theirs = read_json(golden / "hf_small" / head, "config.json")
    assert ours["architectures"] == theirs["architectures"]
    assert all(ours[key] == theirs[key] for key in ours.keys() & theirs.keys())


@pytest.mark.parametrize(("positions", "causal"), [("sinusoid", False), ("none", True)])
def test_ablations_open_in_other_programs(build, batch, tmp_path, positions, causal):
    model = build("encoder", causal=causal, positions=positions)
    keras_bert.save(model, tmp_path / "bert", None)
    copy = keras_bert.load(tmp_path / "bert").encoder
    description = keras_bert.describe(copy)
    assert (description.causal, description.positions) == (causal, positions)
    expected = to_numpy(model(batch)["sequence_output"])
    np.testing.assert_array_equal(to_numpy(copy(batch)["sequence_output"]), expected)
    # A program that only supports learned positions computes the same from the saved table.
    assert read_json(tmp_path, "bert", "config.json")["is_decoder"] == causal
    edit(tmp_path / "bert" / "config.json", keras_bert=None)
    learned = keras_bert.load(tmp_path / "bert").encoder
    np.testing.assert_allclose(to_numpy(learned(batch)["sequence_output"]), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_precision_of_weights(models, build, pieces, tmp_path, dtype):
    """That of the file is chosen: weights of a bfloat16 policy are written in float32."""
    policy = "bfloat16" if dtype == "float32" else "float32"
    model = build("classification", dtype=policy) if dtype == "float32" else models("pretraining")
    keras_bert.save(model, tmp_path / "bert", pieces, weights_dtype=dtype)
    stored = safetensors.numpy.load_file(tmp_path / "bert" / "model.safetensors").values()
    assert {value.dtype for value in stored} == {np.dtype(getattr(ml_dtypes, dtype, dtype))}
    loaded = keras_bert.load(tmp_path / "bert", dtype=policy).model()
    for before, after in zip(model.weights, loaded.weights, strict=True):
        assert after.dtype == before.dtype
        np.testing.assert_array_equal(to_numpy(after), to_numpy(before).astype(np.dtype(dtype)).astype("float32"))


def test_metadata(config, pieces, tmp_path):
    config = dataclasses.replace(config, classifier_dropout=0.3)
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 2, dropout=0.3)
    facts = {"lowercase": False, "labels": ["schön", "no"], "task": "sst2", "pair": False, "sequence_length": 20}
    for format in ("huggingface", "keras"):
        path = tmp_path / format
        keras_bert.save(model, path, pieces, format=format, strip_accents=True, **facts)
        bert = keras_bert.load(path)
        assert {name: getattr(bert, name) for name in facts} == facts
        assert bert.strip_accents
        assert bert.config.classifier_dropout == 0.3
        stored = read_json(path, "config.json")["keras_bert"]
        assert stored == {"head": "classification", "task": "sst2", "pair": False, "sequence_length": 20}


@pytest.mark.tensorflow
def test_the_settings_of_a_preprocessor(eager, models, pieces, tmp_path):
    vocabulary = keras_bert.Vocabulary(pieces, added_tokens=["a"])
    options = {"lowercase": False, "strip_accents": True, "keep_special_tokens": ["[MASK]"], "padding": "longest"}
    preprocessor = keras_bert.TextPreprocessor(vocabulary, 9, **options)
    keras_bert.save(models("classification"), tmp_path / "model", preprocessor)
    bert = keras_bert.load(tmp_path / "model")
    assert (bert.lowercase, bert.strip_accents, bert.sequence_length) == (False, True, 9)
    text = "A b é [MASK] ab"
    expected = preprocessor(text)["token_ids"].numpy().tolist()
    for again in (
        bert.preprocessor(9, padding="longest"),
        keras_bert.TextPreprocessor(preprocessor, 9, padding="longest"),
    ):
        assert again(text)["token_ids"].numpy().tolist() == expected
    assert again.lowercase is False
    keras_bert.save(models("classification"), tmp_path / "other", preprocessor, lowercase=True, sequence_length=7)
    other = keras_bert.load(tmp_path / "other")
    assert (other.lowercase, other.sequence_length) == (True, 7)


PROMPTS = {"prompts": {"query": "q e: ", "document": ""}, "default_prompt_name": "query"}


@pytest.mark.parametrize(
    ("head", "settings"),
    [
        ("question_answering", {"null_threshold": 0.5}),
        ("multi_label", {"thresholds": np.array([0.25, 0.5, 0.75])}),
        ("embedding", PROMPTS | {"similarity_function": "dot"}),
    ],
)
def test_settings_of_heads(models, pieces, tmp_path, head, settings):
    keras_bert.save(models(head), tmp_path / "bert", pieces, **settings)
    bert = keras_bert.load(tmp_path / "bert")
    np.testing.assert_equal({name: getattr(bert, name) for name in settings}, settings)


def test_a_format_that_would_not_be_loaded_raises(models, tmp_path):
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ValueError, match="of another format, which would be loaded instead. Expected a new directory"):
        keras_bert.save(models("encoder"), tmp_path, None, format="keras")
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    with pytest.raises(ValueError, match='into which format="keras" writes model.keras. Received: directory='):
        keras_bert.save(models("encoder"), tmp_path / "x.keras", None)
    with pytest.raises(ValueError, match="the output must be a directory. Received: the file"):
        keras_bert.save(models("encoder"), tmp_path / "model.safetensors", None)


def test_a_failed_save_changes_nothing(models, folder, pieces, monkeypatch):
    def full_disk(*args, **kwargs):
        raise OSError("No space left on device")

    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(safetensors.numpy, "save_file", full_disk)
    with pytest.raises(OSError, match="No space left"):
        keras_bert.save(models("classification"), folder, pieces, labels=["a", "b", "c"])
    assert [path.name for path in folder.parent.iterdir()] == ["bert"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


TOO_MANY = [*STANDARD, *map(chr, range(300, 346))]


@pytest.mark.parametrize(
    ("head", "options", "message"),
    [
        ("encoder", {"format": "onnx"}, "must be one of huggingface, google, keras, peft. Received: format='onnx'"),
        ("classification", {"labels": ["a"]}, "`labels` must be 3 different names"),
        ("classification", {"labels": ["a", "b", "b"]}, "`labels` must be 3 different names"),
        ("classification", {"labels": {0: "a", 1: "b", 2: "c"}}, "`labels` must be 3 different names, in the order of"),
        ("classification", {"labels": "abc"}, "`labels` must be 3 different names, in the order of the logits"),
        ("encoder", {"vocabulary": TOO_MANY}, "`vocabulary` has 51 pieces, more than the"),
        ("multi_label", {"thresholds": 1.0}, "`thresholds` must be a number between 0 and 1, or a list of 3, one for"),
        ("multi_label", {"thresholds": [0.1, 0.2]}, r"or a list of 3, one for each .*thresholds=\[0.1, 0.2\]"),
        ("multi_label", {"thresholds": [0.1, "0.2", 0.3]}, "`thresholds` must be a number between 0 and 1, or a list"),
        ("classification", {"null_threshold": 0.3}, "`null_threshold` is for models with head='question_answering'"),
        ("classification", {"prompts": {"a": "b"}}, "`prompts` is for models with head='embedding'"),
        ("classification", {"default_prompt_name": "a"}, "must be the name of a prompt: none"),
        ("question_answering", {"null_threshold": math.nan}, "`null_threshold` must be a finite number or `None`"),
        ("encoder", {"strip_accents": True}, "`strip_accents` needs a `vocabulary`. Received: strip_accents=True"),
        ("classification", {"thresholds": 0.3}, "`thresholds` must be None for a model that is not multi-label"),
        ("encoder", {"pairs": True}, "`save` has no setting 'pairs'. Expected one of: lowercase, labels, task, pair"),
        ("encoder", {"labels": ["a"]}, "`labels` require a classification head. Received: .* head='encoder'"),
        ("encoder", {"weights_dtype": "float16", "format": "google"}, "`weights_dtype` must be .float32., or "),
    ],
)
def test_bad_arguments_of_save(models, tmp_path, head, options, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.save(models(head), tmp_path / "bert", **{"vocabulary": None, **options})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.tensorflow
def test_models_that_a_format_cannot_represent(build, pieces, tmp_path, caplog):
    keras_bert.save(build("encoder"), tmp_path / "google", pieces, lowercase=False, format="google")
    assert "Google's format has no place for lowercase: not saved" in caplog.text  # Read as uncased, by its pieces.
    shutil.rmtree(tmp_path / "google")
    model = build("encoder", causal=True)
    with pytest.raises(ValueError, match=r"Google's format can only represent .* causal=True"):
        keras_bert.save(model, tmp_path / "bert", None, format="google")
    score = keras_bert.build_classifier(build("encoder"), 1, score_activation="sigmoid")
    with pytest.raises(ValueError, match="Google's format has no place for sigmoids of the logits"):
        keras_bert.save(score, tmp_path / "bert", None, format="google")
    model.weights[0].assign(keras.ops.full(model.weights[0].shape, 70000.0))
    with pytest.raises(ValueError, match="`weights_dtype`='float16' cannot hold the largest weight, 70000.0"):
        keras_bert.save(model, tmp_path / "bert", None, weights_dtype="float16")
    assert list(tmp_path.iterdir()) == []


def test_googles_format_without_tensorflow(models, tmp_path, monkeypatch):
    model = models("encoder")
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ValueError, match="writing Google's checkpoints needs TensorFlow, which is not installed"):
        keras_bert.save(model, tmp_path / "bert", None, format="google")
    assert list(tmp_path.iterdir()) == []


def test_quantized_tables_are_written_dequantized(build, tmp_path):
    model = build("untied")
    for layer in ("token_embedding", "mlm_decoder"):
        model.get_layer(layer).quantize("int8")
    model.get_layer("block_0").attention.query_key_value.quantize("int8")
    before = keras_bert.describe(model)
    keras_bert.save(model, tmp_path / "bert", None)
    after = keras_bert.describe(keras_bert.load(tmp_path / "bert").model())
    assert (after.head, after.tied) == ("pretraining", False)
    for slot, original in zip(slots(after), slots(before), strict=True):
        assert slot.name == original.name
        np.testing.assert_array_equal(slot.value(), original.value())


def test_a_folder_of_other_things_or_of_another_model_is_kept(models, pieces, tmp_path):
    classifier, tagger = models("classification"), models("token_classification")
    labels = ["a", "b", "c"]
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "README.md").touch()
    (folder / "vocab.txt").touch()
    (folder / "notes").mkdir()
    (folder / "config.json").write_text('{"theme": "dark"}')  # Of another program.
    with pytest.raises(
        ValueError, match="^the directory has other things than a model: config.json, notes. .*`overwrite=True`"
    ):
        keras_bert.save(classifier, folder, pieces, labels=labels)
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.json", "notes", "vocab.txt"]
    keras_bert.save(classifier, folder, pieces, labels=labels, overwrite=True)
    keras_bert.save(classifier, folder, pieces, labels=labels, thresholds=None)  # The same one again.
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for model, vocabulary, options, found in (
        (classifier, pieces, {"labels": labels[::-1]}, "`id2label.0` was 'a', is 'c'"),
        (tagger, pieces, {}, "`architectures.0` was 'BertForSequenceClassification'"),
        (classifier, [*pieces[:-1], "other"], {"labels": labels}, "its vocab.txt has other pieces"),
    ):
        with pytest.raises(ValueError, match=f"^the directory has another model: {found}.*, or `overwrite=True`. Rec"):
            keras_bert.save(model, folder, vocabulary, **options)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    keras_bert.save(tagger, folder, pieces, overwrite=True)
    assert keras_bert.load(folder).head == "token_classification"


@pytest.mark.tensorflow
def test_another_model_in_googles_format_is_kept(models, pieces, tmp_path):
    """It has no head: the sizes and the vocabulary are compared."""
    classifier = models("classification")
    for _ in range(2):
        keras_bert.save(classifier, tmp_path / "google", pieces, format="google")
    with pytest.raises(ValueError, match="^the directory has another model: its vocab.txt"):
        keras_bert.save(classifier, tmp_path / "google", [*pieces[:-1], "other"], format="google")
