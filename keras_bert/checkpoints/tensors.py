"""Maps the tensors of a checkpoint to the variables of a model.

All formats use Hugging Face's names without the prefix `bert.`, with kernels as (out, in). A `Checkpoint` contains
tensors under these names, and `slots` lists the variable, or part of a variable, for each of them.
"""

import collections
import dataclasses
import re
from collections.abc import Callable

import keras
import numpy as np

from keras_bert.config import BertConfig
from keras_bert.heads.registry import HEADS, head_named
from keras_bert.imports import naming_extras
from keras_bert.layers.positions import TABLE as POSITION_TABLE
from keras_bert.layers.registry import positions_named
from keras_bert.metadata import Metadata

POOLER_TENSORS = {"pooler.dense.weight", "pooler.dense.bias"}
_SELF = "attention.self"  # A layer whose columns are those of query, key and value.
_ROLES = ("query", "key", "value")
PROJECTION_TENSORS = ("sentence_projection.weight", "sentence_projection.bias")  # Not in the encoder's file.

# The sizes of a config, each with a tensor and the axis that has this size.
SIZES = {
    "vocab_size": ("embeddings.word_embeddings.weight", 0),
    "embedding_size": ("embeddings.word_embeddings.weight", 1),
    "hidden_size": ("encoder.layer.0.attention.output.dense.weight", 0),
    "max_position_embeddings": (POSITION_TABLE, 0),
    "type_vocab_size": ("embeddings.token_type_embeddings.weight", 0),
    "intermediate_size": ("encoder.layer.0.intermediate.dense.weight", 0),
}
LAYERS = {"num_hidden_layers": "encoder.layer"}
# Tensors with a row for each piece.
_OF_PIECES = (
    "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.weight",
    "cls.predictions.bias",
)


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of a checkpoint: its original name, its shape as (out, in), and a function that reads it."""

    name: str
    shape: tuple
    read: Callable


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """An open checkpoint of any format, whose tensors are read on demand.

    `drawn` has the names of the tensors that no file has: the new weights of a pooler, which nothing has trained yet.
    """

    name: str
    config: BertConfig
    tensors: dict
    metadata: Metadata
    drawn: frozenset = frozenset()

    def replace(self, **changes):
        """Returns a checkpoint with changed values."""
        return dataclasses.replace(self, **changes)


@dataclasses.dataclass(frozen=True)
class Slot:
    """The destination of a tensor: a variable, or one of `parts` equal groups of its columns.

    `layer` is set if the variable is not the whole table: for quantized and LoRA-adapted layers.
    """

    name: str
    variable: object
    transposed: bool = False
    part: int = 0
    parts: int = 1
    layer: object = None

    @property
    def shape(self):
        """The shape of the tensor in a checkpoint."""
        *rows, columns = self._whole_table.shape
        shape = (*rows, columns // self.parts)
        return shape[::-1] if self.transposed else shape

    def value(self):
        """Returns the tensor as stored in a checkpoint, float32."""
        # NumPy has no bfloat16.
        table = keras.ops.convert_to_numpy(keras.ops.cast(self._whole_table, "float32"))
        array = np.split(table, self.parts, axis=-1)[self.part]
        if self.transposed:
            array = array.T
        return np.ascontiguousarray(array)

    @property
    def _whole_table(self):
        if self.layer is None:
            return self.variable
        return self.layer.float_table()


def slots(description):
    """Returns the slots of a described model in reading order; parts of a variable are consecutive."""
    layers = description.layers
    owners = _embedding_owners(description)
    for index in range(description.config.num_hidden_layers):
        owners.update(_block_owners(f"encoder.layer.{index}", layers[f"block_{index}"]))
    if "pooler" in layers:
        owners["pooler.dense"] = layers["pooler"].dense
    owners.update(head_named(description.head).parts(layers))

    found = []
    for name, owner in owners.items():
        names = [name]
        if name.endswith(_SELF):
            names = [f"{name}.{role}" for role in _ROLES]
        found.extend(layer_slots(owner, *names))
    return found


def _embedding_owners(description):
    """Returns the layers and variables of the embeddings by the names of their tensors."""
    layers = description.layers
    embeddings = layers["embeddings"]
    owners = {
        "embeddings.word_embeddings": layers["token_embedding"],
        "embeddings.LayerNorm": embeddings.norm,
    }
    if description.config.type_vocab_size:
        owners["embeddings.token_type_embeddings.weight"] = embeddings.segment_table
    if description.config.embedding_size:
        owners["embeddings.projection"] = embeddings.projection
    owners.update(positions_named(description.positions).tensors(layers))
    return owners


def _block_owners(name, block):
    """Returns the layers of a Transformer block by the names of their tensors."""
    return {
        f"{name}.{_SELF}": block.attention.query_key_value,
        f"{name}.attention.output.dense": block.attention.output_dense,
        f"{name}.attention.output.LayerNorm": block.attention_norm,
        f"{name}.intermediate.dense": block.feed_forward.intermediate_dense,
        f"{name}.output.dense": block.feed_forward.output_dense,
        f"{name}.output.LayerNorm": block.output_norm,
    }


def layer_slots(owner, name, *others):
    """Returns the slots of a layer or of a variable of this name; with others, its columns are those of all of them."""
    if isinstance(owner, keras.Variable):
        return [Slot(name, owner)]
    if hasattr(owner, "gamma"):
        return [Slot(f"{name}.weight", owner.gamma), Slot(f"{name}.bias", owner.beta)]
    changed = None
    if owner.lora_enabled or owner.quantization_mode:
        changed = owner
    if hasattr(owner, "embeddings"):
        return [Slot(f"{name}.weight", owner.embeddings, layer=changed)]

    names = [name, *others]
    found = []
    for part, dense in enumerate(names):
        kernel = Slot(f"{dense}.weight", owner.kernel, transposed=True, layer=changed)
        found.append(dataclasses.replace(kernel, part=part, parts=len(names)))
    if owner.use_bias:
        for part, dense in enumerate(names):
            found.append(Slot(f"{dense}.bias", owner.bias, part=part, parts=len(names)))
    return found


def is_of_head(name):
    """Returns whether a tensor is one of a head."""
    for head in HEADS:
        known = head.tensors.values()
        if name in known or name.rpartition(".")[0] in known:
            return True
    return False


def head_of_tensors(tensors):
    """Returns the head that has these tensors, or `None`: of several, that with the most tensors.

    A classifier without a pooler is one of tokens.
    """
    head = _last_head_with(tensors)
    if head is None:
        return None
    if "pooled" in head.reads and not POOLER_TENSORS & tensors.keys():
        names = list(head.tensors.values())
        for other in HEADS:
            if list(other.tensors.values()) == names and "pooled" not in other.reads:
                return other.name
    return head.name


def _last_head_with(tensors):
    """Returns the last head of the table that has one of these tensors for itself, or `None`."""
    heads_with = collections.Counter()
    for head in HEADS:
        heads_with.update(head.tensors.values())
    last = None
    for head in HEADS:
        own = {f"{name}.weight" for name in head.tensors.values() if heads_with[name] == 1}
        own.add(head.google)
        if own & tensors.keys():
            last = head
    return last


def tensors_of(description):
    """Returns all tensors of a model by name, float32. Fixed positions are included for other programs."""
    tensors = {slot.name: slot.value() for slot in slots(description)}
    fixed = _fixed_positions(description)
    if fixed is not None:
        tensors[POSITION_TABLE] = keras.ops.convert_to_numpy(fixed)
    return tensors


def _fixed_positions(description):
    """Returns the table of positions that is no weight of the model, or `None`."""
    return positions_named(description.positions).fixed_table(description.layers["embeddings"])


def check_sizes(name, config, tensors, sizes=SIZES, layers=LAYERS, optional=POSITION_TABLE):
    """Raises if the sizes of a config are not those of the tensors, before a model of any size is built.

    `sizes` and `layers` have the keys of the config: tables and axes of this size, prefixes of layers of this number.
    """
    expected = _sizes_of_tables(name, config, tensors, sizes, optional)
    for size, prefix in layers.items():
        number = _number_of_layers(prefix, tensors)
        expected[size] = (number, "the number of layers of the tensors")
    for size, (value, reason) in expected.items():
        if config[size] != value:
            raise ValueError(
                f"{name}: `{size}` of its config must be {value}, {reason}. Received: {size}={config[size]}"
            )


def _sizes_of_tables(name, config, tensors, sizes, optional):
    """Returns sizes of the tensors by the keys of the config, with where each is from; raises if a table is missing."""
    found = {}
    for size, (table, axis) in sizes.items():
        if not config[size]:  # A table that the model lacks, or embeddings as wide as the model.
            continue
        if table not in tensors:
            if table != optional:
                raise ValueError(f"{name}: the checkpoint lacks a table {table}. Received: none")
            continue
        shape = tuple(tensors[table].shape)
        if len(shape) != 2:
            raise ValueError(f"{name}: the checkpoint lacks a table {table}. Received: {shape or 'none'}")
        found[size] = (shape[axis], f"as in {table} {shape}")
    return found


def _number_of_layers(prefix, tensors):
    """Returns how many numbers follow a prefix in the names of tensors."""
    numbers = set()
    for name in tensors:
        match = re.match(rf"{prefix}\.(\d+)\.", name)
        if match:
            numbers.add(match[1])
    return len(numbers)


def check_known(checkpoint, description):
    """Raises if the checkpoint contains a tensor that neither the model nor a head has."""
    # A model may lack the pooler. Old versions of transformers wrote a buffer.
    known = POOLER_TENSORS | {"embeddings.position_ids"}
    known.update(slot.name for slot in slots(description))
    if _fixed_positions(description) is not None:
        known.add(POSITION_TABLE)
    unknown = []
    for name, tensor in checkpoint.tensors.items():
        if name not in known and not is_of_head(name):
            unknown.append(tensor)
    if unknown:
        raise ValueError(
            f"{checkpoint.name}: {len(unknown)} tensor(s) do not fit a BERT of this config: "
            f"{_names_and_shapes(unknown)}. "
            "Expected the names and the number of layers of its config; load(..., head='encoder') leaves out "
            "what is not of the encoder"
        )


def fill(checkpoint, wanted, optional=()):
    """Copies tensors into slots, after names and shapes are checked; those with the names `optional` may be missing."""
    tensors = checkpoint.tensors
    missing = []
    present = []
    for slot in wanted:
        if slot.name in tensors:
            present.append(slot)
        elif slot.name not in optional:
            missing.append(slot)
    if missing:
        raise ValueError(
            f"{checkpoint.name}: the checkpoint lacks {len(missing)} tensor(s): {_names_and_shapes(missing)}"
        )
    _check_shapes(checkpoint, present)
    assign(tensors, present)


def _check_shapes(checkpoint, wanted):
    """Raises if a tensor has another shape than its slot."""
    wrong = []
    for slot in wanted:
        shape = tuple(checkpoint.tensors[slot.name].shape)
        if shape != tuple(slot.shape):
            wrong.append(f"{slot.name} {shape}, expected {slot.shape}")
    if wrong:
        raise ValueError(f"{checkpoint.name}: {len(wrong)} shape(s) disagree with the config: {', '.join(wrong[:5])}")


def assign(tensors, wanted):
    """Copies tensors, by name, into slots, of which the parts of a variable are consecutive."""
    columns = []
    for slot in wanted:
        array = np.asarray(tensors[slot.name].read())
        if slot.transposed:
            array = array.T
        columns.append(array)
        if slot.part == slot.parts - 1:
            slot.variable.assign(np.concatenate(columns, axis=-1).astype("float32"))
            columns = []


def _names_and_shapes(items):
    return listing([f"{item.name} {tuple(item.shape)}" for item in items])


def listing(names):
    """Returns the first names, and how many more there are."""
    text = ", ".join(names[:5])
    if len(names) > 5:
        text += f" and {len(names) - 5} more"
    return text


def with_words(checkpoint, words):
    """Returns a checkpoint with more words, in place of unused pieces or as new rows, see `LoadedBert.add_words`."""
    metadata = checkpoint.metadata
    if metadata.vocabulary is None:
        raise ValueError(
            f"{checkpoint.name} has no vocabulary. Expected a checkpoint with a vocab.txt or tokenizer.json"
        )
    with naming_extras("add_words"):
        from keras_bert.text.new_words import add_words  # Needs TensorFlow, unlike the models.

    vocabulary, pieces_before = add_words(metadata.vocabulary, words, metadata.lowercase)
    # Any number of rows from that of the pieces on would do: answers are pieces alone, and distillation compares the
    # rows that both tables have. Rows without a piece are zeros.
    vocab_size = max(checkpoint.config.vocab_size, len(vocabulary))
    tensors = dict(checkpoint.tensors)
    for name in _OF_PIECES:
        if name in tensors:
            tensors[name] = _with_new_rows(tensors[name], vocab_size, pieces_before)
    return checkpoint.replace(
        config=dataclasses.replace(checkpoint.config, vocab_size=vocab_size),
        tensors=tensors,
        metadata=metadata.replace(vocabulary=vocabulary),
    )


def _with_new_rows(tensor, size, pieces_before):
    """Returns a table of `size` rows, where new words have the mean of the rows of their pieces.

    `pieces_before` has the ids of these pieces by the id of the new word.

    So has the bias of masked LM: the logit of a new word starts as the mean of those of its pieces. That of an unused
    piece would exclude it, and 0 would favor it, since most words of a trained model have less.
    """
    old = np.asarray(tensor.read(), "float32")
    added = np.zeros((size - len(old), *old.shape[1:]), "float32")
    table = np.concatenate([old, added])
    for index, ids in pieces_before.items():
        table[index] = old[ids].mean(axis=0)
    return Tensor(tensor.name, table.shape, lambda: table)
