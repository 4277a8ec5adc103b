"""Google's TensorFlow 1 checkpoints: `bert_config.json`, `vocab.txt`, `bert_model.ckpt.*`."""

import glob
import re

import numpy as np

from keras_bert.checkpoints import model_garden
from keras_bert.checkpoints.huggingface import head_of_tensors
from keras_bert.checkpoints.layout import Checkpoint, Tensor, tensors_of
from keras_bert.checkpoints.tensor_bundle import TensorBundle
from keras_bert.checkpoints.weight_files import check_tensors
from keras_bert.config import BertConfig
from keras_bert.files import write_json
from keras_bert.heads.registry import head_named
from keras_bert.metadata import Metadata
from keras_bert.text.tokenizer_options import VOCABULARY_OPTIONS
from keras_bert.text.vocabulary import Vocabulary

CONFIG = "bert_config.json"
_VOCABULARY, _GRAPH = "vocab.txt", "saved_model.pb"
_WORDPIECE, _LOWERCASING = b"WordpieceTokenizeWithOffsets", b"CaseFoldUTF8"  # Ops in the graph of a preprocessing.

# Names in run_classifier.py and run_squad.py, besides those of pre-training.
_TO_OURS = {
    "cls/predictions/output_bias": "cls.predictions.bias",
    "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    "cls/seq_relationship/output_bias": "cls.seq_relationship.bias",
    "output_weights": "classifier.weight",
    "output_bias": "classifier.bias",
    "cls/squad/output_weights": "qa_outputs.weight",
    "cls/squad/output_bias": "qa_outputs.bias",
}
_TO_GOOGLE = {ours: theirs for theirs, ours in _TO_OURS.items()}
_UNREADABLE = (ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)
_OPTIMIZER = re.compile(r".*/(adam_m|adam_v|Adam|Adam_1)|global_step|beta[12]_power|good_steps|loss_scale")


def is_google(directory):
    """Returns whether a directory contains Google's config."""
    return (directory / CONFIG).is_file()


def read(directory):
    """Opens a directory in the format of Google's program or of the Model Garden, without its vocabulary."""
    config = BertConfig.from_json(directory / CONFIG)
    prefix = _find_prefix(directory)
    shapes, fetch = _open(prefix)
    if names := model_garden.names(shapes):
        heads = model_garden.heads({ours: shapes[name] for ours, name in names.items()})
        if heads != config.num_attention_heads:
            received = f"Received: num_attention_heads={config.num_attention_heads}"
            raise ValueError(f"{prefix}: `num_attention_heads` must be {heads}, as in its tensors. {received}")
        return _checkpoint(prefix, config, _garden(names, shapes, fetch))

    def tensor(name):
        transposed = name.endswith("/kernel")
        shape = tuple(shapes[name][::-1] if transposed else shapes[name])
        return Tensor(name, shape, lambda: fetch(name).T if transposed else fetch(name))

    tensors = {_our_name(name): tensor(name) for name in shapes if not _OPTIMIZER.fullmatch(name)}
    return _checkpoint(prefix, config, tensors)


def is_hub(directory):
    """Returns whether a directory may be a SavedModel of TensorFlow Hub; those of this package have `assets.extra`."""
    files = [(directory / file).is_file() for file in (_GRAPH, "variables/variables.index", "config.json")]
    return files == [True, True, False] and not (directory / "assets.extra").is_dir()


def read_hub(directory):
    """Opens the SavedModel of an encoder of TensorFlow Hub; its config is inferred from its tensors."""
    prefix = directory / "variables" / "variables"
    shapes, fetch = _open(prefix)
    names = model_garden.names(shapes)
    if model_garden.LOWERCASE not in shapes or not names:
        hint = "other SavedModels are opened by `tf.saved_model.load`, or served"
        if _WORDPIECE in (directory / _GRAPH).read_bytes():
            hint = "a SavedModel that preprocesses texts goes with an encoder: load(encoder, tokenizer=folder)"
        raise ValueError(
            f"{directory}: not an encoder of the Model Garden, whose SavedModel has `do_lower_case`; {hint}"
        )
    config = model_garden.config({ours: shapes[name] for ours, name in names.items()})
    checkpoint = _checkpoint(directory, config, _garden(names, shapes, fetch))
    path, lowercase = directory / "assets" / _VOCABULARY, bool(fetch(model_garden.LOWERCASE))
    vocabulary = Vocabulary(path) if path.is_file() else None
    checkpoint.metadata = checkpoint.metadata.replace(vocabulary=vocabulary, lowercase=lowercase)
    return checkpoint


def read_preprocessing(directory):
    """Returns the vocabulary and the casing of a SavedModel of TensorFlow Hub that preprocesses texts for BERT."""
    graph, path = (directory / _GRAPH).read_bytes(), directory / "assets" / _VOCABULARY
    if _WORDPIECE not in graph or not path.is_file():
        raise ValueError(f"{directory}: expected a SavedModel that preprocesses texts for BERT, with {path.name}")
    return Vocabulary(path), _LOWERCASING in graph


def _garden(names, shapes, fetch):
    tensors = {}
    for ours, name in names.items():
        shape, arranged = model_garden.matrix(ours, shapes[name])
        tensors[ours] = Tensor(name, shape, lambda name=name, arranged=arranged: arranged(fetch(name)))
    return tensors


