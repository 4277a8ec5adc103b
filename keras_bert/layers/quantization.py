"""Configs of layers, support for `model.quantize`, and the float tables of quantized and LoRA-adapted layers."""

import contextlib
import contextvars
import inspect

from keras import initializers, ops, quantizers

_MODES = ("int8", "int4")
_UNDRAWN = contextvars.ContextVar("undrawn", default=False)


@contextlib.contextmanager
def undrawn_weights():
    """Makes the kernels and token tables of layers that are built in the block zeros, for a checkpoint to fill.

    To draw BASE's random weights takes longer than to read it. The initializers are created all the same, with their
    seeds, so that layers built later get the same random weights as without this context.
    """
    token = _UNDRAWN.set(True)
    try:
        yield
    finally:
        _UNDRAWN.reset(token)


class Configured:
    """Mixin for layers whose config contains the arguments of `__init__`, each stored under its own name."""

    def get_config(self):
        kinds = [
            kind for kind in reversed(type(self).__mro__) if issubclass(kind, Configured) and "__init__" in vars(kind)
        ]
        names = [name for kind in kinds for name in inspect.signature(kind.__init__).parameters]
        arguments = {
            name: getattr(self, name) for name in names if name not in ("self", "kwargs") and hasattr(self, name)
        }
        return {**super().get_config(), **arguments}


def _check_mode(mode):
    """Raises for a mode that our layers do not support; Keras would silently skip the layers."""
    if mode not in _MODES:
        raise ValueError(
            f"`mode` must be one of {', '.join(_MODES)} for a model with layers of keras_bert. Received: mode={mode!r}"
        )


class Unquantized(Configured):
    """Mixin for layers that are not quantized; Keras would warn about each of them."""

    def quantize(self, mode=None, type_check=True, config=None):
        _check_mode(mode)


class Quantizable:
    """Mixin for subclasses of Keras layers with one table, `table_name`, with a scale per index of `scaled_axis`."""

    def add_weight(self, *args, initializer=None, **options):
        if _UNDRAWN.get() and isinstance(initializer, initializers.TruncatedNormal):
            initializer = "zeros"
        return super().add_weight(*args, initializer=initializer, **options)

    def quantize(self, mode=None, type_check=True, config=None):
        _check_mode(mode)
        super().quantize(mode, type_check=False, config=config)  # Keras' type check refuses subclasses.

    def float_table(self):
        """Returns the table as a float32 tensor, dequantized and including the LoRA update."""
        name = self.table_name
        table = getattr(self, f"_{name}")
        if self.quantization_mode is None:
            table = ops.cast(table.value, "float32")
        else:
            table = self._dequantized(table, getattr(self, f"{name}_scale"), getattr(self, f"{name}_zero", None))
        if self.lora_enabled:
            a, b = (ops.cast(part, "float32") for part in self._lora_parts())
            table = table + (self.lora_alpha / self.lora_rank) * ops.matmul(a, b)
        return table

    def merge_lora(self):
        """Adds the LoRA update to the table and removes it; the layer must not be quantized."""
        name = self.table_name
        table, parts = getattr(self, f"_{name}"), self._lora_parts()
        table.assign(self.float_table())
        parts[1].assign(ops.zeros_like(parts[1].value))  # Graphs that were traced before still add the update.
        self._tracker.unlock()
        for part in parts:
            self._untrack_variable(part)
        self._tracker.lock()
        self.lora_enabled, self.lora_rank, self.lora_alpha = False, None, None

    def save_own_variables(self, store):
        """Saves the sum of table and LoRA update, as Keras does, and the adapter, with its scale in `B`."""
        super().save_own_variables(store)
        if self.lora_enabled and self.quantization_mode is None:
            a, b = self._lora_parts()
            store["lora_a"], store["lora_b"] = a.value, b * (self.lora_alpha / self.lora_rank)

    def load_own_variables(self, store):
        """Loads the sum; with an adapter also its parts. Without them in the file, `A` stays random and `B` is zero."""
        names = store.keys()  # Keras' store cannot be iterated.
        values = {name: store[name] for name in names}
        parts = [values.pop(name) for name in ("lora_a", "lora_b") if name in values]
        before = ops.copy(self._lora_parts()[0]) if self.lora_enabled else None
        super().load_own_variables(values)
        if self.lora_enabled:
            a, b = self._lora_parts()
            a.assign(before)  # Keras makes both zero, which could not be trained.
            if parts and self.quantization_mode is None:
                a.assign(parts[0])
                b.assign(ops.cast(parts[1], "float32") / (self.lora_alpha / self.lora_rank))
                table = getattr(self, f"_{self.table_name}")
                table.assign(2 * ops.cast(table.value, "float32") - self.float_table())

    def _lora_parts(self):
        return [getattr(self, f"lora_{self.table_name}_{part}") for part in "ab"]

    def _dequantized(self, table, scale, zero):
        other_axis, scale = 1 - self.scaled_axis, ops.cast(scale, "float32")
        if self.quantization_mode == "int4":
            table = quantizers.unpack_int4(table, self._orig_output_dim, axis=-1)
        table = ops.cast(table, "float32")
        if len(scale.shape) == 1:
            return table / ops.expand_dims(scale, other_axis)
        # Each group along the other axis has its own scales and zero points.
        groups = ops.cast(self.g_idx, "int32")
        scale, zero = (ops.take(value, groups, axis=other_axis) for value in (scale, ops.cast(zero, "float32")))
        return (table - zero) * scale
