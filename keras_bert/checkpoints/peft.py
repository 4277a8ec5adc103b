"""peft's format of LoRA adapters: `adapter_config.json` and `adapter_model.safetensors`, without the base model.

Query, key and value of an attention have a `lora_A` and a `lora_B` each: the shared `A` of this package is written
three times, and its `B` split.
"""

import dataclasses
import math
import pathlib
import re
from collections.abc import Callable
from typing import NamedTuple

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

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_TORCH = "adapter_model.bin"
_PREFIX = "base_model.model."
_ENCODER = ("embeddings.", "encoder.")
_TABLE = "embeddings.word_embeddings.weight"
_DECODER = "cls.predictions.decoder.weight"
# Settings that are honoured, are visible in the tensors, or only matter in training. Any other one is refused.
_KNOWN = {
    "peft_type",
    "task_type",
    "base_model_name_or_path",
    "revision",
    "r",
    "lora_alpha",
    "rank_pattern",
    "alpha_pattern",
    "use_rslora",
    "target_modules",
    "exclude_modules",
    "modules_to_save",
    "bias",
    "layers_to_transform",
    "layers_pattern",
    "init_lora_weights",
    "lora_dropout",
    "inference_mode",
    "auto_mapping",
    "peft_version",
    "megatron_core",
    "runtime_config",
    "qalora_group_size",
    "loftq_config",
    "eva_config",
    "corda_config",
    "lora_ga_config",
}
# Other initializations change the base model's weights.
_INITIALIZATIONS = (True, False, None, "gaussian", "orthogonal")
# The linear modules of a layer of BERT's encoder.
_LINEAR = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


def _is_list(value, element_type):
    return isinstance(value, list) and all(type(element) is element_type for element in value)


def _is_rank(value):
    return isinstance(value, int) and value > 0


def _is_number(value):
    return isinstance(value, int | float)


def _is_string(value):
    return isinstance(value, str)


def _is_names(value):
    return _is_list(value, str)


def _is_layers(value):
    return isinstance(value, int) or _is_list(value, int)


def _is_pattern(value):
    if not isinstance(value, str):
        return False
    try:
        re.compile(value)
    except re.error:
        return False
    return True


def _is_selection(value):
    return _is_pattern(value) or _is_names(value)


def _is_by_pattern(values, is_valid):
    """Returns whether a value is an object of regular expressions and valid values."""
    if not isinstance(values, dict):
        return False
    return all(_is_pattern(key) and is_valid(value) for key, value in values.items())


def _is_ranks(values):
    return _is_by_pattern(values, _is_rank)


def _is_numbers(values):
    return _is_by_pattern(values, _is_number)


class _Expected(NamedTuple):
    """What is expected of a setting, and a function that tells whether a value is that."""

    text: str
    is_valid: Callable


_SELECTION = _Expected("a regular expression or a list of names", _is_selection)
_VALUES = {  # Of settings that are not null.
    "base_model_name_or_path": _Expected("a path or name", _is_string),
    "r": _Expected("a positive integer", _is_rank),
    "lora_alpha": _Expected("a number", _is_number),
    "rank_pattern": _Expected("an object of regular expressions and positive integers", _is_ranks),
    "alpha_pattern": _Expected("an object of regular expressions and numbers", _is_numbers),
    "modules_to_save": _Expected("a list of names", _is_names),
    "layers_to_transform": _Expected("a number or a list of numbers", _is_layers),
    "target_modules": _SELECTION,
    "exclude_modules": _SELECTION,
    "layers_pattern": _SELECTION,
}
_NEEDED = ("r", "lora_alpha")  # Not null, if they are there.


def fits(folder):
    """Returns whether a folder contains an adapter."""
    return folder.has(CONFIG)


def read(folder, options):
    """Opens an adapter, merged into the model that it was trained on."""
    settings = AdapterSettings(_checked_config(folder))
    base = _open_base(folder, settings.values, options)
    checkpoint = _merged(folder, settings, base, options.head)
    return tokenizer_files.with_tokenizer(
        checkpoint,
        folder,
        options.tokenizer,
        for_transformers=not folder.is_ours,
    )


