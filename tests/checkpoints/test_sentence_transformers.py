"""Folders of sentence-transformers: what they store, and vectors equal to those of that library."""

import json

import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoints import tokenizer_files
from tests.checkpoints.conftest import edit, randomize

POOLING = "1_Pooling/config.json"
DENSE = "2_Dense/config.json"
SETTINGS = "config_sentence_transformers.json"


@pytest.fixture
def folder(copy):
    """The folder of a sentence encoder with a projection, whose files can be changed."""
    return copy("projection")


def test_the_files_of_a_projection(folder, models):
    modules = json.loads((folder / "modules.json").read_text())
    assert [module["path"] for module in modules] == ["", "1_Pooling", "2_Dense", "3_Normalize"]
    assert json.loads((folder / DENSE).read_text()) == {
        "in_features": 160,
        "out_features": 16,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    bert = keras_bert.load(folder)
    assert (bert.projection, bert.projection_activation, bert.normalize) == (16, "tanh", True)
    assert bert.pooling == ("cls", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
    assert keras_bert.load(folder, head="encoder").model().name == "bert_encoder"
    assert keras_bert.load(folder, head="embedding").metadata == bert.metadata
    # Another order of several poolings is kept, too.
    edit(folder / POOLING, pooling_mode=["mean", "cls"])
    (folder / DENSE).parent.rename(folder / "Dense")
    edit_modules(folder, lambda modules: modules[:2])
    bert = keras_bert.load(folder)
    keras_bert.save(bert.model(), folder / "again", None)
    assert keras_bert.load(folder / "again").pooling == bert.pooling == ("mean", "cls")


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        (SETTINGS, {"truncate_dim": 8}, "`truncate_dim` must be None. Received: truncate_dim=8"),
        ("sentence_bert_config.json", {"config_kwargs": {"layer_norm_eps": 0.1}}, "`config_kwargs` must be {}. Rec"),
        (POOLING, {"include_prompt": False}, "`include_prompt` must be True. Received: include_prompt=False"),
        (POOLING, {"pooling_mode": "median"}, "pooling must be one of cls, .*, or several different.* median"),
        (DENSE, {"activation_function": "torch.nn.modules.activation.GELU"}, "`activation_function` must be one of to"),
        (DENSE, {"use_residual": True}, "2_Dense/config.json: `use_residual` must be False"),
        (SETTINGS, {"default_prompt_name": "a"}, "default_prompt_name` must be the name of a prompt: none"),
        (SETTINGS, {"prompts": ["a"]}, "`prompts` must be a dict of texts by name"),
        (SETTINGS, {"similarity_fn_name": "maxsim"}, "must be one of cosine, dot, euclidean, manhattan. Rec.*'maxsim'"),
        (SETTINGS, {"model_type": "SparseEncoder"}, "`model_type` must be 'SentenceTransformer'"),
        ("sentence_bert_config.json", {"max_seq_length": "9"}, "`max_seq_length` must be a positive number. .*='9'"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "`transformer_task` must be 'feature-ext"),
    ],
)
def test_unsupported_settings_raise(folder, file, values, message):
    edit(folder / file, **values)
    with pytest.raises(ValueError, match=message):
        keras_bert.load(folder)


def test_lower_case_is_no_setting_of_unigram(folder):
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    words = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]}
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "▁a"]
    vocabulary = keras_bert.Vocabulary(pieces, unigram={"scores": [0.0] * 6}, pre_tokenizer=words)
    tokenizer_files.write(vocabulary, vocabulary.lowercase, 12, folder)
    edit(folder / "sentence_bert_config.json", do_lower_case=True)
    with pytest.raises(ValueError, match="`do_lower_case` is only supported with BERT's normalizer"):
        keras_bert.load(folder)


def test_vectors_of_different_widths(folder):
    with pytest.raises(ValueError, match="vectors must have the same width. Received: 3 and 4"):
        keras_bert.load(folder).similarity(np.zeros((2, 3)), np.zeros((2, 4)))


