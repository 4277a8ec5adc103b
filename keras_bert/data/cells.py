"""Values of rows by column: texts and numbers, and how messages call them."""

import math
import re


def cell(place, column):
    """Returns how messages call a value of a row; data in Python, `texts[7]`, have no columns."""
    is_python = re.fullmatch(r"\w+( \w+)*(\[\d+\])?", str(place))
    if is_python:
        return f"{place}: `{column}`"
    return f"{place}: column `{column}`"


def text_cell(place, record, column):
    """Returns the text in a column of a row, which must not be empty."""
    text = record[column]
    if not isinstance(text, str):
        raise ValueError(f"{cell(place, column)} must be a string. Received: {text!r}{missing(text)}")
    if not text.strip():
        raise ValueError(f"{cell(place, column)} is empty")
    return text


def missing(value):
    """Returns what to do about a missing value."""
    return "" if value is not None else ". Leave out or fill missing values"


def finite_number(place, column, value):
    """Converts a value to a finite float, or raises an error with its place in the file."""
    number = _as_float(value)
    if not math.isfinite(number):
        raise ValueError(f"{cell(place, column)} must be a finite number. Received: {value!r:.80}")
    return number


def _as_float(value):
    """Returns a value as a float, NaN for one that is no number."""
    if "_" in str(value):  # Only Python accepts 1_000.
        return math.nan
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):  # JSON has `null`, and integers that exceed the range of floats.
        return math.nan


def all_problems(place, record, readers):
    """Returns an error with all problems of a row: those of functions of its place and the row, which raise."""
    problems = []
    for read in readers:
        try:
            read(place, record)
        except ValueError as error:
            problem = str(error)
            if problems:  # The place is named once.
                problem = problem.removeprefix(f"{place}: ")
            problems.append(problem)
    return ValueError("; ".join(problems))
