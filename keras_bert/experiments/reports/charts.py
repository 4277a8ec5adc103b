"""Charts as SVG, in the style of `templates/style.css`."""

import math
import numbers

import markupsafe

from keras_bert.experiments.reports import page

_WIDTH, _HEIGHT = 470, 280
_TOP, _RIGHT, _BOTTOM = 30, 24, 44
# Vertical offsets of dots that would hide each other.
_LANES = (0, -9, 9, -18, 18)


def drawable(value):
    """Whether a value is a finite number of a size that an axis can show."""
    return isinstance(value, numbers.Real) and math.isfinite(value) and abs(value) < 1e100


def span(values, margin=0.06):
    """The ends of an axis for some values, with a margin on both sides; never of zero length."""
    low, high = min(values), max(values)
    same = high - low <= 1e-9 * max(abs(low), abs(high))
    air = abs(low) * 0.05 or 1.0 if same else margin * (high - low)
    return low - air, high + air


def ticks(low, high, most=6):
    """Multiples of 1, 2 or 5 times a power of ten, from `low` to `high`.

    Args:
        low: one end of the axis.
        high: the other end, above it.
        most: maximum number of ticks.

    Returns:
        A list of floats and a list of their texts.
    """
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    # A quotient such as 0.3 / 0.1 is not exactly the whole number.
    for step in (power, 2 * power, 5 * power, 10 * power):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            break
    values = [number * step + 0.0 for number in range(first, last + 1)]
    return values, _texts(values, step)


def _texts(values, step):
    largest = max(map(abs, values), default=0.0)
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    if largest >= 1e7 or places > 4:
        digits = math.floor(math.log10(max(largest, step)) + 1e-9) - math.floor(math.log10(step) + 1e-9) + 1
        return [f"{value:.{digits}g}" for value in values]
    return [f"{value:,.{places}f}" for value in values]


def scale(low, high, start, end):
    """The function from values to positions that maps `low` to `start` and `high` to `end`."""
    return lambda value: start + (value - low) / (high - low) * (end - start)


def lines(series, name, x_name):
    """Curves over steps.

    Args:
        series: list of `(style, title, points)`, the last drawn on top; points are pairs `(step, value)`.
        name: what the values are.
        x_name: what the steps are.
    """
    points = [point for _, _, line in series for point in line]
    low, high = span([value for _, value in points])
    if min(value for _, value in points) >= 0:
        low = max(low, 0.0)
    steps = (0, max(1, *(step for step, _ in points)))
    x, y, axes = _axes(steps, (low, high), (_WIDTH, _HEIGHT), x_name, name)
    # Few points are marked; a single one has no line.
    shapes = [_curve(style, title, [(x(a), y(b)) for a, b in line], len(line) <= 12) for style, title, line in series]
    return _plot((_WIDTH, _HEIGHT), f"{name} over {x_name}", axes + "".join(shapes))


def _curve(style, title, places, marked):
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    line = f'<polyline class="line {style}" points="{text}"><title>{page.escape(title)}</title></polyline>'
    radius = {"best": 4, "rest": 2}.get(style, 3)
    dots = (f'<circle class="dot {style}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>' for x, y in places)
    return line + "".join(dots if marked else ())


def scatter(x_values, y_values, x_name, y_name):
    """Points and the diagonal on which both values are equal."""
    ends = span([*x_values, *y_values])
    size = (_WIDTH, _WIDTH - 30)
    x, y, axes = _axes(ends, ends, size, x_name, y_name)
    diagonal = (
        f'<line class="diagonal" x1="{x(ends[0]):.1f}" y1="{y(ends[0]):.1f}" '
        f'x2="{x(ends[1]):.1f}" y2="{y(ends[1]):.1f}"/>'
    )
    places = zip(map(x, x_values), map(y, y_values), strict=True)
    points = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in places)
    return _plot(size, f"{y_name} against {x_name}", f'{axes}<g class="cloud">{points}</g>{diagonal}')


