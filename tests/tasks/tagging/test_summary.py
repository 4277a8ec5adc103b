"""What to know about sentences before training."""

import types

import pytest

from keras_bert.tasks.summary import Summary
from keras_bert.tasks.tagging.schemes import PLAIN
from keras_bert.tasks.tagging.task import _dev_baseline, summary_warnings


def summary(**more):
    return Summary(train=9, more=more)


def test_tags_and_types_that_look_alike():
    for what, key in (("tags", "tags"), ("types", "entities")):
        found = summary_warnings(summary(**{key: {"PER": 3}}, unknown={"PER\u200b": 2}))[0]
        assert found == rf"{what} that look alike are different classes: 'PER' (3) and 'PER\u200b' (0)"
        assert summary_warnings(summary(**{key: {"1": 9, "01": 9}})) == [
            f"{what} that look alike are different classes: '1' (9) and '01' (9)"
        ]


def test_the_majority_of_dev_for_plain_tags():
    """A model that knows none of dev's words is compared with dev's most frequent tag."""
    gold = [["N", "V"], ["N", "N", "D"]]

    def dev_of(scheme):
        return types.SimpleNamespace(gold_tags=gold, sentences=types.SimpleNamespace(scheme=scheme))

    found = _dev_baseline(dev_of(PLAIN))
    assert found["dev_baseline"] == "always N"
    assert found["dev_majority"]["accuracy"] == pytest.approx(3 / 5)
    assert _dev_baseline(dev_of("iob2")) == {}
