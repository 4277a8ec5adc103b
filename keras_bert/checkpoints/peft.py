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

from keras_bert.checkpoints import adapter_config, huggingface, locations, tokenizer_files
from keras_bert.checkpoints.adapter_config import CONFIG
from keras_bert.checkpoints.folder import Folder
from keras_bert.checkpoints.tensors import POOLER_TENSORS, Checkpoint, is_of_head, listing, slots
from keras_bert.checkpoints.weight_files import read_tensors
from keras_bert.files import write_json
from keras_bert.heads.registry import HEADS, NO_HEAD, head_named
from keras_bert.metadata import Metadata
from keras_bert.models.tuning import lora_layers

WEIGHTS = "adapter_model.safetensors"
_TORCH = "adapter_model.bin"
_PREFIX = "base_model.model."
_ENCODER = ("embeddings.", "encoder.")
_TIED = _TABLE, _DECODER = "embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"


def fits(folder):
    """Returns whether a folder contains an adapter."""
    return folder.has(CONFIG)


def read(folder, options):
    """Opens an adapter, merged into the model that it was trained on."""
    settings = adapter_config.read(folder)
    checkpoint = _merged(folder, settings, _open_base(folder, settings, options), options.head)
    checkpoint.metadata = tokenizer_files.read_chosen(
        options.tokenizer, folder, checkpoint.metadata, for_transformers=not folder.is_ours
    )
    return checkpoint


def _open_base(folder, settings, options):
    """Opens the base model: the one in the settings may be in the adapter's folder."""
    name = options.base or settings.get("base_model_name_or_path")
    if not name:
        raise ValueError(f"{folder / CONFIG} does not name a base model. Pass it: load(..., base=path_or_name)")
    inner = folder / name
    place = inner if options.base is None and inner.is_dir() else name
    try:
        path = locations.find(place)
        if path is not None and path.resolve() == folder.path.resolve():
            raise ValueError(f"{name} is the adapter itself")
        return options.open(place, None if path else settings.get("revision"), options._replace(base=None))
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{folder}: its base model cannot be opened; load(..., base=) takes another: {error}"
        ) from error


def _merged(folder, settings, base, head):
    """Returns the adapter, merged into the `Checkpoint` of its base model."""
    if folder.has(huggingface.CONFIG):
        config, metadata = huggingface.read_config(folder)
        _check_config(folder, config, base)
        kept = ("vocabulary", "lowercase", "tied")
        metadata = metadata.replace(**{name: getattr(base.metadata, name) for name in kept})
    else:
        task = settings.get("task_type")
        heads = (row.name for row in HEADS if row.peft and row.peft == task and row.tensors)
        metadata = _base_metadata(base.metadata, next(heads, base.metadata.head))
    metadata = metadata.replace(head=head or metadata.head)
    whole, pairs = _parts(folder)
    tensors = {**base.tensors, **whole}
    for module, pair in pairs.items():
        name = huggingface.our_name(f"{module}.weight")
        tensors[name] = _adapted(folder, module, tensors.get(name), pair, _scale(folder, settings, module, pair))
    _check_complete(folder, settings, base, metadata.head or NO_HEAD, whole, pairs)
    if head != NO_HEAD:  # That argument omits the head.
        _check_unused(folder, metadata.head or NO_HEAD, whole)
    if _is_masked(metadata.head) and any(name in whole and adapter_config.saves(settings, name) for name in _TIED):
        # Modules that peft trains whole are copies, which are not tied.
        tensors.setdefault(_DECODER, base.tensors[_TABLE])
        metadata = metadata.replace(tied=False)
    return Checkpoint(str(folder), base.config, tensors, metadata)


def _check_config(folder, config, base):
    """Raises if the adapter's `config.json` has other sizes than the base model."""
    sizes = [field.name for field in dataclasses.fields(config) if field.type is int]
    if wrong := [name for name in sizes if getattr(config, name) != getattr(base.config, name)]:
        own, others = (", ".join(f"{name}={getattr(of, name)}" for name in wrong) for of in (config, base.config))
        raise ValueError(
            f"{folder / huggingface.CONFIG} has {own}, but the base model {base.name} has {others}. Expected the "
            "base model that was adapted: load(..., base=path_or_name)"
        )


def _base_metadata(metadata, head):
    """Returns the metadata of an adapter that only has that of its base model."""
    if head == metadata.head:
        return metadata
    kept = ("vocabulary", "lowercase", "causal", "positions", "tied", "keep_special_tokens")
    return Metadata(head=head, **{name: getattr(metadata, name) for name in kept})


def _parts(folder):
    """Returns the tensors that replace others by our names, and the pairs `A` and `B` by peft's names of modules."""
    whole, pairs = {}, {}
    for name, tensor in _open(folder).items():
        module, found, part = name.rpartition(".lora_")
        if ".original_module." in name:
            continue  # With bias="all", peft also writes the biases of the modules that others replace.
        if not found:
            for inserted in (".base_layer.", ".modules_to_save.default.", ".modules_to_save."):
                name = name.replace(inserted, ".")
            whole[huggingface.our_name(name)] = tensor
        elif part in ("A.weight", "B.weight"):
            pairs.setdefault(module, {})[part[0]] = tensor
        else:
            raise ValueError(f"{folder / WEIGHTS}: expected lora_A and lora_B. Received: {tensor.name}")
    if (copy := "cls.predictions.decoder.bias") in whole:
        whole["cls.predictions.bias"] = whole.pop(copy)  # The decoder's is the one that transformers adds.
    return whole, pairs


