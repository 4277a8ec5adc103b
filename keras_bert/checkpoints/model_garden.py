"""Checkpoints of the TensorFlow Model Garden: of `tf.train.Checkpoint`, and SavedModels of encoders of TensorFlow Hub.

The names of a checkpoint are the paths of Keras layers; a SavedModel numbers its variables in the order of the layers.
"""

import math
import re

from keras_bert.checkpoints.folder import CONFIG
from keras_bert.checkpoints.tensor_bundle import open_bundle
from keras_bert.checkpoints.tensors import POSITION_TABLE, Checkpoint, Tensor, head_of_tensors
from keras_bert.config import BertConfig
from keras_bert.metadata import Metadata
from keras_bert.text.vocabulary import Vocabulary

_VOCABULARY = "vocab.txt"
_GRAPH = "saved_model.pb"
# Ops in the graph of a preprocessing.
_WORDPIECE = b"WordpieceTokenizeWithOffsets"
_LOWERCASING = b"CaseFoldUTF8"
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_LOWERCASE = f"do_lower_case{_SUFFIX}"
_TABLE = "embeddings.word_embeddings.weight"
_SEGMENT_TABLE = "embeddings.token_type_embeddings.weight"
_TABLES = (_TABLE, POSITION_TABLE, _SEGMENT_TABLE)
# Parts of a block in the order of a SavedModel, by the paths of their layers.
_BLOCK = {
    "_attention_layer/_query_dense": "attention.self.query",
    "_attention_layer/_key_dense": "attention.self.key",
    "_attention_layer/_value_dense": "attention.self.value",
    "_attention_layer/_output_dense": "attention.output.dense",
    "_attention_layer_norm": "attention.output.LayerNorm",
    "_intermediate_dense": "intermediate.dense",
    "_output_dense": "output.dense",
    "_output_layer_norm": "output.LayerNorm",
}
_NORM = ("embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias")
_POOLER = ("pooler.dense.weight", "pooler.dense.bias")
_PARTS = {"kernel": "weight", "gamma": "weight", "bias": "bias", "beta": "bias"}
_MASKED = {
    "masked_lm/embedding_table": _TABLE,
    "masked_lm/output_bias.Sbias": "cls.predictions.bias",
    "masked_lm/dense/kernel": "cls.predictions.transform.dense.weight",
    "masked_lm/dense/bias": "cls.predictions.transform.dense.bias",
    "masked_lm/layer_norm/gamma": "cls.predictions.transform.LayerNorm.weight",
    "masked_lm/layer_norm/beta": "cls.predictions.transform.LayerNorm.bias",
}
_NEXT_SENTENCE = r"next_sentence\.\.pooler_dense/(kernel|bias)"  # The layer before the logits, which are not stored.


def fits(folder):
    """Returns whether a folder may be a SavedModel of TensorFlow Hub; those of this package have `assets.extra`."""
    is_saved_model = folder.has(_GRAPH) and folder.has("variables/variables.index")
    return is_saved_model and not folder.has(CONFIG) and not (folder / "assets.extra").is_dir()


def read(folder, options):
    """Opens the SavedModel of an encoder of TensorFlow Hub; its config is inferred from its tensors."""
    shapes, fetch = open_bundle(folder / "variables" / "variables")
    try:
        names = stored_names(shapes)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None
    if _LOWERCASE not in shapes or not names:
        hint = "other SavedModels are opened by `tf.saved_model.load`, or served"
        if _WORDPIECE in (folder / _GRAPH).read_bytes():
            hint = "a SavedModel that preprocesses texts goes with an encoder: load(encoder, tokenizer=folder)"
        raise ValueError(f"{folder}: not an encoder of the Model Garden, whose SavedModel has `do_lower_case`; {hint}")
    config = _config({ours: shapes[name] for ours, name in names.items()})
    tensors = read_tensors(names, shapes, fetch)
    vocabulary = None
    path = folder / "assets" / _VOCABULARY
    if path.is_file():
        vocabulary = Vocabulary(path)
    metadata = Metadata(
        head=head_of_tensors(tensors),
        vocabulary=vocabulary,
        lowercase=bool(fetch(_LOWERCASE)),
    )
    return Checkpoint(str(folder), config, tensors, metadata)


def read_preprocessing(folder):
    """Returns the vocabulary and the casing of a SavedModel of TensorFlow Hub that preprocesses texts for BERT."""
    graph = (folder / _GRAPH).read_bytes()
    path = folder / "assets" / _VOCABULARY
    if _WORDPIECE not in graph or not path.is_file():
        raise ValueError(f"{folder}: expected a SavedModel that preprocesses texts for BERT, with {path.name}")
    return Vocabulary(path), _LOWERCASING in graph


def read_tensors(names, shapes, fetch):
    """Returns the `Tensor`s by our names, of `stored_names` and what `open_bundle` returns."""
    tensors = {}
    for ours, name in names.items():
        tensors[ours] = _matrix(ours, name, shapes[name], fetch)
    return tensors


