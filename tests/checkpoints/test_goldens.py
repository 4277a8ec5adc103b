"""Reproduces activations computed by Google's and Hugging Face's programs from their checkpoints."""

import json

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import HF_HEADS, relative, to_numpy

FLOAT32 = 2e-5
# These weights are 12 times BERT's scale. Even bfloat16 products inside otherwise exact arithmetic lose 2.2e-2 of
# `start_logits`; tanh and the small heads amplify the rounding errors of the bfloat16 residual stream. Processors
# differ: of `mlm_logits`, 2.4e-2 were measured without bfloat16 instructions, 2.1e-2 with AMX, 2e-2 with AVX-512.
BFLOAT16 = {"pooled_output": 7e-2, "nsp_logits": 7e-2, "start_logits": 7e-2}

HF_OUTPUTS = {
    "sequence_output": "out_last_hidden_state",
    "pooled_output": "out_pooler_output",
    "hidden_states": "out_hidden_states",
    "attention_scores": "out_attentions",
    "mlm_logits": "out_prediction_logits",
    "nsp_logits": "out_seq_relationship_logits",
    "logits": "out_logits",
    "start_logits": "out_start_logits",
    "end_logits": "out_end_logits",
}


def tolerance(name, dtype):
    if dtype == "float32":
        return FLOAT32
    # XLA rounds differently than oneDNN; the bound was chosen for TensorFlow.
    return BFLOAT16.get(name, 2.8e-2 if keras.backend.backend() == "tensorflow" else 7e-2)


def int32(golden, **names):
    return {ours: golden[theirs].astype("int32") for ours, theirs in names.items()}


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "bfloat16"])
def test_google_tf1(golden, loaded, dtype):
    expected = np.load(golden / "google_tf1_small" / "golden.npz")
    inputs = int32(expected, **{name: name for name in ("token_ids", "segment_ids", "padding_mask")})
    real = expected["padding_mask"].astype(bool)
    bert = loaded("google_tf1_small", dtype=dtype, hidden_states=True)
    assert bert.config.hidden_act == "gelu_new"
    pretrainer = bert.pretrainer()
    both = keras.Model(pretrainer.input, {**bert.encoder.output, **pretrainer.output})
    outputs = both({**inputs, **int32(expected, mask_positions="mask_positions")})
    for name in ("pooled_output", "nsp_logits"):
        assert relative(outputs[name], expected[name]) <= tolerance(name, dtype), name
    sequence = to_numpy(outputs["sequence_output"])[real]
    assert relative(sequence, expected["sequence_output"][real]) <= tolerance("sequence_output", dtype)
    mlm = to_numpy(outputs["mlm_logits"]).reshape(expected["mlm_logits"].shape)
    assert relative(mlm, expected["mlm_logits"]) <= tolerance("mlm_logits", dtype)
    if dtype == "float32":
        layers = [expected["embedding_output"], *expected["all_layers"]]
        for state, layer in zip(outputs["hidden_states"], layers, strict=True):
            assert relative(to_numpy(state)[real], layer[real]) <= FLOAT32


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("head", HF_HEADS)
def test_hugging_face_heads(golden, loaded, loaded_model, head, dtype):
    expected = np.load(golden / "hf_small" / head / "golden.npz")
    inputs = int32(expected, token_ids="input_ids", segment_ids="token_type_ids", padding_mask="attention_mask")
    real = expected["attention_mask"].astype(bool)
    bert = loaded(f"hf_small/{head}", dtype=dtype)
    assert bert.config.hidden_act == "gelu"
    if head == "pretraining":
        inputs["mask_positions"] = np.tile(np.arange(24, dtype="int32"), (3, 1))
    model = loaded_model(f"hf_small/{head}", dtype=dtype)
    # One head in a graph.
    in_graph = (head, dtype) == ("pretraining", "float32")
    for name, value in (model.predict_on_batch if in_graph else model)(inputs).items():
        value, wanted = to_numpy(value), expected[HF_OUTPUTS[name]]
        if value.shape[:2] == real.shape and head != "multiple_choice":
            value, wanted = value[real], wanted[real]
        assert relative(value, wanted) <= tolerance(name, dtype), name


def test_hidden_states_and_attention_of_every_layer(golden):
    expected = np.load(golden / "hf_small" / "bare" / "golden.npz")
    inputs = int32(expected, token_ids="input_ids", segment_ids="token_type_ids", padding_mask="attention_mask")
    real = expected["attention_mask"].astype(bool)
    bert = keras_bert.load(golden / "hf_small" / "bare", hidden_states=True, attention_scores=True)
    outputs = bert.encoder(inputs)
    for state, wanted in zip(outputs["hidden_states"], expected["out_hidden_states"], strict=True):
        assert relative(to_numpy(state)[real], wanted[real]) <= FLOAT32
    for scores, wanted in zip(outputs["attention_scores"], expected["out_attentions"], strict=True):
        rows = np.swapaxes(to_numpy(scores), 1, 2)[real], np.swapaxes(wanted, 1, 2)[real]
        assert relative(*rows) <= FLOAT32


