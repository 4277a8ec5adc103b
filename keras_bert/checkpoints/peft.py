"""peft's format of LoRA adapters: `adapter_config.json` and `adapter_model.safetensors`, without the base model.

Query, key and value of an attention have a `lora_A` and a `lora_B` each: the shared `A` of this package is written
three times, and its `B` split.
"""

import dataclasses
import math
import pathlib
import re
import shutil

import numpy as np
import safetensors.numpy

from keras_bert.checkpoints import huggingface, locations
from keras_bert.checkpoints.layout import Checkpoint, slots
from keras_bert.files import write_json
from keras_bert.metadata import Metadata
from keras_bert.models.lora import lora_layers

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PICKLE = "adapter_model.bin"
_PREFIX = "base_model.model."
_ENCODER = ("embeddings.", "encoder.", "encoder_bilstm.")
# peft's task and the modules that are trained whole, for each head.
_TASKS = {
    "classification": ("SEQ_CLS", ["classifier", "pooler"]),
    "token_classification": ("TOKEN_CLS", ["classifier"]),
    "question_answering": ("QUESTION_ANS", ["qa_outputs"]),
    "multiple_choice": (None, ["classifier", "pooler"]),
    "next_sentence": (None, ["cls", "pooler"]),
    "encoder": ("FEATURE_EXTRACTION", ["pooler"]),
}
_HEADS = {task: head for head, (task, _) in _TASKS.items() if task and head != "encoder"}
# Settings that are honoured, are visible in the tensors, or only matter in training. Any other one is refused.
_KNOWN = {
    *("peft_type", "task_type", "base_model_name_or_path", "revision", "r", "lora_alpha", "rank_pattern"),
    *("alpha_pattern", "use_rslora", "target_modules", "exclude_modules", "modules_to_save", "bias"),
    *("layers_to_transform", "layers_pattern", "init_lora_weights", "lora_dropout", "inference_mode"),
    *("auto_mapping", "peft_version", "megatron_core", "runtime_config", "qalora_group_size"),
    *("loftq_config", "eva_config", "corda_config", "lora_ga_config"),
}
# Other initializations change the base model's weights.
_INITIALIZATIONS = (True, False, None, "gaussian", "orthogonal")


def is_adapter(directory):
    """Returns whether a directory contains an adapter."""
    return (directory / CONFIG).is_file()


def read_settings(directory):
    """Reads `adapter_config.json`; raises for settings that `read` does not support."""
    path = directory / CONFIG
    settings = huggingface.read_json(path)
    if settings.get("peft_type") != "LORA":
        raise ValueError(f"{path}: `peft_type` must be 'LORA'. Received: peft_type={settings.get('peft_type')!r}")
    initialization = settings.get("init_lora_weights")
    if initialization not in _INITIALIZATIONS:
        raise ValueError(
            f"{path}: `init_lora_weights`={initialization!r} changes the weights of the base model. Expected plain "
            "LoRA, to which peft converts: save_pretrained(..., path_initial_model_for_weight_conversion=...)"
        )
    for name, value in settings.items():
        if name not in _KNOWN and value not in (None, False, [], {}):
            raise ValueError(f"{path}: `{name}` is not supported. Expected none. Received: {name}={value!r:.200}")
    return settings


def read(directory, settings, base):
    """Opens an adapter, merged into its base model.

    Args:
        directory: the folder.
        settings: the result of `read_settings`.
        base: the open `Checkpoint` of the base model.

    Returns:
        A `Checkpoint`.
    """
    tensors = _merged(directory, settings, base)
    if (directory / huggingface.CONFIG).is_file():
        metadata = huggingface.read_config(directory)[1].replace(
            vocabulary=base.metadata.vocabulary, lowercase=base.metadata.lowercase, tied=base.metadata.tied
        )
    else:
        metadata = _base_metadata(base.metadata, _HEADS.get(settings.get("task_type"), base.metadata.head))
    return Checkpoint(str(directory), base.config, tensors, metadata)