def _check_complete(folder, settings, base, head, whole, pairs):
    """Raises if the adapter lacks tensors that its settings specify."""
    names = [name for name in base.tensors if name.startswith(_ENCODER) and name.endswith((".weight", ".bias"))]
    row = head_named(head)
    names += POOLER_TENSORS if row.peft is not None and "pooled" in row.reads else ()
    dense = [] if row.peft is None else [tensor for path, tensor in row.tensors.items() if "." not in path]
    own = [f"{tensor}.{part}" for tensor in dense for part in ("weight", "bias")]
    names += [name for name in base.tensors if name.startswith("cls.")] if _is_masked(head) else own
    prefix = "" if any(module.startswith("encoder.") for module in pairs) else "bert."
    targets = adapter_config.targets(settings, base.config.num_hidden_layers, prefix)
    missing = [f"{module}.lora_A.weight" for module in targets if module not in pairs]
    missing += sorted(name for name in names if name not in whole and adapter_config.saves(settings, f"bert.{name}"))
    if missing:
        raise ValueError(
            f"{folder / WEIGHTS} lacks {len(missing)} tensor(s) that `target_modules` and `modules_to_save` of "
            f"{CONFIG} specify for head={head!r}: {listing(missing)}. Expected a complete file, or the head of the "
            "adapter in load(..., head=)"
        )


def _own_tensors(head):
    """Returns the beginnings of the names of a head's tensors."""
    row = head_named(head)
    if _is_masked(head):
        return ("cls.",)
    return tuple(row.tensors.values()) if row.peft is not None else ()


def _is_masked(head):
    return head is not None and "masked" in head_named(head).reads


def _check_unused(folder, head, whole):
    """Raises if the adapter has tensors of another head."""
    ours = _own_tensors(head)
    if unused := sorted(name for name in whole if is_of_head(name) and not name.startswith(ours)):
        raise ValueError(
            f"{folder / WEIGHTS} has {len(unused)} tensor(s) that a model with head={head!r} does not have: "
            f"{listing(unused)}. Pass the head of the adapter, load(..., head=)"
        )


def _open(folder):
    """Returns the tensors by name, without peft's prefix."""
    tensors = read_tensors(folder.path, (WEIGHTS, _TORCH))
    if wrong := [name for name in tensors if not name.startswith(_PREFIX)]:
        raise ValueError(f"{folder}: the names of peft's tensors begin with {_PREFIX}. Received: {wrong[0]}")
    return {name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items()}


def _scale(folder, settings, module, pair):
    """Returns the factor of `B @ A`. The first pattern that matches the end of the module's name applies."""

    def setting(name, default):
        patterns = settings.get(f"{name}_pattern") or {}
        return next((value for key, value in patterns.items() if re.match(rf"(.*\.)?({key})$", module)), default)

    alpha = setting("alpha", settings.get("lora_alpha", 8))
    rank = setting("rank", settings.get("r", 8))
    found = pair["A"].shape[0] if "A" in pair else rank
    if found != rank:
        raise ValueError(f"{folder / CONFIG} gives {module} the rank {rank}, but its lora_A has {found} rows")
    return alpha / (math.sqrt(rank) if settings.get("use_rslora") else rank)


def _adapted(folder, module, base, pair, scale):
    """Returns the `Tensor` of a kernel, `base + scale * B @ A`."""
    if base is None:
        raise ValueError(f"{folder / WEIGHTS} adapts {module}, which the base model does not have")
    shapes = {name: tensor.shape for name, tensor in pair.items()}
    rank = shapes.get("A", (0,))[0]
    if shapes != {"A": (rank, *base.shape[1:]), "B": (*base.shape[:1], rank)}:
        raise ValueError(
            f"{folder / WEIGHTS}: lora_A and lora_B of {module} must fit a kernel {tuple(base.shape)} of the base "
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
    if path is not None and fits(Folder(path)):
        raise ValueError(
            f"`base` must be a whole model. Received: base={base!r}, an adapter; write the sum as a model with "
            "keras_bert.save(keras_bert.load(adapter).model(), ...) and train from there"
        )
    named = path is None or not pathlib.Path(base).expanduser().exists()  # On the hub, or on a shelf.
    return str(base) if named else str(path.resolve())


def write(model, description, directory, base):
    """Writes the adapters, the pooler and the head of a model from `enable_lora`."""
    head = head_named(description.head)
    if head.peft is None:
        known = ", ".join(row.name for row in HEADS if row.peft is not None)
        raise ValueError(f"format='peft' is for the heads {known}. Received: a model with head={head.name!r}")
    modules = [name.partition(".")[0] for name in head.tensors.values()] + ["pooler"] * ("pooled" in head.reads)
    rank, alpha = _rank_and_alpha(model, description)
    tensors, targets = {}, {}
    for slot in slots(description):
        name = slot.name.removesuffix(".weight")
        is_inner = head.has_prefix and not is_of_head(slot.name)
        prefix = _PREFIX + ("bert." if is_inner else "")
        if slot.layer is not None:
            a, b = (np.asarray(getattr(slot.layer, f"lora_kernel_{part}"), "float32") for part in "ab")
            b = np.split(b, slot.parts, axis=1)[slot.part]
            tensors |= {f"{prefix}{name}.lora_{part}.weight": value.T.copy() for part, value in (("A", a), ("B", b))}
            targets[re.sub(r"^encoder\.layer\.\d+\.(attention\.self\.)?", "", name)] = None
        elif not slot.name.startswith(_ENCODER):
            tensors[prefix + slot.name] = slot.value()
    settings = {
        "peft_type": "LORA",
        "task_type": head.peft or None,
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
