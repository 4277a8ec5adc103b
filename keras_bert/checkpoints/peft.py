"""peft's format of LoRA adapters: `adapter_config.json` and `adapter_model.safetensors`, without the base model.

Query, key and value of an attention have a `lora_A` and a `lora_B` each: the shared `A` of this package is written
three times, and its `B` split.
"""

import dataclasses
import math
import pathlib
import re

import numpy as np

from keras_bert.checkpoints import huggingface, tokenizer_files
from keras_bert.checkpoints.folder import Folder, find
from keras_bert.checkpoints.model_types import BERT, MODEL_TYPES
from keras_bert.checkpoints.tensors import POOLER_TENSORS, Checkpoint, is_of_head, listing, slots
from keras_bert.checkpoints.weight_files import read_tensors, write_file
from keras_bert.files import write_json
from keras_bert.heads.registry import HEADS, NO_HEAD, head_named
from keras_bert.metadata import Metadata
from keras_bert.models.tuning import lora_layers

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_TORCH = "adapter_model.bin"
_PREFIX = "base_model.model."
_ENCODER = ("embeddings.", "encoder.")
_TIED = _TABLE, _DECODER = "embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
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
_LINEAR = [
    *(f"attention.self.{role}" for role in ("query", "key", "value")),
    *("attention.output.dense", "intermediate.dense", "output.dense"),
]


def _is_list(value, kind):
    return isinstance(value, list) and all(type(each) is kind for each in value)


def _is_rank(value):
    return isinstance(value, int) and value > 0


def _is_number(value):
    return isinstance(value, int | float)


def _is_pattern(value):
    try:
        return isinstance(value, str) and re.compile(value) is not None
    except re.error:
        return False


def _is_selection(value):
    return _is_pattern(value) or _is_list(value, str)


def _by_pattern(is_valid):
    """Returns a function that tells whether a value is an object of regular expressions and valid values."""
    return lambda values: (
        isinstance(values, dict) and all(_is_pattern(key) and is_valid(value) for key, value in values.items())
    )


_SELECTION = "a regular expression or a list of names", _is_selection
# What is expected of a setting, unless it is null, and a function that checks a value.
_VALUES = {
    "base_model_name_or_path": ("a path or name", lambda value: isinstance(value, str)),
    "r": ("a positive integer", _is_rank),
    "lora_alpha": ("a number", _is_number),
    "rank_pattern": ("an object of regular expressions and positive integers", _by_pattern(_is_rank)),
    "alpha_pattern": ("an object of regular expressions and numbers", _by_pattern(_is_number)),
    "modules_to_save": ("a list of names", lambda value: _is_list(value, str)),
    "layers_to_transform": (
        "a number or a list of numbers",
        lambda value: isinstance(value, int) or _is_list(value, int),
    ),
    **dict.fromkeys(["target_modules", "exclude_modules", "layers_pattern"], _SELECTION),
}
_NEEDED = ("r", "lora_alpha")  # Not null, if they are there.


def fits(folder):
    """Returns whether a folder contains an adapter."""
    return folder.has(CONFIG)


def read(folder, options):
    """Opens an adapter, merged into the model that it was trained on."""
    settings = _read_settings(folder)
    checkpoint = _merged(folder, settings, _open_base(folder, settings, options), options.head)
    return tokenizer_files.with_tokenizer(checkpoint, folder, options.tokenizer, for_transformers=not folder.is_ours)


def _read_settings(folder):
    """Returns `adapter_config.json`; raises for settings that are not supported."""
    path, settings = folder / CONFIG, folder.json(CONFIG)
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
    for name, (expected, is_valid) in _VALUES.items():
        value = settings.get(name)
        if name in settings and not is_valid(value) and (value is not None or name in _NEEDED):
            raise ValueError(f"{path}: `{name}` must be {expected}. Received: {name}={value!r:.200}")
    return settings


