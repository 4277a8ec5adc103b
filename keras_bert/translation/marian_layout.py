"""Marian's tensors: which variables they are, and how a model is written.

Marian's position embeddings are all sines, then all cosines; ours alternate. A fixed permutation of the model's
width makes both models equal: of the columns of the token table, of the inputs of each kernel that reads hidden
states, and of the outputs that are added to them.
"""

import keras
import numpy as np

from keras_bert.checkpoints.folder import CONFIG
from keras_bert.checkpoints.tensors import layer_slots
from keras_bert.checkpoints.weight_files import write_tensors
from keras_bert.files import write_json
from keras_bert.text.vocabulary import Vocabulary

# Keys of the config that change the model, with the only values that are supported.
FIXED = {
    "model_type": "marian",
    "scale_embedding": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "activation_dropout": 0.0,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
}
SIDES = {"encoder": "source", "decoder": "target"}  # Their names and ours.
BIAS = "final_logits_bias"  # Of all models; zeros without an output bias.
_ADDED = ("out_proj", "fc2", "layer_norm")  # How the names of layers end whose outputs are added to hidden states.
_START = "decoder_start_token_id"
# For models without a vocabulary; Marian's defaults are ids of its own vocabularies, and the start must be a number.
_NO_SPECIAL = {
    "bos_token_id": None,
    "eos_token_id": None,
    "forced_eos_token_id": None,
    "pad_token_id": None,
    _START: 0,
}


def write(description, directory, vocabulary=None, dtype="float32"):
    """Writes a described model into a directory; the vocabulary, a reversible one, tells transformers the special ids.

    For the arguments see `TransformerDescription.write`.
    """
    config = description.config
    config.check_huggingface()
    vocabulary = None if vocabulary is None else Vocabulary(vocabulary)
    if vocabulary is not None and len(vocabulary) != config.vocab_size:
        raise ValueError(
            "the model and the vocabulary must have the same number of tokens. "
            f"Received: {config.vocab_size} and {len(vocabulary)}"
        )
    values = {"architectures": ["MarianMTModel"]} | FIXED | config.to_huggingface() | _NO_SPECIAL
    if vocabulary is not None:
        pad, unknown, start, end = vocabulary.ids(["[PAD]", "[UNK]", "[START]", "[END]"])
        special = {_START: start, "eos_token_id": end, "pad_token_id": pad}
        values |= special
        generation = {
            "bad_words_ids": [[pad], [unknown], [start]],
            "max_length": config.max_position_embeddings,
            "num_beams": 4,
        }
        write_json(directory / "generation_config.json", special | generation)
        vocabulary.save(directory / "vocab.txt")
    write_json(directory / CONFIG, values)
    write_tensors(_tensors(description), directory, dtype)


def _tensors(description):
    """Returns the arrays of a described model by Marian's names."""
    tensors = {}
    for slot in slots(description):
        tensors[slot.name] = reordered(slot.name, slot.value(), (-1, 2))
    if description.config.output_bias:
        bias = keras.ops.convert_to_numpy(description.layers["output_bias"].bias)
    else:
        bias = np.zeros(description.config.vocab_size)
    tensors[BIAS] = bias.astype("float32")[None]
    return tensors


def slots(description):
    """Returns the slots of all tensors of a described model but `BIAS`, by Marian's names."""
    all_slots = layer_slots(description.layers["token_embedding"], "model.shared")
    for theirs, ours in SIDES.items():
        for index, block in enumerate(description.blocks(ours)):
            prefix = f"model.{theirs}.layers.{index}"
            for layer, *names in _layers(block, has_memory=theirs == "decoder"):
                all_slots += layer_slots(layer, *(f"{prefix}.{name}" for name in names))
    return all_slots


def _layers(block, has_memory):
    """Yields the layers of a block, each with the names that its columns have in Marian's."""
    attention = block.attention
    yield attention.query_key_value, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"
    yield attention.output_dense, "self_attn.out_proj"
    yield block.attention_norm, "self_attn_layer_norm"
    if has_memory:
        memory = block.cross_attention
        yield memory.query, "encoder_attn.q_proj"
        yield memory.key_value, "encoder_attn.k_proj", "encoder_attn.v_proj"
        yield memory.output_dense, "encoder_attn.out_proj"
        yield block.cross_attention_norm, "encoder_attn_layer_norm"
    yield block.feed_forward.intermediate_dense, "fc1"
    yield block.feed_forward.output_dense, "fc2"
    yield block.output_norm, "final_layer_norm"


def reordered(name, array, shape):
    """Returns a tensor with another order of the model's width.

    `shape` is that of the width: `(-1, 2)`, pairs of sine and cosine, for Marian's order of a tensor of ours, or
    `(2, -1)`, all sines, then all cosines, for ours of a tensor of Marian's.
    """
    layer, _, suffix = name.rpartition(".")
    if layer.endswith(_ADDED):
        axis = 0
    elif suffix == "weight":
        axis = -1
    else:
        return array  # A bias of what is not as wide as the model.
    order = np.arange(array.shape[axis]).reshape(shape).T.ravel()
    return array.take(order, axis)
