"""Renders the templates of reports, with autoescaping: their head, numbers, settings and names of models as text."""

import base64
import dataclasses
import math
import pathlib
import re

import jinja2
import markupsafe
import numpy as np

NOTHING = "\N{EN DASH}"
_ROOM = pathlib.Path(__file__).parent
_SECTION = re.compile(r'<section id="(.+?)"><h2>(.+?)</h2>')
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
LONGEST = 256  # Tokens of a page of attention; with 12 layers and 12 heads it then has 13 MB.


def _clean(value):
    """Replaces control characters that are invalid in HTML by U+FFFD."""
    return _CONTROL.sub("\ufffd", value) if type(value) is str else value


def cut(text, length):
    """Truncates text to `length` characters, including an ellipsis."""
    text = str(text)
    if len(text) <= length:
        return text
    return text[: length - 1].rstrip() + "…"


def percent(share, places=2):
    """Formats a share, such as 0.125, in percent."""
    return f"{share:.{places}%}"


def words(*parts, between=" "):
    """Joins texts and HTML, as HTML."""
    return markupsafe.Markup(between).join(map(_clean, parts))


def isolated(text):
    """Returns a text, truncated, as HTML that keeps its direction."""
    return markupsafe.Markup("<bdi>{}</bdi>").format(_clean(cut(text, 80)))


def bold(text):
    """Returns a text as `isolated` does, in bold."""
    return markupsafe.Markup("<b>{}</b>").format(isolated(text))


def readable(value):
    """Formats a setting without Python's notation."""
    if value is None or value in ({}, [], ()):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {readable(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(readable, value))
    return str(value)


def _elsewhere(path):
    """Returns the template at an absolute path, one of a report outside of this package."""
    file = pathlib.Path(path)
    if not file.is_absolute():
        return None
    return file.read_text(encoding="utf-8")


def _anchor(name):
    """Returns the id of a section with this name."""
    return re.sub(r"\W+", "-", name.lower()).strip("-")


def _contents(body):
    """Returns pairs of id and name of the sections of a rendered page."""
    return [(key, markupsafe.Markup(name)) for key, name in _SECTION.findall(body)]


# Shared templates, and those beside the modules that fill them, such as "tasks/tagging/report.html".
_TEMPLATES = jinja2.FileSystemLoader([_ROOM / "templates", _ROOM.parent])
_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.ChoiceLoader([_TEMPLATES, jinja2.FunctionLoader(_elsewhere)]),
    autoescape=True,
    finalize=_clean,
    lstrip_blocks=True,
    trim_blocks=True,
    undefined=jinja2.StrictUndefined,
)
_FILTERS = {
    "anchor": _anchor,
    "contents": _contents,
    "cut": cut,
    "percent": "{:.2f}%".format,
    "px": "{:.1f}".format,
    "readable": readable,
}
_ENVIRONMENT.filters.update(_FILTERS)
_ENVIRONMENT.globals["nothing"] = NOTHING


def render(template, **values):
    """Renders a template of Jinja as HTML.

    Args:
        template: str, the absolute path of a file. It may extend `base.html`, which takes a `head`, a `ReportHead`, and
            has a block `body`; `{% import "macros.html" as m %}` has what reports consist of, such as `m.head(head)`,
            `m.section(title, text)`, `m.table(titles, rows, numeric)` and `m.notes(sentences)`.
        **values: what the template takes.

    Returns:
        A string, safe to be inserted into another template. Texts in the values are escaped.

    Example:
        head = ReportHead("Study", {"rows": "8"}, run=environment(seconds=0))
        keras_bert.files.write_text("report.html", render(str(path_of_template), head=head))
    """
    return markupsafe.Markup(_ENVIRONMENT.get_template(template).render(values))


def draw(chart, **values):
    """Renders a chart, a macro of `charts.html`, as SVG."""
    macro = getattr(_ENVIRONMENT.get_template("charts.html").module, chart)
    return macro(**values)


def interval_of_share(share, rows):
    """Returns the ends of the 95% interval of a share of rows (Wilson, 1927)."""
    z = 1.96
    middle = share + z**2 / (2 * rows)
    width = z * math.sqrt((share * (1 - share) + z**2 / (4 * rows)) / rows)
    scale = 1 + z**2 / rows
    return (middle - width) / scale, (middle + width) / scale


