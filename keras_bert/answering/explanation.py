"""Explanations of answers, as `LoadedBert.explain` returns them: dicts that print as a line, and as HTML in notebooks.

The colours are those of Okabe and Ito for the colour-blind: blue raises the logit, orange lowers it. Without colours,
lines under the words and the signs of the numbers tell the same.
"""

import html

STYLE = """<style>
.kb-why { line-height: 1.9; max-width: 60em }
.kb-why p { margin: 0.3em 0 }
.kb-why [role=list] { margin: 0.3em 0 }
.kb-why [role=listitem] { border-radius: 0.2em; padding: 0.1em 0.15em; position: relative }
.kb-why .kb-up { background: rgba(0, 114, 178, var(--kb-part)); border-bottom: 2px solid rgb(0, 114, 178) }
.kb-why .kb-down { background: rgba(230, 159, 0, var(--kb-part)); border-bottom: 2px dashed rgb(230, 159, 0) }
.kb-why [role=listitem]:focus::after, .kb-why [role=listitem]:hover::after {
  content: attr(data-score); white-space: nowrap; position: absolute; left: 0; top: 1.6em; z-index: 1; padding: 0 0.4em;
  background: #222; color: #fff; box-shadow: 0 0 0 1px #fff; border-radius: 0.2em; font-size: 0.85em; line-height: 1.6 }
.kb-why small { opacity: 0.8 }
</style>"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; overflow-wrap: anywhere }}
</style>
</head>
<body>
<h1>{name}</h1>
{body}
</body>
</html>
"""
_STRONGEST = 0.55  # The opacity of the colour of the highest score: texts stay readable on light and dark pages.
_LONGEST = 40  # Characters of a word in a line.


class PrintedExplanation(dict):
    """The scores of the words of a text, see `LoadedBert.explain`."""

    def __str__(self):
        words = "  ".join(map(_word_and_score, self["words"])) or "(no words)"
        return f"{words}  | {_logit_text(self)}"

    def _repr_html_(self):
        return f'{STYLE}<div class="kb-why">{words_html(self)}{legend_html(self)}</div>'


class Explanations(list):
    """The explanations of several texts."""

    def __str__(self):
        return "\n".join(map(str, self))

    def _repr_html_(self):
        bodies = "".join(map(words_html, self))
        legend = legend_html(self[0]) if self else ""
        return f'{STYLE}<div class="kb-why">{bodies}{legend}</div>'


def page(title, explanations):
    """Returns a web page of explanations, which needs no network."""
    name = html.escape(title)
    body = Explanations(explanations)._repr_html_()
    return _PAGE.format(name=name, body=body)


def _short(text):
    """Returns a word for a line: a single one may have a million characters."""
    if len(text) > _LONGEST:
        return f"{text[:_LONGEST]}..."
    return text


def _signed(score):
    return f"{score:+.2f}"


def _word_and_score(word):
    return f"{_short(word['text'])} {_signed(word['score'])}"


def strongest_words(explanation, most=3):
    """Returns the words that raise the logit most, and those that lower it most, with their scores, as a line."""
    up = []
    down = []
    for word in sorted(explanation["words"], key=lambda word: -word["score"]):
        if _signed(abs(word["score"])) == _signed(0):
            continue
        if word["score"] > 0:
            up.append(word)
        else:
            down.append(word)
    up = up[:most]
    down = down[::-1][:most]  # The lowest first.
    parts = []
    if up:
        parts.append(f"raise it most: {', '.join(map(_word_and_score, up))}")
    if down:
        parts.append(f"lower it most: {', '.join(map(_word_and_score, down))}")
    return "; ".join(parts)


def _name_of_logit(explanation):
    """Returns what has the logit: a class, a choice, the tag of a word, or the value."""
    target = explanation.get("target")
    name = "value" if target is None else str(target)
    number = explanation.get("word")
    if number is None:
        return name
    word = explanation["words"][number]["text"]
    return f"{_short(word)}: {name}"


def _logit_text(explanation):
    """Returns the logit of a text, and that of the text without its words."""
    replacement = explanation["replacement"]
    logit = f"{_name_of_logit(explanation)} {explanation['value']:.2f}"
    return f"{logit}; with {replacement} only {explanation['baseline']:.2f}"


def words_html(explanation):
    """Returns the words of an explanation as HTML, a paragraph for each input."""
    words = explanation["words"]
    most = max((abs(word["score"]) for word in words), default=0) or 1  # It divides the scores.
    paragraphs = []
    for name in dict.fromkeys(word["input"] for word in words):
        items = []
        before = None
        for word in words:
            if word["input"] != name:
                continue
            if before is not None and before != word["start"]:
                items.append(" ")
            items.append(_word_html(word, most))
            before = word["end"]
        paragraphs.append(f'<div role="list" aria-label="{name}">{"".join(items)}</div>')
    listed = "".join(paragraphs) or "<p>no words</p>"
    return f"<p><b>{html.escape(_logit_text(explanation))}</b></p>{listed}"


def _word_html(word, most):
    """Returns a word as HTML, with a colour by its score and the highest one."""
    text = html.escape(_short(word["text"]))
    score = _signed(word["score"])
    side = "kb-up" if word["score"] >= 0 else "kb-down"
    part = abs(word["score"]) / most * _STRONGEST
    return (
        f'<span role="listitem" tabindex="0" class="{side}" style="--kb-part: {part:.2f}" data-score="{score}" '
        f'title="{score}" aria-label="{text} {score}">{text}</span>'
    )


def legend_html(explanation):
    """Returns what the colours and the lines of words mean as HTML."""
    return (
        '<p><small><span class="kb-up" style="--kb-part: 0.4">solid line, blue: the word raises the logit</span> '
        '<span class="kb-down" style="--kb-part: 0.4">dashed line, orange: the word lowers it</span>; the stronger the '
        "colour, the more. Hover over a word, or move to it by the tab key, for its number. "
        f"Method: {explanation['method']}, words replaced by {html.escape(explanation['replacement'])}.</small></p>"
    )
