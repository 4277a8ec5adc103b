"""Marian's tensors: which variables they are, and how a model is written.

Marian's position embeddings are all sines, then all cosines; ours alternate. A fixed permutation of the model's
width makes both models equal: of the columns of the token table, of the inputs of each kernel that reads hidden
states, and of the outputs that are added to them.
"""

from typing import NamedTuple

import keras
import numpy as np

from keras_bert.checkpoints.folder import CONFIG
from keras_bert.checkpoints.weight_files import write_tensors
from keras_bert.files import write_json
from keras_bert.text.vocabulary import Vocabulary

MODEL_TYPE = "marian"
# Keys of the config that change the model, with the only values that are supported.
FIXED = {
    "model_type": MODEL_TYPE,
    "scale_embedding": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "activation_dropout": 0.0,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
}
SIDES = {"encoder": "source", "decoder": "target"}  # Their names and ours.
_START = "decoder_start_token_id"
# For models without a vocabulary; Marian's defaults are ids of its own vocabularies, and the start must be a number.
_NO_SPECIAL = {**dict.fromkeys(f"{name}_token_id" for name in ("bos", "eos", "forced_eos", "pad")), _START: 0}


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
    values = {"architectures": ["MarianMTModel"], **FIXED, **config.to_huggingface()}
    values |= _NO_SPECIAL
    if vocabulary is not None:
        pad, unknown, start, end = vocabulary.ids(["[PAD]", "[UNK]", "[START]", "[END]"])
        special = {_START: start, "eos_token_id": end, "pad_token_id": pad}
        values |= special
        never = {"bad_words_ids": [[pad], [unknown], [start]]}
        longest = {"max_length": config.max_position_embeddings, "num_beams": 4}
        write_json(directory / "generation_config.json", {**special, **never, **longest})
        vocabulary.save(directory / "vocab.txt")
    write_json(directory / CONFIG, values)
    tensors = {}
    for slot in slots(description):
        value = np.zeros(config.vocab_size, "float32") if slot.variable is None else slot.variable
        arrays = slot.to_theirs(keras.ops.convert_to_numpy(value).astype("float32"))
        tensors.update(zip(slot.names, map(np.ascontiguousarray, arrays), strict=True))
    write_tensors(tensors, directory, dtype)


class _Slot(NamedTuple):
    """A variable and the tensors that it contains.

    Of the tensors, `reads` says whether the last axis is permuted: inputs of a kernel, columns of the table; `writes`,
    whether the first one is.
    """

    variable: object  # `None` for one that the model lacks.
    names: list  # Of the tensors, whose outputs follow each other in the variable.
    reads: bool
    writes: bool
    width: int  # Of the model.

    def _order(self):
        return np.arange(self.width).reshape(2, -1).T.reshape(-1)  # Of their columns in ours.

    def shapes(self, vocab_size):
        """Returns the shapes of the tensors."""
        if self.names[0] == "final_logits_bias":
            return [(1, vocab_size)]
        first, *others = reversed(self.variable.shape) if self._is_kernel() else self.variable.shape
        return [(first // len(self.names), *others)] * len(self.names)

    def to_ours(self, arrays):
        """Returns the value of the variable."""
        arrays = [array[self._order()] for array in arrays] if self.writes else arrays
        arrays = [array[..., self._order()] for array in arrays] if self.reads else arrays
        if self.names[0] == "final_logits_bias":
            return arrays[0][0]
        value = np.concatenate(arrays)
        return value.T if self._is_kernel() else value

    def to_theirs(self, value):
        """Returns the tensors of a value."""
        if self.names[0] == "final_logits_bias":
            return [value[None]]
        order = np.argsort(self._order())
        arrays = np.split(value.T if self._is_kernel() else value, len(self.names))
        arrays = [array[..., order] for array in arrays] if self.reads else arrays
        return [array[order] for array in arrays] if self.writes else arrays

    def _is_kernel(self):
        return len(self.variable.shape) == 2 and self.names[0] != "model.shared.weight"


def slots(description):
    """Yields the slots of a described model."""
    layers, width = description.layers, description.config.hidden_size

    def slot(variable, names, reads=False, writes=False):
        return _Slot(variable, names, reads, writes, width)

    def dense(layer, names, reads=True, writes=False):
        yield slot(layer.kernel, [f"{name}.weight" for name in names], reads, writes)
        yield slot(layer.bias, [f"{name}.bias" for name in names], writes=writes)

    def norm(layer, name):
        yield slot(layer.gamma, [f"{name}.weight"], writes=True)
        yield slot(layer.beta, [f"{name}.bias"], writes=True)

    def attention(layer, name):
        if layer.cross_attention:
            yield from dense(layer.query, [f"{name}.q_proj"])
            yield from dense(layer.key_value, [f"{name}.{part}_proj" for part in "kv"])
        else:
            yield from dense(layer.query_key_value, [f"{name}.{part}_proj" for part in "qkv"])
        yield from dense(layer.output_dense, [f"{name}.out_proj"], reads=False, writes=True)

    yield slot(layers["token_embedding"].embeddings, ["model.shared.weight"], reads=True)
    yield slot(layers["output_bias"].bias if "output_bias" in layers else None, ["final_logits_bias"])
    for theirs, ours in SIDES.items():
        for index, block in enumerate(description.blocks(ours)):
            name = f"model.{theirs}.layers.{index}"
            yield from attention(block.attention, f"{name}.self_attn")
            yield from norm(block.attention_norm, f"{name}.self_attn_layer_norm")
            if theirs == "decoder":
                yield from attention(block.cross_attention, f"{name}.encoder_attn")
                yield from norm(block.cross_attention_norm, f"{name}.encoder_attn_layer_norm")
            yield from dense(block.feed_forward.intermediate_dense, [f"{name}.fc1"])
            yield from dense(block.feed_forward.output_dense, [f"{name}.fc2"], reads=False, writes=True)
            yield from norm(block.output_norm, f"{name}.final_layer_norm")
