"""What is known about data before training, whatever the task: truncation, names that look alike, and guesses."""

import dataclasses
import math

import pytest

from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.summary import Summary


@pytest.mark.parametrize(
    ("lengths", "limit", "expected"),
    [
        ([5, 8], 512, {"rows": 0}),
        ([300] * 3 + [9] * 197, 512, {"rows": 3, "enough": 384, "held": 1.0}),
        ([300] * 2 + [9] * 198, 512, {"rows": 2, "enough": 256, "held": 0.99}),
        ([600, 9], 512, {"rows": 1, "enough": 512, "held": 0.5}),
        ([600, 9], 128, {"rows": 1}),  # The model takes no more.
        ([70, 9], 100, {"rows": 0}),
    ],
)
def test_truncation(lengths, limit, expected):
    found = data_summary.truncation(lengths, 128, limit)
    assert found.pop("share") == expected["rows"] / len(lengths)
    assert found.pop("sequence_length") == 128
    assert found.pop("longest") == max(lengths)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["True", "true", "TRUE"], "'True' (9) and 'true' (9) and 'TRUE' (9)"),
        (["\xe9", "e", "e\u0301"], r"'\xe9' (9) and 'e\u0301' (9)"),
        (["x", "x\u200b", "y", "\ufeffy"], r"'x' (9) and 'x\u200b' (9), 'y' (9) and '\ufeffy' (9)"),
        (["10", "100", "a"], None),
    ],
)
def test_names_that_look_alike_are_shown_with_their_counts(names, shown):
    counts = dict.fromkeys(names, 9)
    found = data_summary.look_alikes("labels", counts)
    if shown is None:
        assert found == []
    else:
        assert found == [f"labels that look alike are different classes: {shown}"]


YES = Summary(train=9, baseline="always yes", majority={"f1": 0.8122, "accuracy": 0.6838})


@pytest.mark.parametrize("score", [0.8, 0.8122])
def test_a_model_that_has_learned_nothing(score):
    found = data_summary.no_better(YES, "f1", {"accuracy": 0.9, "f1": score})
    numbers = f"f1 {100 * score:.2f}% against 81.22%"
    assert found == f"no better than the majority baseline (always yes): {numbers}"


def test_a_model_that_has_learned_something():
    assert data_summary.no_better(YES, "f1", {"f1": 0.8123}) is None
    without_baseline = Summary(train=9)
    assert data_summary.no_better(without_baseline, "f1", {"f1": 0.0}) is None


def test_a_perfect_model_may_equal_the_baseline():
    perfect = Summary(train=9, baseline="always yes", majority={"f1": 1.0})
    assert data_summary.no_better(perfect, "f1", {"f1": 0.0}) is not None
    assert data_summary.no_better(perfect, "f1", {"f1": 1.0}) is None


def test_a_model_that_predicts_the_same_for_all_rows():
    words = dataclasses.replace(YES, predicted="word")
    found = data_summary.no_better(words, "f1", {"f1": 0.9}, "O")
    assert found == "the model predicts O for every word. Try more epochs, or another learning_rate"


TWENTY = Summary(train=9, dev={"dev": 20}, baseline="always yes", majority={"accuracy": 0.6})


@pytest.mark.parametrize("right", range(13, 21))
def test_results_that_chance_explains(right):
    """Against the sum of the binomial probabilities of so many right answers and more."""
    chance = 0.0
    for count in range(right, 21):
        chance += math.comb(20, count) * 0.6**count * 0.4 ** (20 - count)
    found = data_summary.not_significant(TWENTY, {"accuracy": right / 20})
    if chance < 0.05:
        assert found is None
        return
    numbers = f"{right} of 20 right, {5 * right:.2f}% against 60.00%"
    assert found.endswith(f"{numbers}, p = {chance:.2f} in a binomial test")


@pytest.mark.parametrize(
    ("changes", "scores"),
    [
        ({}, {"f1": 0.6}),
        ({"predicted": "word"}, {"accuracy": 0.6}),
        ({"dev": {}}, {"accuracy": 0.6}),
    ],
)
def test_chance_needs_the_accuracy_of_counted_rows(changes, scores):
    summary = dataclasses.replace(TWENTY, **changes)
    assert data_summary.not_significant(summary, scores) is None


@pytest.mark.tensorflow
def test_token_counts_are_those_before_truncation(pieces):
    from keras_bert.text.preprocessor import TextPreprocessor

    texts = ["a b c d", "a", "e"]
    pairs = ["a b c", "b", "a b c d e f g"]
    preprocessor = TextPreprocessor(pieces, 8)
    lengths = preprocessor.ragged((texts, pairs))["token_ids"].row_lengths().numpy()
    assert lengths.tolist() == [8, 5, 8]
    assert data_summary.token_counts(preprocessor, [texts, pairs], lengths).tolist() == [10, 5, 11]