def _checkpoint(name, config, tensors):
    return Checkpoint(str(name), config, tensors, Metadata(head=head_of_tensors(tensors)))


def _open(prefix):
    """Returns the shapes of the tensors of a checkpoint by their names, and a function that reads one."""
    open_reader, unreadable = _reader()
    try:
        bundle = TensorBundle(prefix)  # Checks the index: TensorFlow ends the process if it is damaged.
        reader = bundle if bundle.is_partitioned else open_reader(str(prefix))
    except unreadable as error:
        raise ValueError(f"{prefix}: not a readable TensorFlow checkpoint: {_first_line(error)}") from None
    shapes = bundle.get_variable_to_shape_map()
    shards = prefix.parent.glob(f"{glob.escape(prefix.name)}.data-*")
    check_tensors(prefix, shapes, sum(path.stat().st_size for path in shards))

    def fetch(name):
        try:
            bundle.check(name)
            return reader.get_tensor(name)
        except unreadable as error:
            raise ValueError(f"{prefix}: the tensor {name} cannot be read: {_first_line(error)}") from None

    return shapes, fetch


def write(description, vocabulary, directory):
    """Writes `bert_config.json`, `bert_model.ckpt.*` and, unless the vocabulary is None, `vocab.txt`."""
    tf = _tensorflow()
    _check(description, vocabulary)
    tensors = {_google_name(name): array for name, array in tensors_of(description).items()}
    arrays = [array.T if name.endswith("/kernel") else array for name, array in tensors.items()]
    write_json(directory / CONFIG, description.config.to_google())
    tf.raw_ops.SaveV2(
        prefix=str(directory / "bert_model.ckpt"),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(np.ascontiguousarray(array)) for array in arrays],
    )
    if vocabulary is not None:
        vocabulary.save(directory / "vocab.txt")


def _check(description, vocabulary):
    """Raises where Google's format cannot represent the model or the vocabulary."""
    if description.causal or description.positions != "learned":
        raise ValueError(
            "Google's format can only represent a bidirectional encoder with learned positions. "
            f"Received: causal={description.causal}, positions={description.positions!r}; "
            "use format='huggingface'"
        )
    if head_named(description.head).google is None:
        raise ValueError(f"Google's format has no names for a {description.head} head; use format='huggingface'")
    if description.multi_label or description.score_activation != "linear":
        raise ValueError("Google's format has no place for sigmoids of the logits; use format='huggingface'")
    if not description.tied:
        raise ValueError("Google's format has only a tied masked-LM head; use format='huggingface'")
    for option in VOCABULARY_OPTIONS if vocabulary is not None else ():
        value = getattr(vocabulary, option.name)
        if value != option.default and option.google == "refused":
            raise ValueError(
                f"Google's format cannot store the vocabulary's `{option.name}`. Received: "
                f"{option.name}={value!r:.80}; use format='huggingface'"
            )


def _reader():
    """Returns what opens a TensorFlow checkpoint, and its errors: TensorFlow, which verifies checksums, or a bundle."""
    try:
        import tensorflow as tf
    except ModuleNotFoundError:
        return TensorBundle, _UNREADABLE
    # `tf.train.load_checkpoint` would follow the file `checkpoint` of a folder with this name.
    return tf.compat.v1.train.NewCheckpointReader, (tf.errors.OpError, *_UNREADABLE)


def _tensorflow():
    """Imports TensorFlow, which the other formats do not need."""
    try:
        import tensorflow
    except ModuleNotFoundError:
        raise ValueError(
            "writing Google's checkpoints needs TensorFlow, which is not installed: pip install tensorflow"
        ) from None
    return tensorflow


def _find_prefix(directory):
    found = sorted(path.with_suffix("") for path in directory.glob("*.index"))
    preferred = directory / "bert_model.ckpt"
    if preferred in found:
        return preferred
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise ValueError(
            f"{directory}: expected one TensorFlow checkpoint, such as bert_model.ckpt.index. Received: {names}"
        )
    return found[0]


def _our_name(name):
    """Maps Google's name of a tensor, such as bert/encoder/layer_0/output/LayerNorm/gamma, to ours."""
    if name in _TO_OURS:
        return _TO_OURS[name]
    name = name.removeprefix("bert/").replace("/", ".")
    name = re.sub(r"^encoder\.layer_(\d+)\.", r"encoder.layer.\1.", name)
    name = re.sub(r"\.(kernel|gamma)$", ".weight", name)
    name = re.sub(r"\.beta$", ".bias", name)
    return re.sub(r"^(embeddings\.\w+_embeddings)$", r"\1.weight", name)


def _google_name(name):
    """Maps our name of a tensor to Google's."""
    if name in _TO_GOOGLE:
        return _TO_GOOGLE[name]
    name = re.sub(r"_embeddings\.weight$", "_embeddings", name)
    name = re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", name)
    name = re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", name)
    name = re.sub(r"\.weight$", ".kernel", name)
    name = re.sub(r"layer\.(\d+)\.", r"layer_\1.", name).replace(".", "/")
    return name if name.startswith("cls/") else f"bert/{name}"


def _first_line(error):
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
