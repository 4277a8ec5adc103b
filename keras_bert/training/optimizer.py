"""The optimizer of a BERT: which weights decay, and how fast each of them learns."""

from collections.abc import Callable
from typing import Literal

import keras

from keras_bert.training.adamw import LAMB, AdamW
from keras_bert.training.schedule import FunctionSchedule, LinearSchedule

_UNDECAYED = ("bias", "gamma", "beta")  # Layer attributes for biases and LayerNorm weights.
# Settings of an optimizer that `TrainStep` does not support, and the alternatives.
_UNSUPPORTED = {
    "use_ema": "Train with model.fit",
    "gradient_accumulation_steps": "Make the batches larger and set `micro_batches`",
    "loss_scale_factor": "Float16 losses are scaled automatically",
}


def create_optimizer(
    model: keras.Model,
    learning_rate: float | Callable,
    total_steps: int | None = None,
    *,
    warmup_steps: int = 0,
    weight_decay: float = 0.01,
    global_clipnorm: float | None = 1.0,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    bias_correction: bool = True,
    layer_decay: float | None = None,
    kind: Literal["adamw", "lamb"] = "adamw",
) -> keras.Optimizer:
    """Creates BERT's optimizer for one model and one run, for `Trainer` and, on any backend, for `model.compile`.

    Args:
        model: a built model. Its biases and LayerNorms are excluded from weight decay.
        learning_rate: float, peak learning rate, see `LinearSchedule`; or a schedule of Keras or a function of the
            step, which replaces warm-up and decay.
        total_steps: int, number of training steps, for a peak learning rate.
        warmup_steps: int, number of warm-up steps. Defaults to 0.
        weight_decay: float, decoupled weight decay, multiplied by the learning rate. Defaults to 0.01.
        global_clipnorm: float, maximum global norm of the gradients, or `None`. Defaults to 1.0.
        beta_1: float, decay rate of the first moment. Defaults to 0.9.
        beta_2: float, decay rate of the second moment. Defaults to 0.999.
        epsilon: float, added to the square root of the second moment. Defaults to 1e-6.
        bias_correction: bool, `False` reproduces Google's training step for step. Defaults to `True`.
        layer_decay: float, learning rate multiplier from each block to the one below it, such as 0.8: 1 for heads and
            pooler, 0.8 for the last block, lowest for the embeddings. Defaults to `None`, no layer-wise decay.
        kind: str, "adamw" or "lamb". Defaults to "adamw".

    Returns:
        An `AdamW` or a `LAMB`.

    Example:
        optimizer = create_optimizer(model, 3e-5, total_steps=1000, warmup_steps=100)
    """
    if kind not in ("adamw", "lamb"):
        raise ValueError(f"`kind` must be 'adamw' or 'lamb'. Received: kind={kind!r}")
    if layer_decay is not None and not 0 < layer_decay <= 1:
        raise ValueError(f"`layer_decay` must be above 0 and at most 1. Received: layer_decay={layer_decay}")
    if not callable(learning_rate):
        if total_steps is None:
            raise ValueError("`total_steps` is required for a peak `learning_rate`. Received: total_steps=None")
        schedule = LinearSchedule(learning_rate, total_steps, warmup_steps=warmup_steps)
    elif warmup_steps:
        raise ValueError(f"`warmup_steps` must be 0 if `learning_rate` is a schedule. Received: {warmup_steps=}")
    elif isinstance(learning_rate, keras.optimizers.schedules.LearningRateSchedule):
        schedule = learning_rate
    else:
        schedule = FunctionSchedule(learning_rate)
    options = {
        "weight_decay": weight_decay,
        "global_clipnorm": global_clipnorm,
        "beta_1": beta_1,
        "beta_2": beta_2,
        "epsilon": epsilon,
        "bias_correction": bias_correction,
        "undecayed": _undecayed_paths(model),
        "rates": None if layer_decay is None else _layer_rates(model, layer_decay),
    }
    if kind == "adamw":
        return AdamW(schedule, **options)
    return LAMB(schedule, fused=_fused_paths(model), **options)


def _undecayed_paths(model):
    """Returns the paths of the weights without weight decay: biases and LayerNorms."""
    undecayed = set()
    for layer in model._flatten_layers():
        for name in _UNDECAYED:
            undecayed.add(id(getattr(layer, name, None)))
    return [weight.path for weight in model.trainable_variables if id(weight) in undecayed]


def _fused_paths(model):
    """Returns the paths of the weights that combine query, key and value."""
    paths = []
    for layer in model._flatten_layers():
        if layer.name != "query_key_value":
            continue
        for weight in layer.trainable_variables:
            if weight.name != "lora_kernel_a":  # Of a LoRA adapter, all three share the first table.
                paths.append(weight.path)
    return paths


def check_optimizer(optimizer, model):
    """Raises an error for an optimizer or a setting that `TrainStep` does not support."""
    if not isinstance(optimizer, AdamW):
        raise ValueError(
            "`optimizer_fn` must return keras_bert's `AdamW` or `LAMB`, without a wrapper; see `create_optimizer`. "
            f"Other optimizers are for model.fit. Received: {type(optimizer).__module__}.{type(optimizer).__name__}"
        )
    for name, instead in _UNSUPPORTED.items():
        value = getattr(optimizer, name)
        if value:
            raise ValueError(
                f"`{name}` of the optimizer is not supported by `Trainer`. {instead}. Received: {name}={value!r}"
            )
    for weight in model.trainable_variables:
        if getattr(weight, "overwrite_with_gradient", False):
            raise ValueError(
                f"`Trainer` does not train models in float8; use model.fit. Received: a model with `{weight.path}`"
            )


def _layer_rates(model, decay):
    """Returns the learning rate multiplier of each weight, by path."""
    layers = []
    for layer in model.layers:
        if hasattr(layer, "layers"):
            layers.extend(layer.layers)
        else:
            layers.append(layer)
    blocks = [layer for layer in layers if hasattr(layer, "feed_forward")]
    if not blocks:
        raise ValueError("`layer_decay` needs a model with Transformer blocks. Received: a model without them")
    rates = {}
    for layer in layers[: layers.index(blocks[0])]:  # The embeddings.
        for weight in layer.trainable_variables:
            rates[weight.path] = decay ** (len(blocks) + 1)
    for depth, block in enumerate(reversed(blocks), 1):
        for weight in block.trainable_variables:
            rates[weight.path] = decay**depth
    return rates
