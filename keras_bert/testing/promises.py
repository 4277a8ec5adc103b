"""Promises that are checked one after the other, of which each names those that it stands on."""

import contextlib
import dataclasses
import inspect
import logging
import math
import time
from collections.abc import Callable

import numpy as np

from keras_bert.progress import hidden

_LOG = logging.getLogger("keras_bert")
_RELATIVE = 1e-4  # Of numbers that different programs compute.


class BrokenPromises(AssertionError):
    """Promises that a head or a task does not keep.

    Attributes:
        broken: dict of what was expected and what was received, by the name of the promise.
    """

    def __init__(self, what, broken, *, notes=()):
        lines = [f"{what} breaks {len(broken)} of the promises of keras_bert:"]
        for name, reason in broken.items():
            lines.append(f"{name}: {reason}")
        for note in notes:
            lines.append(f"({note})")
        super().__init__("\n".join(lines))
        self.broken = broken


class DifferenceError(Exception):
    """What was expected, and what was received instead."""

    def __init__(self, expected, received):
        super().__init__(f"expected {expected}, received {received}")


class SkippedError(Exception):
    """Why a promise cannot be checked here."""


@dataclasses.dataclass(frozen=True)
class Checked:
    """What was checked: the names of the promises, notes on what was not checked, and the seconds that it took."""

    promises: tuple
    notes: tuple
    seconds: float


@dataclasses.dataclass(frozen=True)
class Promise:
    """A promise: its names, the method that checks it, and those that it stands on.

    `names` has several where an error itself tells, by an attribute `promise`, which of them is broken.
    """

    names: tuple
    method: Callable
    needs: tuple

    @property
    def name(self):
        """The name under which others need it, that of its method."""
        return self.method.__name__


def promise(*names):
    """Returns a decorator that makes a `Promise` of a method; `names` are its names, by default that of the method.

    The arguments of the method are the results of the promises that it stands on, by the names of their methods.
    """

    def promised(method):
        _, *needs = inspect.signature(method).parameters  # Without `self`.
        return Promise(names or (method.__name__,), method, tuple(needs))

    return promised


def promises_of(checks):
    """Returns the promises of a class in the order in which it states them."""
    return [value for value in vars(checks).values() if isinstance(value, Promise)]


def run(checks, what, only=None):
    """Checks promises; returns `Checked`, or raises `BrokenPromises` with all that are broken.

    Args:
        checks: an object whose class has methods with `promise`.
        what: string, what is checked, for the message.
        only: names of promises to check, with those that they stand on. Defaults to all.
    """
    started = time.monotonic()
    promises = promises_of(type(checks))
    chosen = _chosen(promises, only)
    titles = {each.name: each.names[0] for each in promises}
    results = {}
    kept = []
    notes = []
    broken = {}
    for each in promises:
        if each.name not in chosen:
            continue
        missing = []
        for name in each.needs:
            if name not in results:
                missing.append(titles[name])
        if missing:
            notes.append(f"{', '.join(each.names)}: not checked, since it stands on {missing[0]}")
            continue
        needed = [results[name] for name in each.needs]
        try:
            with _quiet():
                results[each.name] = each.method(checks, *needed)
            kept.extend(each.names)
        except SkippedError as reason:
            notes.append(f"{', '.join(each.names)}: not checked, {reason}")
        except Exception as error:
            _LOG.debug("%s", each.name, exc_info=True)
            broken[_broken_name(each, error)] = _reason(error)
    if broken:
        raise BrokenPromises(what, broken, notes=notes)
    return Checked(tuple(kept), tuple(notes), time.monotonic() - started)


@contextlib.contextmanager
def _quiet():
    """Shows neither progress nor warnings, such as those of few rows."""
    level = _LOG.level
    _LOG.setLevel(logging.ERROR)
    try:
        with hidden():
            yield
    finally:
        _LOG.setLevel(level)


def _chosen(promises, only):
    """Returns the names of the promises to check: those of `only`, and those that they stand on."""
    needs = {each.name: each.needs for each in promises}
    if only is None:
        return set(needs)
    by_any_name = {}
    for each in promises:
        for name in each.names:
            by_any_name[name] = each.name
    waiting = []
    for name in only:
        if name not in by_any_name:
            raise ValueError(f"`only` must be names of promises, {', '.join(by_any_name)}. Received: {name!r}")
        waiting.append(by_any_name[name])
    chosen = set()
    while waiting:
        name = waiting.pop()
        if name not in chosen:
            chosen.add(name)
            waiting.extend(needs[name])
    return chosen


def _broken_name(broken, error):
    """Returns which of the names of a promise an error is about: the one that the error tells, or the first one."""
    name = getattr(error, "promise", None)
    return name if name in broken.names else broken.names[0]


def _reason(error):
    """Returns what was expected and received instead, in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, DifferenceError):
        return text
    return f"expected no error, received {type(error).__name__}: {text}"


def expect(condition, expected, received):
    """Raises an error unless a condition holds."""
    if not condition:
        raise DifferenceError(expected, f"{received!s:.300}")


def expect_equal(received, expected, what, relative=_RELATIVE):
    """Raises an error unless nested dicts and lists are equal, numbers up to a tolerance; `what` names them."""
    place = _difference(received, expected, relative)
    if place is not None:
        where, received_part, expected_part = place
        raise DifferenceError(f"{what} to have {where}{expected_part!r:.150}", f"{received_part!r:.150}")


def _difference(received, expected, relative, where=""):
    """Returns the place of the first difference, what was received there and what was expected, or `None`."""
    expected = _without_numpy(expected)
    received = _without_numpy(received)
    if isinstance(expected, dict) and isinstance(received, dict):
        if received.keys() != expected.keys():
            return f"{where}the fields ", sorted(received), sorted(expected)
        keys = {name: f"{where}{name} " for name in expected}
    elif isinstance(expected, list | tuple) and isinstance(received, list | tuple):
        if len(received) != len(expected):
            return f"{where}the length ", len(received), len(expected)
        keys = {number: f"{where}[{number}] " for number in range(len(expected))}
    else:
        if _are_numbers(received, expected):
            is_equal = math.isclose(received, expected, rel_tol=relative, abs_tol=relative)
        else:
            is_equal = received == expected
        return None if is_equal else (where, received, expected)
    for key, place in keys.items():
        found = _difference(received[key], expected[key], relative, place)
        if found is not None:
            return found
    return None


def _without_numpy(value):
    """Returns a value of NumPy as one of Python."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value


def _are_numbers(*values):
    for value in values:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
    return True
