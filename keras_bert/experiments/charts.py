"""What a page shows, as text: SVG charts and tables that need no script and no other file, only `STYLE`."""

import html
import math
import numbers
import re

_WIDTH, _HEIGHT = 470, 280
_TOP, _RIGHT, _BOTTOM = 30, 24, 44
# Where the dots of a strip go that would hide each other: heights from the middle.
_LANES = (0, -9, 9, -18, 18)
NOTHING = "\N{EN DASH}"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

# Hues that stay apart for the colour-blind; dashes double their number. The best run is vermilion everywhere.
STYLE = """
:root { color-scheme: light dark; --ink: #1d2127; --soft: #59616b; --paper: #ffffff; --panel: #f6f7f9; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --soft: #a3abb5; --paper: #15181c;
  --panel: #1d2126; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1000px; padding: 2rem 1.25rem 4rem; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1rem; } h2 { font-size: 1.25rem; margin: 2.75rem 0 .25rem; }
.how, .note { color: var(--soft); margin: 0 0 1rem; max-width: 90ch; } .note { margin: .75rem 0; }
dl { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: .35rem 1.5rem; margin: 0;
  padding: 1rem 1.25rem; background: var(--panel); border-radius: 8px; }
dt { color: var(--soft); max-width: 12rem; } dd { margin: 0; }
.scroll { overflow: auto; } .scroll:has(.list) { max-height: 36rem; }
table { border-collapse: collapse; width: 100%; overflow-wrap: normal; }
th, td { padding: .35rem .6rem; text-align: left; vertical-align: middle; }
.list th, .list td { border-bottom: 1px solid var(--grid); } .list thead th { font-weight: 600; color: var(--soft);
  white-space: nowrap; position: sticky; top: 0; background: var(--paper); }
.list .number { text-align: right; white-space: nowrap; }
.list tbody th { font-weight: 400; overflow-wrap: anywhere; min-width: 4rem; }
.list tbody th bdi { display: block; min-width: 7rem; }
tr.best td, tr.best th { font-weight: 600; background: var(--panel); }
.strips { margin: 0 0 2rem; }
.run { display: grid; grid-template-columns: 15rem minmax(0, 1fr) 12.5rem; gap: 0 1.25rem; align-items: center;
  break-inside: avoid; }
.run + .run { border-top: 1px solid var(--grid); } .run .value { line-height: 1.3; padding: .3rem 0; }
.run small { color: var(--soft); display: block; }
.run.ends { border: 0; } .run small.winner { color: var(--best); font-weight: 600; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem 1.5rem; }
figure { margin: 0; break-inside: avoid; }
.key { list-style: none; margin: .75rem 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: .25rem 1.5rem;
  font-size: .9rem; } .key li { display: flex; align-items: center; gap: .5rem; } .key svg { width: 28px; flex: none; }
.hard { padding: 0; margin: 0; list-style: none; } .hard li { border-top: 1px solid var(--grid); padding: .75rem 0;
  break-inside: avoid; }
.hard p { margin: .35rem 0 0; white-space: pre-line; } .hard p.head { color: var(--soft); font-size: .9rem; margin: 0; }
.hard b { color: var(--ink); font-weight: 600; }
.hard p + p.second { padding-top: .35rem; border-top: 1px dashed var(--grid); }
@media (max-width: 700px) { body { padding: 1.25rem .9rem 3rem; }
  .run { grid-template-columns: minmax(0, 1fr); padding-top: .5rem; } .run svg { grid-row: 3; }
  .run .value { padding: 0 0 .25rem; } .run small { display: inline-block; margin-right: .6rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } }
@media print { body { max-width: none; padding: 0; font-size: 11px; } .scroll { overflow: visible;
  max-height: none !important; }
  h2, .how { break-after: avoid; } tr { break-inside: avoid; }
  .heat.many { font-size: 7px !important; } .heat.many td { min-width: 0 !important; } }
:root { --hit: 0 114 178; --miss: 213 94 0; --best: #c65300; --hue0: #0072b2; --hue1: #00795a; --hue2: #a03e91;
  --hue3: #555b63; --rest: #a9b0b8; --grid: #e1e5e9; }
@media screen and (prefers-color-scheme: dark) { :root { --hit: 86 180 233; --miss: 240 137 74; --best: #ff9a57;
  --hue0: #56b4e9; --hue1: #2cc295; --hue2: #d98bcb; --hue3: #b9c0c8; --rest: #565d66; --grid: #31363d; } }
svg { display: block; width: 100%; overflow: visible; font-size: 12px; }
svg.plot { max-width: 470px; height: auto; margin: 0 auto; }
svg.strip { height: 48px; }
svg.scale { height: 22px; }
svg text { fill: var(--soft); }
svg text.name { fill: var(--ink); font-weight: 600; }
.grid { stroke: var(--grid); stroke-width: 1; }
.line { fill: none; stroke-width: 1.5; stroke-linejoin: round; stroke-linecap: round; }
.dot { stroke: none; }
.h0, .h4 { --hue: var(--hue0); } .h1, .h5 { --hue: var(--hue1); } .h2, .h6 { --hue: var(--hue2); }
.h3 { --hue: var(--hue3); } .rest { --hue: var(--rest); } .best { --hue: var(--best); }
.line { stroke: var(--hue); } .dot { fill: var(--hue); }
.h4, .h5, .h6 { stroke-dasharray: 5 4; }
.line.rest { stroke-width: 1; } .line.best { stroke-width: 3; }
.seeds .dot { fill-opacity: .75; } .seeds .dot.best { fill-opacity: 1; }
.ring { fill: none; stroke: var(--best); stroke-width: 1.5; }
.mean { stroke: var(--ink); stroke-width: 2; } .band { fill: var(--ink); fill-opacity: .13; }
.cloud { fill: var(--hue0); fill-opacity: .45; } .diagonal { stroke: var(--best); stroke-dasharray: 5 4; }
.heat { width: auto; margin: 0 auto; } .heat td, .heat th { border: 1px solid var(--grid); }
.heat td { text-align: center; min-width: 5.5em; padding: .5em .3em;
  background: rgb(var(--miss) / calc(var(--share) * .6)); print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
.heat td.hit { background: rgb(var(--hit) / calc(var(--share) * .6)); outline: 1px solid var(--soft);
  outline-offset: -1px; }
.heat td.zero { color: var(--soft); } .heat small { display: block; font-size: .82em; }
.heat th { font-weight: 500; } .heat th[scope=row] { text-align: right; max-width: 11em; overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; }
.heat th[scope=row] { position: sticky; left: 0; background: var(--paper); } .heat th[scope=col] { text-align: center; }
.heat .corner { text-align: right; color: var(--soft); font-weight: 400; white-space: nowrap; }
.heat.many { font-size: 11px; } .heat.many td { min-width: 2.9em; padding: .25em .1em; }
.heat.many th { padding: .2em .4em; }
.turn { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 11em; margin: 0 auto; overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; text-align: left; }
"""


