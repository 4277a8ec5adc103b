"""Charts, also of learning curves: computes axes and positions, which `templates/charts.html` draws as SVG."""

import itertools
import math
import numbers

from keras_bert.reports import page

_WIDTH, _HEIGHT = 470, 280
_TOP, _RIGHT, _BOTTOM = 30, 24, 44
# Vertical offsets of dots that would overlap.
_LANES = (0, -9, 9, -18, 18)
# Of learning curves.
_MANY_RUNS = 8  # If there are more, all but the best share one colour.
_POINTS = 1000  # Longer curves are thinned out; the extremes of every part are kept.


def drawable(value):
    """Whether a value is a finite number small enough for an axis."""
    return isinstance(value, numbers.Real) and math.isfinite(value) and abs(value) < 1e100


def span(values, margin=0.06):
    """Returns the ends of an axis for the values, with a margin on both sides; never of zero length."""
    low, high = min(values), max(values)
    same = high - low <= 1e-9 * max(abs(low), abs(high))
    air = abs(low) * 0.05 or 1.0 if same else margin * (high - low)
    return low - air, high + air


def ticks(low, high, most=6):
    """Returns up to `most` tick values between `low` and `high`, 1, 2 or 5 times a power of ten apart, and labels."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    # A quotient such as 0.3 / 0.1 is not exactly an integer.
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
    """Returns the linear function that maps `low` to `start` and `high` to `end`."""
    return lambda value: start + (value - low) / (high - low) * (end - start)


def line_chart(series, name: str, x_name: str, *, height: int = _HEIGHT):
    """Draws curves over steps, at a width of 470 pixels.

    Args:
        series: list of `(style, title, [(step, value), ...])`, at least one, the last one on top. A style consists of
            classes of the page: a colour, "best" or "h0" to "h7", and optionally "training" (thin) or "dev" (with
            dots).
        name: str, what the values are.
        x_name: str, what the steps are.
        height: int, pixels. Defaults to 280.

    Returns:
        A string, an SVG that a template takes.

    Example:
        points = curve_points(keras_bert.files.read_lines("runs/tiny/metrics.jsonl"), "evaluation", "mlm_loss")
        chart = line_chart([("best dev", "tiny", points)], "held-out loss", "steps")
    """
    points = [point for _, _, line in series for point in line]
    low, high = span([value for _, value in points])
    if min(value for _, value in points) >= 0:
        low = max(low, 0.0)
    steps = (0, max(1, *(step for step, _ in points)))
    x, y, frame = _axes(steps, (low, high), (_WIDTH, height), x_name, name)
    curves = [(style, title, [(x(a), y(b)) for a, b in line]) for style, title, line in series]
    return page.draw("lines", frame=frame, label=f"{name} over {x_name}", curves=curves)


def scatter(x_values, y_values, x_name, y_name):
    """Draws a scatter plot and the diagonal on which both values are equal."""
    low, high = span([*x_values, *y_values])
    x, y, frame = _axes((low, high), (low, high), (_WIDTH, _WIDTH - 30), x_name, y_name)
    points = list(zip(map(x, x_values), map(y, y_values), strict=True))
    diagonal = x(low), y(low), x(high), y(high)
    return page.draw("scatter", frame=frame, label=f"{y_name} against {x_name}", points=points, diagonal=diagonal)


def reliability(points):
    """Draws accuracy over confidence, both in percent, and the diagonal of perfect calibration.

    A point is `(confidence, accuracy, count)`; the area of its dot grows with the count.
    """
    names = "confidence (%)", "correct (%)"
    x, y, frame = _axes((0, 100), (0, 100), (_WIDTH, _WIDTH - 110), *names)
    most = max(count for _, _, count in points)
    dots = [(x(sure), y(accuracy), 4 + 10 * math.sqrt(count / most), count) for sure, accuracy, count in points]
    diagonal = x(0), y(0), x(100), y(100)
    return page.draw("reliability", frame=frame, label="accuracy over confidence", dots=dots, diagonal=diagonal)


def _axes(x_ends, y_ends, size, x_name, y_name):
    """Returns the scales of both axes, and the frame to draw."""
    x_ticks = zip(*ticks(*x_ends, most=8 if x_ends[1] < 1e4 else 4), strict=True)
    y_ticks = list(zip(*ticks(*y_ends, most=6 if size[1] >= _HEIGHT else 3), strict=True))
    left = 14 + 7 * max((len(text) for _, text in y_ticks), default=0)
    right, bottom = size[0] - _RIGHT, size[1] - _BOTTOM
    x, y = scale(*x_ends, left, right), scale(*y_ends, bottom, _TOP)
    frame = {"width": size[0], "height": size[1], "left": left, "right": right, "top": _TOP, "bottom": bottom}
    frame |= {"x_name": x_name, "columns": [(x(value), text) for value, text in x_ticks]}
    frame |= {"y_name": y_name, "rows": [(y(value), text) for value, text in y_ticks]}
    return x, y, frame


def strip(dots, mean, deviation, ends):
    """Draws one row of a dot plot, for a list of `(value, title, best)`, on an axis with `ends` `(low, high)`.

    The mean is marked, with a band of one deviation to each side; a deviation of `None` draws no band.
    """
    x = scale(*ends, 0, 100)
    band = None if deviation is None else (x(mean - deviation), x(mean + deviation) - x(mean - deviation))
    placed, taken = [], [-math.inf] * len(_LANES)
    for value, title, best in sorted(dots, key=lambda dot: dot[0]):
        place = x(value)
        lane = next((lane for lane, last in enumerate(taken) if place - last > 1.5), taken.index(min(taken)))
        taken[lane] = place
        placed.append((place, 24 + _LANES[lane], title, best))
    grid = list(map(x, ticks(*ends)[0]))
    return page.draw("strip", label=f"mean {mean:.2f}", grid=grid, band=band, mean=x(mean), dots=placed)


def strip_scale(ends):
    """Draws the tick labels below the rows of a dot plot."""
    x = scale(*ends, 0, 100)
    return page.draw("strip_scale", ticks=[(x(value), text) for value, text in zip(*ticks(*ends), strict=True)])


def learning_curves(metric: str, unit: int, curves: dict, losses: list, best):
    """Returns figures, legend and notes of the learning curves of runs, for `report.html`.

    `unit` is 100 if the score is shown in percent, otherwise 1. `curves` are the lines of `metrics.jsonl` by folder
    name of a run; `losses` are the names of the losses of the runs; `best` is the name of the best run, or `None`.
    """
    drawn = {name: _curves(lines, metric, unit, losses) for name, lines in curves.items()}
    seen = [name for name, lines in drawn.items() if lines["training"] or lines["dev"] or lines["score"]]
    if not seen:
        return {"figures": [], "notes": ["No run has a curve."]}
    ordered = sorted(seen, key=lambda name: name == best)  # The best run is drawn last, on top.
    styles, texts = _styles(ordered, best), _short_names(seen)

    def chart(name, *kinds, **size):
        series = [(run, kind) for kind in kinds for run in ordered if drawn[run][kind]]
        series = [(f"{styles[run]} {kind}", f"{texts[run]}, {kind}", drawn[run][kind]) for run, kind in series]
        return name, line_chart(series, name, "steps", **size) if series else ""

    missing = [name for name in curves if name not in seen]
    return {
        "figures": [
            chart("loss", "training", "dev"),
            chart(f"{metric.replace('_', ' ')} on dev{' (%)' if unit == 100 else ''}", "score"),
            chart("learning rate", "rate", height=150),
        ],
        "key": _key(styles, texts, best),
        "notes": [f"Without a curve: {'; '.join(missing)}."] if missing else [],
    }


def _curves(lines, metric, unit, losses):
    """Returns the points of the curves of a run: of several losses, those of the first one in the log."""
    names = [name for line in lines if line.get("kind") == "train" for name in line]
    loss = next((name for name in names if name in losses), "loss")
    return {
        "training": curve_points(lines, "train", loss),
        "dev": curve_points(lines, "evaluation", loss),
        "score": curve_points(lines, "evaluation", metric, unit=unit),
        "rate": curve_points(lines, "train", "learning_rate"),
    }


def curve_points(lines, kind, name, *, unit=1):
    """Returns the points `(step, value)` of a curve, at most 1,000: of more, the extremes of each part are kept.

    Args:
        lines: list of dicts, the lines of a run's `metrics.jsonl`, see `keras_bert.files.read_lines`.
        kind: str, "train" or "evaluation".
        name: str, the number in the lines, such as "loss".
        unit: factor of the values, such as 100 for percent. Defaults to 1.
    """
    found = [(line.get("step"), line.get(name)) for line in lines if line.get("kind") == kind]
    found = [(step, unit * value) for step, value in found if drawable(step) and drawable(value)]
    return _thinned(found) if len(found) > _POINTS else found


def _thinned(points):
    """Keeps the lowest and the highest point of each of `_POINTS / 2` parts, the first and the last point."""
    count = _POINTS // 2
    edges = [len(points) * part // count for part in range(count + 1)]
    parts = [range(first, last) for first, last in itertools.pairwise(edges)]
    kept = {choose(part, key=lambda place: points[place][1]) for part in parts for choose in (min, max)}
    return [points[place] for place in sorted(kept | {0, len(points) - 1})]


def _styles(ordered, best):
    others = [name for name in ordered if name != best]
    colours = {name: f"h{number}" if len(ordered) <= _MANY_RUNS else "rest" for number, name in enumerate(others)}
    return {name: colours.get(name, "best") for name in ordered}


def _short_names(names):
    """Returns the names of runs without the parts that all share."""
    parts = {name: name.split(",") for name in names}
    shared = set.intersection(*map(set, parts.values())) if len(names) > 1 else set()
    short = {name: ", ".join(part for part in parts[name] if part not in shared) for name in names}
    return {name: (short[name] or name).replace("_", " ").replace("=", " ") for name in names}


def _key(styles, texts, best):
    """Legend of all charts: pairs of style and text, the best run first."""
    entries = [("best", f"best run: {texts[best]}")] if best in styles else []
    others = [name for name in styles if name != best]
    if others and styles[others[0]] == "rest":
        return entries + [("rest", f"the {'other ' if entries else ''}{len(others)} runs")]
    return entries + [(styles[name], texts[name]) for name in others]
