"""Variants of checkpoints written by other programs, and errors for damaged ones."""

import dataclasses
import fnmatch
import json
import logging
import operator
import re
import shutil
from types import SimpleNamespace

import keras
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import keras_bert
from keras_bert.bert import LoadedBert
from keras_bert.checkpoints import huggingface, loaded, weight_files
from keras_bert.checkpoints.folder import Folder
from keras_bert.checkpoints.tensors import fill, slots
from tests.checkpoints.conftest import edit
from tests.conftest import to_numpy


def rewrite(folder, change):
    """Changes the tensors of a checkpoint on disk."""
    values = safetensors.numpy.load_file(folder / "model.safetensors")
    safetensors.numpy.save_file(change(values), folder / "model.safetensors")


def without(part):
    return lambda values: {name: value for name, value in values.items() if part not in name}


def table(bert):
    return to_numpy(bert.encoder.get_layer("token_embedding").embeddings)


@pytest.fixture
def expected(models):
    """The token table of the saved model."""
    return to_numpy(models("pretraining").get_layer("token_embedding").embeddings)


def test_old_names_tied_copies_and_buffers(folder, expected):
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
    np.testing.assert_array_equal(table(bert), expected)
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


def test_new_weights_are_those_of_a_model_whose_encoder_was_drawn(folder, config):
    """Of a head, and of a pooler that the folder lacks; what the checkpoint fills is not drawn."""
    rewrite(folder, without("pooler"))
    drawn = []
    for open_encoder in (lambda: keras_bert.build_encoder(config), lambda: keras_bert.load(folder).encoder):
        keras.utils.set_random_seed(1)
        encoder = open_encoder()
        layers = encoder.get_layer("pooler").dense, keras_bert.build_classifier(encoder, 3).get_layer("classifier")
        drawn.append([to_numpy(layer.kernel) for layer in layers])
    for first, second in zip(*drawn, strict=True):
        assert np.any(first)
        np.testing.assert_array_equal(first, second)


def test_a_keras_file(models, tmp_path):
    path = tmp_path / "mine.keras"
    models("question_answering").save(path)
    bert = keras_bert.load(path)
    assert (bert.head, bert.vocabulary) == ("question_answering", None)
    assert set(bert.model().output) == {"start_logits", "end_logits"}
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"mine.keras: Keras cannot load this file"):
        keras_bert.load(path)
    inputs = keras.Input((3,))
    keras.Model(inputs, keras.layers.Dense(1)(inputs)).save(path)
    with pytest.raises(ValueError, match="`model` must come from a builder of keras_bert"):
        keras_bert.load(path)


def test_the_head_of_a_keras_file_is_left_out(models, saved, tmp_path):
    """So it is for a model of KerasHub; what the head has stored of its options goes with it."""
    models("classification").save(tmp_path / "mine.keras")
    bert = keras_bert.load(tmp_path / "mine.keras", head="encoder")
    assert (bert.head, bert.model().output.keys()) == ("encoder", {"sequence_output", "pooled_output"})
    assert keras_bert.load(saved("pretraining"), head="encoder").metadata.head_options is None


@pytest.mark.tensorflow
def test_words_are_added_to_plain_models_only(folder, models, tmp_path):
    bert = keras_bert.load(folder)
    keras_bert.enable_lora(bert.model(), 2)
    with pytest.raises(ValueError, match=r"`bert.model\(\)` must not have LoRA adapters"):
        bert.add_words(["zoo"])
    keras_bert.merge_lora(bert.model())
    before = bert.model()
    assert bert.add_words(np.array(["zoo"])).config.vocab_size == 51
    for variable in before.trainable_variables:
        variable.assign(0 * variable)
    assert all(np.any(tensor.read()) for tensor in bert.checkpoint().tensors.values())
    assert all(np.any(variable) for variable in bert.pretrainer().trainable_variables)
    bert.encoder.get_layer("token_embedding").quantize("int8")
    with pytest.raises(ValueError, match="`add_words` needs floats"):
        bert.add_words(["cow"])
    models("question_answering").save(tmp_path / "mine.keras")
    mine = keras_bert.load(tmp_path / "mine.keras")
    with pytest.raises(ValueError, match="mine.keras has no vocabulary"):
        mine.add_words(["zoo"])
    with pytest.raises(ValueError, match=r"mine.keras has no vocabulary. .* load\(..., tokenizer=folder\)"):
        mine.preprocessor(8)


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


def shorten(name, length):
    """Keeps the first bytes of a file, or drops the last ones."""
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:length])


