"""transformers opens our checkpoints, with no missing or unexpected weights, and computes the same."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from tests.checkpoints.conftest import NAMES, randomize
from tests.conftest import HEADS, to_numpy

torch = pytest.importorskip("torch", reason="a peer, see `make peers`")
transformers = pytest.importorskip("transformers", reason="a peer, see `make peers`")

THEIRS = {
    "sequence_output": "last_hidden_state",
    "pooled_output": "pooler_output",
    "mlm_logits": "prediction_logits",
    "nsp_logits": "seq_relationship_logits",
}


def opened(folder):
    """The model of transformers, which must find each of its weights."""
    kind = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    twin, info = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
    assert not any(info[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return twin.eval()


def assert_same_outputs(model, twin, inputs):
    """Compares the outputs for real tokens; masked language models predict each token."""
    with torch.inference_mode():
        outputs = twin(**{theirs: torch.tensor(inputs[ours]).long() for ours, theirs in NAMES.items()})
    real = inputs["padding_mask"].astype(bool)
    if any(each.name == "mask_positions" for each in model.inputs):
        inputs = inputs | {"mask_positions": np.tile(np.arange(real.shape[1], dtype="int32"), (len(real), 1))}
    for name, value in model(inputs).items():
        value = to_numpy(value)
        expected = outputs["logits" if "logits" in outputs else THEIRS.get(name, name)].numpy()
        if value.shape[:2] == real.shape:
            value, expected = value[real], expected[real]
        np.testing.assert_allclose(value, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("head", [head for head in HEADS if HEADS[head].architecture])
def test_each_head(models, saved, task, head):
    twin = opened(saved(head))
    assert type(twin).__name__ == HEADS[head].architecture
    assert_same_outputs(models(head), twin, task(head)[0])


@pytest.mark.parametrize(("positions", "causal"), [("sinusoid", True), ("none", False)])
def test_left_to_right_and_fixed_positions(build, batch, tmp_path, positions, causal):
    model = build("encoder", causal=causal, positions=positions)
    keras_bert.save(model, tmp_path, None)
    twin = opened(tmp_path)
    assert twin.config.is_decoder == causal
    # The pooled output of ours is that of the last token, if the model is causal.
    states = keras.Model(model.input, {"sequence_output": model.output["sequence_output"]})
    assert_same_outputs(states, twin, batch)


TEXTS = ["Hello there!", "the <ent> has covid-19covid-19", "a" * 90 + " b", "", "xyz <ENT> abc"]
ADDED = [keras_bert.AddedToken("<ent>", normalized=False, special=True), keras_bert.AddedToken("covid-19")]


@pytest.mark.parametrize(
    ("head", "dtype", "added"),
    [("multi_label", "float16", ADDED), ("untied", "bfloat16", ()), ("next_sentence", "float32", ())],
)
def test_settings_are_kept_in_both_directions(eager, config, pieces, tmp_path, head, dtype, added):
    """Ids and outputs of a folder saved by us, and of the same model saved by transformers."""
    model = randomize(HEADS[head].build(keras_bert.build_encoder(dataclasses.replace(config, vocab_size=52))))
    labels = ["x", "y", "z"] if head == "multi_label" else None
    # Padding is not always the first piece.
    pieces = [*pieces, "<ent>", "covid-19"] if added else ["[UNK]", "[CLS]", "[SEP]", "[PAD]", *pieces[4:]]
    vocabulary = keras_bert.Vocabulary(pieces, added, max_word_length=100)
    keras_bert.save(model, tmp_path / "ours", vocabulary, labels=labels, weights_dtype=dtype)
    twin = opened(tmp_path / "ours")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    twin.to(getattr(torch, dtype)).save_pretrained(tmp_path / "theirs")
    tokenizer.save_pretrained(tmp_path / "theirs")
    for folder in (tmp_path / "ours", tmp_path / "theirs"):
        bert = keras_bert.load(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        assert (bert.labels, bert.vocabulary) == (labels, vocabulary)
        theirs = tokenizer(TEXTS, padding=True, truncation=True, max_length=40, return_tensors="np")
        inputs = {name: ids.numpy() for name, ids in bert.preprocessor(40, padding="longest")(TEXTS).items()}
        for name, value in NAMES.items():
            np.testing.assert_array_equal(inputs[name], theirs[value])
        assert_same_outputs(bert.model(), opened(folder), inputs)


ELECTRA = {"embedding_size": 16, "hidden_act": "gelu", "pooler_activation": "gelu"}
DISTILBERT = {"type_vocab_size": 0, "pooler_activation": "relu"}


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("head", "changes"),
    [("pretraining", {}), ("untied", {}), ("multiple_choice", {}), ("mlm", ELECTRA), ("mlm", DISTILBERT)],
)
def test_added_words(eager, config, pieces, task, tmp_path, head, changes):
    """The new words fill an unused piece, a row without a piece, and a new row, each with the mean of its pieces."""
    pieces = ["[unused1]" if piece == "z" else piece for piece in pieces]
    encoder = keras_bert.build_encoder(dataclasses.replace(config, vocab_size=51, **changes))
    model = randomize(HEADS[head].build(encoder))
    keras_bert.save(model, tmp_path / "old", pieces)
    bert = keras_bert.load(tmp_path / "old")
    old = bert.checkpoint().tensors
    assert bert.add_words(["Bad", "##ed", "zoo"]) is bert
    bert.save(tmp_path / "new")
    new = bert.checkpoint().tensors
    for name in ("embeddings.word_embeddings.weight", "cls.predictions.bias", "cls.predictions.decoder.weight"):
        if name in old:
            before, after = old[name].read(), new[name].read()
            unchanged = [index for index in range(50) if index != pieces.index("[unused1]")]
            np.testing.assert_array_equal(after[unchanged], before[unchanged])
            for row, parts in ((30, ["b", "##a", "##d"]), (50, ["##e", "##d"]), (51, ["[UNK]"])):
                mean = sum(before[pieces.index(part)] for part in parts) / len(parts)
                np.testing.assert_allclose(after[row], mean, rtol=1e-6)
    texts = ["bad baded Zoo zoob", "[MASK] ab"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "new")
    reloaded = keras_bert.load(tmp_path / "new")
    for each in (bert, reloaded):
        assert (each.config.vocab_size, each.vocabulary.pieces[50:]) == (52, ("##ed", "zoo"))
        kept = each.preprocessor(12, keep_special_tokens=["[MASK]"])
        ids = tokenizer(texts, padding="max_length", max_length=12)["input_ids"]
        np.testing.assert_array_equal(kept(texts)["token_ids"], ids)
        assert_same_outputs(each.model(), opened(tmp_path / "new"), task(head)[0])
    if head == "pretraining":
        assert bert.pretrainer().output["mlm_logits"].shape[-1] == 52
        fills = bert.predict("a [MASK]", n_best=52)["fills"][0]
        assert {"bad", "zoo"} < {fill["token"] for fill in fills}