def escape(text):
    """Text for HTML, within tags or quotes; characters that HTML does not know are shown as unknown."""
    return html.escape(_CONTROL.sub("\ufffd", str(text)))


def cut(text, most):
    """Text with an ellipsis in the place of what exceeds `most` characters."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def drawable(value):
    """Whether a value has a place on an axis: a number, finite, and no overflow of a run gone wild."""
    return isinstance(value, numbers.Real) and math.isfinite(value) and abs(value) < 1e100


def span(values, margin=0.06):
    """The ends of an axis for some values, with air on both sides; never of zero length."""
    low, high = min(values), max(values)
    same = high - low <= 1e-9 * max(abs(low), abs(high))
    air = abs(low) * 0.05 or 1.0 if same else margin * (high - low)
    return low - air, high + air


def ticks(low, high, most=6):
    """Multiples of 1, 2 or 5 times a power of ten, from `low` to `high`.

    Args:
        low: one end of the axis.
        high: the other end, above it.
        most: how many there may be.

    Returns:
        A list of floats, and the list of their texts.
    """
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    # A quotient such as 0.3 / 0.1 falls a little beside the whole number that it is.
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
    """The function from values to places that maps `low` to `start` and `high` to `end`."""
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
    # Few points are evaluations, which are seen apart; a single one has no line at all.
    shapes = [_curve(style, title, [(x(a), y(b)) for a, b in line], len(line) <= 12) for style, title, line in series]
    return _plot((_WIDTH, _HEIGHT), f"{name} over {x_name}", axes + "".join(shapes))


def _curve(style, title, places, marked):
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    line = f'<polyline class="line {style}" points="{text}"><title>{escape(title)}</title></polyline>'
    radius = {"best": 4, "rest": 2}.get(style, 3)
    dots = (f'<circle class="dot {style}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>' for x, y in places)
    return line + "".join(dots if marked else ())


def scatter(x_values, y_values, x_name, y_name):
    """Points beside the diagonal on which both values are the same."""
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
    """The functions to places, and the SVG of the grid with its numbers and names."""
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
        f'<text class="name" x="2" y="14">{escape(y_name)}</text>'
        f'<text class="name" x="{right}" y="{size[1] - 6}" text-anchor="end">{escape(x_name)}</text>'
    )
    return x, y, "".join(rows) + "".join(columns) + names


def _plot(size, label, content):
    return (
        f'<svg class="plot" viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{escape(label)}">{content}</svg>'
    )


def strip(dots, mean, deviation, ends):
    """One row of a dot plot, as wide as there is room: its places are shares of the width.

    Args:
        dots: list of `(value, title, best)`.
        mean: where the mark stands.
        deviation: half the width of the band; `None` draws none.
        ends: those of the axis.
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
    return f'<svg class="strip seeds" role="img" aria-label="mean {mean:.2f}">{"".join(shapes)}</svg>'


