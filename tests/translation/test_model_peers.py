"""The encoder-decoder beside transformers' Marian models, with new weights, and PyTorch's `nn.Transformer`."""

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


def test_blocks_of_pytorch():
    """The encoder and decoder stacks on the same hidden states, with the masks of `nn.Transformer`."""
    keras.utils.set_random_seed(4)
    ours = build_transformer(CONFIG)
    rng = np.random.default_rng(4)
    for weight in ours.weights:
        weight.assign(weight + rng.normal(0, 0.1, weight.shape))
    layers = {layer.name: layer for layer in ours.layers}
    theirs = torch.nn.Transformer(24, 4, 2, 2, 48, dropout=0.0, batch_first=True).eval()
    theirs.encoder.use_nested_tensor = False
    theirs.encoder.norm = theirs.decoder.norm = None  # The paper has no LayerNorm after the last block.
    with torch.no_grad():
        for side, stack in (("source", theirs.encoder), ("target", theirs.decoder)):
            for index, twin in enumerate(stack.layers):
                copy_block(layers[f"{side}_block_{index}"], twin)
    source, target = (rng.normal(size=(3, length, 24)).astype("float32") for length in (6, 5))
    source_mask, target_mask = np.ones((3, 6), "int32"), np.ones((3, 5), "int32")
    source_mask[1, 4:] = target_mask[2, 3:] = 0
    masks = [
        layers[f"{side}_attention_mask"](mask) for side, mask in (("source", source_mask), ("target", target_mask))
    ]
    memory, hidden = source, target
    for index in range(2):
        memory = layers[f"source_block_{index}"](memory, attention_mask=masks[0])
    for index in range(2):
        hidden = layers[f"target_block_{index}"](hidden, memory, masks[1], masks[0])
    with torch.no_grad():
        expected = theirs(
            torch.tensor(source),
            torch.tensor(target),
            tgt_mask=torch.nn.Transformer.generate_square_subsequent_mask(5) == -np.inf,
            src_key_padding_mask=torch.tensor(source_mask == 0),
            tgt_key_padding_mask=torch.tensor(target_mask == 0),
            memory_key_padding_mask=torch.tensor(source_mask == 0),
        ).numpy()
    real = target_mask.astype(bool)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(hidden)[real], expected[real], atol=2e-5)


def copy_block(block, twin):
    """Copies the weights of a block to PyTorch's layer."""

    def copy(variable, parameter):
        parameter.copy_(torch.tensor(keras.ops.convert_to_numpy(variable).T.copy()))

    def dense(layer, weight, bias):
        copy(layer.kernel, weight)
        copy(layer.bias, bias)

    def norm(layer, module):
        copy(layer.gamma, module.weight)
        copy(layer.beta, module.bias)

    dense(block.attention.query_key_value, twin.self_attn.in_proj_weight, twin.self_attn.in_proj_bias)
    dense(block.attention.output_dense, twin.self_attn.out_proj.weight, twin.self_attn.out_proj.bias)
    norm(block.attention_norm, twin.norm1)
    if hasattr(block, "cross_attention"):
        attention, module = block.cross_attention, twin.multihead_attn
        dense(attention.query, module.in_proj_weight[:24], module.in_proj_bias[:24])
        dense(attention.key_value, module.in_proj_weight[24:], module.in_proj_bias[24:])
        dense(attention.output_dense, module.out_proj.weight, module.out_proj.bias)
        norm(block.cross_attention_norm, twin.norm2)
    dense(block.feed_forward.intermediate_dense, twin.linear1.weight, twin.linear1.bias)
    dense(block.feed_forward.output_dense, twin.linear2.weight, twin.linear2.bias)
    norm(block.output_norm, twin.norm3 if hasattr(block, "cross_attention") else twin.norm2)