def stored_names(stored):
    """Returns the names of the tensors by ours; empty for a checkpoint of another program."""
    paths = {}
    for name in stored:
        if name.endswith(_SUFFIX):
            paths[name.removesuffix(_SUFFIX)] = name
    if "variables/0" in paths:
        return _names_by_number(paths)

    numbers = []
    for path in paths:
        match = re.match(r"(?:model|encoder)/layer_with_weights-(\d+)/", path)
        if match:
            numbers.append(int(match[1]))
    if not numbers:
        return {}
    last = max(numbers)  # The pooler: the encoders of the Model Garden always have one.
    names = {}
    for path, name in paths.items():
        ours = _our_name(path, last)
        if ours:
            names[ours] = name
    for path, name in paths.items():
        match = re.fullmatch(_NEXT_SENTENCE, path)
        if match:
            names[f"pooler.dense.{_PARTS[match[1]]}"] = name
    return names


def _our_name(path, last):
    """Returns our name of a variable, or `None` for one that the model lacks; `last` is the number of the pooler."""
    if path in _MASKED:
        return _MASKED[path]
    match = re.fullmatch(r"(?:model|encoder)/layer_with_weights-(\d+)/(?:(.+)/)?(\w+)", path)
    if match is None:
        return None
    number = int(match[1])
    layer = match[2]
    part = match[3]
    if number < 3:
        return _TABLES[number]
    if number == 3:
        return f"embeddings.LayerNorm.{_PARTS[part]}"
    if number == last:
        return f"pooler.dense.{_PARTS[part]}"
    return f"encoder.layer.{number - 4}.{_BLOCK[layer]}.{_PARTS[part]}"


def _names_by_number(paths):
    """Returns the names of the tensors of a SavedModel by ours; its `paths` number the variables in a fixed order.

    The order, that of the layers, is all that tells them apart: embeddings, blocks, pooler. A SavedModel with any other
    number of variables, such as one without a pooler, is refused; `LoadedModels.has_pooler` tells what becomes of
    checkpoints of other formats without one.
    """
    count = sum(re.fullmatch(r"variables/\d+", path) is not None for path in paths)
    variables_of_block = 2 * len(_BLOCK)  # A weight and a bias of each layer.
    blocks = (count - len(_TABLES) - len(_NORM) - len(_POOLER)) // variables_of_block
    ordered = [*_TABLES, *_NORM]
    for number in range(blocks):
        for layer in _BLOCK.values():
            name = f"encoder.layer.{number}.{layer}"
            ordered += [f"{name}.weight", f"{name}.bias"]
    ordered += _POOLER
    if blocks < 1 or len(ordered) != count:
        raise ValueError(f"a SavedModel of {count} variables is no encoder of the Model Garden")

    names = {ours: paths[f"variables/{number}"] for number, ours in enumerate(ordered)}
    names.update(_names_of_masked(paths, first=count))
    return names


def _names_of_masked(paths, first):
    """Returns the names of the tensors of the masked language model, if a SavedModel has them, by ours.

    `mlm` numbers the encoder's variables once more, and from `first` on those of the head, without the shared table.
    """
    if f"mlm/variables/{first}" not in paths:
        return {}
    of_head = [ours for ours in _MASKED.values() if ours != _TABLE]
    return {ours: paths[f"mlm/variables/{number}"] for number, ours in enumerate(of_head, first)}


def _matrix(ours, name, shape, fetch):
    """Returns the `Tensor` of our name, as `(out, in)`, of a stored array, which `fetch` reads.

    Kernels of attention have an axis of heads, and so do their biases.
    """
    if ours.endswith(".bias"):
        return Tensor(name, (math.prod(shape),), lambda: fetch(name).reshape(-1))
    if ours in _TABLES or len(shape) < 2:
        return Tensor(name, tuple(shape), lambda: fetch(name))
    rows = shape[0]
    if ours.endswith("output.dense.weight"):
        rows = math.prod(shape[:-1])
    columns = math.prod(shape) // rows
    return Tensor(name, (columns, rows), lambda: fetch(name).reshape(rows, columns).T)


def _config(shapes):
    """Returns the `BertConfig` of an encoder, of the shapes of its tensors by our names, as they are stored."""
    vocab_size, hidden_size = shapes[_TABLE]
    layers = sum(name.endswith("attention.self.query.weight") for name in shapes)
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=number_of_heads(shapes),
        intermediate_size=shapes["encoder.layer.0.intermediate.dense.weight"][1],
        hidden_act="gelu_new",
        max_position_embeddings=shapes[POSITION_TABLE][0],
        type_vocab_size=shapes[_SEGMENT_TABLE][0],
    )


def number_of_heads(shapes):
    """Returns the number of attention heads."""
    return shapes["encoder.layer.0.attention.self.query.weight"][1]
