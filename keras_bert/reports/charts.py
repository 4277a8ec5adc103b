"""Charts, also of learning curves: computes axes and positions, which `templates/charts.html` draws as SVG."""

import dataclasses
import math
import numbers

from keras_bert.reports import page

_WIDTH = 470
_HEIGHT = 280
_TOP = 30
_RIGHT = 24
_BOTTOM = 44
# Vertical offsets of dots that would overlap.
_LANES = (0, -9, 9, -18, 18)
_NEAR = 1.5  # Dots that are closer overlap, in percent of the width.
# Of learning curves.
_MANY_RUNS = 8  # If there are more, all but the best share one colour.
_POINTS = 1000  # Longer curves are thinned out; the extremes of every part are kept.


def drawable(value):
    """Whether a value is a finite number small enough for an axis."""
    return isinstance(value, numbers.Real) and math.isfinite(value) and abs(value) < 1e100


def span(values, margin=0.06):
    """Returns the ends of an axis for the values, with a margin on both sides; never of zero length."""
    low = min(values)
    high = max(values)
    air = margin * (high - low)
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # Equal values, apart from rounding.
        air = abs(low) * 0.05 or 1.0
    return low - air, high + air


def ticks(low, high, most=6):
    """Returns up to `most` tick values between `low` and `high`, 1, 2 or 5 times a power of ten apart, and labels."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    # The last step is larger than `rough` in any case.
    for step in (power, 2 * power, 5 * power, 10 * power):
        # A quotient such as 0.3 / 0.1 is not exactly an integer.
        first = math.ceil(low / step - 1e-9)
        last = math.floor(high / step + 1e-9)
        if last - first < most:
            break
    values = [number * step for number in range(first, last + 1)]
    return values, _tick_labels(values, step)


def _tick_labels(values, step):
    """Formats values with as many digits as tell neighbours apart."""
    largest = max(map(abs, values), default=0.0)
    exponent = math.floor(math.log10(step) + 1e-9)
    places = max(0, -exponent)
    if largest >= 1e7 or places > 4:
        digits = math.floor(math.log10(max(largest, step)) + 1e-9) - exponent + 1
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
    steps = []
    values = []
    for _, _, points in series:
        for step, value in points:
            steps.append(step)
            values.append(value)
    low, high = span(values)
    if min(values) >= 0:
        low = max(low, 0.0)
    last = max(1, *steps)
    x, y, frame = _axes((0, last), (low, high), height=height, x_name=x_name, y_name=name)
    curves = []
    for style, title, points in series:
        places = [(x(step), y(value)) for step, value in points]
        curves.append((style, title, places))
    return page.draw("lines", frame=frame, label=f"{name} over {x_name}", curves=curves)


def scatter(x_values, y_values, x_name, y_name):
    """Draws a scatter plot and the diagonal on which both values are equal."""
    low, high = span([*x_values, *y_values])
    ends = (low, high)
    x, y, frame = _axes(ends, ends, height=_WIDTH - 30, x_name=x_name, y_name=y_name)
    points = [(x(first), y(second)) for first, second in zip(x_values, y_values, strict=True)]
    diagonal = (x(low), y(low), x(high), y(high))
    label = f"{y_name} against {x_name}"
    return page.draw("scatter", frame=frame, label=label, points=points, diagonal=diagonal)


def reliability(points):
    """Draws accuracy over confidence, both in percent, and the diagonal of perfect calibration.

    A point is `(confidence, accuracy, count)`; the area of its dot grows with the count.
    """
    ends = (0, 100)
    names = {"x_name": "confidence (%)", "y_name": "correct (%)"}
    x, y, frame = _axes(ends, ends, height=_WIDTH - 110, **names)
    most = max(count for _, _, count in points)
    dots = []
    for confidence, accuracy, count in points:
        radius = 4 + 10 * math.sqrt(count / most)
        dots.append((x(confidence), y(accuracy), radius, count))
    diagonal = (x(0), y(0), x(100), y(100))
    label = "accuracy over confidence"
    return page.draw("reliability", frame=frame, label=label, dots=dots, diagonal=diagonal)


def _axes(x_ends, y_ends, *, height, x_name, y_name):
    """Returns the scales of both axes, and the frame to draw."""
    most_columns = 8 if x_ends[1] < 1e4 else 4
    most_rows = 6 if height >= _HEIGHT else 3
    x_values, x_texts = ticks(*x_ends, most=most_columns)
    y_values, y_texts = ticks(*y_ends, most=most_rows)
    longest = max(map(len, y_texts), default=0)
    left = 14 + 7 * longest
    right = _WIDTH - _RIGHT
    bottom = height - _BOTTOM
    x = scale(*x_ends, left, right)
    y = scale(*y_ends, bottom, _TOP)
    frame = {
        "width": _WIDTH,
        "height": height,
        "left": left,
        "right": right,
        "top": _TOP,
        "bottom": bottom,
        "x_name": x_name,
        "columns": list(zip(map(x, x_values), x_texts, strict=True)),
        "y_name": y_name,
        "rows": list(zip(map(y, y_values), y_texts, strict=True)),
    }
    return x, y, frame


def strip(dots, mean, deviation, ends):
    """Draws one row of a dot plot, for a list of `(value, title, best)`, on an axis with `ends` `(low, high)`.

    The mean is marked, with a band of one deviation to each side; a deviation of `None` draws no band.
    """
    x = scale(*ends, 0, 100)
    band = None
    if deviation is not None:
        start = x(mean - deviation)
        band = (start, x(mean + deviation) - start)
    values, _ = ticks(*ends)
    return page.draw(
        "strip",
        label=f"mean {mean:.2f}",
        grid=list(map(x, values)),
        band=band,
        mean=x(mean),
        dots=_in_lanes(dots, x),
    )


def _in_lanes(dots, x):
    """Returns dots as `(x, y, title, best)`, from left to right; those that would overlap are in different lanes."""
    placed = []
    last_places = [-math.inf] * len(_LANES)
    for value, title, best in sorted(dots, key=lambda dot: dot[0]):
        place = x(value)
        lane = _free_lane(last_places, place)
        last_places[lane] = place
        placed.append((place, 24 + _LANES[lane], title, best))
    return placed


def _free_lane(last_places, place):
    """Returns the first lane with room at a place; if none has, the one whose last dot is the farthest."""
    for lane, last in enumerate(last_places):
        if place - last > _NEAR:
            return lane
    return last_places.index(min(last_places))


def strip_scale(ends):
    """Draws the tick labels below the rows of a dot plot."""
    x = scale(*ends, 0, 100)
    values, texts = ticks(*ends)
    return page.draw("strip_scale", ticks=list(zip(map(x, values), texts, strict=True)))


@dataclasses.dataclass(frozen=True)
class _DrawnRun:
    """A run among learning curves."""

    style: str
    title: str
    curves: dict  # Lists of points by the kind of the curve, see `_run_curves`.


def learning_curves(metric: str, unit: int, curves: dict, losses: list, best):
    """Returns figures, legend and notes of the learning curves of runs, for `report.html`.

    `unit` is 100 if the score is shown in percent, otherwise 1. `curves` are the lines of `metrics.jsonl` by folder
    name of a run; `losses` are the names of the losses of the runs; `best` is the name of the best run, or `None`.
    """
    drawn = {}
    missing = []
    for name, lines in curves.items():
        run_curves = _run_curves(lines, metric, unit, losses)
        if run_curves["training"] or run_curves["dev"] or run_curves["score"]:
            drawn[name] = run_curves
        else:
            missing.append(name)
    if not drawn:
        return {"figures": [], "notes": ["No run has a curve."]}
    ordered = sorted(drawn, key=lambda name: name == best)  # The best run is drawn last, on top.
    styles = _styles(ordered, best)
    titles = _short_names(ordered)
    runs = [_DrawnRun(styles[name], titles[name], drawn[name]) for name in ordered]
    score_name = f"{metric.replace('_', ' ')} on dev"
    if unit == 100:
        score_name += " (%)"
    figures = [
        _figure("loss", runs, ["training", "dev"]),
        _figure(score_name, runs, ["score"]),
        _figure("learning rate", runs, ["rate"], height=150),
    ]
    notes = []
    if missing:
        notes.append(f"Without a curve: {'; '.join(missing)}.")
    return {"figures": figures, "key": _legend(runs), "notes": notes}


def _run_curves(lines, metric, unit, losses):
    """Returns the points of the curves of a run: of several losses, those of the first one in the log."""
    loss = _first_loss(lines, losses)
    return {
        "training": curve_points(lines, "train", loss),
        "dev": curve_points(lines, "evaluation", loss),
        "score": curve_points(lines, "evaluation", metric, unit=unit),
        "rate": curve_points(lines, "train", "learning_rate"),
    }


def _first_loss(lines, losses):
    for line in lines:
        if line.get("kind") == "train":
            for name in line:
                if name in losses:
                    return name
    return "loss"


def curve_points(lines, kind, name, *, unit=1):
    """Returns the points `(step, value)` of a curve, at most 1,000: of more, the extremes of each part are kept.

    Args:
        lines: list of dicts, the lines of a run's `metrics.jsonl`, see `keras_bert.files.read_lines`.
        kind: str, "train" or "evaluation".
        name: str, the number in the lines, such as "loss".
        unit: factor of the values, such as 100 for percent. Defaults to 1.
    """
    points = []
    for line in lines:
        step = line.get("step")
        value = line.get(name)
        if line.get("kind") == kind and drawable(step) and drawable(value):
            points.append((step, unit * value))
    if len(points) > _POINTS:
        return _thinned(points)
    return points


def _thinned(points):
    """Keeps the lowest and the highest point of each of `_POINTS / 2` parts, the first and the last point."""

    def value_at(place):
        return points[place][1]

    count = _POINTS // 2
    kept = {0, len(points) - 1}
    for part in range(count):
        places = range(len(points) * part // count, len(points) * (part + 1) // count)
        kept.add(min(places, key=value_at))
        kept.add(max(places, key=value_at))
    return [points[place] for place in sorted(kept)]


def _styles(names, best):
    """Returns the style of each run: "best", a colour of its own, or "rest" for all others of many runs."""
    styles = {}
    for name in names:
        if name == best:
            styles[name] = "best"
        elif len(names) > _MANY_RUNS:
            styles[name] = "rest"
        else:
            styles[name] = f"h{len(styles)}"  # The best run, which has no number, is the last one.
    return styles


def _short_names(names):
    """Returns the names of runs without the parts that all share."""
    parts_of = {name: name.split(",") for name in names}
    shared = set()
    if len(names) > 1:
        shared = set.intersection(*map(set, parts_of.values()))
    short = {}
    for name, parts in parts_of.items():
        own = [part for part in parts if part not in shared]
        text = ", ".join(own) or name
        short[name] = text.replace("_", " ").replace("=", " ")
    return short


def _figure(name, runs, kinds, height=_HEIGHT):
    """Returns a name and a chart with the curves of some kinds; the chart is "" if no run has one of them."""
    series = []
    for kind in kinds:
        for run in runs:
            if run.curves[kind]:
                series.append((f"{run.style} {kind}", f"{run.title}, {kind}", run.curves[kind]))
    if not series:
        return name, ""
    return name, line_chart(series, name, "steps", height=height)


def _legend(runs):
    """Legend of all charts: pairs of style and text, the best run first."""
    entries = []
    others = []
    for run in runs:
        if run.style == "best":
            entries.append(("best", f"best run: {run.title}"))
        else:
            others.append((run.style, run.title))
    if others and others[0][0] == "rest":
        number = f"other {len(others)}" if entries else str(len(others))
        return [*entries, ("rest", f"the {number} runs")]
    return entries + others