def _axes(x_ends, y_ends, size, x_name, y_name):
    """The scales of both axes, and the SVG of the grid with its numbers and names."""
    x_ticks, y_ticks = (
        zip(*ticks(*x_ends, most=8 if x_ends[1] < 1e4 else 4), strict=True),
        list(zip(*ticks(*y_ends), strict=True)),
    )
    left = 14 + 7 * max((len(text) for _, text in y_ticks), default=0)
    right, bottom = size[0] - _RIGHT, size[1] - _BOTTOM
    x, y = scale(*x_ends, left, right), scale(*y_ends, bottom, _TOP)
    rows = (
        f'<line class="grid" x1="{left}" x2="{right}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        f'<text x="{left - 7}" y="{y(value) + 4:.1f}" text-anchor="end">{text}</text>'
        for value, text in y_ticks
    )
    columns = (
        f'<line class="grid" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{_TOP}" y2="{bottom}"/>'
        f'<text x="{x(value):.1f}" y="{bottom + 17}" text-anchor="middle">{text}</text>'
        for value, text in x_ticks
    )
    names = (
        f'<text class="name" x="2" y="14">{page.escape(y_name)}</text>'
        f'<text class="name" x="{right}" y="{size[1] - 6}" text-anchor="end">{page.escape(x_name)}</text>'
    )
    return x, y, "".join(rows) + "".join(columns) + names


def _plot(size, label, content):
    box = f"0 0 {size[0]} {size[1]}"
    label = page.escape(label)
    return markupsafe.Markup(f'<svg class="plot" viewBox="{box}" role="img" aria-label="{label}">{content}</svg>')


def strip(dots, mean, deviation, ends):
    """One row of a dot plot; positions are percentages of the width.

    Args:
        dots: list of `(value, title, best)`.
        mean: position of the mark.
        deviation: half the width of the band; `None` draws none.
        ends: the ends of the axis.
    """
    x = scale(*ends, 0, 100)
    shapes = [
        f'<line class="grid" x1="{x(value):.2f}%" x2="{x(value):.2f}%" y1="0" y2="48"/>' for value in ticks(*ends)[0]
    ]
    if deviation is not None:
        width = x(mean + deviation) - x(mean - deviation)
        shapes.append(f'<rect class="band" x="{x(mean - deviation):.2f}%" y="5" width="{width:.2f}%" height="38"/>')
    shapes.append(f'<line class="mean" x1="{x(mean):.2f}%" x2="{x(mean):.2f}%" y1="2" y2="46"/>')
    taken = [-math.inf] * len(_LANES)
    for value, title, best in sorted(dots, key=lambda dot: dot[0]):
        place = x(value)
        lane = next((lane for lane, last in enumerate(taken) if place - last > 1.5), taken.index(min(taken)))
        taken[lane] = place
        shapes.append(_dot(place, 24 + _LANES[lane], title, best))
    return markupsafe.Markup(
        f'<svg class="strip seeds" role="img" aria-label="mean {mean:.2f}">{"".join(shapes)}</svg>'
    )


def _dot(x, y, title, best):
    ring = f'<circle class="ring" cx="{x:.2f}%" cy="{y}" r="8"/>' if best else ""
    style = "best" if best else "h0"
    return (
        f'{ring}<circle class="dot {style}" cx="{x:.2f}%" cy="{y}" r="4.5"><title>{page.escape(title)}</title></circle>'
    )


def strip_scale(ends):
    """The numbers below the rows of a dot plot."""
    x = scale(*ends, 0, 100)
    texts = (
        f'<text x="{x(value):.2f}%" y="15" text-anchor="middle">{text}</text>'
        for value, text in zip(*ticks(*ends), strict=True)
    )
    return markupsafe.Markup(f'<svg class="scale" aria-hidden="true">{"".join(texts)}</svg>')