def crossentropy(logits, labels):
    shifted = logits - logits.max(-1, keepdims=True)
    return np.log(np.exp(shifted).sum(-1)) - np.take_along_axis(shifted, labels[..., None], -1)[..., 0]


@pytest.mark.parametrize("step", [0, 1])  # The first update has learning rate 0.
def test_losses_of_googles_first_steps(golden, loaded, step):
    expected = np.load(golden / "google_tf1_training" / "golden.npz")
    names = ("token_ids", "segment_ids", "padding_mask", "mask_positions")
    inputs = {name: expected[name][step].astype("int32") for name in names}
    outputs = loaded("google_tf1_training").pretrainer()(inputs)
    weights = expected["mask_weights"][step]
    mlm = (crossentropy(to_numpy(outputs["mlm_logits"]), expected["mask_labels"][step]) * weights).sum()
    mlm /= weights.sum() + 1e-5
    nsp = crossentropy(to_numpy(outputs["nsp_logits"]), expected["next_sentence_labels"][step]).mean()
    np.testing.assert_allclose([mlm, nsp], [expected["mlm_loss"][step], expected["nsp_loss"][step]], atol=1e-5)


@pytest.mark.tensorflow
def test_optimizer_slots_of_a_google_checkpoint_are_ignored(golden, loaded):
    import tensorflow as tf

    bert = loaded("tf1_toy_checkpoint")
    assert len(bert.vocabulary) == 15
    assert bert.lowercase
    model = bert.pretrainer()
    reader = tf.train.load_checkpoint(str(golden / "tf1_toy_checkpoint" / "bert_model.ckpt"))
    plain = [name for name in reader.get_variable_to_shape_map() if "adam" not in name and name != "global_step"]
    assert model.count_params() == sum(reader.get_tensor(name).size for name in plain)
    table = to_numpy(model.get_layer("token_embedding").embeddings)
    np.testing.assert_array_equal(table, reader.get_tensor("bert/embeddings/word_embeddings"))


@pytest.fixture(scope="module")
def real_bert(minilm):
    return keras_bert.load(minilm)


@pytest.fixture(scope="module")
def real_outputs(golden, real_bert):
    """Expected values; inputs and outputs of single texts ("") and of pairs ("pair_")."""
    expected, found = np.load(golden / "minilm_activations.npz"), {}
    for pairs in ("", "pair_"):
        inputs = int32(expected, **{name: pairs + name for name in ("token_ids", "segment_ids", "padding_mask")})
        found[pairs] = inputs, keras.tree.map_structure(to_numpy, real_bert.encoder(inputs))
    return expected, found


@pytest.mark.parametrize("pairs", ["", "pair_"])
def test_real_weights_of_minilm(real_bert, real_outputs, pairs):
    expected, found = real_outputs
    inputs, outputs = found[pairs]
    real = inputs["padding_mask"].astype(bool)
    assert real_bert.lowercase
    assert len(real_bert.vocabulary) == 30522
    assert relative(outputs["sequence_output"][real], expected[f"{pairs}sequence_output"][real]) <= FLOAT32
    assert relative(outputs["pooled_output"], expected[f"{pairs}pooled_output"]) <= FLOAT32


def test_published_similarities_of_minilm(golden, real_outputs):
    """Mean over the real tokens, normalized to length 1, as the authors of MiniLM do."""
    published = json.loads((golden / "minilm_published_values.json").read_text())["cases"]
    sentences = json.loads((golden / "minilm_activations.json").read_text())["sentences"]
    expected, found = real_outputs
    inputs, outputs = found[""]
    mask = inputs["padding_mask"][..., None]
    vectors = (outputs["sequence_output"] * mask).sum(1) / mask.sum(1)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    np.testing.assert_allclose(vectors, expected["sentence_embedding"], atol=2e-6)
    rows = [vectors[sentences.index(sentence)] for sentence in published[0]["sentences"]]
    similarity = np.array(rows) @ np.array(rows).T
    np.testing.assert_allclose(similarity, published[0]["cosine_similarity"], atol=published[0]["tolerance"])
    hello = vectors[sentences.index("hello world")][:5]
    np.testing.assert_allclose(hello, published[1]["first_values"], atol=published[1]["tolerance"])
