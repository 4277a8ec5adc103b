"""Axes of charts."""

import numpy as np
import pytest

from keras_bert.reports import charts

TICKS = [(0, 1), (-0.3, 0.7), (88.1, 88.4), (0, 1e6), (1e-7, 3e-7), (-1e30, 1e30), (0.5, 0.5 + 1e-6), (5e8, 5e8 + 9)]


@pytest.mark.parametrize("most", [4, 6])
@pytest.mark.parametrize("ends", TICKS)
def test_ticks(ends, most):
    values, texts = charts.ticks(*ends, most)
    assert 2 <= len(values) <= most
    assert len(set(texts)) == len(texts)
    step = values[1] - values[0]
    assert f"{step:.0e}"[0] in "125"
    assert np.allclose(np.diff(values), step)
    assert ends[0] - 1e-6 * step <= values[0] < ends[0] + step
    assert ends[1] - step < values[-1] * (1 + 1e-12) <= ends[1] + 1e-6 * step + abs(ends[1]) * 1e-12
    assert [float(text.replace(",", "")) for text in texts] == pytest.approx(values, abs=step / 100)


def test_axis_limits():
    assert charts.ticks(0, 1, 6)[1] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert charts.ticks(-12, 3450, 6)[1] == ["0", "1,000", "2,000", "3,000"]
    for values in ([0.0], [5.0, 5.0], [-3.0], [1e-12], [1.0, 1.0 + 1e-16]):
        low, high = charts.span(values)
        assert low < min(values) <= max(values) < high
        assert charts.ticks(low, high)[0]
