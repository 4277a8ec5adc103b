"""Scores of other systems beside those of a run: a guest of the package registers what it knows of them."""

from collections.abc import Callable
from typing import Any

COMPARISONS: list[Callable] = []


def register_comparison(function: Callable) -> Callable:
    """Registers a function that compares the scores of a run with those of other systems.

    Args:
        function: function of a task, its dev scores and its test scores or `None`, which returns entries of the head of
            the report (a dict of texts by title) and tables for the end of `results.md` (a list of Markdown texts).

    Returns:
        `function`, so that this is also a decorator.
    """
    # A notebook may run the same definition again.
    others = [other for other in COMPARISONS if other.__qualname__ != function.__qualname__]
    COMPARISONS[:] = [*others, function]
    return function


def compared(task: Any, scores: dict, test_scores: dict | None = None) -> tuple[dict, list]:
    """Returns the entries and the tables of all functions."""
    facts = {}
    tables = []
    for function in COMPARISONS:
        function_facts, function_tables = function(task, scores, test_scores)
        facts.update(function_facts)
        tables.extend(function_tables)
    return facts, tables
