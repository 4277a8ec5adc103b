"""Google's TF 1 checkpoints: `bert_config.json`, `vocab.txt`, `bert_model.ckpt.*`. Needs TensorFlow."""

import json
import re

import numpy as np

from keras_bert.checkpoints.layout import Source, Tensor, tensors_of
from keras_bert.config import BertConfig

CONFIG = "bert_config.json"

_HEADS = {
    "cls/predictions/output_bias": "cls.predictions.bias",
    "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    "cls/seq_relationship/output_bias": "cls.seq_relationship.bias",
    # As run_classifier.py and run_squad.py name the heads that they train.
    "output_weights": "classifier.weight",
    "output_bias": "classifier.bias",
    "cls/squad/output_weights": "qa_outputs.weight",
    "cls/squad/output_bias": "qa_outputs.bias",
}
_HEADS_BACK = {ours: theirs for theirs, ours in _HEADS.items()}
# The C++ reader raises any of these on a file that is cut short.
_UNREADABLE = (ValueError, RuntimeError, IndexError, OverflowError)
_OPTIMIZER = re.compile(r".*/(adam_m|adam_v|Adam|Adam_1)|global_step|beta[12]_power|good_steps|loss_scale")


def is_one(directory):
    """Whether a directory has Google's config."""
    return (directory / CONFIG).is_file()


def read(directory):
    """Opens a directory of Google's."""
    tf = _tensorflow()
    config = BertConfig.from_json(directory / CONFIG)
    prefix = _find_prefix(directory)
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        shapes = reader.get_variable_to_shape_map()
    except (tf.errors.OpError, *_UNREADABLE) as error:
        raise ValueError(f"{prefix}: not a readable TensorFlow checkpoint: {_first_line(error)}") from None

    def tensor(name):
        transposed = name.endswith("/kernel")
        shape = tuple(shapes[name][::-1] if transposed else shapes[name])

        def fetch():
            try:
                array = reader.get_tensor(name)
            except (tf.errors.OpError, *_UNREADABLE) as error:
                raise ValueError(f"{prefix}: the tensor {name} cannot be read: {_first_line(error)}") from None
            return array.T if transposed else array

        return Tensor(name, shape, fetch)

    tensors = {_canonical(name): tensor(name) for name in shapes if not _OPTIMIZER.fullmatch(name)}
    head = None
    for name, kind in (
        ("cls.seq_relationship.weight", "next_sentence"),
        ("cls.predictions.bias", "pretraining"),
        ("qa_outputs.weight", "question_answering"),
        ("classifier.weight", "classification"),
    ):
        head = kind if name in tensors else head
    return Source(name=str(prefix), config=config, tensors=tensors, head=head)


def write(description, directory):
    """Writes `bert_config.json` and `bert_model.ckpt.*`; the vocabulary is the caller's."""
    tf = _tensorflow()
    if description.causal or description.positions != "learned":
        raise ValueError(
            "Google's format can only say an encoder that sees both sides and learned positions. "
            f"Received: causal={description.causal}, positions={description.positions!r}; use format='huggingface'"
        )
    if description.head in ("token_classification", "multiple_choice", "embedding") or description.multi_label:
        raise ValueError(f"Google's format has no names for a {description.head} head; use format='huggingface'")
    if not description.tied:
        raise ValueError("Google's format has only a masked-LM head that is tied; use format='huggingface'")
    config = description.config.to_google()
    names, arrays = [], []
    for name, array in tensors_of(description).items():
        theirs = _google(name)
        names.append(theirs)
        arrays.append(np.ascontiguousarray(array.T if theirs.endswith("/kernel") else array))
    (directory / CONFIG).write_text(json.dumps(config, indent=2) + "\n")
    tf.raw_ops.SaveV2(
        prefix=str(directory / "bert_model.ckpt"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(array) for array in arrays],
    )


def _tensorflow():
    """TensorFlow, whose absence is no reason to do without the other formats."""
    try:
        import tensorflow
    except ModuleNotFoundError:
        raise ValueError(
            "Google's checkpoints need TensorFlow, which is not installed: pip install tensorflow"
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


def _canonical(name):
    """Google's name of a tensor to ours: bert/encoder/layer_0/output/LayerNorm/gamma and the like."""
    if name in _HEADS:
        return _HEADS[name]
    name = name.removeprefix("bert/").replace("/", ".")
    name = re.sub(r"^encoder\.layer_(\d+)\.", r"encoder.layer.\1.", name)
    name = re.sub(r"\.(kernel|gamma)$", ".weight", name)
    name = re.sub(r"\.beta$", ".bias", name)
    return re.sub(r"^(embeddings\.\w+_embeddings)$", r"\1.weight", name)


def _google(name):
    """Our name of a tensor to Google's."""
    if name in _HEADS_BACK:
        return _HEADS_BACK[name]
    name = re.sub(r"_embeddings\.weight$", "_embeddings", name)
    name = re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", name)
    name = re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", name)
    name = re.sub(r"\.weight$", ".kernel", name)
    name = re.sub(r"layer\.(\d+)\.", r"layer_\1.", name).replace(".", "/")
    return name if name.startswith("cls/") else f"bert/{name}"


def _first_line(error):
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
