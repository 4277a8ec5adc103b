"""Finds the code blocks of README and the documentation, and how each of them is checked.

A comment on the line before a block changes how it is checked: `<!-- slow -->` runs it in `make slow` only,
`<!-- not run: reason -->` only checks Python's syntax and the flags of commands, and `<!-- output -->` marks the output
of the block before. A block with the title of a file is written to that file before the page is run.
"""

import pathlib
import re
import shlex
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "saved_models" / "README.md",
    ROOT / "benchmarks" / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if not path.is_symlink()),
]
_BLOCK = re.compile(r'(?:^<!-- ([^\n]+) -->\n)?^```(\w*)(?: title="([^"\n]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_JSON = re.compile(r"'\{.*?\}'", re.DOTALL)  # An argument, which may have several lines.
_INDENTED = re.compile(r"(?<=\n\n) {4}\S.*")


class Block(NamedTuple):
    """A block of code.

    Args:
        line: int, number of its first line.
        mark: str, the comment before it; empty for none.
        language: str, such as "python".
        title: str, name of the file with this content; empty for none.
        code: str, its content.
    """

    line: int
    mark: str
    language: str
    title: str
    code: str

    @property
    def check(self):
        """How the block is checked: "file", "output", "illustration", "run", "run slowly" or "not run"."""
        if self.title:
            return "file"
        if self.language == "text" and self.mark == "output":
            return "output"
        if self.language == "text":
            return "illustration"
        if self.language not in ("python", "sh"):
            raise ValueError(f"line {self.line}: expected python, sh, text or a title. Received: {self.language!r}")
        if self.mark.startswith("not run: "):
            return "not run"
        if self.mark not in ("", "slow"):
            raise ValueError(f"line {self.line}: expected slow, output or not run: reason. Received: {self.mark!r}")
        if self.mark == "slow" or self.language == "sh":
            return "run slowly"
        return "run"


def name(page):
    """Returns the name of a page for messages."""
    return page.relative_to(ROOT).as_posix()


def blocks(page):
    """Returns the blocks of a page in order."""
    text = page.read_text()
    found = []
    for match in _BLOCK.finditer(text):
        mark, language, title, code = match.groups(default="")
        line = text.count("\n", 0, match.start(4)) + 1
        found.append(Block(line, mark, language, title, code))
    return found


def indented(page):
    """Returns the code of a page that is indented instead of fenced, which is not checked."""
    return _INDENTED.findall(_BLOCK.sub("", f"\n\n{page.read_text()}"))


def commands(code):
    """Returns the commands of a shell block as lists of words, without comments and variables."""
    joined = code.replace("\\\n", " ")
    joined = _JSON.sub(lambda match: match[0].replace("\n", " "), joined)
    found = []
    for line in joined.splitlines():
        words = _without_variables(shlex.split(line, comments=True))
        if words:
            found.append(words)
    return found


def _without_variables(words):
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    return words


def program(words):
    """Returns the module and the arguments of one of this package's commands; `None` for any other program."""
    if words[:1] == ["keras-bert"] and len(words) > 1:
        return f"keras_bert.pipelines.{words[1]}", words[2:]  # What `keras-bert` runs, see pipelines/__main__.py.
    if words[1:2] == ["-m"] and words[2].startswith(("pipelines.", "research.")):
        return words[2], words[3:]
    return None
