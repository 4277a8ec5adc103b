"""transformers opens our checkpoints, with no missing or unexpected weights, and computes the same."""

import dataclasses
import json

import numpy as np
import pytest

import keras_bert
from tests.conftest import HEADS, to_numpy

torch = pytest.importorskip("torch", reason="a peer, see `make peers`")
transformers = pytest.importorskip("transformers", reason="a peer, see `make peers`")

SPECIAL = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
THEIRS = {
    "sequence_output": "last_hidden_state",
    "pooled_output": "pooler_output",
    "mlm_logits": "prediction_logits",
    "nsp_logits": "seq_relationship_logits",
}


@pytest.mark.parametrize("head", [head for head in HEADS if HEADS[head].architecture])
def test_each_head(models, saved, task, head):
    model, inputs, kind = models(head), task(head)[0], HEADS[head].architecture
    twin, info = getattr(transformers, kind).from_pretrained(saved(head), output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    if "mask_positions" in inputs:
        inputs["mask_positions"] = np.tile(np.arange(12, dtype="int32"), (3, 1))
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    with torch.inference_mode():
        outputs = twin.eval()(**{theirs: torch.tensor(inputs[ours]).long() for ours, theirs in names.items()})
    real = inputs["padding_mask"].astype(bool)
    for name, value in model(inputs).items():
        theirs = "logits" if "logits" in outputs else THEIRS.get(name, name)
        value, expected = to_numpy(value), outputs[theirs].numpy()
        if value.shape[:2] == real.shape and head != "multiple_choice":
            value, expected = value[real], expected[real]
        np.testing.assert_allclose(value, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("positions", ["sinusoid", "none"])
def test_left_to_right_and_fixed_positions(build, batch, tmp_path, positions):
    model = build("encoder", causal=True, positions=positions)
    keras_bert.save(model, tmp_path / "bert", None)
    twin, info = transformers.BertModel.from_pretrained(tmp_path / "bert", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    with torch.inference_mode():
        outputs = twin.eval()(
            torch.tensor(batch["token_ids"]).long(),
            torch.tensor(batch["padding_mask"]).long(),
            torch.tensor(batch["segment_ids"]).long(),
        )
    real = batch["padding_mask"].astype(bool)
    np.testing.assert_allclose(
        to_numpy(model(batch)["sequence_output"])[real], outputs.last_hidden_state.numpy()[real], atol=2e-5
    )


@pytest.mark.parametrize("lowercase", [True, False])
def test_the_tokenizer_opens(models, pieces, tmp_path, lowercase):
    keras_bert.save(models("encoder"), tmp_path / "bert", pieces, lowercase=lowercase)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "bert")
    assert tokenizer.tokenize("AB c") == (["a", "##b", "c"] if lowercase else ["[UNK]", "c"])
    assert tokenizer.model_max_length == 40


@pytest.mark.parametrize(
    "settings",
    [
        {"tokenizer_class": "BertTokenizer", "model_input_names": ["input_ids", "attention_mask"]},
        {"tokenizer_class": "PreTrainedTokenizerFast"},
        {"tokenizer_class": "ElectraTokenizer"},
    ],
)
def test_segments_of_pairs(models, pieces, tmp_path, settings):
    """The scores of a pair are those of transformers, which does not give segment ids to every model."""
    keras_bert.save(models("classification"), tmp_path, keras_bert.Vocabulary(pieces, max_word_length=100))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**SPECIAL, **settings}))
    twin = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)("a b", "c", return_tensors="pt")
    with torch.inference_mode():
        expected = twin(**theirs).logits.softmax(-1).numpy()[0]
    found = keras_bert.load(tmp_path).predict(("a b", "c"))["scores"]
    np.testing.assert_allclose(list(found.values()), expected, atol=1e-5)


def test_models_saved_by_transformers_open_here(models, batch, pieces, tmp_path):
    model = models("classification")
    keras_bert.save(model, tmp_path / "ours", pieces, labels=["x", "y", "z"])
    twin = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "ours")
    twin.save_pretrained(tmp_path / "theirs")
    transformers.AutoTokenizer.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "theirs")
    bert = keras_bert.load(tmp_path / "theirs")
    assert bert.labels == ["x", "y", "z"]
    assert bert.lowercase
    assert bert.vocabulary.pieces == tuple(pieces)
    np.testing.assert_array_equal(to_numpy(bert.model()(batch)["logits"]), to_numpy(model(batch)["logits"]))


CASES = {
    "added_tokens": "classification",
    "multi_label": "multi_label",
    "next_sentence": "next_sentence",
    "pad_at_3": "classification",
    "untied": "untied",
    "float16": "classification",
    "bfloat16": "classification",
}
TEXTS = ["Hello there!", "the <ent> has covid-19covid-19", "a" * 90 + " b", "", "xyz <ENT> abc"]


@pytest.mark.parametrize("case", CASES)
def test_settings_are_kept_in_both_directions(config, pieces, tmp_path, case):
    """Ids and logits of a folder saved by us, and of the same model saved by transformers."""
    config = dataclasses.replace(config, vocab_size=52)
    model = HEADS[CASES[case]].build(keras_bert.build_encoder(config))
    for variable in model.trainable_variables:
        variable.assign(np.random.default_rng(0).normal(scale=0.2, size=variable.shape).astype("float32"))
    vocabulary = keras_bert.Vocabulary(pieces, max_word_length=100)
    if case == "added_tokens":
        added = [keras_bert.AddedToken("<ent>", normalized=False, special=True), keras_bert.AddedToken("covid-19")]
        vocabulary = keras_bert.Vocabulary([*pieces, "<ent>", "covid-19"], added, max_word_length=100)
    elif case == "pad_at_3":
        vocabulary = keras_bert.Vocabulary(["[UNK]", "[CLS]", "[SEP]", "[PAD]", *pieces[4:]], max_word_length=100)
    narrow = case if case in ("float16", "bfloat16") else None
    keras_bert.save(model, tmp_path / "ours", vocabulary, weights_dtype=narrow or "float32")
    twin, tokenizer = _compare(tmp_path / "ours")
    twin.to(getattr(torch, narrow or "float32")).save_pretrained(tmp_path / "theirs")
    tokenizer.save_pretrained(tmp_path / "theirs")
    _compare(tmp_path / "theirs")


def _compare(folder):
    bert = keras_bert.load(folder)
    kind = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    twin, info = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
    assert not any(info[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = tokenizer(TEXTS, padding=True, truncation=True, max_length=40, return_tensors="pt")
    ours = {name: value.numpy() for name, value in bert.preprocessor(40, padding="longest")(TEXTS).items()}
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    for name, value in names.items():
        np.testing.assert_array_equal(ours[name], theirs[value].numpy())
    real = ours["padding_mask"].astype(bool)
    if bert.head == "pretraining":
        ours["mask_positions"] = np.tile(np.arange(real.shape[1], dtype="int32"), (len(TEXTS), 1))
    (found,) = map(to_numpy, bert.model()(ours).values())
    with torch.inference_mode():
        expected = twin.eval()(**theirs).logits.numpy()
    if expected.ndim == 3:
        found, expected = found[real], expected[real]
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    return twin, tokenizer