def _checked_config(folder):
    """Returns `adapter_config.json`; raises for settings that are not supported."""
    path = folder / CONFIG
    settings = folder.json(CONFIG)
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
    for name, expected in _VALUES.items():
        if name not in settings:
            continue
        value = settings[name]
        if value is None and name not in _NEEDED:
            continue
        if not expected.is_valid(value):
            raise ValueError(f"{path}: `{name}` must be {expected.text}. Received: {name}={value!r:.200}")
    return settings


def _open_base(folder, settings, options):
    """Opens the base model: the one in the settings may be in the adapter's folder."""
    name = options.base or settings.get("base_model_name_or_path")
    if not name:
        raise ValueError(f"{folder / CONFIG} does not name a base model. Pass it: load(..., base=path_or_name)")
    place = name
    if options.base is None and (folder / name).is_dir():
        place = folder / name
    try:
        path = find(place)
        if path is not None and path.resolve() == folder.path.resolve():
            raise ValueError(f"{name} is the adapter itself")
        revision = settings.get("revision")
        if path:  # A revision is for names on the hub.
            revision = None
        return options.open(place, revision, options._replace(base=None))
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{folder}: its base model cannot be opened; load(..., base=) takes another: {error}"
        ) from error


@dataclasses.dataclass(frozen=True)
class AdapterSettings:
    """What `adapter_config.json` says about modules, by peft's names of them."""

    values: dict  # Its content, after the checks.

    def rank(self, module):
        """Returns the rank of the adapter of a module."""
        return self._of_module("rank_pattern", module, self.values.get("r", 8))

    def scale(self, module):
        """Returns the number that `B @ A` is multiplied by."""
        rank = self.rank(module)
        alpha = self._of_module("alpha_pattern", module, self.values.get("lora_alpha", 8))
        if self.values.get("use_rslora"):
            return alpha / math.sqrt(rank)
        return alpha / rank

    def adapts(self, module):
        """Returns whether a module of the encoder has an adapter."""
        return (
            self._selects("target_modules", module)
            and not self._selects("exclude_modules", module)
            and not self.saves(module)
            and self._transforms_layer_of(module)
        )

    def saves(self, name):
        """Returns whether a module or tensor is one of `modules_to_save`, or in one of them."""
        modules = self.values.get("modules_to_save") or ()
        return any(f".{module}." in f".{name}." for module in modules)

    def _of_module(self, patterns_name, module, default):
        """Returns the value of the first pattern that matches the end of the name of a module."""
        patterns = self.values.get(patterns_name) or {}
        for pattern, value in patterns.items():
            if re.match(rf"(.*\.)?({pattern})$", module):
                return value
        return default

    def _selects(self, setting, module):
        """Returns whether a module is one of a setting: a regular expression, or a list of the ends of names."""
        wanted = self.values.get(setting)
        if isinstance(wanted, str):
            return wanted == "all-linear" or re.fullmatch(wanted, module) is not None
        return any(f".{module}".endswith(f".{ending}") for ending in wanted or ())

    def _transforms_layer_of(self, module):
        """Returns whether `layers_to_transform` has the layer of a module."""
        layers = self.values.get("layers_to_transform")
        if layers in (None, []):
            return True
        if isinstance(layers, int):
            layers = [layers]
        patterns = self.values.get("layers_pattern") or "[^.]*"
        if isinstance(patterns, str):
            patterns = [patterns]
        for pattern in patterns:
            match = re.match(rf".*\.{pattern}\.(\d+)\.", module)
            if match:
                return int(match[1]) in layers
        return False


@dataclasses.dataclass(frozen=True)
class AdapterTensors:
    """The tensors of an adapter."""

    whole: dict  # Those that replace others, by our names.
    pairs: dict  # `A` and `B`, by peft's names of modules.


