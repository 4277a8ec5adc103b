"""The format of sentence-transformers: `modules.json`, pooling, projection, prompts, maximum sequence length."""

import contextlib
import dataclasses

from keras_bert.checkpoints import huggingface
from keras_bert.checkpoints.folder import CONFIG, MODULES
from keras_bert.checkpoints.tensors import PROJECTION_TENSORS, tensors_of
from keras_bert.checkpoints.weight_files import TORCH, WEIGHTS, read_tensors, write_tensors
from keras_bert.checks import is_number
from keras_bert.files import write_json
from keras_bert.heads.classification import default_activation, stored_activation
from keras_bert.heads.head import our_activation
from keras_bert.heads.prompts import check_prompts
from keras_bert.heads.registry import head_named, opened_by
from keras_bert.similarity import check_function
from keras_bert.text.vocabulary import Vocabulary

SETTINGS = "config_sentence_transformers.json"
_LENGTH = "sentence_bert_config.json"
_POOLING = "1_Pooling"
_DENSE = "2_Dense"
DOWNLOADS = (MODULES, SETTINGS, f"*{_LENGTH}", "*/config.json")
FILES = (MODULES, SETTINGS, _LENGTH, _POOLING, _DENSE)
# The keys of older releases, which all releases read, in the order in which they concatenate several.
_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_ACTIVATIONS = {"linear": "torch.nn.modules.linear.Identity", "tanh": "torch.nn.modules.activation.Tanh"}
# Newer releases have other modules but the same classes, and read these too.
_PREFIX = "sentence_transformers.models."
_OMIT = "load(..., head='encoder') loads the encoder without"
_ARGUMENTS = dict.fromkeys(
    ["config_args", "config_kwargs", "processing_kwargs", "processor_kwargs", "tokenizer_args"],
    ({},),
)
_INPUT_AND_OUTPUT = {
    "module_input_name": ("sentence_embedding",),
    "module_output_name": ("sentence_embedding",),
}
# Settings that change the vectors or scores, with the values that are supported.
_FIXED = {
    SETTINGS: {"model_type": ("SentenceTransformer",), "truncate_dim": (None,)},
    _LENGTH: {"transformer_task": ("feature-extraction",)} | _ARGUMENTS,
    "CrossEncoder": {"default_prompt_name": (None,)},
    "Classifier": {"transformer_task": ("sequence-classification",)} | _ARGUMENTS,
    "Pooling": {"include_prompt": (True,)},
    "Dense": {"use_residual": (False,)} | _INPUT_AND_OUTPUT,
    "Normalize": _INPUT_AND_OUTPUT,
}


def fits(folder):
    """Returns whether a folder of Hugging Face's format has modules, or is an older one of a cross-encoder."""
    return huggingface.fits(folder) and (folder.has(MODULES) or _is_old_cross_encoder(folder))


def _is_old_cross_encoder(folder):
    """Returns whether a folder without modules is that of an older cross-encoder, which its config tells."""
    _, activation = stored_activation(folder.config)
    return activation is not None and not folder.is_ours


def read(folder, options):
    """Opens a folder with the facts and the tensors of its modules, unless another head is wanted."""
    checkpoint = huggingface.read(folder, options)
    head = options.head
    embedding = opened_by("SentenceTransformer")
    classification = opened_by("CrossEncoder")
    if head not in (None, embedding, classification):
        return checkpoint

    kinds = [module["type"].rpartition(".")[2] for module in folder.modules]
    if kinds:
        scores_pairs = folder.json(SETTINGS).get("model_type") == "CrossEncoder"
    else:
        scores_pairs = _is_old_cross_encoder(folder) and checkpoint.metadata.head == classification
    if scores_pairs and head != embedding:
        return checkpoint.replace(metadata=_metadata_of_cross_encoder(folder, kinds, checkpoint))
    if kinds and head != classification:
        return _embedder(folder, kinds, checkpoint)
    return checkpoint


def _embedder(folder, kinds, checkpoint):
    """Returns the checkpoint with what the modules after the Transformer do.

    Their order is that of all our heads of vectors, see `heads.text_vectors`, and the one in which `write` writes them,
    into folders whose numbers are fixed. `normalize` tells that the result has length 1, see there.
    """
    optional = [kind for kind in ("Dense", "Normalize") if kind in kinds]
    if kinds != ["Transformer", "Pooling", *optional]:
        raise ValueError(
            f"{folder / MODULES}: expected the modules Transformer, Pooling and optionally Dense and Normalize, in "
            f"this order. Received: {', '.join(kinds)}; {_OMIT} them"
        )
    folders = {}
    for kind, module in zip(kinds, folder.modules, strict=True):
        folders[kind] = folder.of_module(module)
    metadata = _with_length_and_casing(folders["Transformer"], checkpoint, _LENGTH)
    pooling = _read_pooling(folders["Pooling"])
    metadata = read_settings(folder, metadata).replace(
        head=opened_by("SentenceTransformer"),
        pooling=pooling,
        normalize="Normalize" in kinds,
    )
    checkpoint = checkpoint.replace(metadata=metadata)
    if "Normalize" in kinds:
        _checked_settings(folders["Normalize"], CONFIG, "Normalize")
    if "Dense" in kinds:
        checkpoint = _with_projection(folders["Dense"], checkpoint)
    return checkpoint


