"""Variants of checkpoints written by other programs, and errors for damaged ones."""

import fnmatch
import json
import logging
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.numpy

import keras_bert
from keras_bert.checkpoints import weight_files
from tests.checkpoints.conftest import edit, rewrite, shorten, token_table, without
from tests.conftest import to_numpy


def test_old_names_tied_copies_and_buffers(folder, saved_table):
    """As written by old versions of transformers."""

    def change(values):
        names = {name: re.sub("LayerNorm.weight$", "LayerNorm.gamma", name.removeprefix("bert.")) for name in values}
        values = {re.sub("LayerNorm.bias$", "LayerNorm.beta", names[name]): value for name, value in values.items()}
        values["cls.predictions.decoder.weight"] = values["embeddings.word_embeddings.weight"]
        values["cls.predictions.decoder.bias"] = values.pop("cls.predictions.bias")
        return values | {"embeddings.position_ids": np.arange(40)[None]}

    rewrite(folder, change)
    bert = keras_bert.load(folder, dtype="mixed_bfloat16")
    bert.pretrainer()
    np.testing.assert_array_equal(token_table(bert), saved_table)
    assert bert.encoder.get_layer("block_0").compute_dtype == "bfloat16"
    assert repr(bert).endswith("L=1 H=32 A=4, head='pretraining')")


def test_shards(folder, models):
    values = sorted(safetensors.numpy.load_file(folder / "model.safetensors").items())
    (folder / "model.safetensors").unlink()
    places = {}
    for number, part in enumerate((values[:20], values[20:]), 1):
        name = f"model-{number:05}-of-00002.safetensors"
        safetensors.numpy.save_file(dict(part), folder / name)
        places.update(dict.fromkeys(dict(part), name))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    for found, wanted in zip(keras_bert.load(folder).pretrainer().weights, models("pretraining").weights, strict=True):
        np.testing.assert_array_equal(to_numpy(found), to_numpy(wanted))
    second = "model-00002-of-00002.safetensors"
    index = folder / "model.safetensors.index.json"
    (folder / second).rename(folder.parent / "blob")
    with pytest.raises(ValueError, match=f"missing shard\\(s\\): {second}"):
        keras_bert.load(folder)
    (folder / second).symlink_to("../blob")  # As in the cache of the hub.
    keras_bert.load(folder)
    for outside in ("../blob", str(folder.parent / "blob"), "a/../../blob", 1, "a\nb"):
        edit(index, weight_map=places | {max(places): outside})
        with pytest.raises(ValueError, match=r"index.json: .* must be in its folder. Received: '?(\.\./|/|a/|1|a\\nb)"):
            keras_bert.load(folder)
    index.write_text('{"weight_map": ' + "[" * 10**5)
    with pytest.raises(ValueError, match="index.json: not a JSON file: maximum recursion depth"):
        keras_bert.load(folder)
    index.write_text("{}")
    edit(index, weight_map=[second])
    with pytest.raises(ValueError, match="index.json: `weight_map` must be an object with the file of each tensor"):
        keras_bert.load(folder)


def test_masked_lm_only_without_pooler(folder, caplog):
    rewrite(folder, without("relationship"))
    rewrite(folder, without("pooler"))
    with caplog.at_level(logging.WARNING, "keras_bert"):
        bert = keras_bert.load(folder)
    assert "has no pooler: the encoder's is randomly initialized" in caplog.text
    assert set(bert.pretrainer().output) == {"mlm_logits"}
    with pytest.raises(ValueError, match=r"lacks 2 tensor\(s\): cls.seq_relationship.weight \(2, 32\)"):
        bert.pretrainer(next_sentence=True)


def matching(files, patterns):
    """Returns the files whose names match one of several patterns."""
    found = []
    for name in files:
        if any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
            found.append(name)
    return found