def edit_modules(folder, change):
    path = folder / "modules.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def test_other_modules_and_weights_raise(folder):
    edit_modules(folder, lambda modules: [module | {"idx": -module["idx"]} for module in modules])
    with pytest.raises(ValueError, match="expected the modules Transformer, Pooling and .*Received: Normalize, Dense"):
        keras_bert.load(folder)
    edit_modules(folder, lambda modules: [module | {"idx": -module["idx"]} for module in modules])
    (folder / "2_Dense").rename(folder.parent / "dense")
    edit_modules(folder, lambda modules: [*modules[:2], {**modules[2], "path": "../dense"}, *modules[3:]])
    with pytest.raises(ValueError, match="modules.json: .* must be in its folder. Received: '../dense'"):
        keras_bert.load(folder)
    edit_modules(folder, lambda modules: [{**modules[0], "type": None}, *modules[1:]])
    with pytest.raises(ValueError, match="modules.json: not a list of modules"):
        keras_bert.load(folder)
    edit_modules(folder, lambda modules: [{**modules[0], "type": "Transformer", "path": str(folder)}, *modules[1:]])
    with pytest.raises(ValueError, match="modules.json: .* must be in its folder. Received: '/"):
        keras_bert.load(folder)
    edit_modules(folder, lambda modules: [{**modules[0], "path": ""}, *modules[1:2], {**modules[2], "path": "2_Dense"}])
    (folder.parent / "dense").rename(folder / "2_Dense")
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(ValueError, match="pytorch_model.bin: not a readable file of PyTorch"):
        keras_bert.load(folder)


PROMPTS = {"query": "q e: ", "document": ""}


def library():
    """sentence-transformers, or skips."""
    pytest.importorskip("torch", reason="a peer, see `make peers`")
    return pytest.importorskip("sentence_transformers", reason="a peer, see `make peers`")


TEXTS = ["Hello there!", "Ab É", "a b c d e f g h i j k l m n o p q r s t u v w x y z" * 2, "Zoë", ""]
EVERY = ("max", "cls", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")


@pytest.mark.tensorflow
def test_both_programs_compute_the_same_vectors(eager, config, pieces, tmp_path):
    """From our folder and from theirs."""
    peer = library()
    encoder = keras_bert.build_encoder(config)
    options = {"normalize": True, "projection": 8, "projection_activation": "tanh", "sequence_length": 20}
    model = randomize(keras_bert.build_embedder(encoder, EVERY, **options))
    facts = {"prompts": PROMPTS, "default_prompt_name": "query", "similarity_function": "dot"}
    keras_bert.save(model, tmp_path / "ours", pieces, **facts)
    theirs = peer.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    theirs.save_pretrained(str(tmp_path / "theirs"))
    for folder in ("ours", "theirs"):
        bert = keras_bert.load(tmp_path / folder)
        assert bert.metadata.sequence_length == theirs.max_seq_length == 20
        for name, text in PROMPTS.items():
            expected = theirs.encode(TEXTS, prompt_name=name)
            np.testing.assert_allclose(bert.encode(TEXTS, prompt_name=name), expected, atol=1e-6)
            np.testing.assert_allclose(bert.encode(TEXTS, prompt=text), expected, atol=1e-6)
        expected = theirs.encode(TEXTS)
        np.testing.assert_allclose(bert.encode(TEXTS), expected, atol=1e-6)
        similarity = theirs.similarity(expected[:2], expected).numpy()
        np.testing.assert_allclose(bert.similarity(TEXTS[:2], TEXTS), similarity, atol=2e-6)


@pytest.mark.tensorflow
@pytest.mark.parametrize(("normalize", "bias"), [(True, False), (False, True)])
def test_a_folder_that_the_library_made(eager, config, pieces, tmp_path, normalize, bias):
    """Their modules, settings that they alone write, and a cased tokenizer with `do_lower_case`."""
    peer = library()
    from sentence_transformers.sentence_transformer import modules
    from torch import nn

    encoder = randomize(keras_bert.build_encoder(config))
    keras_bert.save(encoder, tmp_path / "encoder", pieces, lowercase=not bias)
    parts = [modules.Transformer(str(tmp_path / "encoder"), max_seq_length=12, do_lower_case=True)]
    parts.append(modules.Pooling(32, ("weightedmean", "max")))
    parts.append(modules.Dense(64, 5, bias=bias, activation_function=nn.Identity() if bias else nn.Tanh()))
    theirs = peer.SentenceTransformer(modules=parts + [modules.Normalize()] * normalize, device="cpu")
    theirs.save_pretrained(str(tmp_path / "theirs"))
    if bias:  # Newer releases write the casing to `tokenizer.json`, but read it where older ones wrote it.
        edit(tmp_path / "theirs" / "sentence_bert_config.json", do_lower_case=True)
    bert = keras_bert.load(tmp_path / "theirs")
    assert (bert.sequence_length, bert.projection, bert.normalize) == (12, 5, normalize)
    assert bert.prompts == {"query": "", "document": ""}
    assert bert.lowercase
    np.testing.assert_allclose(bert.encode(TEXTS), theirs.encode(TEXTS), atol=1e-6)
    keras_bert.save(bert.model(), tmp_path / "again", bert.vocabulary, lowercase=bert.lowercase)
    again = peer.SentenceTransformer(str(tmp_path / "again"), device="cpu")
    np.testing.assert_allclose(again.encode(TEXTS), theirs.encode(TEXTS), atol=1e-6)