def _metadata_of_cross_encoder(folder, kinds, checkpoint):
    """Returns the metadata with the maximum sequence length and the activation of the scores."""
    if not kinds:  # An older one, whose config names the activation, which `checkpoint` has already.
        return _with_length_and_casing(folder, checkpoint, "Classifier")
    inner = folder.of_module(folder.modules[0])
    metadata = _with_length_and_casing(inner, checkpoint, "Classifier")
    if kinds != ["Transformer"]:
        raise ValueError(
            f"{folder / MODULES}: expected only the module Transformer of a cross-encoder. "
            f"Received: {', '.join(kinds)}; {_OMIT} them"
        )
    # Newer ones store it next to `modules.json`; the head reads it where older ones have it.
    activation = _activation(folder, inner.config)
    config = inner.config | {"sentence_transformers": {"activation_fn": activation}}
    with _naming(folder / SETTINGS):  # Where another activation is to be written, whichever file this one is from.
        return head_named(opened_by("CrossEncoder")).read_config(config, metadata)


def _activation(folder, config):
    """Returns the path of the activation of a cross-encoder's scores: of its settings, its config, or the default.

    That is the sigmoid of a single logit, and none of several.
    Called for newer folders alone: an older one names it in its config, which `huggingface.read` has read.
    """
    in_settings = _checked_settings(folder, SETTINGS, "CrossEncoder").get("activation_fn")
    if in_settings:
        return in_settings
    _, in_config = stored_activation(config)
    if in_config:
        return in_config
    return default_activation(config)


