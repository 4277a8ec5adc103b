"""The encoder-decoder beside transformers' Marian models, with new weights."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
import keras_bert.translation
from keras_bert.translation.beam_search import Beam, beam_search
from keras_bert.translation.config import TransformerConfig
from keras_bert.translation.decoding import Decoder
from keras_bert.translation.model import build_transformer
from keras_bert.translation.sampling import Sampling, sample

torch = pytest.importorskip("torch", reason="a peer, see `make peers`")
transformers = pytest.importorskip("transformers", reason="a peer, see `make peers`")

PAD, START, END = 3, 1, 2  # transformers fills with the end token instead of a padding token of 0.
CONFIG = TransformerConfig(41, 24, 2, 2, 4, 48, dropout=0.0, max_position_embeddings=32)
SPECIAL = {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": START}


def random_batch(seed, rows=20):
    rng = np.random.default_rng(seed)
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


def compare(model, twin, seed, search=False):
    """Compares logits on new batches, and greedy search and beam search."""
    batch = random_batch(seed)
    ours, theirs = keras.ops.convert_to_numpy(model(batch)["logits"]), their_logits(twin, batch)
    real = batch["target_mask"].astype(bool)
    np.testing.assert_allclose(ours[real], theirs[real], atol=2e-5 * np.abs(theirs).max())
    source = batch["source_ids"], batch["source_mask"]
    if not search:
        return
    for size in (1, 4):
        options = {"num_beams": size, "max_new_tokens": 12, "do_sample": False}
        options |= {"length_penalty": 0.0, "early_stopping": False} if size > 1 else {}
        found = twin.generate(
            input_ids=torch.tensor(source[0]).long(),
            attention_mask=torch.tensor(source[1]).long(),
            return_dict_in_generate=True,
            output_scores=True,
            **options,
            **SPECIAL,
        )
        answer = beam_search(Decoder(model), *source, 12, START, END, Beam(size, 0.0))
        best = keras.ops.convert_to_numpy(answer["ids"])[:, 0]
        expected = found.sequences.numpy()[:, 1:]
        np.testing.assert_array_equal(np.where(best < 0, PAD, best)[:, : expected.shape[1]], expected)
        if size > 1:
            scores = keras.ops.convert_to_numpy(answer["scores"])[:, 0]
            np.testing.assert_allclose(scores, found.sequences_scores.numpy(), atol=1e-4)
    drawn = sample(Decoder(model), *source, 12, START, END, Sampling(temperature=0))
    greedy = beam_search(Decoder(model), *source, 12, START, END, Beam(1, 0.0))
    np.testing.assert_array_equal(drawn["ids"], greedy["ids"])


@pytest.mark.parametrize(("seed", "act"), [(1, "relu"), (2, "swish"), (3, "gelu")])
def test_their_models_open_here(tmp_path, seed, act):
    torch.manual_seed(seed)
    sizes = {name: value for name, value in CONFIG.to_huggingface().items() if name != "keras_bert"}
    config = transformers.MarianConfig(
        **{**sizes, "activation_function": act, "init_std": 0.3, "decoder_start_token_id": START},
        pad_token_id=PAD,
        eos_token_id=END,
        forced_eos_token_id=None,
        bos_token_id=None,
        scale_embedding=True,
    )
    twin = transformers.MarianMTModel(config).eval()
    torch.nn.init.normal_(twin.final_logits_bias)
    twin.save_pretrained(tmp_path)
    compare(keras_bert.translation.load(tmp_path).model(), twin, seed)


@pytest.mark.parametrize(("seed", "bias"), [(1, False), (2, True)])
def test_our_models_open_there(tmp_path, seed, bias):
    keras.utils.set_random_seed(seed)
    model = build_transformer(dataclasses.replace(CONFIG, output_bias=bias))
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(weight + rng.normal(0, 0.2, weight.shape))
    keras_bert.save(model, tmp_path, None)
    twin, info = transformers.MarianMTModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    compare(model, twin.eval(), seed, search=bias)
