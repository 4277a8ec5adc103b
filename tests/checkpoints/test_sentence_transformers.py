"""Folders of sentence-transformers: what they store, and vectors equal to those of that library.

Of cross-encoders, the activation of their scores in each of its places.
"""

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


# Cross-encoders

SIGMOID = "torch.nn.modules.activation.Sigmoid"
IDENTITY = "torch.nn.modules.linear.Identity"
RELU = "torch.nn.modules.activation.ReLU"
SOFTMAX = "torch.nn.modules.activation.Softmax"
NEW = "sentence_transformers"
OLD = "sbert_ce_default_activation_function"


def with_activation(folder, activation=None, old=None, settings=None, **config):
    """Writes the activation into its places; with `settings` those of a whole cross-encoder of newer releases."""
    config |= {NEW: activation and {"activation_fn": activation}, OLD: old}
    edit(folder / "config.json", keras_bert=None, **config)
    if settings is not None:
        (folder / "modules.json").write_text('[{"idx": 0, "path": "", "type": "a.Transformer"}]')
        (folder / SETTINGS).write_text(json.dumps({"model_type": "CrossEncoder", **settings}))
        (folder / "sentence_bert_config.json").write_text('{"transformer_task": "sequence-classification"}')
    return folder


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (None, "linear"),  # As saved by us.
        ({}, "linear"),  # A regression model of transformers.
        ({"activation": SIGMOID}, "sigmoid"),
        ({"activation": IDENTITY, "old": SIGMOID}, "linear"),
        ({"old": "torch.nn.Sigmoid"}, "sigmoid"),
        ({"settings": {"activation_fn": IDENTITY}, "activation": SIGMOID}, "linear"),
        ({"settings": {}, "old": IDENTITY}, "linear"),
        ({"settings": {}}, "sigmoid"),  # The default of sentence-transformers.
    ],
)
def test_places_of_the_activation(copy, stored, expected):
    """The order is that of sentence-transformers."""
    folder = copy("regression")
    bert = keras_bert.load(folder if stored is None else with_activation(folder, **stored))
    assert bert.score_activation == keras_bert.describe(bert.model()).score_activation == expected
    assert keras_bert.load(folder, head="encoder").score_activation == "linear"


def test_several_logits(copy, tmp_path):
    """Sigmoids of several are those of independent labels, the identity changes nothing."""
    folder = copy("classification")
    for activation, multi_label in ((SIGMOID, True), (IDENTITY, False)):
        bert = keras_bert.load(with_activation(folder, activation))
        assert (bert.multi_label, bert.score_activation) == (multi_label, "linear")
    bert = keras_bert.load(with_activation(folder, SIGMOID))
    keras_bert.save(bert.model(), tmp_path / "again", None)
    assert json.loads((tmp_path / "again" / "config.json").read_text())[NEW] == {"activation_fn": SIGMOID}


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"activation": RELU}, f"config.json: `activation_fn` must be one of .*Identity, .*Sigmoid. .*={RELU!r}; load"),
        ({"old": SOFTMAX}, f"`{OLD}` must be one of .*: {OLD}={SOFTMAX!r}"),
        ({"activation": "mine.Sigmoid"}, "`activation_fn` must be one of .* Received: activation_fn='mine.Sigmoid'"),
        ({"activation": 1}, "`activation_fn` must be one of .* Received: activation_fn=1"),
        ({"settings": {"activation_fn": RELU}}, f"{SETTINGS}: `activation_fn` must be one of"),
        ({"settings": {"default_prompt_name": "a"}}, f"{SETTINGS}: `default_prompt_name` must be None"),
    ],
)
def test_other_activations_are_refused_by_name(copy, stored, message):
    folder = with_activation(copy("regression"), **stored)
    with pytest.raises(ValueError, match=message):
        keras_bert.load(folder)
    assert keras_bert.load(folder, head="encoder").head == "encoder"