@contextlib.contextmanager
def _naming(path, hint=""):
    """Adds the name of the file to an error."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}{hint}") from None


def _checked_settings(folder, name, kind, needed=False):
    """Returns the settings of a file, after a check of those that only have one supported value."""
    values = folder.json(name, needed)
    for key, allowed in _FIXED[kind].items():
        value = values.get(key)
        if value is not None and value not in allowed:
            raise ValueError(
                f"{folder / name}: `{key}` must be {allowed[0]!r}. Received: {key}={value!r}; {_OMIT} this module"
            )
    return values


def _with_length_and_casing(folder, checkpoint, kind):
    """Returns the metadata with the maximum sequence length and the casing of the Transformer."""
    metadata = checkpoint.metadata
    settings = _checked_settings(folder, _LENGTH, kind)
    longest = _length(folder, _LENGTH, "max_seq_length")
    longest = longest or _length(folder, "tokenizer_config.json", "model_max_length")
    longest = longest or metadata.sequence_length
    if longest is not None:
        longest = int(min(longest, checkpoint.config.max_position_embeddings))
    if settings.get("do_lower_case") and not metadata.lowercase and metadata.vocabulary is not None:
        metadata = _in_lower_case(folder, metadata)
    return metadata.replace(sequence_length=longest)


def _in_lower_case(folder, metadata):
    """Returns the metadata for texts in lower case with a cased tokenizer, which keeps accents."""
    if not metadata.vocabulary.has_bert_normalizer:
        raise ValueError(
            f"{folder / _LENGTH}: `do_lower_case` is only supported with BERT's normalizer. Received: "
            "do_lower_case=True with another normalizer in tokenizer.json"
        )
    vocabulary = Vocabulary(metadata.vocabulary, strip_accents=bool(metadata.strip_accents))
    return metadata.replace(lowercase=True, vocabulary=vocabulary)


def _length(folder, name, key):
    """Returns a maximum length in a file, or `None`; transformers writes a huge number for none."""
    value = folder.json(name).get(key)
    if value is not None and not (is_number(value) and value >= 1):
        raise ValueError(f"{folder / name}: `{key}` must be a positive number. Received: {key}={value!r:.200}")
    return value


def read_settings(folder, metadata):
    """Returns the metadata with prompts and similarity function, if the folder has them."""
    values = _checked_settings(folder, SETTINGS, SETTINGS)
    prompts = values.get("prompts") or None
    default_prompt_name = values.get("default_prompt_name")
    similarity_function = values.get("similarity_fn_name") or "cosine"
    with _naming(folder / SETTINGS, f"; {_OMIT} prompts"):
        check_prompts(prompts, default_prompt_name)
        check_function(similarity_function)
    return metadata.replace(
        prompts=prompts,
        default_prompt_name=default_prompt_name,
        similarity_function=similarity_function,
    )


def _read_pooling(folder):
    """Returns the pooling, or a tuple of several."""
    values = _checked_settings(folder, CONFIG, "Pooling", needed=True)
    modes = values.get("pooling_mode")
    if not modes:
        modes = [mode for key, mode in _MODES.items() if values.get(key)]
    elif isinstance(modes, str):
        modes = [modes]
    if not modes or len(set(modes)) < len(modes) or not set(modes) <= set(_MODES.values()):
        raise ValueError(
            f"{folder / CONFIG}: the pooling must be one of {', '.join(_MODES.values())}, or several different ones. "
            f"Received: {', '.join(modes) or 'none'}; {_OMIT} it"
        )
    if len(modes) == 1:
        return modes[0]
    return tuple(modes)


def _with_projection(folder, checkpoint):
    """Returns the checkpoint with the dense layer after pooling; one without a bias gets zeros."""
    values = _checked_settings(folder, CONFIG, "Dense", needed=True)
    name = values.get("activation_function", _ACTIVATIONS["tanh"])
    with _naming(folder / CONFIG, f"; {_OMIT} this module"):
        activation = our_activation("activation_function", name, _ACTIVATIONS)
    tensors = read_tensors(folder.path, (WEIGHTS, TORCH))
    weight = tensors.get("linear.weight")
    if weight is None or set(tensors) - {"linear.weight", "linear.bias"}:
        raise ValueError(f"{folder}: expected linear.weight and linear.bias. Received: {', '.join(tensors)}")
    bias = tensors.get("linear.bias")
    if bias is None:
        bias = dataclasses.replace(
            weight,
            name="linear.bias",
            shape=weight.shape[:1],
            read=lambda: 0.0 * weight.read()[:, 0],
        )
    projection = dict(zip(PROJECTION_TENSORS, (weight, bias), strict=True))
    metadata = checkpoint.metadata.replace(projection=weight.shape[0], projection_activation=activation)
    return checkpoint.replace(tensors=checkpoint.tensors | projection, metadata=metadata)


def write(description, metadata, directory):
    """Writes the files that sentence-transformers reads in addition to those of transformers, without weights."""
    embedding = description.embedding
    modes = description.layers["sentence_pooling"].modes
    width = description.config.hidden_size
    kinds = ["Pooling"]
    if embedding["projection"] is not None:
        kinds.append("Dense")
        dense = {
            "in_features": width * len(modes),
            "out_features": embedding["projection"],
            "bias": True,
            "activation_function": _ACTIVATIONS[embedding["projection_activation"]],
        }
        write_json(directory / _DENSE / CONFIG, dense)
    if embedding["normalize"]:
        kinds.append("Normalize")

    settings = {
        "prompts": metadata.prompts or {},
        "default_prompt_name": metadata.default_prompt_name,
        "similarity_fn_name": metadata.similarity_function,
    }
    longest = metadata.sequence_length or description.config.max_position_embeddings
    write_json(directory / MODULES, _modules(kinds))
    write_json(directory / _POOLING / CONFIG, _pooling_config(modes, width))
    write_json(directory / SETTINGS, settings)
    write_json(directory / _LENGTH, {"max_seq_length": longest, "do_lower_case": False})


def _modules(kinds):
    """Returns the content of `modules.json`: the Transformer, and after it modules of these kinds."""
    modules = [{"idx": 0, "name": "0", "path": "", "type": f"{_PREFIX}Transformer"}]
    for index, kind in enumerate(kinds, 1):
        modules.append(
            {
                "idx": index,
                "name": str(index),
                "path": f"{index}_{kind}",
                "type": f"{_PREFIX}{kind}",
            }
        )
    return modules


def _pooling_config(modes, width):
    """Returns the content of the `config.json` of the pooling."""
    in_common_order = tuple(mode for mode in _MODES.values() if mode in modes)
    if modes != in_common_order:  # Only newer releases know several of them in another order.
        return {"embedding_dimension": width, "pooling_mode": list(modes)}
    config = {"word_embedding_dimension": width}
    for key, mode in _MODES.items():
        config[key] = mode in modes
    return config


def write_weights(description, directory, dtype):
    """Writes the weights of the projection, if there is one."""
    if description.embedding.get("projection") is None:
        return
    tensors = tensors_of(description)
    linear = {}
    for name in PROJECTION_TENSORS:
        part = name.rpartition(".")[2]
        linear[f"linear.{part}"] = tensors[name]
    write_tensors(linear, directory / _DENSE, dtype)