def _dot(x, y, title, best):
    ring = f'<circle class="ring" cx="{x:.2f}%" cy="{y}" r="8"/>' if best else ""
    style = "best" if best else "h0"
    return f'{ring}<circle class="dot {style}" cx="{x:.2f}%" cy="{y}" r="4.5"><title>{escape(title)}</title></circle>'


def strip_scale(ends):
    """The numbers below the rows of a dot plot."""
    x = scale(*ends, 0, 100)
    texts = (
        f'<text x="{x(value):.2f}%" y="15" text-anchor="middle">{text}</text>'
        for value, text in zip(*ticks(*ends), strict=True)
    )
    return f'<svg class="scale" aria-hidden="true">{"".join(texts)}</svg>'


def heat(counts, names, most_roomy=12):
    """A confusion matrix as a table: counts, and shares of the row that shade the cells.

    Args:
        counts: whole numbers `(classes, classes)`, a row for each true class.
        names: of the classes.
        most_roomy: up to how many classes cells are wide and names level.
    """
    many = len(names) > most_roomy
    heads = "".join(
        f'<th scope="col" title="{escape(name)}"><div{" class=turn" if many else ""}><bdi>{escape(cut(name, 20))}'
        "</bdi></div></th>"
        for name in names
    )
    rows = (
        f'<tr><th scope="row" title="{escape(name)}"><bdi>{escape(cut(name, 24))}</bdi></th>'
        + "".join(_cell(count, sum(row), column == number, many) for column, count in enumerate(row))
        + "</tr>"
        for number, (name, row) in enumerate(zip(names, counts, strict=True))
    )
    corner = '<th class="corner">true ↓ predicted →</th>'
    style = "heat many" if many else "heat"
    return f'<table class="{style}"><thead><tr>{corner}{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _cell(count, total, hit, many):
    share = count / total if total else 0.0
    style = " ".join(name for name, on in (("hit", hit), ("zero", count == 0)) if on)
    percent = f"{share:.{0 if many else 1}%}" if total else NOTHING
    # Zeros would drown the few numbers of a large table.
    small = "" if many and not count else f"<small>{percent}</small>"
    text = "·" if many and not count else f"{count:,}"
    return f'<td class="{style}" style="--share:{share:.3f}">{text}{small}</td>'


def table(heads, rows, numeric, best=None):
    """A table in a box of its own; the cells are HTML, the first a heading of its row.

    Args:
        heads: list of names.
        rows: list of lists of cells.
        numeric: from which column on cells are numbers.
        best: which row stands out.
    """
    styles = ['class="number"' if column >= numeric else "" for column in range(len(heads))]
    head = "".join(f'<th scope="col" {style}>{name}</th>' for name, style in zip(heads, styles, strict=True))
    lines = (
        f'<tr{" class=best" if number == best else ""}><th scope="row" {styles[0]}>{row[0]}</th>'
        + "".join(f"<td {style}>{cell}</td>" for cell, style in zip(row[1:], styles[1:], strict=True))
        + "</tr>"
        for number, row in enumerate(rows)
    )
    return box(f'<table class="list"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>')


def box(content):
    return f'<div class="scroll" tabindex="0">{content}</div>'