def _merged(folder, settings, base, head):
    """Returns the adapter, merged into the `Checkpoint` of its base model."""
    metadata = _metadata(folder, settings.values, base)
    metadata = metadata.replace(head=head or metadata.head)
    head_row = head_named(metadata.head or NO_HEAD)
    layout = _layout(base.metadata.model_type)
    adapter = _read_adapter_tensors(folder, layout)

    tensors = base.tensors | adapter.whole
    for module, pair in adapter.pairs.items():
        name = layout.our_name(f"{module}.weight")
        tensors[name] = _adapted(folder, settings, module, tensors.get(name), pair)
    _check_complete(folder, settings, base, head_row, adapter, layout)
    if head != NO_HEAD:  # That argument omits the head.
        _check_unused(folder, head_row, adapter.whole)
    if "masked" in head_row.reads and _trains_tied_table(settings, adapter.whole, head_row, layout):
        # Modules that peft trains whole are copies, which are not tied.
        tensors.setdefault(_DECODER, base.tensors[_TABLE])
        metadata = metadata.replace(tied=False)
    return Checkpoint(str(folder), base.config, tensors, metadata)


def _trains_tied_table(settings, whole, head, layout):
    """Returns whether an adapter has the token table or the decoder as a module that was trained whole."""
    tied = [layout.own_name(name, head) for name in (_TABLE, _DECODER) if name in whole]
    return any(settings.saves(name) for name in tied)


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
        metadata = Metadata(head=_head_of_task(settings.get("task_type")) or base.metadata.head)
        if metadata.head == base.metadata.head:
            return base.metadata
        kept += ["causal", "positions", "model_type", "keep_special_tokens"]
    return metadata.replace(**{name: getattr(base.metadata, name) for name in kept})


def _head_of_task(task):
    """Returns the name of the first head of a `task_type` of peft that has weights, or `None`."""
    for head in HEADS:
        if head.peft and head.peft == task and head.tensors:
            return head.name
    return None


def _check_config(folder, config, base):
    """Raises if the adapter's `config.json` has other sizes than the base model."""
    own = []
    others = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        expected = getattr(base.config, field.name)
        if field.type is int and value != expected:
            own.append(f"{field.name}={value}")
            others.append(f"{field.name}={expected}")
    if own:
        raise ValueError(
            f"{folder / huggingface.CONFIG} has {', '.join(own)}, but the base model {base.name} has "
            f"{', '.join(others)}. Expected the base model that was adapted: load(..., base=path_or_name)"
        )


def _read_adapter_tensors(folder, layout):
    """Returns the `AdapterTensors` of a folder."""
    whole = {}
    pairs = {}
    for stored, tensor in read_tensors(folder.path, (WEIGHTS, _TORCH)).items():
        if not stored.startswith(_PREFIX):
            raise ValueError(f"{folder}: the names of peft's tensors begin with {_PREFIX}. Received: {stored}")
        name = stored.removeprefix(_PREFIX)
        if ".original_module." in name:
            continue  # With bias="all", peft also writes the biases of the modules that others replace.
        module, is_of_pair, part = name.rpartition(".lora_")
        if not is_of_pair:
            whole[layout.our_name(_name_in_model(name))] = tensor
        elif part in ("A.weight", "B.weight"):
            pairs.setdefault(module, {})[part[0]] = tensor
        else:
            raise ValueError(f"{folder / WEIGHTS}: expected lora_A and lora_B. Received: {tensor.name}")
    copy = "cls.predictions.decoder.bias"
    if copy in whole:
        whole["cls.predictions.bias"] = whole.pop(copy)  # The decoder's is the one that transformers adds.
    return AdapterTensors(whole, pairs)


def _name_in_model(name):
    """Returns the name that a tensor has in the model of transformers, without peft's wrappers."""
    for wrapper in (".base_layer.", ".modules_to_save.default.", ".modules_to_save."):
        name = name.replace(wrapper, ".")
    return huggingface.our_name(name)


