"""Cross-encoders of sentence-transformers: the activation of their scores, in each of its places."""

import json

import numpy as np
import pytest

import keras_bert
from tests.checkpoints.conftest import edit

SIGMOID = "torch.nn.modules.activation.Sigmoid"
IDENTITY = "torch.nn.modules.linear.Identity"
RELU = "torch.nn.modules.activation.ReLU"
SOFTMAX = "torch.nn.modules.activation.Softmax"
NEW = "sentence_transformers"
OLD = "sbert_ce_default_activation_function"
SETTINGS = "config_sentence_transformers.json"


def change(folder, activation=None, old=None, settings=None, **config):
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
    bert = keras_bert.load(folder if stored is None else change(folder, **stored))
    assert bert.score_activation == keras_bert.describe(bert.model()).score_activation == expected
    assert keras_bert.load(folder, head="encoder").score_activation == "linear"


def test_several_logits(copy, tmp_path):
    """Sigmoids of several are those of independent labels, the identity changes nothing."""
    folder = copy("classification")
    for activation, multi_label in ((SIGMOID, True), (IDENTITY, False)):
        bert = keras_bert.load(change(folder, activation))
        assert (bert.multi_label, bert.score_activation) == (multi_label, "linear")
    bert = keras_bert.load(change(folder, SIGMOID))
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
    folder = change(copy("regression"), **stored)
    with pytest.raises(ValueError, match=message):
        keras_bert.load(folder)
    assert keras_bert.load(folder, head="encoder").head == "encoder"


def test_settings_that_contradict_each_other(copy, build):
    folder = change(copy("classification"), SIGMOID, problem_type="single_label_classification")
    with pytest.raises(ValueError, match="must be the identity for the problem_type 'single_label_classification'"):
        keras_bert.load(folder)
    change(folder, settings={})
    (folder / "modules.json").write_text('[{"idx": 0, "type": "a.Transformer"}, {"idx": 1, "type": "a.Dense"}]')
    with pytest.raises(ValueError, match="expected only the module Transformer .* Received: Transformer, Dense"):
        keras_bert.load(folder)
    for options in ({"num_classes": 2}, {"num_classes": 1, "multi_label": True}):
        with pytest.raises(ValueError, match="`score_activation` must be 'linear', or 'sigmoid' for a model with one"):
            keras_bert.build_classifier(build("encoder"), **options, score_activation="sigmoid")


@pytest.mark.parametrize("settings", [None, {}])
def test_the_maximum_length_is_that_of_the_tokenizer(copy, pieces, tmp_path, settings):
    folder = change(copy("regression"), SIGMOID, settings=settings)
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
