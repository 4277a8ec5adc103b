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

_VOCABULARY, _GRAPH = "vocab.txt", "saved_model.pb"
_WORDPIECE, _LOWERCASING = b"WordpieceTokenizeWithOffsets", b"CaseFoldUTF8"  # Ops in the graph of a preprocessing.
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_LOWERCASE = f"do_lower_case{_SUFFIX}"
_DENSE = ("weight", "bias")
_TABLE = "embeddings.word_embeddings.weight"
_TABLES = (_TABLE, POSITION_TABLE, "embeddings.token_type_embeddings.weight")
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
    names = stored_names(shapes)
    if _LOWERCASE not in shapes or not names:
        hint = "other SavedModels are opened by `tf.saved_model.load`, or served"
        if _WORDPIECE in (folder / _GRAPH).read_bytes():
            hint = "a SavedModel that preprocesses texts goes with an encoder: load(encoder, tokenizer=folder)"
        raise ValueError(f"{folder}: not an encoder of the Model Garden, whose SavedModel has `do_lower_case`; {hint}")
    config = _config({ours: shapes[name] for ours, name in names.items()})
    tensors = read_tensors(names, shapes, fetch)
    path, lowercase = folder / "assets" / _VOCABULARY, bool(fetch(_LOWERCASE))
    vocabulary = Vocabulary(path) if path.is_file() else None
    metadata = Metadata(head=head_of_tensors(tensors), vocabulary=vocabulary, lowercase=lowercase)
    return Checkpoint(str(folder), config, tensors, metadata)


def read_preprocessing(folder):
    """Returns the vocabulary and the casing of a SavedModel of TensorFlow Hub that preprocesses texts for BERT."""
    graph, path = (folder / _GRAPH).read_bytes(), folder / "assets" / _VOCABULARY
    if _WORDPIECE not in graph or not path.is_file():
        raise ValueError(f"{folder}: expected a SavedModel that preprocesses texts for BERT, with {path.name}")
    return Vocabulary(path), _LOWERCASING in graph


def read_tensors(names, shapes, fetch):
    """Returns the `Tensor`s by our names, of `stored_names` and what `open_bundle` returns."""
    tensors = {}
    for ours, name in names.items():
        shape, arranged = _matrix(ours, shapes[name])
        tensors[ours] = Tensor(name, shape, lambda name=name, arranged=arranged: arranged(fetch(name)))
    return tensors


def stored_names(stored):
    """Returns the names of the tensors by ours; empty for a checkpoint of another program."""
    paths = {name.removesuffix(_SUFFIX): name for name in stored if name.endswith(_SUFFIX)}
    if "variables/0" in paths:
        return _numbered(paths)
    layers = {match[1] for path in paths if (match := re.match(r"(?:model|encoder)/layer_with_weights-(\d+)/", path))}
    if not layers:
        return {}
    last = max(map(int, layers))
    found = {_our_name(path, last): name for path, name in paths.items()}
    pooler = {match[1]: name for path, name in paths.items() if (match := re.fullmatch(_NEXT_SENTENCE, path))}
    found |= {f"pooler.dense.{_PARTS[part]}": name for part, name in pooler.items()}
    return {ours: name for ours, name in found.items() if ours}


def _our_name(path, last):
    """Returns our name of a variable, or `None` for one that the model lacks; `last` is the number of the pooler."""
    if path in _MASKED:
        return _MASKED[path]
    match = re.fullmatch(r"(?:model|encoder)/layer_with_weights-(\d+)/(?:(.+)/)?(\w+)", path)
    if match is None:
        return None
    number, layer, part = int(match[1]), match[2], match[3]
    if number < 3:
        return _TABLES[number]
    if number == 3:
        return f"embeddings.LayerNorm.{_PARTS[part]}"
    if number == last:
        return f"pooler.dense.{_PARTS[part]}"
    return f"encoder.layer.{number - 4}.{_BLOCK[layer]}.{_PARTS[part]}"


def _numbered(paths):
    """Returns the names of a SavedModel."""
    count = sum(re.fullmatch(r"variables/\d+", path) is not None for path in paths)
    blocks = (count - len(_TABLES) - 4) // (2 * len(_BLOCK))
    ordered = [*_TABLES, "embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias"]
    for number in range(blocks):
        ordered += [f"encoder.layer.{number}.{name}.{part}" for name in _BLOCK.values() for part in _DENSE]
    ordered += ["pooler.dense.weight", "pooler.dense.bias"]
    if len(ordered) != count:
        raise ValueError(f"a SavedModel of {count} variables is no encoder of the Model Garden")
    found = {name: paths[f"variables/{number}"] for number, name in enumerate(ordered)}
    masked = list(_MASKED.values())[1:]
    present = f"mlm/variables/{count}" in paths
    return found | {name: paths[f"mlm/variables/{count + n}"] for n, name in enumerate(masked) if present}


def _matrix(name, shape):
    """Returns the shape of a tensor as `(out, in)`, and a function that brings its array there.

    Kernels of attention have an axis of heads, and so do their biases.
    """
    if name in _TABLES or (len(shape) < 2 and not name.endswith(".bias")):
        return tuple(shape), lambda array: array
    if name.endswith(".bias"):
        return (math.prod(shape),), lambda array: array.reshape(-1)
    rows = math.prod(shape[:-1]) if name.endswith("output.dense.weight") else shape[0]
    columns = math.prod(shape) // rows
    return (columns, rows), lambda array: array.reshape(rows, columns).T


def _config(shapes):
    """Returns the `BertConfig` of an encoder, of the shapes of its tensors by our names, as they are stored."""
    (vocab_size, hidden_size), positions, segments = (shapes[name] for name in _TABLES)
    layers = sum(name.endswith("attention.self.query.weight") for name in shapes)
    return BertConfig(
        vocab_size,
        hidden_size,
        layers,
        number_of_heads(shapes),
        shapes["encoder.layer.0.intermediate.dense.weight"][1],
        hidden_act="gelu_new",
        max_position_embeddings=positions[0],
        type_vocab_size=segments[0],
    )


def number_of_heads(shapes):
    """Returns the number of attention heads."""
    return shapes["encoder.layer.0.attention.self.query.weight"][1]