def _check_complete(folder, settings, base, head, adapter, layout):
    """Raises if the adapter lacks tensors that its settings specify."""
    missing = []
    for module in _linear_modules(base.config.num_hidden_layers, adapter.pairs, layout):
        if settings.adapts(module) and module not in adapter.pairs:
            missing.append(f"{module}.lora_A.weight")

    left_out = []
    for name in _replaceable_tensors(base, head):
        own = layout.own_name(name, head)
        if name not in adapter.whole and settings.saves(own):
            left_out.append(own)
    missing += sorted(left_out)
    if missing:
        raise ValueError(
            f"{folder / WEIGHTS} lacks {len(missing)} tensor(s) that `target_modules` and `modules_to_save` of "
            f"{CONFIG} specify for head={head.name!r}: {listing(missing)}. Expected a complete file, or the head of "
            "the adapter in load(..., head=)"
        )


def _replaceable_tensors(base, head):
    """Returns our names of the tensors of a model with a head which an adapter may have whole."""
    names = []
    for name in base.tensors:
        if name.startswith(_ENCODER) and name.endswith((".weight", ".bias")):
            names.append(name)
    if "masked" in head.reads:
        names += [name for name in base.tensors if name.startswith("cls.")]
    elif head.peft is not None:
        for path, tensor in head.tensors.items():
            if "." not in path:
                names += [f"{tensor}.weight", f"{tensor}.bias"]
    if head.peft is not None and "pooled" in head.reads:
        names += POOLER_TENSORS
    return names


def _check_unused(folder, head, whole):
    """Raises if the adapter has tensors of another head."""
    own = ()
    if "masked" in head.reads:
        own = ("cls.",)
    elif head.peft is not None:
        own = tuple(head.tensors.values())
    unused = sorted(name for name in whole if is_of_head(name) and not name.startswith(own))
    if unused:
        raise ValueError(
            f"{folder / WEIGHTS} has {len(unused)} tensor(s) that a model with head={head.name!r} does not have: "
            f"{listing(unused)}. Pass the head of the adapter, load(..., head=)"
        )


def _adapted(folder, settings, module, base, pair):
    """Returns the `Tensor` of a kernel, `base + scale * B @ A`; `base` is `None` for a module without one."""
    rank = settings.rank(module)
    shapes = {name: tensor.shape for name, tensor in pair.items()}
    if "A" in shapes and shapes["A"][0] != rank:
        raise ValueError(f"{folder / CONFIG} gives {module} the rank {rank}, but its lora_A has {shapes['A'][0]} rows")
    if base is None:
        raise ValueError(f"{folder / WEIGHTS} adapts {module}, which the base model does not have")
    if shapes != {"A": (rank, *base.shape[1:]), "B": (*base.shape[:1], rank)}:
        raise ValueError(
            f"{folder / WEIGHTS}: lora_A and lora_B of {module} must fit a kernel {tuple(base.shape)} of the base "
            f"model, (out, in). Received: {shapes}"
        )
    scale = settings.scale(module)

    def read_sum():
        kernel = np.asarray(base.read()).astype("float32")
        a = np.asarray(pair["A"].read()).astype("float32")
        b = np.asarray(pair["B"].read()).astype("float32")
        return kernel + scale * (b @ a)

    return dataclasses.replace(base, read=read_sum)


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


def check_base(base, format):
    """Returns the path or name of the base model as the adapter's settings store it; `None` in other formats.

    Raises if `base` is missing, given without need, a path that does not exist, or an adapter. The base is not opened:
    whether the adapter fits it shows when both are loaded. Fine-tuning saves with the model that it started from as
    `base`: what is refused here, `pipelines/common_flags.py` refuses before it trains.
    """
    if format != "peft":
        if base is not None:
            raise ValueError(f"`base` is only for format='peft'. Received: base={base!r}, format={format!r}")
        return None
    if base is None:
        raise ValueError("format='peft' needs `base`, the path or name of the adapted model. Received: base=None")
    path = find(base)  # Raises for a path that does not exist.
    if path is None:  # A name on the hub.
        return str(base)
    if fits(Folder(path)):
        raise ValueError(
            f"`base` must be a whole model. Received: base={base!r}, an adapter; write the sum as a model with "
            "keras_bert.save(keras_bert.load(adapter).model(), ...) and train from there"
        )
    is_path = pathlib.Path(base).expanduser().exists()
    if not is_path:  # A name on a shelf, which may be another folder on another machine.
        return str(base)
    return str(path.resolve())


