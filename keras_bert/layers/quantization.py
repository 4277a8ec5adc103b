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
        config = super().get_config()
        for base in reversed(type(self).__mro__):
            if not issubclass(base, Configured) or "__init__" not in vars(base):
                continue
            for name in inspect.signature(base.__init__).parameters:
                if name not in ("self", "kwargs") and hasattr(self, name):
                    config[name] = getattr(self, name)
        return config


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
        table = self._stored_table
        if self.quantization_mode is None:
            table = ops.cast(table.value, "float32")
        else:
            scale = getattr(self, f"{self.table_name}_scale")
            zero = getattr(self, f"{self.table_name}_zero", None)
            table = self._dequantized(table, scale, zero)
        if self.lora_enabled:
            a, b = self._lora_parts()
            update = ops.matmul(ops.cast(a, "float32"), ops.cast(b, "float32"))
            table = table + self._lora_scale * update
        return table

    def merge_lora(self):
        """Adds the LoRA update to the table and removes it; the layer must not be quantized."""
        a, b = self._lora_parts()
        self._stored_table.assign(self.float_table())
        b.assign(ops.zeros_like(b.value))  # Graphs that were traced before still add the update.
        self._tracker.unlock()
        self._untrack_variable(a)
        self._untrack_variable(b)
        self._tracker.lock()
        self.lora_enabled = False
        self.lora_rank = None
        self.lora_alpha = None

    def save_own_variables(self, store):
        """Saves the sum of table and LoRA update, as Keras does, and the adapter, with its scale in `B`."""
        super().save_own_variables(store)
        if self.lora_enabled and self.quantization_mode is None:
            a, b = self._lora_parts()
            store["lora_a"] = a.value
            store["lora_b"] = b * self._lora_scale

    def load_own_variables(self, store):
        """Loads the sum; with an adapter also its parts. Without them in the file, `A` stays random and `B` is zero."""
        values = {name: store[name] for name in store.keys()}  # noqa: SIM118  Keras' store cannot be iterated.
        stored_a = values.pop("lora_a", None)
        stored_b = values.pop("lora_b", None)
        if not self.lora_enabled:
            super().load_own_variables(values)
            return
        a, b = self._lora_parts()
        random_a = ops.copy(a)
        super().load_own_variables(values)
        a.assign(random_a)  # Keras makes both zero, which could not be trained.
        if stored_a is not None and self.quantization_mode is None:
            a.assign(stored_a)
            b.assign(ops.cast(stored_b, "float32") / self._lora_scale)
            # The file has the sum of table and update.
            table = self._stored_table
            table.assign(2 * ops.cast(table.value, "float32") - self.float_table())

    @property
    def _stored_table(self):
        return getattr(self, f"_{self.table_name}")

    @property
    def _lora_scale(self):
        return self.lora_alpha / self.lora_rank

    def _lora_parts(self):
        """Returns the variables `A` and `B`."""
        return [getattr(self, f"lora_{self.table_name}_{part}") for part in "ab"]

    def _dequantized(self, table, scale, zero):
        """Returns the float32 table of a quantized one, of its scales and, for groups, its zero points."""
        other_axis = 1 - self.scaled_axis
        scale = ops.cast(scale, "float32")
        if self.quantization_mode == "int4":
            table = quantizers.unpack_int4(table, self._orig_output_dim, axis=-1)
        table = ops.cast(table, "float32")
        if len(scale.shape) == 1:
            return table / ops.expand_dims(scale, other_axis)
        # Each group along the other axis has its own scales and zero points.
        groups = ops.cast(self.g_idx, "int32")
        scale = ops.take(scale, groups, axis=other_axis)
        zero = ops.take(ops.cast(zero, "float32"), groups, axis=other_axis)
        return (table - zero) * scale
