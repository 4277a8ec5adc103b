"""Promises one after the other: those that stand on others, broken and skipped ones, and the place of a difference."""

import numpy as np
import pytest

from keras_bert.testing import promises
from keras_bert.testing.promises import BrokenPromises, DifferenceError, SkippedError, promise


class Checks:
    """Three promises, of which the second one stands on the first, and one under two names."""

    def __init__(self, broken=None):
        self.broken = broken
        self.checked = []

    def check(self, name):
        self.checked.append(name)
        if name == self.broken:
            raise DifferenceError("the number 1", 2)

    @promise()
    def first(self):
        """A number."""
        self.check("first")
        return 1

    @promise("second", "twice")
    def doubled(self, first):
        """The number twice."""
        self.check("second")
        return 2 * first

    @promise()
    def alone(self):
        """Nothing else."""
        self.check("alone")


def test_promises_are_checked_in_their_order():
    checks = Checks()
    checked = promises.run(checks, "it")
    assert checked.promises == ("first", "second", "twice", "alone")
    assert checked.notes == ()
    assert checks.checked == ["first", "second", "alone"]


def test_chosen_promises_bring_those_that_they_stand_on():
    checks = Checks()
    promises.run(checks, "it", only=["twice"])
    assert checks.checked == ["first", "second"]
    promises.run(checks, "it", only=["alone"])
    assert checks.checked == ["first", "second", "alone"]


def test_unknown_promises():
    with pytest.raises(ValueError, match="`only` must be names of promises, first, second, twice, alone"):
        promises.run(Checks(), "it", only=["x"])


def test_a_broken_promise_does_not_end_the_check():
    """What stands on it is not checked."""
    checks = Checks(broken="first")
    with pytest.raises(BrokenPromises) as found:
        promises.run(checks, "the head it")
    assert checks.checked == ["first", "alone"]
    assert found.value.broken == {"first": "expected the number 1, received 2"}
    lines = str(found.value).splitlines()
    assert lines == [
        "the head it breaks 1 of the promises of keras_bert:",
        "first: expected the number 1, received 2",
        "(second, twice: not checked, since it stands on first)",
    ]


class TellingError(KeyError):
    """An error that tells which promise it breaks."""

    def __init__(self, promise):
        super().__init__("a", "b\nc")
        self.promise = promise


@pytest.mark.parametrize(("name", "expected"), [("twice", "twice"), ("other", "second"), (None, "second")])
def test_an_error_may_tell_which_of_the_names_is_broken(monkeypatch, name, expected):
    def check(self, promised):
        if promised == "second":
            raise TellingError(name)

    monkeypatch.setattr(Checks, "check", check)
    with pytest.raises(BrokenPromises) as found:
        promises.run(Checks(), "it")
    assert found.value.broken == {expected: r"expected no error, received TellingError: ('a', 'b\nc')"}


def test_what_cannot_be_checked_is_noted(monkeypatch):
    def check(self, name):
        if name == "alone":
            raise SkippedError("there is no server")

    monkeypatch.setattr(Checks, "check", check)
    checked = promises.run(Checks(), "it")
    assert checked.promises == ("first", "second", "twice")
    assert checked.notes == ("alone: not checked, there is no server",)


@pytest.mark.parametrize(
    ("received", "expected", "place"),
    [
        ({"a": [1.0, 2.0]}, {"a": [1.0, 2.1]}, "a [1] 2.1"),
        ({"a": 1}, {"b": 1}, "the fields ['b']"),
        ({"a": [1, 2]}, {"a": [1]}, "a the length 1, received 2"),
        ("a", "b", "'b'"),
        (True, 1.5, "1.5"),
    ],
)
def test_the_place_of_a_difference(received, expected, place):
    with pytest.raises(DifferenceError) as found:
        promises.expect_equal(received, expected, "the answer")
    assert f"expected the answer to have {place}" in str(found.value)


def test_numbers_are_equal_up_to_a_tolerance():
    promises.expect_equal(np.array([1.0, 2.0]), [1.0, 2.00001], "the answer")
    with pytest.raises(DifferenceError):
        promises.expect_equal([2.0], [2.00001], "the answer", relative=1e-7)