def _base_metadata(metadata, head):
    """Returns the metadata of an adapter that only has that of its base model."""
    if head == metadata.head:
        return metadata
    kept = ("vocabulary", "lowercase", "causal", "positions", "bilstm", "tied", "keep_special_tokens")
    return Metadata(head=head, **{name: getattr(metadata, name) for name in kept})


def _merged(directory, settings, base):
    """Returns the tensors of the base model with those of the adapter."""
    files = _open(directory)
    merged, pairs = dict(base.tensors), {}
    for name, tensor in files.items():
        module, found, part = name.rpartition(".lora_")
        if ".original_module." in name:
            continue  # With bias="all", peft also writes the biases of the modules that others replace.
        if not found:
            ours = huggingface.our_name(name.replace(".base_layer.", ".").replace(".modules_to_save.", "."))
            merged[ours] = tensor
        elif part in ("A.weight", "B.weight"):
            pairs.setdefault(module, {})[part[0]] = tensor
        else:
            raise ValueError(f"{directory / WEIGHTS}: expected lora_A and lora_B. Received: {tensor.name}")
    for module, pair in pairs.items():
        name = huggingface.our_name(f"{module}.weight")
        merged[name] = _adapted(directory, module, merged.get(name), pair, _scale(directory, settings, module, pair))
    return merged


def _open(directory):
    """Returns the tensors by name, without peft's prefix."""
    path = directory / WEIGHTS
    if not path.is_file():
        if (directory / _PICKLE).is_file():
            raise ValueError(f"{directory}: {_PICKLE} is not supported: a pickle can run code. Expected {WEIGHTS}")
        raise FileNotFoundError(f"{directory}: expected {WEIGHTS} next to {CONFIG}; found no such file")
    tensors = huggingface.read_file(path)
    if wrong := [name for name in tensors if not name.startswith(_PREFIX)]:
        raise ValueError(f"{path}: the names of peft's tensors begin with {_PREFIX}. Received: {wrong[0]}")
    return {name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items()}


def _scale(directory, settings, module, pair):
    """Returns the factor of `B @ A`. The first pattern that matches the end of the module's name applies."""

    def setting(name, default):
        patterns = settings.get(f"{name}_pattern") or {}
        return next((value for key, value in patterns.items() if re.match(rf"(.*\.)?({key})$", module)), default)

    alpha = setting("alpha", settings.get("lora_alpha", 8))
    rank = setting("rank", settings.get("r", 8))
    found = pair["A"].shape[0] if "A" in pair else rank
    if found != rank:
        raise ValueError(f"{directory / CONFIG} gives {module} the rank {rank}, but its lora_A has {found} rows")
    return alpha / (math.sqrt(rank) if settings.get("use_rslora") else rank)


def _adapted(directory, module, base, pair, scale):
    """Returns the `Tensor` of a kernel, `base + scale * B @ A`."""
    if base is None:
        raise ValueError(f"{directory / WEIGHTS} adapts {module}, which the base model does not have")
    shapes = {name: tensor.shape for name, tensor in pair.items()}
    rank = shapes.get("A", (0,))[0]
    if shapes != {"A": (rank, *base.shape[1:]), "B": (*base.shape[:1], rank)}:
        raise ValueError(
            f"{directory / WEIGHTS}: lora_A and lora_B of {module} must fit a kernel {tuple(base.shape)} of the base "
            f"model, (out, in). Received: {shapes}"
        )

    def read():
        kernel, a, b = (np.asarray(tensor.read()).astype("float32") for tensor in (base, pair["A"], pair["B"]))
        return kernel + scale * (b @ a)

    return dataclasses.replace(base, read=read)


