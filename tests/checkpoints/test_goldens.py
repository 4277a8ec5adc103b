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


@pytest.mark.kernels
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


NARROW = ["pretraining", "question_answering"]  # The most sensitive outputs.


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("head", "dtype"), [*((head, "float32") for head in HF_HEADS), *((head, "mixed_bfloat16") for head in NARROW)]
)
def test_hugging_face_heads(golden, loaded_model, head, dtype):
    """Of the encoder, also hidden states and attention scores of every layer."""
    expected = np.load(golden / "hf_small" / head / "golden.npz")
    inputs = int32(expected, token_ids="input_ids", segment_ids="token_type_ids", padding_mask="attention_mask")
    real = expected["attention_mask"].astype(bool)
    layers = dict.fromkeys(("hidden_states", "attention_scores"), True) if head == "bare" else {}
    if head == "pretraining":
        inputs["mask_positions"] = np.tile(np.arange(24, dtype="int32"), (3, 1))
    model = loaded_model(f"hf_small/{head}", dtype=dtype, **layers)
    # One head in a graph.
    in_graph = (head, dtype) == ("pretraining", "float32")
    outputs = model.predict_on_batch(inputs) if in_graph else model(inputs)
    for name, value in outputs.items():
        wanted = expected[HF_OUTPUTS[name]]
        if name in layers:
            value = np.stack([to_numpy(layer) for layer in value])
            value = np.swapaxes(value, 2, value.ndim - 2)[:, real]
            wanted = np.swapaxes(wanted, 2, wanted.ndim - 2)[:, real]
        elif value.shape[:2] == real.shape and head != "multiple_choice":
            value = to_numpy(value)[real]
            wanted = wanted[real]
        assert relative(value, wanted) <= tolerance(name, dtype), name


def test_real_weights_of_minilm(golden, minilm):
    """Of single texts and of pairs; also the published similarities of the means over real tokens."""
    bert = keras_bert.load(minilm)
    expected = np.load(golden / "minilm_activations.npz")
    for pairs in ("pair_", ""):
        inputs = int32(expected, **{name: pairs + name for name in ("token_ids", "segment_ids", "padding_mask")})
        outputs = bert.encoder(inputs)
        real = inputs["padding_mask"].astype(bool)
        sequence = to_numpy(outputs["sequence_output"])
        assert relative(sequence[real], expected[f"{pairs}sequence_output"][real]) <= FLOAT32
        assert relative(outputs["pooled_output"], expected[f"{pairs}pooled_output"]) <= FLOAT32
    published = json.loads((golden / "minilm_published_values.json").read_text())["cases"]
    sentences = json.loads((golden / "minilm_activations.json").read_text())["sentences"]
    vectors = (sequence * real[..., None]).sum(1)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    rows = np.array([vectors[sentences.index(sentence)] for sentence in published[0]["sentences"]])
    np.testing.assert_allclose(rows @ rows.T, published[0]["cosine_similarity"], atol=published[0]["tolerance"])
    hello = vectors[sentences.index("hello world")][:5]
    np.testing.assert_allclose(hello, published[1]["first_values"], atol=published[1]["tolerance"])
