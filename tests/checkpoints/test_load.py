"""The many shapes in which a checkpoint comes, and what is wrong with broken ones."""

import json
import logging
import re
import shutil

import keras
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import keras_bert
from tests.conftest import to_numpy


@pytest.fixture
def saved(build, pieces, tmp_path):
    """A pre-training checkpoint in Hugging Face's layout."""
    keras_bert.save(build("pretraining"), tmp_path / "bert", pieces)
    return tmp_path / "bert"


def tensors(path):
    return safetensors.numpy.load_file(path / "model.safetensors")


def rewrite(path, change):
    """Changes the tensors of a checkpoint on disk."""
    values = tensors(path)
    safetensors.numpy.save_file(change(values) or values, path / "model.safetensors")


def edit(path, **values):
    """Changes keys of a JSON file; None removes one."""
    content = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def table(bert):
    return to_numpy(bert.encoder.get_layer("token_embedding").embeddings)


class TestVariants:
    def test_names_without_prefix_and_with_old_layer_norm_names(self, saved):
        expected = table(keras_bert.load(saved))

        def change(values):
            old = {}
            for name, value in values.items():
                name = name.removeprefix("bert.")
                old[
                    re.sub(
                        r"LayerNorm\.bias$", "LayerNorm.beta", re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", name)
                    )
                ] = value
            return old

        rewrite(saved, change)
        bert = keras_bert.load(saved)
        bert.pretrainer()
        np.testing.assert_array_equal(table(bert), expected)

    def test_shards(self, saved):
        expected = keras_bert.load(saved).pretrainer().get_weights()
        values = sorted(tensors(saved).items())
        (saved / "model.safetensors").unlink()
        places = {}
        for number, part in enumerate((values[:20], values[20:]), 1):
            name = f"model-{number:05}-of-00002.safetensors"
            safetensors.numpy.save_file(dict(part), saved / name)
            places.update(dict.fromkeys(dict(part), name))
        (saved / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
        for got, wanted in zip(keras_bert.load(saved).pretrainer().get_weights(), expected, strict=True):
            if wanted.dtype == "float32":
                np.testing.assert_array_equal(got, wanted)
        (saved / "model-00002-of-00002.safetensors").unlink()
        with pytest.raises(ValueError, match=r"missing shard\(s\): model-00002-of-00002.safetensors"):
            keras_bert.load(saved)

    @pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
    def test_half_precision_tensors(self, saved, dtype):
        expected = table(keras_bert.load(saved)).astype(dtype).astype("float32")
        rewrite(saved, lambda values: {name: value.astype(dtype) for name, value in values.items()})
        np.testing.assert_array_equal(table(keras_bert.load(saved)), expected)

    def test_tied_copies_are_dropped(self, saved):
        def change(values):
            values["cls.predictions.decoder.weight"] = values["bert.embeddings.word_embeddings.weight"]
            values["cls.predictions.decoder.bias"] = values.pop("cls.predictions.bias")

        rewrite(saved, change)
        keras_bert.load(saved).pretrainer()

    def test_untied_copies_are_an_error(self, saved):
        rewrite(saved, lambda values: {**values, "cls.predictions.decoder.weight": np.zeros((50, 32), "float32")})
        with pytest.raises(ValueError, match="cls.predictions.decoder.weight differs from bert.embeddings.word_emb"):
            keras_bert.load(saved)

    def test_position_ids_are_left(self, saved):
        rewrite(saved, lambda values: {**values, "bert.embeddings.position_ids": np.arange(40)[None]})
        keras_bert.load(saved)

    def test_without_pooler_the_encoder_says_so(self, saved, caplog):
        rewrite(saved, lambda values: {name: value for name, value in values.items() if "pooler" not in name})
        with caplog.at_level(logging.WARNING, "keras_bert"):
            keras_bert.load(saved)
        assert "has no pooler: the encoder's is freshly initialized" in caplog.text

    def test_masked_lm_alone(self, saved):
        rewrite(saved, lambda values: {name: value for name, value in values.items() if "relationship" not in name})
        bert = keras_bert.load(saved)
        assert set(bert.pretrainer().output) == {"mlm_logits"}
        with pytest.raises(ValueError, match=r"lacks 2 tensor\(s\): cls.seq_relationship.weight \(2, 32\)"):
            bert.pretrainer(next_sentence=True)

    def test_a_new_head_on_a_loaded_encoder(self, saved):
        bert = keras_bert.load(saved)
        model = keras_bert.build_classifier(bert.encoder, 2)
        np.testing.assert_array_equal(to_numpy(model.get_layer("token_embedding").embeddings), table(bert))

    def test_a_keras_file(self, build, tmp_path):
        model = build("question_answering")
        model.save(tmp_path / "mine.keras")
        bert = keras_bert.load(tmp_path / "mine.keras")
        assert (bert.head, bert.vocabulary) == ("question_answering", None)
        bert.model()

    def test_dtype(self, saved):
        bert = keras_bert.load(saved, dtype="mixed_bfloat16")
        assert bert.encoder.get_layer("block_1").compute_dtype == "bfloat16"
        assert repr(bert).endswith("L=2 H=32 A=4, head='pretraining')")


class TestTokenizerFiles:
    def test_vocabulary_of_tokenizer_json(self, saved, pieces):
        (saved / "vocab.txt").unlink()
        (saved / "tokenizer_config.json").unlink()
        vocab = {piece: index for index, piece in enumerate(pieces[:-1])}
        content = {
            "model": {"type": "WordPiece", "vocab": vocab},
            "added_tokens": [{"id": 0, "content": "[PAD]"}, {"id": 49, "content": pieces[-1]}],
            "normalizer": {"type": "BertNormalizer", "lowercase": False, "strip_accents": True},
        }
        (saved / "tokenizer.json").write_text(json.dumps(content))
        bert = keras_bert.load(saved)
        assert bert.vocabulary.pieces == tuple(pieces)
        assert (bert.lowercase, bert.strip_accents) == (False, True)

    @pytest.mark.parametrize(("value", "lowercase"), [(True, True), (False, False)])
    def test_tokenizer_config_has_the_last_word(self, saved, value, lowercase):
        edit(saved / "tokenizer_config.json", do_lower_case=value, strip_accents=False)
        bert = keras_bert.load(saved)
        assert (bert.lowercase, bert.strip_accents) == (lowercase, False)

    @pytest.mark.parametrize(("piece", "lowercase"), [("xY", False), ("xy", True), ("[NEW]", True)])
    def test_a_vocabulary_with_capitals_is_cased(self, saved, pieces, piece, lowercase):
        (saved / "tokenizer_config.json").unlink()
        (saved / "tokenizer.json").unlink()
        keras_bert.Vocabulary([*pieces[:-1], piece]).save(saved / "vocab.txt")
        assert keras_bert.load(saved).lowercase == lowercase

    def test_the_public_vocabularies(self, data):
        cased = {path.name: keras_bert.Vocabulary(path).cased for path in (data / "vocab").iterdir()}
        assert cased == {
            "bert-base-uncased-vocab.txt": False,
            "bert-base-cased-vocab.txt": True,
            "bert-base-multilingual-cased-vocab.txt": True,
            "bert-base-chinese-vocab.txt": False,
        }


class TestNames:
    def test_an_own_folder_of_models(self, saved, monkeypatch):
        monkeypatch.setenv("KERAS_BERT_MODELS", str(saved.parent))
        keras_bert.load("bert")

    def test_the_cache_of_the_hugging_face_hub_offline(self, saved, tmp_path, monkeypatch):
        constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed")
        repository = tmp_path / "cache" / "models--google-bert--tiny"
        for revision, name in (("a" * 40, "main"), ("b" * 40, "v2")):
            shutil.copytree(saved, repository / "snapshots" / revision)
            (repository / "refs").mkdir(exist_ok=True)
            (repository / "refs" / name).write_text(revision)
        edit(repository / "snapshots" / ("b" * 40) / "config.json", keras_bert={"task": "second"})
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert keras_bert.load("google-bert/tiny").task is None
        assert keras_bert.load("google-bert/tiny", revision="v2").task == "second"
        with pytest.raises(ValueError, match=r"google-bert/none: no such checkpoint. Tried: .*the Hugging Face hub \("):
            keras_bert.load("google-bert/none")

    @pytest.mark.parametrize("path", ["./none", "/none/of/this"])
    def test_a_path_is_not_looked_up_on_the_hub(self, path):
        with pytest.raises(FileNotFoundError, match=f"{path}: no such checkpoint. Tried: the path") as error:
            keras_bert.load(path)
        assert str(error.value).count("the path /none") <= 1


class TestBroken:
    def test_an_empty_directory(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="not a checkpoint. Expected config.json with model.safetensors"):
            keras_bert.load(tmp_path)

    def test_a_file(self, tmp_path):
        (tmp_path / "x.bin").write_text("")
        with pytest.raises(ValueError, match="a checkpoint is a directory or a .keras file"):
            keras_bert.load(tmp_path / "x.bin")

    def test_no_weights(self, saved):
        (saved / "model.safetensors").unlink()
        with pytest.raises(
            FileNotFoundError, match="expected model.safetensors or model.safetensors.index.json beside"
        ):
            keras_bert.load(saved)

    def test_a_pickle_is_refused(self, saved):
        (saved / "model.safetensors").rename(saved / "pytorch_model.bin")
        with pytest.raises(ValueError, match="pytorch_model.bin is refused: it is a pickle, which can run code"):
            keras_bert.load(saved)

    @pytest.mark.parametrize("keep", [0, 100, -1000])
    def test_a_truncated_file(self, saved, keep):
        path = saved / "model.safetensors"
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(
            ValueError, match=r"model.safetensors: not a readable safetensors file, it may be cut short"
        ):
            keras_bert.load(saved)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"hidden_size": 64}, r"shape\(s\) disagree with the config: embeddings.word_embeddings.weight \(50, 32\)"),
            ({"vocab_size": 51}, r"1 shape\(s\) disagree .* \(50, 32\), expected \(51, 32\)"),
            ({"num_hidden_layers": 1}, r"16 tensor\(s\) have no place .* bert.encoder.layer.1.attention"),
            ({"num_hidden_layers": 3}, r"the checkpoint lacks 16 tensor\(s\): encoder.layer.2.attention"),
            ({"num_attention_heads": 5}, "`hidden_size` must be a multiple of `num_attention_heads`"),
            ({"model_type": "roberta"}, "`model_type` must be 'bert'"),
            ({"vocab_size": None}, "`vocab_size` is missing"),
        ],
    )
    def test_a_config_that_disagrees(self, saved, changes, message):
        edit(saved / "config.json", **changes)
        with pytest.raises(ValueError, match=message):
            keras_bert.load(saved)

    def test_a_missing_tensor(self, saved):
        rewrite(
            saved,
            lambda values: {name: value for name, value in values.items() if "layer.1.output.dense.bias" not in name},
        )
        with pytest.raises(ValueError, match=r"lacks 1 tensor\(s\): encoder.layer.1.output.dense.bias \(32,\)"):
            keras_bert.load(saved)

    def test_a_stranger_among_the_tensors(self, saved):
        rewrite(saved, lambda values: {**values, "bert.adapter.weight": np.zeros((3, 4), "float32")})
        with pytest.raises(ValueError, match=r"1 tensor\(s\) have no place .* bert.adapter.weight \(3, 4\)"):
            keras_bert.load(saved)

    def test_a_vocabulary_longer_than_the_table(self, saved, pieces):
        (saved / "tokenizer.json").unlink()
        keras_bert.Vocabulary([*pieces, "more"]).save(saved / "vocab.txt")
        with pytest.raises(ValueError, match="the vocabulary has 51 pieces, more than the token table's vocab_size=50"):
            keras_bert.load(saved)

    def test_labels_that_do_not_fit_the_head(self, build, tmp_path):
        keras_bert.save(build("classification"), tmp_path / "bert", None, labels=["a", "b", "c"])
        edit(tmp_path / "bert" / "config.json", id2label={"0": "a", "1": "b"})
        with pytest.raises(ValueError, match="`id2label` has 2 labels, but classifier.weight has 3 rows"):
            keras_bert.load(tmp_path / "bert").model()

    def test_a_head_that_is_not_there(self, saved):
        edit(saved / "config.json", architectures=["BertForSequenceClassification"], keras_bert=None)
        with pytest.raises(ValueError, match=r"tells of a classification head, but there is no classifier.weight"):
            keras_bert.load(saved).model()

    def test_no_variable_is_touched_when_a_shape_is_wrong(self, saved, build):
        from keras_bert.checkpoints import huggingface
        from keras_bert.checkpoints.layout import fill, slots

        rewrite(saved, lambda values: {**values, "bert.pooler.dense.bias": np.zeros(3, "float32")})
        source = huggingface.read_config(saved)
        source.tensors = huggingface.read_weights(saved)
        encoder = build("encoder")
        before = encoder.get_weights()
        with pytest.raises(ValueError, match=r"pooler.dense.bias \(3,\), expected \(32,\)"):
            fill(source, slots(keras_bert.describe(encoder)))
        for left, right in zip(encoder.get_weights(), before, strict=True):
            np.testing.assert_array_equal(left, right)

    def test_a_keras_file_of_another_model(self, tmp_path):
        inputs = keras.Input((3,))
        keras.Model(inputs, keras.layers.Dense(1)(inputs)).save(tmp_path / "other.keras")
        with pytest.raises(ValueError, match="`model` must come from a builder of keras_bert"):
            keras_bert.load(tmp_path / "other.keras")

    def test_a_truncated_keras_file(self, build, tmp_path):
        build("encoder").save(tmp_path / "x.keras")
        (tmp_path / "x.keras").write_bytes((tmp_path / "x.keras").read_bytes()[:1000])
        with pytest.raises(ValueError, match=r"x.keras: Keras cannot load this file"):
            keras_bert.load(tmp_path / "x.keras")