@dataclasses.dataclass(frozen=True)
class Headline:
    """A score and the baseline that it should exceed.

    Example:
        Headline("accuracy on dev", 0.74, "always negative", 0.5).text
    """

    name: str  # What the score is.
    score: float  # From 0 to 1; correlations from -1.
    baseline: str = ""  # What the baseline predicts.
    reference: float | None = None  # Score of the baseline.
    rows: int | None = None  # Number of the rows of which the score is a share.

    @property
    def percent(self):
        return f"{100 * self.score:.1f}%"

    @property
    def comparison(self):
        """How far the score is above the baseline; empty without one."""
        if self.reference is None:
            return ""
        points = round(100 * self.score, 1) - round(100 * self.reference, 1)
        if round(points, 1) == 0:
            return "no better than the baseline"
        side = "above" if points > 0 else "below"
        return f"{abs(points):.1f} points {side} the baseline"

    @property
    def interval(self):
        """The 95% interval of the share of few rows (Wilson, 1927); empty otherwise."""
        if self.rows is None or self.rows > 1000:
            return ""
        low, high = interval_of_share(self.score, self.rows)
        return f"95% interval {100 * low:.0f} to {100 * high:.0f}%, of {self.rows} rows"

    @property
    def text(self):
        """The headline as a sentence."""
        text = f"{self.percent} {self.name}"
        if self.interval:
            text += f" ({self.interval})"
        if self.comparison:
            text += f", {self.comparison} ({self.baseline}: {100 * self.reference:.1f}%)"
        return f"{text}."

    @property
    def bars(self):
        """Name, number and share of the width of both bars; none without a baseline."""
        if not self.comparison:
            return []
        bars = []
        for name, value in [("this model", self.score), (self.baseline, self.reference)]:
            width = min(max(value, 0.0), 1.0)
            bars.append((name, f"{100 * value:.1f}%", width))
        return bars


@dataclasses.dataclass(frozen=True)
class ReportHead:
    """The head of a report.

    Args:
        title: str, such as "MRPC - bert-base-uncased".
        facts: dict of texts about data, model and scores.
        run: dict of texts about date, machine and versions, see `environment`.
        settings: dict.
        warnings: list of sentences to show first.
        headline: a `Headline`, shown before all else. Defaults to `None`.
    """

    title: str
    facts: dict
    _: dataclasses.KW_ONLY
    run: dict = dataclasses.field(default_factory=dict)
    settings: dict = dataclasses.field(default_factory=dict)
    warnings: list = dataclasses.field(default_factory=list)
    headline: Headline | None = None


def short_name(model):
    """Returns the last part of a model's name or path; of `NAME/model`, as a run has it, and of `NAME/4`, both."""
    parts = pathlib.PurePath(model).parts
    if parts[-1] == "model" or parts[-1].isdigit():
        return "/".join(parts[-2:])
    return parts[-1]


def is_hub_name(name):
    """Whether a model that was loaded by this name came from the Hugging Face hub, judging by the name."""
    is_name = re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", str(name)) is not None
    return is_name and not pathlib.Path(name).exists()


def base_name(name):
    """Returns a name of the hub unchanged, and the last part of a path; of `NAME/model`, as a run has it, both."""
    return str(name) if is_hub_name(name) else short_name(name)


def attention_page(title: str, tokens: list[str], attention):
    """Renders the attention of a text as one HTML file without references to others.

    `attention` are probabilities `(layers, heads, tokens, tokens)`, shown in steps of 0.4%.
    """
    if len(tokens) > LONGEST:
        raise ValueError(f"the page shows texts of at most {LONGEST} tokens. Received: {len(tokens)} tokens")
    layers, heads = attention.shape[:2]
    steps = np.round(np.asarray(attention, "float64") * 255).astype(np.uint8)
    data = {
        "layers": layers,
        "heads": heads,
        "tokens": tokens,
        "values": base64.b64encode(steps.tobytes()).decode(),
    }
    facts = f"{layers} layers with {heads} heads each, {len(tokens)} tokens"
    return render("attention.html", title=title, facts=facts, data=data)
