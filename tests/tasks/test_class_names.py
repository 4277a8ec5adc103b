"""Names of classes: of labels of any type, their order, those that look alike, and how often each occurs."""

import numpy as np
import pytest

from keras_bert.tasks import class_names
from keras_bert.tasks.class_names import balance, discover_labels


@pytest.mark.parametrize(
    ("label", "name"),
    [
        (" yes ", "yes"),
        (True, "true"),
        (np.bool_(False), "false"),
        (1.0, "1"),
        (np.float32(2), "2"),
        (2.5, "2.5"),
        (np.int64(3), "3"),
    ],
)
def test_the_name_of_a_label(label, name):
    assert class_names.class_name(label) == name


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array([10, 9]), ["9", "10"]),
        (np.array([False, True]), ["false", "true"]),
        (["a", "10", "9"], ["10", "9", "a"]),
        (["-1", "2", "-10"], ["-10", "-1", "2"]),
    ],
)
def test_labels_are_sorted_as_numbers_if_all_are(labels, names):
    assert discover_labels(labels) == names


def test_one_class_is_not_enough():
    with pytest.raises(ValueError, match=r"`labels` must have at least two classes. Received: \['a'\]"):
        discover_labels(["a", "a"])
    with pytest.raises(ValueError, match="train.csv"):
        discover_labels([], fewest=1, place="train.csv")
    assert discover_labels(["a"], fewest=1) == ["a"]


def test_a_number_has_one_spelling():
    with pytest.raises(ValueError, match="the number 1 also as 1.0. Use one spelling"):
        discover_labels(["1", "0", "1.0"])


def test_ids_of_names():
    numbers = class_names.class_numbers(["no", " yes", 3.0])
    assert numbers == {"no": 0, "yes": 1, "3": 2}
    assert class_names.class_ids("a.csv:1", "yes", numbers) == 1
    assert class_names.class_ids("a.csv:1", ("3", "no"), numbers) == (0, 2)
    assert class_names.class_numbers(None) is None
    with pytest.raises(ValueError, match="`labels`"):
        class_names.class_numbers(["1", 1.0])


@pytest.mark.parametrize(
    ("label", "known", "hint"),
    [
        ("No", ["no", "yes"], "'No', which looks like 'no'"),
        ("positve", ["positive", "negative"], "Did you mean 'positive'"),
        ("maybe", ["no", "yes"], "'maybe'. Expected one of: 'no', 'yes'"),
        ("4.2", ["3.7", "4.1"], "`task=regression`"),
        ("77", [str(number) for number in range(10)], "`task=regression`"),
        ("x", list("abcdefg"), "'e', and 2 more"),
    ],
)
def test_an_unknown_label_is_told_with_what_it_may_be(label, known, hint):
    numbers = class_names.class_numbers(known)
    with pytest.raises(ValueError, match="dev.csv:7: unknown label") as error:
        class_names.class_ids("dev.csv:7", label, numbers)
    assert hint in str(error.value)


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["True", "true", "TRUE"], [["True", "true", "TRUE"]]),
        (["1", "01", "+1.00", "\uff11"], [["1", "01", "+1.00", "\uff11"]]),
        (["-0.50", "-.5", "0.5", "-0.5", "-5"], [["-0.50", "-.5", "-0.5"]]),
        (["\xe9", "e", "e\u0301"], [["\xe9", "e\u0301"]]),
        (["x", "x\u200b", "y", "\ufeffy"], [["x", "x\u200b"], ["y", "\ufeffy"]]),
        (["a b", "a\xa0b", "ab"], [["a b", "a\xa0b", "ab"]]),
        (["\u2764", "\u2764\ufe0f"], [["\u2764", "\u2764\ufe0f"]]),
        (["don't", "don\u2019t", "a-b", "a\u2013b"], [["don't", "don\u2019t"], ["a-b", "a\u2013b"]]),
        (["10", "100", "1.10", "1.01", "1e1", "-1", "a", "\xe4", "0", "O", "--", "-"], []),
        (["12345678901234567890", "12345678901234567891"], []),
    ],
)
def test_names_that_look_alike(names, groups):
    assert class_names.alike(names) == groups


@pytest.mark.parametrize(
    ("names", "quoted"),
    [
        (["1", "\uff11"], ["'1'", "'\uff11'"]),
        (["\xe9", "e\u0301"], [r"'\xe9'", r"'e\u0301'"]),
        (["a b", "a\xa0b"], ["'a b'", r"'a\xa0b'"]),
        (["\u2764", "\u2764\ufe0f"], [r"'\u2764'", r"'\u2764\ufe0f'"]),
        (["don't", "don\u2019t"], ['"don\'t"', r"'don\u2019t'"]),
    ],
)
def test_names_that_print_alike_are_spelled_with_codes(names, quoted):
    assert class_names.spelled(names) == quoted


def test_shares_of_classes():
    names = np.array(["no", "yes"])
    assert balance(np.array([1, 0, 1]), names) == "yes: 2 (66.7%), no: 1 (33.3%)"
    assert balance([0, 0], names) == "no: 2 (100.0%), yes: 0 (0.0%)"
    assert balance([0, 0, 1], names, total=2) == "no: 2 (100.0%), yes: 1 (50.0%)"
    assert balance([]) == "no labels"


def test_the_range_of_numbers():
    assert balance(np.array([1, 2, 4.5], "float32")) == "3 numbers from 1 to 4.5, mean 2.5"


def test_the_largest_of_many_classes_are_shown():
    labels = []
    for label in range(30):
        labels.extend([label] * (30 - label))
    shown = balance(labels)
    assert shown.startswith("0: 30 (6.5%), 1: 29 (6.2%), ")
    assert shown.endswith(", 9: 21 (4.5%), and 20 more")
