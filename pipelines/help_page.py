"""The page of `--help`, and commands that fit into the terminal."""

import re
import shutil
import textwrap

from .arguments import define, flag_fields

_INDENT = 32  # Columns of the name of a flag.


def help_page(document, cls, prefix):
    """Returns the documentation of a command, and its flags by section.

    Args:
        document: str, the documentation; `prefix` replaces `python -m pipelines.` in it.
        cls: subclass of `CommandArguments`.
        prefix: str, how the user starts a command.
    """
    known, sections, title = define(cls), {}, None
    for name, field in flag_fields(cls).items():
        title = field.metadata["section"] or title
        sections.setdefault(title, []).append(_described(known[name]))
    sections["other"].append(_columns("--flagfile=FILE", "Reads flags from a file, one per line."))
    lines = [_wrapped(document.replace("python -m pipelines.", prefix))]
    lines += [f"{title}:\n" + "\n".join(described) + "\n" for title, described in sections.items()]
    return "\n".join(lines).rstrip()


def description(flag):
    """Returns the help of a flag without what absl adds to that of enums and lists."""
    return re.sub(r"^<[^>]*>: |;\s+repeat this option.*", "", flag.help)


def wrapped_command(line):
    """Continues a command, which may be indented, on further lines if it is wider than the terminal."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    line = re.sub('"[^"]*"', lambda quoted: quoted[0].replace(" ", "\0"), line)
    options = {"subsequent_indent": indent, "break_long_words": False, "break_on_hyphens": False}
    return " \\\n".join(textwrap.wrap(line, _width() - 2, **options)).replace("\0", " ")


def _wrapped(document):
    """Fits documentation into the terminal: paragraphs, and commands of several lines."""
    parts = []
    for part in document.rstrip().split("\n\n"):
        if not part.startswith(" "):
            parts.append(textwrap.fill(part, _width(), break_long_words=False, break_on_hyphens=False))
            continue
        commands = re.sub(r" \\\n +", " ", part).split("\n")
        parts.append("\n".join(map(wrapped_command, commands)))
    return "\n\n".join(parts) + "\n"


def _described(flag):
    required = any("must have a value" in validator.message for validator in flag.validators)
    default = "" if flag.default in (None, False, []) else f" Default: {flag.default_as_str.strip(chr(39))}."
    values = getattr(flag.parser, "enum_values", None)
    allowed = f" {'One of ' if values[1:] else 'Value: '}{', '.join(values)}." if values else ""
    return _columns(_usage(flag), f"{description(flag)}{allowed}{default}{' Required.' if required else ''}")


def _usage(flag):
    if flag.boolean:
        return f"--[no]{flag.name}"
    examples = {"int": "N", "float": "X", "string enum": "NAME", "comma separated list of strings": "A,B,..."}
    return f"--{flag.name}={examples.get(flag.flag_type(), 'TEXT')}"


def _columns(usage, text):
    lines = textwrap.wrap(text, _width() - _INDENT, break_long_words=False, break_on_hyphens=False)
    if len(usage) > _INDENT - 4:
        lines.insert(0, "")
    return "\n".join([f"  {usage:{_INDENT - 4}}  {lines[0]}".rstrip(), *(" " * _INDENT + line for line in lines[1:])])


def _width():
    return max(_INDENT + 20, min(shutil.get_terminal_size((100, 24)).columns, 100))
