"""Checks of numbers and names, and what they say of a wrong one."""

import dataclasses
import math

import numpy as np
import pytest

from keras_bert import checks


@pytest.mark.parametrize("value", [1, 3, np.int64(2), np.uint8(1)])
def test_counts(value):
    assert checks.is_count(value)
    checks.check_count("epochs", value)


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", None, np.float32(1)])
def test_no_counts(value):
    assert not checks.is_count(value)
    with pytest.raises(ValueError, match="`epochs` must be a positive integer. Received: epochs="):
        checks.check_count("epochs", value)


def test_the_least_of_a_count():
    checks.check_count("overlap", 0, least=0)
    with pytest.raises(ValueError, match="`length` must be an integer of at least 3. Received: length=2"):
        checks.check_count("length", 2, least=3)


@pytest.mark.parametrize(
    ("value", "is_number", "is_finite"),
    [
        (1, True, True),
        (np.float32(0.5), True, True),
        (math.nan, True, False),
        (math.inf, True, False),
        (True, False, False),
        ("1", False, False),
        (None, False, False),
    ],
)
def test_numbers(value, is_number, is_finite):
    assert checks.is_number(value) is is_number
    assert checks.is_finite(value) is is_finite


@pytest.mark.parametrize(
    ("check", "right", "wrong"),
    [
        (checks.check_positive, [0.1, 2], [0, -1, math.inf, math.nan, "1"]),
        (checks.check_not_negative, [0, 0.1], [-0.1, math.nan, None]),
        (checks.check_rate, [0, 0.999], [1, -0.1, math.nan, True]),
    ],
)
def test_ranges(check, right, wrong):
    for value in right:
        check("rate", value)
    for value in wrong:
        with pytest.raises(ValueError, match="`rate`"):
            check("rate", value)


def test_choices():
    checks.check_choice("side", "left", ("left", "right"))
    for value in ("lef", None, ["left"]):
        with pytest.raises(ValueError, match="`side` must be one of left, right. Received: side="):
            checks.check_choice("side", value, ("left", "right"))


def test_similar_names():
    known = ["learning_rate", "Epochs", "batch_size"]
    assert checks.similar("learning_rte", known) == "learning_rate"
    assert checks.similar("epochs", known) == "Epochs"
    assert checks.similar("zzz", known) is None


def test_hints():
    known = ["epochs", "learning_rate"]
    assert checks.hint("warmup", known, {"warmup": "there is none"}) == "there is none."
    assert checks.hint("lr", known, {}) == "Did you mean 'learning_rate'?"
    assert checks.hint("epoch", known, {}, shown="--{}") == "Did you mean --epochs?"
    assert checks.hint("zzz", known, {}) == "Expected one of: epochs, learning_rate."
    assert checks.hint("zzz", known, {}, otherwise="See --help") == "See --help"
    assert checks.hint("zzz", [], {}) == "Expected one of: none."


def test_first_line():
    assert checks.first_line(ValueError("\none\ntwo")) == "one"
    assert checks.first_line(KeyError()) == "KeyError"


def test_heads_divide_the_width():
    checks.check_heads(768, num_attention_heads=12)
    with pytest.raises(ValueError, match="hidden_size=10, num_attention_heads=4"):
        checks.check_heads(10, num_attention_heads=4)


@dataclasses.dataclass
class Sizes:
    layers: int = 1
    spare: int = 0
    rate: float = -1.0


def test_counts_of_a_dataclass():
    checks.check_counts(Sizes(), may_be_zero=["spare"])
    with pytest.raises(ValueError, match="spare"):
        checks.check_counts(Sizes())
    with pytest.raises(ValueError, match="layers"):
        checks.check_counts(Sizes(layers=0), may_be_zero=["spare"])


def test_plain_numbers():
    @checks.with_plain_numbers
    class Point:
        def __init__(self, x, y, name=None):
            self.values = [x, y, name]

    values = Point(np.int64(1), y=np.float32(0.5), name="a").values
    assert values == [1, 0.5, "a"]
    assert [type(value) for value in values] == [int, float, str]
    array = np.ones(2)
    assert checks.plain_number(array) is array


@pytest.mark.parametrize(
    "read",
    [
        lambda path: {}["key"],
        lambda path: None.name,
        lambda path: 1 + "1",
        lambda path: 1 / 0,
    ],
)
def test_errors_name_the_file(read):
    with pytest.raises(ValueError, match="^model/config.json: a value is missing or of another type"):
        checks.explaining(read)("model/config.json")


def test_other_errors_and_results_stay():
    def read(path, *, fails):
        if fails:
            raise OSError("no disk")
        return path

    assert checks.explaining(read)("a", fails=False) == "a"
    with pytest.raises(OSError, match="no disk"):
        checks.explaining(read)("a", fails=True)


def test_what_is_ours():
    assert checks.is_ours(checks.similar)
    assert not checks.is_ours(test_what_is_ours)


def test_where_runs_are_reported():
    checks.check_report_to(["tensorboard"])
    with pytest.raises(ValueError, match="`report_to` must be one of tensorboard, wandb, mlflow. Received: 'board'"):
        checks.check_report_to(["tensorboard", "board"])
