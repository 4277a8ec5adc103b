"""Checks of numbers, which may be Python's or NumPy's, and of names."""

import dataclasses
import difflib
import functools
import importlib.util
import math
import numbers

REPORT_TO = ("tensorboard", "wandb", "mlflow")
# Names that other programs use for arguments.
_SAME = {
    "num_epochs": "epochs",
    "num_train_epochs": "epochs",
    "lr": "learning_rate",
    "y": "targets",
    "max_length": "sequence_length",
    "max_len": "sequence_length",
    "max_seq_length": "sequence_length",
    "train_batch_size": "batch_size",
    "per_device_train_batch_size": "batch_size",
}


def is_ours(part):
    """Returns whether a class, a method or a function is one of the package, and not a user's."""
    return part.__module__.startswith("keras_bert.")


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


def check_choice(name, value, choices):
    """Raises an error unless the value is one of some strings."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}. Received: {name}={value!r}")


def similar(name, known):
    """Returns the known name that is most similar to a wrong one, or `None`."""
    folded = {other.casefold(): other for other in known}
    closest = difflib.get_close_matches(name.casefold(), folded, 1)
    return folded[closest[0]] if closest else None


def hint(name, known, hints, shown="{!r}", otherwise=None):
    """Returns a sentence about an unknown name: that of `hints`, a known name of this meaning or spelling, or all."""
    if name in hints:
        return f"{hints[name]}."
    meant = _SAME.get(name)
    if meant not in known:
        meant = similar(name, known)
    if meant:
        return f"Did you mean {shown.format(meant)}?"
    return otherwise or f"Expected one of: {', '.join(dict.fromkeys(known)) or 'none'}."


def first_line(error):
    """Returns the first line of an error's message, or its type if it has none."""
    message = str(error).strip()
    return message.splitlines()[0] if message else type(error).__name__


def check_positive(name, value):
    """Raises an error unless the value is a finite number above 0."""
    if not is_finite(value) or value <= 0:
        raise ValueError(f"`{name}` must be a positive number. Received: {name}={value!r}")


def check_not_negative(name, value):
    """Raises an error unless the value is a finite number of at least 0."""
    if not is_finite(value) or value < 0:
        raise ValueError(f"`{name}` must be a number of at least 0. Received: {name}={value!r}")


def check_rate(name, value):
    """Raises an error unless the value is a dropout rate."""
    if not is_number(value) or not 0 <= value < 1:
        raise ValueError(f"`{name}` must be a number in [0, 1). Received: {name}={value!r}")


def check_heads(hidden_size, **heads):
    """Raises an error unless the width is a multiple of the number of attention heads, the only keyword argument."""
    ((name, count),) = heads.items()
    if hidden_size % count:
        received = f"hidden_size={hidden_size}, {name}={count}"
        raise ValueError(f"`hidden_size` must be a multiple of `{name}`. Received: {received}")


def check_report_to(names):
    """Raises an error unless all names are known and their packages are installed."""
    for name in names:
        if name not in REPORT_TO:
            raise ValueError(f"`report_to` must be one of {', '.join(REPORT_TO)}. Received: {name!r}")
        if name != "tensorboard" and importlib.util.find_spec(name) is None:
            raise ValueError(
                f"`report_to`: the package {name} is not installed. Run `pip install {name}`, or report to "
                f"tensorboard, which needs no package. Received: {name!r}"
            )


def check_counts(settings, may_be_zero=()):
    """Raises unless the `int` fields of a dataclass are positive."""
    for field in dataclasses.fields(settings):
        if field.type is int:
            check_count(field.name, getattr(settings, field.name), least=int(field.name not in may_be_zero))


def with_plain_numbers(cls):
    """Decorates a class whose arguments may be numbers of NumPy: it gets Python's, which JSON can hold."""
    make = cls.__init__

    @functools.wraps(make)
    def make_plain(self, *values, **named):
        plain = {name: plain_number(value) for name, value in named.items()}
        make(self, *map(plain_number, values), **plain)

    cls.__init__ = make_plain
    return cls


def plain_number(value):
    """Returns a number of NumPy as one of Python, which JSON can hold, and any other value as it is."""
    if is_number(value) and hasattr(value, "item"):
        return value.item()
    return value


def explaining(read):
    """Decorates a function that reads the file or folder of its first argument.

    Errors at values of another type than expected, in a file that another program wrote, name it.
    """

    @functools.wraps(read)
    def explained(path, *arguments, **options):
        try:
            return read(path, *arguments, **options)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
            raise ValueError(f"{path}: a value is missing or of another type than expected: {error!r:.200}") from error

    return explained