def _open_base(folder, settings, options):
    """Opens the base model: the one in the settings may be in the adapter's folder."""
    name = options.base or settings.get("base_model_name_or_path")
    if not name:
        raise ValueError(f"{folder / CONFIG} does not name a base model. Pass it: load(..., base=path_or_name)")
    inner = folder / name
    place = inner if options.base is None and inner.is_dir() else name
    try:
        path = find(place)
        if path is not None and path.resolve() == folder.path.resolve():
            raise ValueError(f"{name} is the adapter itself")
        return options.open(place, None if path else settings.get("revision"), options._replace(base=None))
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{folder}: its base model cannot be opened; load(..., base=) takes another: {error}"
        ) from error


def _merged(folder, settings, base, head):
    """Returns the adapter, merged into the `Checkpoint` of its base model."""
    metadata = _metadata(folder, settings, base)
    metadata = metadata.replace(head=head or metadata.head)
    row = head_named(metadata.head or NO_HEAD)
    layout = _layout(base.metadata.model_type)
    whole, pairs = _parts(folder, layout)
    tensors = {**base.tensors, **whole}
    for module, pair in pairs.items():
        name = layout.our_name(f"{module}.weight")
        tensors[name] = _adapted(folder, settings, module, tensors.get(name), pair)
    _check_complete(folder, settings, base, row, whole, pairs, layout)
    if head != NO_HEAD:  # That argument omits the head.
        _check_unused(folder, row, whole)
    if "masked" in row.reads and any(name in whole and _saves(settings, layout.own_name(name, row)) for name in _TIED):
        # Modules that peft trains whole are copies, which are not tied.
        tensors.setdefault(_DECODER, base.tensors[_TABLE])
        metadata = metadata.replace(tied=False)
    return Checkpoint(str(folder), base.config, tensors, metadata)


def _layout(model_type):
    """Returns the `ModelType` whose names of tensors the adapters of a model type have."""
    return MODEL_TYPES.get(model_type, BERT)


def _metadata(folder, settings, base):
    """Returns the metadata of an adapter: that of its `config.json`, or else of its base model and its task."""
    kept = ["vocabulary", "lowercase", "tied"]
    if folder.has(huggingface.CONFIG):
        config, metadata = huggingface.read_config(folder)
        _check_config(folder, config, base)
    else:
        task = settings.get("task_type")
        heads = (row.name for row in HEADS if row.peft and row.peft == task and row.tensors)
        metadata = Metadata(head=next(heads, base.metadata.head))
        if metadata.head == base.metadata.head:
            return base.metadata
        kept += ["causal", "positions", "model_type", "keep_special_tokens"]
    return metadata.replace(**{name: getattr(base.metadata, name) for name in kept})


def _check_config(folder, config, base):
    """Raises if the adapter's `config.json` has other sizes than the base model."""
    sizes = [field.name for field in dataclasses.fields(config) if field.type is int]
    if wrong := [name for name in sizes if getattr(config, name) != getattr(base.config, name)]:
        own, others = (", ".join(f"{name}={getattr(of, name)}" for name in wrong) for of in (config, base.config))
        raise ValueError(
            f"{folder / huggingface.CONFIG} has {own}, but the base model {base.name} has {others}. Expected the "
            "base model that was adapted: load(..., base=path_or_name)"
        )


def _parts(folder, layout):
    """Returns the tensors that replace others by our names, and the pairs `A` and `B` by peft's names of modules."""
    whole, pairs = {}, {}
    for stored, tensor in read_tensors(folder.path, (WEIGHTS, _TORCH)).items():
        if not stored.startswith(_PREFIX):
            raise ValueError(f"{folder}: the names of peft's tensors begin with {_PREFIX}. Received: {stored}")
        name = stored.removeprefix(_PREFIX)
        module, is_pair, part = name.rpartition(".lora_")
        if ".original_module." in name:
            continue  # With bias="all", peft also writes the biases of the modules that others replace.
        if not is_pair:
            for inserted in (".base_layer.", ".modules_to_save.default.", ".modules_to_save."):
                name = name.replace(inserted, ".")
            whole[layout.our_name(huggingface.our_name(name))] = tensor
        elif part in ("A.weight", "B.weight"):
            pairs.setdefault(module, {})[part[0]] = tensor
        else:
            raise ValueError(f"{folder / WEIGHTS}: expected lora_A and lora_B. Received: {tensor.name}")
    if (copy := "cls.predictions.decoder.bias") in whole:
        whole["cls.predictions.bias"] = whole.pop(copy)  # The decoder's is the one that transformers adds.
    return whole, pairs


