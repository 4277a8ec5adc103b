"""Promises that are checked one after the other, of which each names those that it stands on."""

import contextlib
import dataclasses
import inspect
import logging
import math
import time

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
        lines += [f"{name}: {reason}" for name, reason in broken.items()]
        lines += [f"({note})" for note in notes]
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
    method: str
    needs: tuple

    @property
    def name(self):
        """The name under which others need it, that of its method."""
        return self.method


def promise(*names):
    """Returns a decorator that makes a method a promise; `names` are its names, by default that of the method.

    The arguments of the method are the results of the promises that it stands on, by the names of their methods.
    """

    def mark(method):
        needs = tuple(inspect.signature(method).parameters)[1:]
        method.promise = Promise(names or (method.__name__,), method.__name__, needs)
        return method

    return mark


def promises_of(checks):
    """Returns the promises of a class in the order in which it states them."""
    return [method.promise for method in vars(checks).values() if hasattr(method, "promise")]


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
    titles = {one.name: one.names[0] for one in promises}
    results, broken, notes, kept = {}, {}, [], []
    for one in promises:
        if one.name not in chosen:
            continue
        missing = [titles[name] for name in one.needs if name not in results]
        if missing:
            notes.append(f"{', '.join(one.names)}: not checked, since it stands on {missing[0]}")
            continue
        try:
            with _quiet():
                results[one.name] = getattr(checks, one.method)(*[results[name] for name in one.needs])
            kept += one.names
        except SkippedError as reason:
            notes.append(f"{', '.join(one.names)}: not checked, {reason}")
        except Exception as error:
            _LOG.debug("%s", one.name, exc_info=True)
            broken[_broken_name(one, error)] = _reason(error)
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
    """Returns the names of the methods to call."""
    by_name = {one.name: one for one in promises}
    if only is None:
        return set(by_name)
    known = [name for one in promises for name in one.names]
    waiting = []
    for name in only:
        if name not in known:
            raise ValueError(f"`only` must be names of promises, {', '.join(known)}. Received: {name!r}")
        waiting += [one.name for one in promises if name in one.names]
    chosen = set()
    while waiting:
        name = waiting.pop()
        if name not in chosen:
            chosen.add(name)
            waiting += by_name[name].needs
    return chosen


def _broken_name(one, error):
    """Returns the name of the promise that an error is about."""
    name = getattr(error, "promise", None)
    return name if name in one.names else one.names[0]


def _reason(error):
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
        where, one, other = place
        raise DifferenceError(f"{what} to have {where}{other!r:.150}", f"{one!r:.150}")


def _difference(received, expected, relative, where=""):
    """Returns the place of the first difference, what was received there and what was expected, or `None`."""
    if isinstance(expected, np.ndarray | np.generic):
        expected = expected.tolist()
    if isinstance(received, np.ndarray | np.generic):
        received = received.tolist()
    if isinstance(expected, dict) and isinstance(received, dict):
        if received.keys() != expected.keys():
            return f"{where}the fields ", sorted(received), sorted(expected)
        pairs = [(f"{where}{name} ", received[name], expected[name]) for name in expected]
    elif isinstance(expected, list | tuple) and isinstance(received, list | tuple):
        if len(received) != len(expected):
            return f"{where}the length ", len(received), len(expected)
        pairs = [(f"{where}[{n}] ", received[n], expected[n]) for n in range(len(expected))]
    elif _are_numbers(received, expected):
        is_close = math.isclose(received, expected, rel_tol=relative, abs_tol=relative)
        return None if is_close else (where, received, expected)
    else:
        return None if received == expected else (where, received, expected)
    for place, one, other in pairs:
        found = _difference(one, other, relative, place)
        if found is not None:
            return found
    return None


def _are_numbers(*values):
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
