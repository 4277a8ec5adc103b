"""Calibration, against numbers that are derived by hand."""

import math
import re

import pytest

from keras_bert.reports import sections


def test_calibration():
    """Derived by hand: groups (0.5, 0.6], with 1 of 2 correct, (0.7, 0.8] with 1 of 1 and (0.9, 1] with 1 of 2."""
    confidence = [0.55, 0.6, 0.8, 0.95, 1.0]
    right = [True, False, True, False, True]
    found = sections.bins(confidence, right)
    assert [(low, high, count) for low, high, count, _, _ in found] == [(0.5, 0.6, 2), (0.7, 0.8, 1), (0.9, 1.0, 2)]
    assert [accuracy for *_, accuracy in found] == [0.5, 1.0, 0.5]
    # (2 * |0.575 - 0.5| + 1 * |0.8 - 1| + 2 * |0.975 - 0.5|) / 5
    assert sections.expected_error(found) == pytest.approx((0.15 + 0.2 + 0.95) / 5)
    section = sections.calibration_section([*confidence, math.nan], [*right, False])
    cells = re.findall("<t[dh][^>]*>([^<]*)", section)
    assert cells[cells.index("60 to 70%") :][:6] == ["60 to 70%", "0", "", "", "70 to 80%", "1"]
    assert "ECE 26.00%; overconfident by 18.00% on average" in section  # 3.9 / 5 - 3 / 5
    assert sections.calibration_section([math.nan], [True]) == ""


def test_errors_by_length():
    rows = sections.length_rows([7, 3, 3, 9, 3, 1200], [1, 0, 1, 1, 0, 0], "{:.2f}".format)
    assert rows == [["3", "3", "0.33"], ["7", "1", "1.00"], ["9", "1", "1.00"], ["1,200", "1", "0.00"]]
    # 12 different lengths, in groups of two.
    rows = sections.length_rows(range(12), [0] * 12, str)
    assert [row[:2] for row in rows] == [[f"{low} to {low + 1}", "2"] for low in range(0, 12, 2)]