def test_settings_that_contradict_each_other(copy, build):
    folder = with_activation(copy("classification"), SIGMOID, problem_type="single_label_classification")
    with pytest.raises(ValueError, match="must be the identity for the problem_type 'single_label_classification'"):
        keras_bert.load(folder)
    with_activation(folder, settings={})
    (folder / "modules.json").write_text('[{"idx": 0, "type": "a.Transformer"}, {"idx": 1, "type": "a.Dense"}]')
    with pytest.raises(ValueError, match="expected only the module Transformer .* Received: Transformer, Dense"):
        keras_bert.load(folder)
    for options in ({"num_classes": 2}, {"num_classes": 1, "multi_label": True}):
        with pytest.raises(ValueError, match="`score_activation` must be 'linear', or 'sigmoid' for a model with one"):
            keras_bert.build_classifier(build("encoder"), **options, score_activation="sigmoid")


@pytest.mark.parametrize("settings", [None, {}])
def test_the_maximum_length_is_that_of_the_tokenizer(copy, pieces, tmp_path, settings):
    folder = with_activation(copy("regression"), SIGMOID, settings=settings)
    edit(folder / "tokenizer_config.json", model_max_length=9)
    bert = keras_bert.load(folder)
    assert bert.sequence_length == 9
    keras_bert.save(bert.model(), tmp_path / "again", bert.vocabulary, sequence_length=9)
    assert json.loads((tmp_path / "again" / "tokenizer_config.json").read_text())["model_max_length"] == 9


@pytest.mark.tensorflow
def test_scores_are_sigmoids(eager, golden, loaded, tmp_path):
    """Those of another program, from `predict` and from what is exported."""
    case = golden / "hf_world" / "cross_encoder"
    bert = loaded("hf_world/cross_encoder")
    logits = np.load(case / "golden.npz")["out_logits"][:, 0]
    texts = json.loads((case / "texts.json").read_text())["texts"]
    expected = 1 / (1 + np.exp(-logits))
    assert [row["value"] for row in bert.predict(texts)] == pytest.approx(expected, abs=1e-5)
    keras_bert.save(bert.model(), tmp_path / "again", bert.vocabulary, lowercase=bert.lowercase)
    assert json.loads((tmp_path / "again" / "config.json").read_text())[NEW] == {"activation_fn": SIGMOID}
    signatures = keras_bert.exporting.export.build_signatures(bert.model(), bert.preprocessor(100))
    assert signatures["serving_default"](texts)["value"].numpy() == pytest.approx(expected, abs=1e-5)
    inputs = bert.preprocessor(100)(texts)
    tokens = keras_bert.text.signatures.on_ids(bert.model())(*inputs.values())
    assert tokens["logits"].numpy()[:, 0] == pytest.approx(logits, abs=1e-4)


@pytest.mark.tensorflow
@pytest.mark.parametrize("head", ["regression", "multi_label"])
def test_both_programs_compute_the_same_scores(eager, models, pieces, tmp_path, head):
    """From our folder and from theirs, for texts that are cut off, too."""
    pytest.importorskip("torch", reason="a peer, see `make peers`")
    peer = pytest.importorskip("sentence_transformers", reason="a peer, see `make peers`")
    # With an odd number of tokens, tokenizers may leave one more to the second text than BERT.
    keras_bert.save(models(head), tmp_path / "ours", pieces, sequence_length=21)
    theirs = peer.CrossEncoder(str(tmp_path / "ours"), device="cpu")
    theirs.save_pretrained(str(tmp_path / "theirs"))
    pairs = [("Hello there!", "ab"), ("a b c d e f " * 4, "x y z " * 9), ("", "q")]
    expected = theirs.predict(pairs).reshape(len(pairs), -1)
    for folder in ("ours", "theirs"):
        rows = keras_bert.load(tmp_path / folder).predict(pairs)
        found = [list(row["scores"].values()) if head == "multi_label" else [row["value"]] for row in rows]
        np.testing.assert_allclose(found, expected, atol=1e-5)
