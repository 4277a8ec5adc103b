"""What a page is made of: its style, its sections, its tables; no script, no other file."""

import html
import re

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
.hard p.question { font-weight: 600; }
mark { color: inherit; background: none; padding: .05em 0; }
mark.gold { background: rgb(var(--hit) / .2); border-bottom: 2px solid rgb(var(--hit)); }
mark.said { background: rgb(var(--miss) / .2); border-top: 2px dashed rgb(var(--miss)); }
mark.gold.said { background: linear-gradient(rgb(var(--miss) / .2), rgb(var(--hit) / .2)); }
.hard p + p.second { padding-top: .35rem; border-top: 1px dashed var(--grid); }
.hard p.question + p.second { padding: 0; border: 0; } .key + .hard { margin-top: .75rem; }
.bar { display: inline-block; min-width: 3.5rem; padding-bottom: 4px; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; background: linear-gradient(90deg, rgb(var(--hit)) calc(var(--share) * 100%),
  var(--grid) 0) 0 100% / 100% 4px no-repeat; }
@media (max-width: 700px) { body { padding: 1.25rem .9rem 3rem; }
  .run { grid-template-columns: minmax(0, 1fr); padding-top: .5rem; } .run svg { grid-row: 3; }
  .run .value { padding: 0 0 .25rem; } .run small { display: inline-block; margin-right: .6rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } th, td { padding: .35rem .4rem; } }
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


def bold(text):
    """A text of the data within a sentence: bold, cut if it is long, whatever its direction."""
    return f"<b><bdi>{escape(cut(str(text), 80))}</bdi></b>"


def section(name, how, *content):
    return f'<section><h2>{name}</h2>\n<p class="how">{how}</p>\n' + "\n".join(content) + "\n</section>"


def note(text):
    return f'<p class="note">{text}</p>'


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
