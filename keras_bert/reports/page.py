"""Renders the report templates, with autoescaping."""

import dataclasses
import pathlib
import re

import jinja2
import markupsafe

from keras_bert.reports.headline import Headline

NOTHING = "\N{EN DASH}"
_ROOM = pathlib.Path(__file__).parent
_SECTION = re.compile(r'<section id="(.+?)"><h2>(.+?)</h2>')
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _clean(value):
    """Replaces control characters that are invalid in HTML by U+FFFD."""
    return _CONTROL.sub("\ufffd", value) if type(value) is str else value


def cut(text, length):
    """Truncates text to `length` characters, including an ellipsis."""
    text = str(text)
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def percent(share, places=2):
    """Formats a share, such as 0.125, in percent."""
    return f"{share:.{places}%}"


def readable(value):
    """Formats a setting without Python's notation."""
    if value is None or value in ({}, [], ()):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {readable(part)}" for name, part in value.items())
    return "; ".join(map(readable, value)) if isinstance(value, list | tuple) else str(value)


def _anchor(name):
    """Returns the id of a section."""
    return re.sub(r"\W+", "-", name.lower()).strip("-")


def _contents(body):
    """Returns pairs of id and name of the sections of a rendered page."""
    return [(anchor, markupsafe.Markup(name)) for anchor, name in _SECTION.findall(body)]


def _elsewhere(path):
    """Returns the template at an absolute path, one of a report outside of this package."""
    file = pathlib.Path(path)
    return file.read_text(encoding="utf-8") if file.is_absolute() else None


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
_ENVIRONMENT.filters |= {"cut": cut, "readable": readable, "anchor": _anchor, "contents": _contents}
_ENVIRONMENT.filters["px"] = "{:.1f}".format
_ENVIRONMENT.filters["percent"] = "{:.2f}%".format
_ENVIRONMENT.globals["nothing"] = NOTHING


def render(template, **values):
    """Renders a template, by its name or absolute path, as HTML."""
    return markupsafe.Markup(_ENVIRONMENT.get_template(template).render(values))


def draw(chart, **values):
    """Renders a chart, a macro of `charts.html`, as SVG."""
    return getattr(_ENVIRONMENT.get_template("charts.html").module, chart)(**values)


@dataclasses.dataclass(frozen=True)
class Head:
    """The head of a report."""

    title: str  # Such as "MRPC - bert-base-uncased".
    facts: dict  # Texts about data, model and scores.
    run: dict = dataclasses.field(default_factory=dict)  # Texts about date, machine and versions.
    settings: dict = dataclasses.field(default_factory=dict)
    warnings: list = dataclasses.field(default_factory=list)  # Sentences to show first.
    headline: Headline | None = None  # Shown before all else.