def _check_complete(folder, settings, base, head, whole, pairs, layout):
    """Raises if the adapter lacks tensors that its settings specify."""
    names = [name for name in base.tensors if name.startswith(_ENCODER) and name.endswith((".weight", ".bias"))]
    if "masked" in head.reads:
        names += [name for name in base.tensors if name.startswith("cls.")]
    elif head.peft is not None:
        dense = [tensor for path, tensor in head.tensors.items() if "." not in path]
        names += [f"{tensor}.{part}" for tensor in dense for part in ("weight", "bias")]
    names += POOLER_TENSORS if head.peft is not None and "pooled" in head.reads else ()
    targets = _targets(settings, _linear_modules(base.config.num_hidden_layers, pairs, layout))
    missing = [f"{module}.lora_A.weight" for module in targets if module not in pairs]
    left_out = [layout.own_name(name, head) for name in names if name not in whole]
    missing += sorted(name for name in left_out if _saves(settings, name))
    if missing:
        raise ValueError(
            f"{folder / WEIGHTS} lacks {len(missing)} tensor(s) that `target_modules` and `modules_to_save` of "
            f"{CONFIG} specify for head={head.name!r}: {listing(missing)}. Expected a complete file, or the head of "
            "the adapter in load(..., head=)"
        )


def _check_unused(folder, head, whole):
    """Raises if the adapter has tensors of another head."""
    own = "cls." if "masked" in head.reads else () if head.peft is None else tuple(head.tensors.values())
    if unused := sorted(name for name in whole if is_of_head(name) and not name.startswith(own)):
        raise ValueError(
            f"{folder / WEIGHTS} has {len(unused)} tensor(s) that a model with head={head.name!r} does not have: "
            f"{listing(unused)}. Pass the head of the adapter, load(..., head=)"
        )


def _adapted(folder, settings, module, base, pair):
    """Returns the `Tensor` of a kernel, `base + scale * B @ A`."""

    def setting(name, default):  # The first pattern that matches the end of the module's name applies.
        patterns = settings.get(f"{name}_pattern") or {}
        return next((value for key, value in patterns.items() if re.match(rf"(.*\.)?({key})$", module)), default)

    rank, alpha = setting("rank", settings.get("r", 8)), setting("alpha", settings.get("lora_alpha", 8))
    scale = alpha / (math.sqrt(rank) if settings.get("use_rslora") else rank)
    shapes = {name: tensor.shape for name, tensor in pair.items()}
    found = shapes.get("A", (rank,))[0]
    if found != rank:
        raise ValueError(f"{folder / CONFIG} gives {module} the rank {rank}, but its lora_A has {found} rows")
    if base is None:
        raise ValueError(f"{folder / WEIGHTS} adapts {module}, which the base model does not have")
    if shapes != {"A": (rank, *base.shape[1:]), "B": (*base.shape[:1], rank)}:
        raise ValueError(
            f"{folder / WEIGHTS}: lora_A and lora_B of {module} must fit a kernel {tuple(base.shape)} of the base "
            f"model, (out, in). Received: {shapes}"
        )

    def read():
        kernel, a, b = (np.asarray(tensor.read()).astype("float32") for tensor in (base, pair["A"], pair["B"]))
        return kernel + scale * (b @ a)

    return dataclasses.replace(base, read=read)


def _linear_modules(num_layers, pairs, layout):
    """Returns peft's names of the linear modules in the encoder's layers, with the prefix of those in the file."""
    names = []
    for index in range(num_layers):
        for linear in _LINEAR:
            own = layout.own_name(f"encoder.layer.{index}.{linear}.weight", head_named(NO_HEAD))
            names.append(own.removesuffix(".weight"))
    if any(name in pairs for name in names):  # The model is an encoder alone.
        return names
    return [layout.prefix + name for name in names]