@pytest.mark.tensorflow
class TestGoogle:
    @pytest.fixture
    def google(self, build, pieces, tmp_path):
        keras_bert.save(build("pretraining"), tmp_path / "google", pieces, format="google")
        return tmp_path / "google"

    def test_another_prefix(self, google):
        for path in google.glob("bert_model.ckpt*"):
            path.rename(google / path.name.replace("bert_model.ckpt", "model.ckpt-1000"))
        keras_bert.load(google)

    def test_no_weights(self, google):
        (google / "bert_model.ckpt.index").unlink()
        with pytest.raises(ValueError, match=r"expected one TensorFlow checkpoint, such as .* Received: none"):
            keras_bert.load(google)

    @pytest.mark.parametrize(("file", "keep"), [("index", 30), ("index", 0), ("data-00000-of-00001", 400)])
    def test_a_truncated_file(self, google, file, keep):
        path = google / f"bert_model.ckpt.{file}"
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(ValueError, match=r"bert_model.ckpt: (not a readable TensorFlow checkpoint|the tensor)"):
            keras_bert.load(google)

    def test_missing_data_file(self, google):
        (google / "bert_model.ckpt.data-00000-of-00001").unlink()
        with pytest.raises(ValueError, match="bert_model.ckpt: "):
            keras_bert.load(google)

    def test_a_typing_error_in_the_config(self, google):
        edit(google / "bert_config.json", hidden_size=None, hiden_size=32)
        with pytest.raises(ValueError, match=r"bert_config.json: unknown key\(s\) hiden_size"):
            keras_bert.load(google)

    def test_heads_as_googles_programs_name_them(self, build, tmp_path):
        import tensorflow as tf

        keras_bert.save(build("classification"), tmp_path / "a", None, format="google")
        names = tf.train.load_checkpoint(str(tmp_path / "a" / "bert_model.ckpt")).get_variable_to_shape_map()
        assert names["output_weights"] == [3, 32]
        assert names["bert/encoder/layer_1/attention/self/query/kernel"] == [32, 32]
        keras_bert.save(build("question_answering"), tmp_path / "b", None, format="google")
        names = tf.train.load_checkpoint(str(tmp_path / "b" / "bert_model.ckpt")).get_variable_to_shape_map()
        assert names["cls/squad/output_weights"] == [2, 32]


def test_out_of_memory_while_loading(saved, monkeypatch):
    from keras_bert.checkpoints import load

    def full(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(load, "build_encoder", full)
    with pytest.raises(MemoryError, match=r"out of memory at loading [\d,]+ parameters \(0.0 GB in float32\)"):
        keras_bert.load(saved)
