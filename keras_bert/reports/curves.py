"""The learning curves of a report: losses, the score on dev and the learning rate over the steps of each run."""

import itertools

from keras_bert.reports import charts

_MANY_RUNS = 8  # If there are more, all but the best share one colour.
_POINTS = 1000  # Longer curves are thinned out; the extremes of every part are kept.


def figures(metric: str, unit: int, curves: dict, best):
    """Returns figures, legend and notes of the section, for `report.html`.

    `unit` is 100 if the score is shown in percent, otherwise 1. `curves` are the lines of `metrics.jsonl` by folder
    name of a run; `best` is the name of the best run, or `None`.
    """
    drawn = {name: _lines(lines, metric, unit) for name, lines in curves.items()}
    seen = [name for name, lines in drawn.items() if lines["training"] or lines["dev"] or lines["score"]]
    if not seen:
        return {"figures": [], "notes": ["No run has a curve."]}
    ordered = sorted(seen, key=lambda name: name == best)  # The best run is drawn last, on top.
    styles, texts = _styles(ordered, best), _short_names(seen)

    def chart(name, *kinds, **size):
        series = [(run, kind) for kind in kinds for run in ordered if drawn[run][kind]]
        series = [(f"{styles[run]} {kind}", f"{texts[run]}, {kind}", drawn[run][kind]) for run, kind in series]
        return name, charts.lines(series, name, "steps", **size) if series else ""

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


def _lines(lines, metric, unit):
    # The first loss in the log: `loss`, or the first of several losses.
    names = [name for line in lines if line.get("kind") == "train" for name in line]
    loss = next((name for name in names if name == "loss" or name.endswith("_loss")), "loss")
    return {
        "training": points(lines, "train", loss),
        "dev": points(lines, "evaluation", loss),
        "score": points(lines, "evaluation", metric, unit),
        "rate": points(lines, "train", "learning_rate"),
    }


def points(lines, kind, name, unit=1):
    found = [(line.get("step"), line.get(name)) for line in lines if line.get("kind") == kind]
    found = [(step, unit * value) for step, value in found if charts.drawable(step) and charts.drawable(value)]
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