def check_base(base, format):
    """Raises if `base` is missing, not a model that peft could adapt, or given without need; returns it as to store."""
    if format != "peft":
        if base is not None:
            raise ValueError(f"`base` is only for format='peft'. Received: base={base!r}, format={format!r}")
        return None
    if base is None:
        raise ValueError("format='peft' needs `base`, the path or name of the adapted model. Received: base=None")
    path = locations.find(base)
    if path is not None and is_adapter(path):
        raise ValueError(
            f"`base` must be a whole model. Received: base={base!r}, an adapter; write the sum as a model with "
            "keras_bert.save(keras_bert.load(adapter).model(), ...) and train from there"
        )
    named = path is None or not pathlib.Path(base).expanduser().exists()  # On the hub, or on a shelf.
    return str(base) if named else str(path.resolve())


def write(model, description, directory, base):
    """Writes the adapters, the pooler and the head of a model from `enable_lora`."""
    if description.head not in _TASKS or description.bilstm:
        kind = "an encoder with a BiLSTM" if description.bilstm else f"head={description.head!r}"
        raise ValueError(f"format='peft' is for the heads {', '.join(_TASKS)}. Received: a model with {kind}")
    task, modules = _TASKS[description.head]
    rank, alpha = _rank_and_alpha(model, description)
    tensors, targets = {}, {}
    for slot in slots(description):
        name = slot.name.removesuffix(".weight")
        prefix = _PREFIX + ("" if description.head == "encoder" or slot.name.startswith(huggingface.HEADS) else "bert.")
        if slot.layer is not None:
            a, b = (np.asarray(getattr(slot.layer, f"lora_kernel_{part}"), "float32") for part in "ab")
            b = np.split(b, slot.parts, axis=1)[slot.part]
            tensors |= {f"{prefix}{name}.lora_{part}.weight": value.T.copy() for part, value in (("A", a), ("B", b))}
            targets[re.sub(r"^encoder\.layer\.\d+\.(attention\.self\.)?", "", name)] = None
        elif not slot.name.startswith(_ENCODER):
            tensors[prefix + slot.name] = slot.value()
    settings = {
        "peft_type": "LORA",
        "task_type": task,
        "base_model_name_or_path": base,
        "revision": None,
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": list(targets),
        "modules_to_save": modules,
        "bias": "none",
        "lora_dropout": 0.0,
        "fan_in_fan_out": False,
        "init_lora_weights": True,
        "use_rslora": False,
        "use_dora": False,
        "rank_pattern": {},
        "alpha_pattern": {},
        "inference_mode": True,
    }
    write_json(directory / CONFIG, settings)
    safetensors.numpy.save_file(tensors, directory / WEIGHTS, metadata={"format": "pt"})
    shutil.copymode(directory / CONFIG, directory / WEIGHTS)  # safetensors makes it readable only by its owner.


def _rank_and_alpha(model, description):
    """Returns rank and alpha of the adapters; raises for a model whose changes do not fit in the format."""
    attention = [layer.attention for name, layer in description.layers.items() if name.startswith("block_")]
    wanted = [layer for each in attention for layer in (each.query_key_value, each.output_dense)]
    found = {(layer.lora_rank, layer.lora_alpha) for layer in wanted}
    if {id(layer) for layer in lora_layers(model)} != {id(layer) for layer in wanted} or len(found) > 1:
        raise ValueError(
            "format='peft' is for models that enable_lora adapted. Received: another choice of adapted layers"
            if lora_layers(model)
            else "format='peft' is for models that enable_lora adapted. Received: a model without adapters"
        )
    held = {id(weight) for layer in wanted for weight in layer.trainable_weights}
    held |= {id(slot.variable) for slot in slots(description) if not slot.name.startswith(_ENCODER)}
    if others := [weight.path for weight in model.trainable_weights if id(weight) not in held]:
        raise ValueError(
            f"format='peft' has only place for adapters, pooler and head. Received: a model with {len(others)} other "
            f"weights to train, such as {others[0]!r}; freeze them, see enable_lora"
        )
    return found.pop()
