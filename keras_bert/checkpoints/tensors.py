"""Maps the tensors of a checkpoint to the variables of a model.

All formats use Hugging Face's names without the prefix `bert.`, with kernels as (out, in). A `Checkpoint` contains
tensors under these names, and `slots` lists the variable, or part of a variable, for each of them.
"""

import dataclasses
import itertools
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
_OF_PIECES = ("embeddings.word_embeddings.weight", "cls.predictions.decoder.weight", "cls.predictions.bias")


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
        *rows, columns = self._table.shape
        shape = (*rows, columns // self.parts)
        return shape[::-1] if self.transposed else shape

    def value(self):
        """Returns the tensor as stored in a checkpoint, float32."""
        # NumPy has no bfloat16.
        table = keras.ops.convert_to_numpy(keras.ops.cast(self._table, "float32"))
        array = np.split(table, self.parts, axis=-1)[self.part]
        return np.ascontiguousarray(array.T if self.transposed else array)

    @property
    def _table(self):
        return self.variable if self.layer is None else self.layer.float_table()


def slots(description):
    """Returns the slots of a described model in reading order; parts of a variable are consecutive."""
    layers, config, embeddings = description.layers, description.config, description.layers["embeddings"]
    parts = {"embeddings.word_embeddings": layers["token_embedding"], "embeddings.LayerNorm": embeddings.norm}
    if config.type_vocab_size:
        parts["embeddings.token_type_embeddings.weight"] = embeddings.segment_table
    if config.embedding_size:
        parts["embeddings.projection"] = embeddings.projection
    parts |= positions_named(description.positions).tensors(layers)
    for index in range(config.num_hidden_layers):
        name, block = f"encoder.layer.{index}", layers[f"block_{index}"]
        parts |= {
            f"{name}.{_SELF}": block.attention.query_key_value,
            f"{name}.attention.output.dense": block.attention.output_dense,
            f"{name}.attention.output.LayerNorm": block.attention_norm,
            f"{name}.intermediate.dense": block.feed_forward.intermediate_dense,
            f"{name}.output.dense": block.feed_forward.output_dense,
            f"{name}.output.LayerNorm": block.output_norm,
        }
    if "pooler" in layers:
        parts["pooler.dense"] = layers["pooler"].dense
    parts |= head_named(description.head).parts(layers)
    roles = {name: [f"{name}.{role}" for role in ("query", "key", "value")] for name in parts if name.endswith(_SELF)}
    return [slot for name, part in parts.items() for slot in layer_slots(part, *roles.get(name, [name]))]


def layer_slots(part, name, *others):
    """Returns the slots of a layer or of a variable of this name; with others, its columns are those of all of them."""
    if isinstance(part, keras.Variable):
        return [Slot(name, part)]
    if hasattr(part, "gamma"):
        return [Slot(f"{name}.weight", part.gamma), Slot(f"{name}.bias", part.beta)]
    changed = part if part.lora_enabled or part.quantization_mode else None
    if hasattr(part, "embeddings"):
        return [Slot(f"{name}.weight", part.embeddings, layer=changed)]
    found = [Slot("weight", part.kernel, transposed=True, layer=changed)]
    found += [Slot("bias", part.bias)] if part.use_bias else []
    return [
        dataclasses.replace(slot, name=f"{each}.{slot.name}", part=number, parts=1 + len(others))
        for slot in found
        for number, each in enumerate([name, *others])
    ]


def is_of_head(name):
    """Returns whether a tensor is one of a head."""
    known = {tensor for head in HEADS for tensor in head.tensors.values()}
    return name in known or name.rpartition(".")[0] in known


def head_of_tensors(tensors):
    """Returns the head that has these tensors, or `None`: of several, that with the most tensors.

    A classifier without a pooler is one of tokens.
    """
    names = list(itertools.chain.from_iterable(head.tensors.values() for head in HEADS))
    own = {head.name: {f"{name}.weight" for name in head.tensors.values() if names.count(name) == 1} for head in HEADS}
    found = [head for head in HEADS if (own[head.name] | {head.google}) & tensors.keys()]
    if found and "pooled" in found[-1].reads and not POOLER_TENSORS & tensors.keys():
        alike = (head for head in HEADS if [*head.tensors.values()] == [*found[-1].tensors.values()])
        found += [head for head in alike if "pooled" not in head.reads][:1]
    return found[-1].name if found else None


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
    found = {}
    for size, (table, axis) in sizes.items():
        if not config[size]:  # A table that the model lacks, or embeddings as wide as the model.
            continue
        shape = tuple(tensors[table].shape) if table in tensors else None
        if shape is not None and len(shape) == 2:
            found[size] = shape[axis], f"as in {table} {shape}"
        elif shape is not None or table != optional:
            raise ValueError(f"{name}: the checkpoint lacks a table {table}. Received: {shape or 'none'}")
    for size, prefix in layers.items():
        numbers = {match[1] for tensor in tensors if (match := re.match(rf"{prefix}\.(\d+)\.", tensor))}
        found[size] = len(numbers), "the number of layers of the tensors"
    for size, (expected, reason) in found.items():
        if (value := config[size]) != expected:
            raise ValueError(f"{name}: `{size}` of its config must be {expected}, {reason}. Received: {size}={value}")


def check_known(checkpoint, description):
    """Raises if the checkpoint contains a tensor that neither the model nor a head has."""
    # A model may lack the pooler. Old versions of transformers wrote a buffer.
    known = {slot.name for slot in slots(description)} | POOLER_TENSORS | {"embeddings.position_ids"}
    if _fixed_positions(description) is not None:
        known.add(POSITION_TABLE)
    unknown = [tensor for name, tensor in checkpoint.tensors.items() if name not in known and not is_of_head(name)]
    if unknown:
        raise ValueError(
            f"{checkpoint.name}: {len(unknown)} tensor(s) do not fit a BERT of this config: {_listing(unknown)}. "
            "Expected the names and the number of layers of its config; load(..., head='encoder') leaves out "
            "what is not of the encoder"
        )


def fill(checkpoint, wanted, optional=()):
    """Copies tensors into slots, after names and shapes are checked; those with the names `optional` may be missing."""
    tensors = checkpoint.tensors
    missing = [slot for slot in wanted if slot.name not in tensors and slot.name not in optional]
    if missing:
        raise ValueError(f"{checkpoint.name}: the checkpoint lacks {len(missing)} tensor(s): {_listing(missing)}")
    present = [slot for slot in wanted if slot.name in tensors]
    wrong = [slot for slot in present if tuple(tensors[slot.name].shape) != tuple(slot.shape)]
    if wrong:
        pairs = ", ".join(f"{slot.name} {tuple(tensors[slot.name].shape)}, expected {slot.shape}" for slot in wrong[:5])
        raise ValueError(f"{checkpoint.name}: {len(wrong)} shape(s) disagree with the config: {pairs}")
    assign(tensors, present)


def assign(tensors, wanted):
    """Copies tensors, by name, into slots."""
    columns = []
    for slot in wanted:
        array = np.asarray(tensors[slot.name].read())
        columns.append(array.T if slot.transposed else array)
        if slot.part == slot.parts - 1:
            slot.variable.assign(np.concatenate(columns, axis=-1).astype("float32"))
            columns = []


def _listing(items):
    return listing([f"{item.name} {tuple(item.shape)}" for item in items])


def listing(names):
    """Returns the first names, and how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def with_words(checkpoint, words):
    """Returns a checkpoint with more words, see `LoadedBert.add_words`."""
    metadata = checkpoint.metadata
    if metadata.vocabulary is None:
        raise ValueError(
            f"{checkpoint.name} has no vocabulary. Expected a checkpoint with a vocab.txt or tokenizer.json"
        )
    with naming_extras("add_words"):
        from keras_bert.text.new_words import add_words  # Needs TensorFlow, unlike the models.

    vocabulary, before = add_words(metadata.vocabulary, words, metadata.lowercase)
    size = max(checkpoint.config.vocab_size, len(vocabulary))  # A table may have more rows than there are pieces.
    present = [name for name in _OF_PIECES if name in checkpoint.tensors]
    tables = {name: _extended(checkpoint.tensors[name], size, before) for name in present}
    return checkpoint.replace(
        config=dataclasses.replace(checkpoint.config, vocab_size=size),
        tensors={**checkpoint.tensors, **tables},
        metadata=metadata.replace(vocabulary=vocabulary),
    )


def _extended(tensor, size, before):
    """Returns a table of `size` rows, where new words have the mean of the rows of their pieces.

    So has the bias of masked LM: the logit of a new word starts as the mean of those of its pieces. That of an unused
    piece would exclude it, and 0 would favor it, since most words of a trained model have less.
    """
    old = np.asarray(tensor.read(), "float32")
    table = np.concatenate([old, np.zeros((size - len(old), *old.shape[1:]), "float32")])
    for index, ids in before.items():
        table[index] = old[ids].mean(axis=0)
    return Tensor(tensor.name, table.shape, lambda: table)
