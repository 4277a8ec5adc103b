"""Converts the docstrings, which have the sections of Keras' documentation, to Markdown for the API reference."""

import re
import textwrap

import griffe

_SECTION = re.compile(r"^(Args|Call arguments|Attributes|Returns|Yields|Example):\n((?:[ ]{4}.*\n|\n)+)", re.MULTILINE)
_NAMES = re.compile(r"^([*\w]+(?:, [*\w]+)*):", re.MULTILINE)


class KerasDocstrings(griffe.Extension):
    """Rewrites each docstring when its object is loaded."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring is not None:
            obj.docstring.value = _SECTION.sub(_markdown, f"{obj.docstring.value}\n")


def _markdown(match):
    """Returns a section as Markdown: arguments as a list, examples as code."""
    title, body = match[1], textwrap.dedent(match[2]).strip()
    if title == "Example":
        body = f"```python\n{body}\n```"
    elif title in ("Args", "Call arguments", "Attributes"):
        body = _NAMES.sub(r"- **`\1`**:", body)
    return f"**{title}**\n\n{body}\n\n"