WEIGHTS = "model.safetensors"
CUT_SHORT = "model.safetensors: not a readable safetensors file, it may be truncated"
BIAS = "bert.encoder.layer.0.output.dense.bias"
TABLE = "bert.embeddings.word_embeddings.weight"
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
MORE = {"bert.x": np.zeros((3, 4), "float32")}
UNTIED = {"cls.predictions.decoder.weight": np.zeros((50, 32), "float32")}


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
        (lambda values: values | UNTIED, "cls.predictions.decoder.weight differs from bert.embeddings.word_emb"),
        (lambda values: values | MORE, r"1 tensor\(s\) do not fit .* bert.x \(3, 4\)"),
        (lambda values: values | {TABLE: np.zeros(50, "float32")}, r"lacks a table emb.*weight. Received: \(50,\)"),
        # 8-bit floats, which NumPy does not have.
        (lambda values: values | {BIAS: values[BIAS].astype(ml_dtypes.float8_e4m3fn)}, "Received: dtype=F8_E4M3"),
        (without(TABLE), "the checkpoint lacks a table embeddings.word_embeddings.weight. Received: none"),
        (without(BIAS), r"lacks 1 tensor\(s\): encoder.layer.0.output.dense.bias \(32"),
        (without("pooler.dense.bias"), r"lacks 1 tensor\(s\): pooler.dense.bias"),
    ],
)
def test_wrong_tensors(folder, change, message):
    rewrite(folder, change)
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


def test_a_wrong_shape_changes_no_variable(folder, build):
    rewrite(folder, lambda values: values | {"bert.pooler.dense.bias": np.zeros(3, "float32")})
    checkpoint = huggingface.read_model(Folder(folder))
    encoder = build("encoder")
    before = encoder.get_weights()
    with pytest.raises(ValueError, match=r"pooler.dense.bias \(3,\), expected \(32,\)"):
        fill(checkpoint, slots(keras_bert.describe(encoder)))
    for left, right in zip(encoder.get_weights(), before, strict=True):
        np.testing.assert_array_equal(left, right)


def test_out_of_memory(folder, monkeypatch):
    def full(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(loaded, "build_encoder", full)
    with pytest.raises(MemoryError, match=r"out of memory while loading [\d,]+ parameters \(0.0 GB in float32\)"):
        keras_bert.load(folder)


INDEX = "bert_model.ckpt.index"
DATA = "bert_model.ckpt.data-00000-of-00001"


@pytest.mark.tensorflow
class TestGoogle:
    @pytest.fixture
    def google(self, copy):
        return copy("pretraining", format="google")

    def test_another_prefix(self, google, expected):
        for path in google.glob("bert_model.ckpt*"):
            path.rename(google / path.name.replace("bert_model.ckpt", "model.ckpt-1000"))
        np.testing.assert_array_equal(table(keras_bert.load(google)), expected)

    def test_a_folder_of_this_name_is_not_opened(self, google, expected, tmp_path):
        """TensorFlow takes the path of a folder as that of the checkpoint which its file `checkpoint` names."""
        (google / "bert_model.ckpt").mkdir()
        (google / "bert_model.ckpt" / "checkpoint").write_text(f'model_checkpoint_path: "{tmp_path}/other"\n')
        np.testing.assert_array_equal(table(keras_bert.load(google)), expected)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda folder: (folder / INDEX).unlink(), "expected one TensorFlow checkpoint, such as .* Received: none"),
            (lambda folder: (folder / DATA).unlink(), "bert_model.ckpt: "),
            (
                lambda folder: edit(folder / "bert_config.json", hiden_size=32),
                r"config.json: unknown key\(s\) hiden_size",
            ),
            (shorten(INDEX, 30), "bert_model.ckpt: (not a readable TensorFlow|not readable|the tensor)"),
            (shorten(DATA, 400), "bert_model.ckpt: (not a readable TensorFlow|not readable|the tensor)"),
        ],
    )
    def test_a_damaged_folder(self, google, change, message):
        change(google)
        with pytest.raises(ValueError, match=message):
            keras_bert.load(google)

    def test_googles_names_of_heads(self, saved):
        import tensorflow as tf

        prefixes = [str(saved(head, "google") / "bert_model.ckpt") for head in ("classification", "question_answering")]
        first, second = (tf.train.load_checkpoint(prefix).get_variable_to_shape_map() for prefix in prefixes)
        assert first["output_weights"] == [3, 32]
        assert first["bert/encoder/layer_0/attention/self/query/kernel"] == [32, 32]
        assert second["cls/squad/output_weights"] == [2, 32]


