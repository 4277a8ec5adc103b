"""Rows of every task for tests of folds."""

import pytest

pytest.importorskip("tensorflow")

from tests.runs.fit_rows import tags_of

LETTERS = "abcdefghij"


TEXTS = [" ".join([*LETTERS[row % 5 : row % 5 + 3], LETTERS[(row * row) % 10], LETTERS[row % 7]]) for row in range(12)]


WORDS = [text.split() for text in TEXTS]


CHOICES = [{"text": text, "choices": ["k", "l m", "n"][: 2 + row % 2]} for row, text in enumerate(TEXTS)]


DATA = {
    "classification": (TEXTS, ["x", "y", "y"] * 4),
    "regression": (TEXTS, [row / 7 for row in range(12)]),
    "multi_label": (TEXTS, [["x"], ["x", "y"], [], ["y"]] * 3),
    "tagging": (WORDS, [tags_of(words) for words in WORDS]),
    "questions": ([{"question": "a", "context": text} for text in TEXTS], [words[1] for words in WORDS]),
    "multiple_choice": (CHOICES, [row % 2 for row in range(12)]),
    "embedding": ([(text, f"{text} k {row}") for row, text in enumerate(TEXTS)], None),
}


OPTIONS = {"epochs": 1, "batch_size": 4, "learning_rate": 1e-3, "verbose": False}
