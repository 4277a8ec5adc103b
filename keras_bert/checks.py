"""Checks of numbers, which may be Python's or NumPy's."""

import dataclasses
import math
import numbers


def is_count(value, least=1):
    """Returns whether a value is an integer of at least `least`."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= least


def is_number(value):
    """Returns whether a value is a real number; NaN and infinity are."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_finite(value):
    """Returns whether a value is a real number, neither NaN nor infinite."""
    return is_number(value) and math.isfinite(value)


def check_count(name, value, least=1):
    """Raises an error unless the value is an integer of at least `least`, by default a positive one."""
    if not is_count(value, least):
        expected = "a positive integer" if least == 1 else f"an integer of at least {least}"
        raise ValueError(f"`{name}` must be {expected}. Received: {name}={value!r}")


def take_numbers(settings):
    """Checks that the `int` fields of a frozen dataclass are positive, and converts numbers of NumPy for JSON."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.type is int:
            check_count(field.name, value)
        if is_number(value) and hasattr(value, "item"):
            object.__setattr__(settings, field.name, value.item())
