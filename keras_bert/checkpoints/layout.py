"""Which tensor of a checkpoint belongs where in a model.

All formats meet in Hugging Face's names without the prefix `bert.`, kernels as (out, in): a `Source` offers
tensors under these names, and `slots` tells for each what part of which variable it fills.
"""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np

from keras_bert.config import BertConfig
from keras_bert.text.vocabulary import Vocabulary

POSITIONS = "embeddings.position_embeddings.weight"

HEAD_TENSORS = {
    "cls.predictions.transform.dense.weight",
    "cls.predictions.transform.dense.bias",
    "cls.predictions.transform.LayerNorm.weight",
    "cls.predictions.transform.LayerNorm.bias",
    "cls.predictions.bias",
    "cls.predictions.decoder.weight",
    "cls.seq_relationship.weight",
    "cls.seq_relationship.bias",
    "classifier.weight",
    "classifier.bias",
    "qa_outputs.weight",
    "qa_outputs.bias",
}
POOLER_TENSORS = {"pooler.dense.weight", "pooler.dense.bias"}
# What a checkpoint may hold and a model need not: absent heads, the pooler, a buffer of old transformers.
MAY_BE_LEFT = HEAD_TENSORS | POOLER_TENSORS | {"embeddings.position_ids"}


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One tensor of a checkpoint: its own name there, its shape as (out, in), and how to read it."""

    name: str
    shape: tuple
    read: Callable


@dataclasses.dataclass
class Source:
    """A checkpoint of any format, opened: header read, weights not yet."""

    name: str
    config: BertConfig
    tensors: dict
    head: str | None = None
    vocabulary: Vocabulary | None = None
    lowercase: bool = True
    labels: list | None = None
    multi_label: bool = False
    task: str | None = None
    pair: bool | None = None
    sequence_length: int | None = None
    null_threshold: float | None = None
    causal: bool = False
    positions: str = "learned"
    tied: bool = True
    pooling: str | None = None
    normalize: bool = False


@dataclasses.dataclass(frozen=True)
class Slot:
    """The place of one tensor: a variable, or one of `parts` equal groups of its columns."""

    name: str
    variable: object
    transposed: bool = False
    part: int = 0
    parts: int = 1
    changed: object = None  # The layer whose table the variable is only a part of: quantized, or adapted by LoRA.

    @property
    def shape(self):
        *rows, columns = self._whole.shape
        shape = (*rows, columns // self.parts)
        return shape[::-1] if self.transposed else shape

    def value(self):
        """The tensor as a checkpoint holds it, float32."""
        array = np.split(_numpy(self._whole), self.parts, axis=-1)[self.part]
        return np.ascontiguousarray(array.T if self.transposed else array)

    @property
    def _whole(self):
        return self.variable if self.changed is None else self.changed.float_table()


def slots(description):
    """The slots of a described model, in reading order; parts of one variable follow each other."""
    layers, config = description.layers, description.config
    embeddings, table = layers["embeddings"], layers["token_embedding"]
    found = [
        Slot("embeddings.word_embeddings.weight", table.embeddings, changed=_changed(table)),
        Slot("embeddings.token_type_embeddings.weight", embeddings.segment_table),
        *_norm("embeddings.LayerNorm", embeddings.norm),
    ]
    if description.positions == "learned":
        found.append(Slot(POSITIONS, embeddings.position_table))
    for index in range(config.num_hidden_layers):
        found += _block(f"encoder.layer.{index}", layers[f"block_{index}"])
    if "pooler" in layers:
        found += _dense("pooler.dense", layers["pooler"].dense)
    return found + _head(description)


def _head(description):
    layers = description.layers
    if description.head == "pretraining":
        transform = layers["mlm_transform"]
        found = [
            *_dense("cls.predictions.transform.dense", transform.dense),
            *_norm("cls.predictions.transform.LayerNorm", transform.norm),
            Slot("cls.predictions.bias", layers["mlm_bias"].bias),
        ]
        if not description.tied:
            found.append(_weight("cls.predictions.decoder", layers["mlm_decoder"]))
        return found + (_dense("cls.seq_relationship", layers["next_sentence"]) if description.next_sentence else [])
    if description.head == "next_sentence":
        return _dense("cls.seq_relationship", layers["next_sentence"])
    if description.head == "question_answering":
        return _dense("qa_outputs", layers["span"])
    for name in ("classifier", "token_classifier", "choice_scorer"):
        if name in layers:
            return _dense("classifier", layers[name])
    return []


def _block(name, block):
    attention, feed_forward = block.attention, block.feed_forward
    projection = attention.query_key_value
    found = []
    for slot in _dense("", projection):
        for part, role in enumerate(("query", "key", "value")):
            of_part = {"name": f"{name}.attention.self.{role}{slot.name}", "part": part, "parts": 3}
            found.append(dataclasses.replace(slot, **of_part))
    return [
        *found,
        *_dense(f"{name}.attention.output.dense", attention.output_dense),
        *_norm(f"{name}.attention.output.LayerNorm", block.attention_norm),
        *_dense(f"{name}.intermediate.dense", feed_forward.intermediate_dense),
        *_dense(f"{name}.output.dense", feed_forward.output_dense),
        *_norm(f"{name}.output.LayerNorm", block.output_norm),
    ]


def _dense(name, layer):
    return [_weight(name, layer), Slot(f"{name}.bias", layer.bias)]


def _weight(name, layer):
    return Slot(f"{name}.weight", layer.kernel, transposed=True, changed=_changed(layer))


def _changed(layer):
    return layer if layer.lora_enabled or layer.quantization_mode else None


def _norm(name, layer):
    return [Slot(f"{name}.weight", layer.gamma), Slot(f"{name}.bias", layer.beta)]


def tensors_of(description):
    """All tensors of a model by name, float32. Fixed positions are written out, so that others can use them."""
    tensors = {slot.name: slot.value() for slot in slots(description)}
    if description.positions != "learned":
        tensors[POSITIONS] = keras.ops.convert_to_numpy(description.layers["embeddings"].fixed_positions())
    return tensors


def check_known(source, description):
    """Raises if the source holds a tensor that has no place in a model and is not known to be optional."""
    placed = {slot.name for slot in slots(description)}
    optional = MAY_BE_LEFT | ({POSITIONS} if description.positions != "learned" else set())
    unknown = [tensor for name, tensor in source.tensors.items() if name not in placed | optional]
    if unknown:
        raise ValueError(
            f"{source.name}: {len(unknown)} tensor(s) have no place in a BERT of this config: {_listing(unknown)}. "
            "Expected the names and the number of layers that its config tells"
        )


def fill(source, wanted, may_stay_fresh=()):
    """Copies tensors into the slots `wanted`: all names and shapes are checked before any variable is touched.

    Returns the names that were not in the source; only those of `may_stay_fresh` are allowed to be.
    """
    missing = [slot for slot in wanted if slot.name not in source.tensors]
    unfilled = [slot for slot in missing if slot.name not in may_stay_fresh]
    if unfilled:
        raise ValueError(f"{source.name}: the checkpoint lacks {len(unfilled)} tensor(s): {_listing(unfilled)}")
    present = [slot for slot in wanted if slot.name in source.tensors]
    wrong = [slot for slot in present if tuple(source.tensors[slot.name].shape) != tuple(slot.shape)]
    if wrong:
        pairs = ", ".join(
            f"{slot.name} {tuple(source.tensors[slot.name].shape)}, expected {slot.shape}" for slot in wrong[:5]
        )
        raise ValueError(f"{source.name}: {len(wrong)} shape(s) disagree with the config: {pairs}")
    columns = []
    for slot in present:
        array = np.asarray(source.tensors[slot.name].read())
        columns.append(array.T if slot.transposed else array)
        if slot.part == slot.parts - 1:
            slot.variable.assign(np.concatenate(columns, axis=-1).astype("float32"))
            columns = []
    return [slot.name for slot in missing]


def _listing(items):
    shown = ", ".join(f"{item.name} {tuple(item.shape)}" for item in items[:5])
    return shown + (f" and {len(items) - 5} more" if len(items) > 5 else "")


def _numpy(variable):
    # Over float32: NumPy has no bfloat16 of its own.
    return keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))