def has_place_for(head):
    """Returns whether adapters of models with a head, given its name, are saved in this format."""
    return head_named(head).peft is not None


def write(model, description, directory, base, model_type):
    """Writes the adapters, the pooler and the head of a model from `enable_lora`, with the names of a model type."""
    head = head_named(description.head)
    if not has_place_for(head.name):
        known = ", ".join(row.name for row in HEADS if row.peft is not None)
        raise ValueError(f"format='peft' is for the heads {known}. Received: a model with head={head.name!r}")
    rank, alpha = _rank_and_alpha(model, description)
    trained = _trained_tensors(description, head, _layout(model_type))
    settings = {
        "peft_type": "LORA",
        "task_type": head.peft or None,
        "base_model_name_or_path": base,
        "revision": None,
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": trained.target_modules,
        "modules_to_save": trained.modules_to_save,
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
    write_file(trained.arrays, directory / WEIGHTS, directory / CONFIG)


@dataclasses.dataclass(frozen=True)
class TrainedTensors:
    """What the files of an adapter have of a model."""

    arrays: dict  # By peft's names.
    target_modules: list  # The modules with adapters, by the ends of their names, which all layers share.
    modules_to_save: list  # The modules that were trained whole.


def _trained_tensors(description, head, layout):
    """Returns the `TrainedTensors` of a model from `enable_lora`."""
    arrays = {}
    targets = []
    modules = []
    for slot in slots(description):
        own = layout.own_name(slot.name, head)
        if slot.layer is not None:
            name = own.removesuffix(".weight")
            # The columns of B are those of query, key and value; A is shared.
            a = np.asarray(slot.layer.lora_kernel_a, "float32")
            b = np.asarray(slot.layer.lora_kernel_b, "float32")
            b = np.split(b, slot.parts, axis=1)[slot.part]
            arrays[f"{_PREFIX}{name}.lora_A.weight"] = a.T.copy()
            arrays[f"{_PREFIX}{name}.lora_B.weight"] = b.T.copy()
            targets.append(re.sub(r"^.*\.layer\.\d+\.(attention\.self\.)?", "", f".{name}"))
        elif not slot.name.startswith(_ENCODER):
            arrays[_PREFIX + own] = slot.value()
            modules.append(own.removeprefix(layout.prefix).partition(".")[0])
    return TrainedTensors(arrays, list(dict.fromkeys(targets)), list(dict.fromkeys(modules)))


def _rank_and_alpha(model, description):
    """Returns rank and alpha of the adapters; raises for a model whose changes do not fit in the format."""
    expected = []
    for name, layer in description.layers.items():
        if name.startswith("block_"):
            expected += [layer.attention.query_key_value, layer.attention.output_dense]
    adapted = lora_layers(model)
    if not adapted:
        raise ValueError("format='peft' is for models that enable_lora adapted. Received: a model without adapters")
    ranks_and_alphas = {(layer.lora_rank, layer.lora_alpha) for layer in expected}
    has_others = {id(layer) for layer in adapted} != {id(layer) for layer in expected}
    if has_others or len(ranks_and_alphas) > 1:
        raise ValueError(
            "format='peft' is for models that enable_lora adapted. Received: another choice of adapted layers"
        )
    _check_trained(model, description, expected)
    return ranks_and_alphas.pop()


def _check_trained(model, description, adapted):
    """Raises if a model trains other weights than adapters, pooler and head."""
    written = set()
    for layer in adapted:
        written.update(id(weight) for weight in layer.trainable_weights)
    for slot in slots(description):
        if not slot.name.startswith(_ENCODER):
            written.add(id(slot.variable))
    others = [weight.path for weight in model.trainable_weights if id(weight) not in written]
    if others:
        raise ValueError(
            f"format='peft' has only place for adapters, pooler and head. Received: a model with {len(others)} other "
            f"weights to train, such as {others[0]!r}; freeze them, see enable_lora"
        )
