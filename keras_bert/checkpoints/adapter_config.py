"""`adapter_config.json`: the settings of an adapter in peft's layout, and the modules that they select."""

import re

CONFIG = "adapter_config.json"
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


def _is_names(value):
    return value is None or (isinstance(value, list) and all(isinstance(each, str) for each in value))


def _is_layers(value):
    return value is None or isinstance(value, int) or (isinstance(value, list) and all(type(n) is int for n in value))


def _is_rank(value):
    return isinstance(value, int) and value > 0


def _is_number(value):
    return isinstance(value, int | float)


def _is_pattern(value):
    try:
        return isinstance(value, str) and re.compile(value) is not None
    except re.error:
        return False


def _is_patterns(value, is_valid):
    """Returns whether a value is an object of regular expressions and valid values."""
    return value is None or (
        isinstance(value, dict) and all(_is_pattern(key) and is_valid(each) for key, each in value.items())
    )


_PATTERNS = "an object of regular expressions and"
# The types of settings: their names, what is expected, and a function that checks a value.
_VALUES = (
    (["base_model_name_or_path"], "a path or name", lambda value: value is None or isinstance(value, str)),
    (["r"], "a positive integer", _is_rank),
    (["lora_alpha"], "a number", _is_number),
    (["rank_pattern"], f"{_PATTERNS} positive integers", lambda value: _is_patterns(value, _is_rank)),
    (["alpha_pattern"], f"{_PATTERNS} numbers", lambda value: _is_patterns(value, _is_number)),
    (["modules_to_save"], "a list of names", _is_names),
    (["layers_to_transform"], "a number or a list of numbers", _is_layers),
    (
        ["target_modules", "exclude_modules", "layers_pattern"],
        "a regular expression or a list of names",
        lambda value: _is_names(value) or _is_pattern(value),
    ),
)


def read(folder):
    """Reads `adapter_config.json`; raises for settings that are not supported."""
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
    for names, expected, is_valid in _VALUES:
        for name in names:
            if name in settings and not is_valid(settings[name]):
                raise ValueError(f"{path}: `{name}` must be {expected}. Received: {name}={settings[name]!r:.200}")
    return settings


def targets(settings, num_layers, prefix):
    """Returns peft's names, with a prefix, of the linear modules in the encoder's layers that the settings adapt."""
    return [
        name
        for name in (f"{prefix}encoder.layer.{index}.{linear}" for index in range(num_layers) for linear in _LINEAR)
        if _matches(settings.get("target_modules"), name)
        and not _matches(settings.get("exclude_modules"), name)
        and not saves(settings, name)
        and _is_transformed(settings, name)
    ]


def _matches(wanted, name):
    """Returns whether a module is one of `target_modules`: a regular expression, or a list of the ends of names."""
    if isinstance(wanted, str):
        return wanted == "all-linear" or re.fullmatch(wanted, name) is not None
    return any(f".{name}".endswith(f".{each}") for each in wanted or ())


def saves(settings, name):
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