class TestNames:
    def test_folders_of_models(self, saved, monkeypatch):
        folder = saved("pretraining")
        monkeypatch.setenv("KERAS_BERT_MODELS", str(folder.parent))
        monkeypatch.setenv("HOME", str(folder.parent))
        assert keras_bert.load("bert").head == keras_bert.load("~/bert").head == "pretraining"

    def test_the_cache_of_the_hugging_face_hub_offline(self, saved, tmp_path, monkeypatch):
        constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed")
        repository = tmp_path / "cache" / "models--google-bert--tiny"
        for revision, name in (("a" * 40, "main"), ("b" * 40, "v2")):
            shutil.copytree(saved("pretraining"), repository / "snapshots" / revision)
            (repository / "refs").mkdir(exist_ok=True)
            (repository / "refs" / name).write_text(revision)
        edit(repository / "snapshots" / ("b" * 40) / "config.json", keras_bert={"task": "second"})
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert keras_bert.load("google-bert/tiny").task is None
        assert keras_bert.load("google-bert/tiny", revision="v2").task == "second"
        message = (
            r"^google-bert/none: no such .*hub \(no network, .*: models in the folder KERAS_BERT_MODELS load without"
        )
        with pytest.raises(ValueError, match=message):
            keras_bert.load("google-bert/none")
        with pytest.raises(ValueError, match=r"without one; there its name is google-bert/bert-none\)$"):
            keras_bert.load("bert-none")
        with pytest.raises(ValueError, match=r"^bert_tiny_boks: no such checkpoint. Did you mean bert_tiny_books\?"):
            keras_bert.load("bert_tiny_boks")

    @pytest.mark.parametrize(
        ("files", "downloaded"),
        [
            (["model.safetensors", "pytorch_model.bin", "2_Dense/pytorch_model.bin"], [0, 2]),
            (["model-1.safetensors", "model.safetensors.index.json", "tf_model.h5", "onnx/model.onnx"], [0, 1]),
            (["pytorch_model.bin", "tf_model.h5", "1_Dense/model.safetensors", "flax_model.msgpack"], [0, 2]),
            (["pytorch_model-1.bin", "pytorch_model.bin.index.json", "tf_model.h5"], [0, 1]),
            (["tf_model.h5", "rust_model.ot"], [0]),
            (["adapter_model.bin", "adapter_config.json"], [0]),
        ],
    )
    def test_one_container_of_weights_is_downloaded(self, files, downloaded):
        patterns = weight_files.downloads(files)
        assert matching(files, patterns) == [files[number] for number in downloaded]

    @pytest.fixture
    def downloaded(self, monkeypatch, tmp_path):
        """The files of a repository of the hub, and those among them that are downloaded into an empty folder."""
        hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
        files = []
        found = []

        def download(*args, allow_patterns, **kwargs):
            found[:] = matching(files, allow_patterns)
            return tmp_path

        def model_info(*args, **kwargs):
            return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in files])

        monkeypatch.setattr(hub, "model_info", model_info)
        monkeypatch.setattr(hub, "snapshot_download", download)
        return files, found

    def test_what_is_downloaded(self, downloaded, tmp_path):
        """Of other models than BERT, the config alone."""
        files, found = downloaded
        used = ["config.json", "model.safetensors", "sentencepiece.bpe.model", "1_Pooling/config.json", "vocab.txt"]
        files += [*used, "pytorch_model.bin", "README.md", "modeling.py"]
        with pytest.raises(FileNotFoundError, match="not a checkpoint"):
            keras_bert.load("some/model")
        assert found == used
        (tmp_path / "config.json").write_text('{"model_type": "t5"}')
        with pytest.raises(ValueError, match="config.json: `model_type` must be one of bert, .*Received: .*'t5'"):
            keras_bert.load("google-t5/t5-small")
        assert found == ["config.json"]

    def test_a_revision_is_for_the_hub(self, saved):
        message = f"`revision` is for names on the Hugging Face hub. .*'v2' for {saved('encoder')}"
        with pytest.raises(ValueError, match=message):
            keras_bert.load(saved("encoder"), revision="v2")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"num_labels": 2}, "'num_labels'. `fit` finds the classes in its targets, and bert.classifier("),
            ({"dtype": "bf16"}, "`dtype` must be a dtype such as 'bfloat16', or 'mixed_bfloat16', which keeps the"),
            ({"dtype": "fp16"}, "'mixed_float16', which keeps the weights in float32. Received: dtype='fp16'"),
            ({"d_type": "bfloat16"}, "`load` has no argument 'd_type'. Did you mean 'dtype'?"),
            ({"xyz": 1}, "`load` has no argument 'xyz'. Expected one of: revision, dtype, head, heads, base, token"),
        ],
    )
    def test_an_unknown_argument(self, options, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            keras_bert.load("bert_tiny_books", **options)

    @pytest.mark.parametrize("nothing", [None, "", 3])
    def test_what_is_no_name(self, nothing):
        expected = f"`path_or_name` must be a path or a name such as .* Received: path_or_name={nothing!r}$"
        with pytest.raises(ValueError, match=expected):
            keras_bert.load(nothing)

    @pytest.mark.parametrize("path", ["./none", "/none/of/this", "runs/none/model"])
    def test_a_path_is_not_looked_up_on_the_hub(self, path):
        expected = f"^{path}: no such checkpoint. Expected a directory or a .keras file$"
        with pytest.raises(FileNotFoundError, match=expected):
            keras_bert.load(path)


WEIGHTS = "model.safetensors"
CUT_SHORT = "model.safetensors: not a readable safetensors file, it may be truncated"
LABELS = (3, {"x": "a"}, {"0": None}, {"2": "a"}, {"0": "a", "2": "b"}, {"0": 1, "1": "1"}, {"0": "a", "00": "b"})
OWN = {"head": "x", "task": 1, "pair": "no", "sequence_length": True, "keep_special_tokens": [1], "positions": 1}
OWN |= {"head_options": [], "null_threshold": "0"}
# Sizes that cannot be built are compared with the tensors.
SIZES = {"hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 40, "type_vocab_size": 2}
SIZES |= {"num_hidden_layers": 1, "vocab_size": 50}
CONFIGS = [({"id2label": table}, "`id2label` must map the numbers from 0 or 1 on to diff") for table in LABELS]
CONFIGS += [({"keras_bert": {key: OWN[key]}}, f"`{key}` in `keras_bert` must be .*. Received: {key}=") for key in OWN]
CONFIGS += [({key: 10**12}, rf"`{key}` .* must be {SIZES[key]}, .*. Received: {key}=10{{12}}$") for key in SIZES]
CLASSIFIER = {"architectures": ["BertForSequenceClassification"], "keras_bert": None}
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        *CONFIGS,
        ({"num_attention_heads": 5}, "`hidden_size` must be a multiple of `num_attention_heads`"),
        ({"model_type": "albert"}, "must be one of bert, .*='albert', a model for transformers or KerasHub$"),
        ({"model_type": "nomic_bert"}, "`model_type` must be one of bert, .*='nomic_bert', a model for transformers$"),
        ({"model_type": ["t5"]}, "must be one of bert, distilbert, electra, roberta, xlm-roberta, camembert"),
        ({"keras_bert": "x"}, "`keras_bert` must be the object that this package writes. Received: x"),
        ({"architectures": "Bert"}, "`architectures` must be a list of names"),
        ({"architectures": [{}]}, "`architectures` must be a list of names"),
        ({"hidden_act": ["gelu"]}, "`hidden_act` must be one of gelu, .*Received: hidden_act=.'gelu'."),
        ({"vocab_size": None}, "`vocab_size` is missing"),
        (CLASSIFIER, "specifies a classification head, but there is no classifier.weight"),
    ],
)
def test_a_wrong_config(folder, values, message):
    edit(folder / "config.json", **values)
    with pytest.raises(ValueError, match=message):
        keras_bert.load(folder).model()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / WEIGHTS).unlink(), "expected weights, model.safetensors or model.safetensors.ind"),
        (lambda folder: (folder / WEIGHTS).rename(folder / "pytorch_model.bin"), "bin: not a readable file of PyTorch"),
        (lambda folder: (folder / WEIGHTS).rename(folder / "tf_model.h5"), "h5: not a readable file of Keras 2's"),
        *((shorten(WEIGHTS, length), CUT_SHORT) for length in (0, 100, -1000)),
        (lambda folder: (folder / WEIGHTS).write_text(POINTER), "safetensors: Git's pointer to the file. .*`git lfs p"),
        (
            lambda folder: edit(folder / "tokenizer_config.json", extra_special_tokens=["<more>"]),
            "the vocabulary has 51 pieces, more than the token table's vocab_size=50",
        ),
    ],
)
def test_a_damaged_folder(folder, change, message):
    change(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        keras_bert.load(folder)


def test_settings_of_other_models(folder):
    """MuRIL's config has the width of the embeddings, which a BERT of transformers does not read."""
    expected = keras_bert.load(folder).config
    edit(folder / "config.json", embedding_size=32, pooler_activation="relu", position_padding_id=0)
    assert keras_bert.load(folder).config == expected


def test_not_a_checkpoint(tmp_path):
    with pytest.raises(FileNotFoundError, match="not a checkpoint. Expected .* pytorch_model.bin or .* SavedModel"):
        keras_bert.load(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
    with pytest.raises(FileNotFoundError, match=f"Did you mean {tmp_path}/model\\?$"):
        keras_bert.load(tmp_path)
    exported = tmp_path / "saved" / "1"
    exported.mkdir(parents=True)
    (exported / "saved_model.pb").touch()
    with pytest.raises(FileNotFoundError, match="A SavedModel is opened by `tf.saved_model.load`"):
        keras_bert.load(tmp_path / "saved")
    (tmp_path / "x.bin").write_text("")
    with pytest.raises(ValueError, match="expected a directory or a .keras file"):
        keras_bert.load(tmp_path / "x.bin")


def test_labels(copy):
    """They may be numbers and start at 1, where transformers' pipelines find no name for the first class."""
    folder = copy("classification")
    for table in ({"0": 3, "1": "x", "2": 1.5}, {"1": 3, "2": "x", "3": 1.5}):
        edit(folder / "config.json", id2label=table)
        assert keras_bert.load(folder).labels == ["3", "x", "1.5"]
    assert keras_bert.load(folder, head="encoder").labels is None  # `save` takes none for an encoder.
    edit(folder / "config.json", id2label={"0": "a", "1": "b"})
    with pytest.raises(ValueError, match="`id2label` has 2 labels, but the classification head has 3 classes"):
        keras_bert.load(folder).model()


def test_a_left_to_right_classifier_of_transformers(config, pieces, tmp_path):
    # transformers pools [CLS] of a left-to-right model, which sees only itself.
    causal = keras_bert.build_classifier(keras_bert.build_encoder(config, causal=True), 3)
    keras_bert.save(causal, tmp_path, pieces)
    values = json.loads((tmp_path / "config.json").read_text())
    del values["keras_bert"]
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r"config.json: with `is_decoder`, \[CLS\] sees only itself"):
        keras_bert.load(tmp_path)
    assert keras_bert.load(tmp_path, head="encoder").causal
