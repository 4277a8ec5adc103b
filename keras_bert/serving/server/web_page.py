"""The web page at `/`: one HTML document with its style and script, and the headers that restrict it to them."""

import base64
import functools
import hashlib
import pathlib
import string

_FOLDER = pathlib.Path(__file__).parent / "page"
_SCRIPTS = ("server.js", "form.js", "answers.js", "csv.js", "table.js", "events.js")


@functools.cache
def page():
    """Returns the document and its HTTP headers."""
    sources = {"style": _read("style.css"), "script": "\n".join(map(_read, _SCRIPTS))}
    hashes = {name: _hash(f"\n{text}") for name, text in sources.items()}
    return string.Template(_read("page.html")).substitute(sources), _headers(**hashes)


def _read(name):
    return (_FOLDER / name).read_text(encoding="utf-8")


def _headers(style, script):
    """Restricts the page to its own script, which may connect to this server only."""
    policy = (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    )
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }


def _hash(text):
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