def test_a_loaded_checkpoint_is_not_a_model(saved):
    bert = keras_bert.load(saved("classification"))
    for use in (keras_bert.build_classifier, keras_bert.build_multiple_choice, keras_bert.describe):
        arguments = [2] if use is keras_bert.build_classifier else []
        with pytest.raises(ValueError, match=r"pass `bert.encoder` to builders and `bert.model\(\)` to .*LoadedBert"):
            use(bert, *arguments)
    with pytest.raises(ValueError, match=r"`bert.model\(\)`"):
        keras_bert.save(bert, "nowhere", None)
    with pytest.raises(AttributeError, match=r"has no attribute 'compile'. Use `bert.encoder` .* or `bert.model\(\)`"):
        bert.compile()
    for name, end in (("nothing", ""), ("predct", ". Did you mean 'predict'\\?"), ("_predict", "")):
        with pytest.raises(AttributeError, match=f"LoadedBert has no attribute '{name}'{end}$"):
            getattr(bert, name)
    for name, message in (
        ("from_pretrained", r"no attribute 'from_pretrained': keras_bert.load\(path_or_name\) opens a checkpoint"),
        ("predict_proba", "`predict` returns probabilities: `score` and `scores` of each answer$"),
        ("model.fit", r"`bert.model` is a method, .* Use `bert.fit`, .* on texts, or bert.model\(\).fit on token ids"),
    ):
        with pytest.raises(AttributeError, match=message):
            operator.attrgetter(name)(bert)
    assert "same one in each call" in LoadedBert.model.__doc__
    assert bert.model() is bert.model()
    with pytest.raises(ValueError, match="`sequence_length` must be at most 40, the number of positions of "):
        bert.preprocessor(41)
    with pytest.raises(TypeError, match="unexpected keyword argument 'pair'"):
        bert.classifier(2, pair=False)  # Would change nothing.


def test_what_a_loaded_checkpoint_shows(saved):
    """Its labels and its length; methods and the facts that people ask for."""
    bert = keras_bert.load(saved("classification"))
    start = f"LoadedBert({str(saved('classification'))!r}, L=1 H=32 A=4, head='classification'"
    assert (bert.labels, repr(bert)) == (None, f"{start})")
    bert.labels = ["a", "b"]
    bert.sequence_length = 128
    assert repr(bert) == f"{start}, labels=['a', 'b'], sequence_length=128)"
    bert.labels = list("abcdefg")
    assert repr(bert) == f"{start}, labels=['a', 'b', 'c', 'd', 'e', ... 7 in all], sequence_length=128)"
    shown = [name for name in dir(bert) if not name.startswith("_")]
    assert {"fit", "predict", "save", "labels", "results", "encoder"} <= set(shown)
    assert sum(not callable(getattr(bert, name)) for name in shown) <= 10
    assert all(hasattr(bert, field.name) for field in dataclasses.fields(bert.metadata))


@pytest.mark.tensorflow
def test_attention(eager, saved):
    bert = keras_bert.load(saved("encoder"), attention_scores=True)
    tokens, attention = bert.attention(("ab c", "d"))
    assert tokens == ["[CLS]", "a", "##b", "c", "[SEP]", "d", "[SEP]"]
    inputs = bert.preprocessor(7)((["ab c"], ["d"]))
    np.testing.assert_allclose(attention, np.concatenate(bert.encoder(inputs)["attention_scores"]), atol=1e-6)
    assert attention.shape == (1, 4, 7, 7)
    tokens, _ = keras_bert.load(saved("pretraining")).attention("a [MASK].")
    assert tokens == ["[CLS]", "a", "[MASK]", "[UNK]", "[SEP]"]
    with pytest.raises(ValueError, match=r"`text` must be a string or a tuple of two strings. Received: text=\['a'\]"):
        bert.attention(["a"])


def test_the_present_weights_include_a_pooler_that_the_head_does_not_read(saved):
    """A new one, if the folder has none; what is trained from them must start with the same one each time."""
    bert = keras_bert.load(saved("token_classification"))
    bert.model()
    start = LoadedBert(bert.checkpoint())
    again = LoadedBert(start.checkpoint())
    assert start.identity == again.identity
    np.testing.assert_array_equal(start.encoder.get_weights()[-1], again.encoder.get_weights()[-1])
    # A new pooler is no other model to resume from, as a new head is none.
    assert LoadedBert(keras_bert.load(saved("token_classification")).checkpoint()).identity == start.identity


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
