"""The encoder-decoder beside transformers' Marian models, with new weights; searches are in test_decoding.py."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.translation.config import TransformerConfig
from tests.translation.conftest import build

torch = pytest.importorskip("torch", reason="a peer, see `make peers`")
transformers = pytest.importorskip("transformers", reason="a peer, see `make peers`")

PAD = 3  # transformers fills with the end token instead of a padding token of 0.
START = 1
END = 2
CONFIG = TransformerConfig(41, 24, 2, 2, 4, 48, dropout=0.0, max_position_embeddings=32)


def random_batch(rows=20):
    rng = np.random.default_rng(0)
    batch = {}
    for side, length in (("source", 9), ("target", 7)):
        lengths = rng.integers(1, length + 1, rows)
        lengths[0] = length
        batch[f"{side}_mask"] = (np.arange(length) < lengths[:, None]).astype("int32")
        batch[f"{side}_ids"] = (rng.integers(4, 41, (rows, length)) * batch[f"{side}_mask"]).astype("int32")
    return batch


def their_logits(twin, batch):
    tensors = {name: torch.tensor(value).long() for name, value in batch.items()}
    with torch.inference_mode():
        return twin(
            input_ids=tensors["source_ids"],
            attention_mask=tensors["source_mask"],
            decoder_input_ids=tensors["target_ids"],
            decoder_attention_mask=tensors["target_mask"],
        ).logits.numpy()


def compare(model, twin):
    """Compares logits on a new batch."""
    batch = random_batch()
    ours = keras.ops.convert_to_numpy(model(batch)["logits"])
    theirs = their_logits(twin, batch)
    real = batch["target_mask"].astype(bool)
    np.testing.assert_allclose(ours[real], theirs[real], atol=2e-5 * np.abs(theirs).max())


def test_their_models_open_here(tmp_path):
    torch.manual_seed(1)
    sizes = {name: value for name, value in CONFIG.to_huggingface().items() if name != "keras_bert"}
    config = transformers.MarianConfig(
        **sizes | {"activation_function": "gelu", "init_std": 0.3, "decoder_start_token_id": START},
        pad_token_id=PAD,
        eos_token_id=END,
        forced_eos_token_id=None,
        bos_token_id=None,
        scale_embedding=True,
    )
    twin = transformers.MarianMTModel(config).eval()
    torch.nn.init.normal_(twin.final_logits_bias)
    twin.save_pretrained(tmp_path)
    compare(keras_bert.translation.load(tmp_path).model(), twin)


@pytest.mark.parametrize("bias", [False, True])
def test_our_models_open_there(tmp_path, bias):
    model = build(dataclasses.replace(CONFIG, output_bias=bias))
    keras_bert.save(model, tmp_path, None)
    twin, info = transformers.MarianMTModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    compare(model, twin.eval())