def _targets(settings, modules):
    """Returns those modules that the settings adapt."""
    return [
        name
        for name in modules
        if _matches(settings.get("target_modules"), name)
        and not _matches(settings.get("exclude_modules"), name)
        and not _saves(settings, name)
        and _is_transformed(settings, name)
    ]


def _matches(wanted, name):
    """Returns whether a module is one of `target_modules`: a regular expression, or a list of the ends of names."""
    if isinstance(wanted, str):
        return wanted == "all-linear" or re.fullmatch(wanted, name) is not None
    return any(f".{name}".endswith(f".{each}") for each in wanted or ())


def _saves(settings, name):
    """Returns whether a module or tensor is one of `modules_to_save`, or in one of them."""
    return any(f".{module}." in f".{name}." for module in settings.get("modules_to_save") or ())


def _is_transformed(settings, name):
    """Returns whether `layers_to_transform` has the layer of a module."""
    layers, patterns = settings.get("layers_to_transform"), settings.get("layers_pattern") or "[^.]*"
    if layers in (None, []):
        return True
    patterns = [patterns] if isinstance(patterns, str) else patterns
    numbers = [int(found[1]) for each in patterns if (found := re.match(rf".*\.{each}\.(\d+)\.", name))]
    return numbers[:1] == [layers] or (isinstance(layers, list) and numbers != [] and numbers[0] in layers)


def check_base(base, format):
    """Raises if `base` is missing, not a model that peft could adapt, or given without need; returns it as to store."""
    if format != "peft":
        if base is not None:
            raise ValueError(f"`base` is only for format='peft'. Received: base={base!r}, format={format!r}")
        return None
    if base is None:
        raise ValueError("format='peft' needs `base`, the path or name of the adapted model. Received: base=None")
    path = find(base)
    if path is not None and fits(Folder(path)):
        raise ValueError(
            f"`base` must be a whole model. Received: base={base!r}, an adapter; write the sum as a model with "
            "keras_bert.save(keras_bert.load(adapter).model(), ...) and train from there"
        )
    named = path is None or not pathlib.Path(base).expanduser().exists()  # On the hub, or on a shelf.
    return str(base) if named else str(path.resolve())


def has_place_for(head):
    """Returns whether adapters of models with a head, given its name, are saved in this format."""
    return head_named(head).peft is not None


def write(model, description, directory, base, model_type):
    """Writes the adapters, the pooler and the head of a model from `enable_lora`, with the names of a model type."""
    head = head_named(description.head)
    if not has_place_for(head.name):
        known = ", ".join(row.name for row in HEADS if row.peft is not None)
        raise ValueError(f"format='peft' is for the heads {known}. Received: a model with head={head.name!r}")
    layout = _layout(model_type)
    rank, alpha = _rank_and_alpha(model, description)
    tensors, targets, modules = {}, {}, {}
    for slot in slots(description):
        own = layout.own_name(slot.name, head)
        name = own.removesuffix(".weight")
        if slot.layer is not None:
            a, b = (np.asarray(getattr(slot.layer, f"lora_kernel_{part}"), "float32") for part in "ab")
            b = np.split(b, slot.parts, axis=1)[slot.part]
            tensors |= {f"{_PREFIX}{name}.lora_{part}.weight": value.T.copy() for part, value in (("A", a), ("B", b))}
            targets[re.sub(r"^.*\.layer\.\d+\.(attention\.self\.)?", "", f".{name}")] = None
        elif not slot.name.startswith(_ENCODER):
            tensors[_PREFIX + own] = slot.value()
            modules[own.removeprefix(layout.prefix).partition(".")[0]] = None
    settings = {
        "peft_type": "LORA",
        "task_type": head.peft or None,
        "base_model_name_or_path": base,
        "revision": None,
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": list(targets),
        "modules_to_save": list(modules),
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
    write_file(tensors, directory / WEIGHTS, directory / CONFIG)


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
