"""The page of `--help`, and commands that fit into the terminal."""

import re
import shutil
import textwrap

from .arguments import flag_fields, help_of, kind_of

_INDENT = 32  # Columns of the name of a flag.


def help_page(document, cls, prefix):
    """Returns the documentation of a command, and its flags by section.

    Args:
        document: str, the documentation; `prefix` replaces `python -m pipelines.` in it.
        cls: subclass of `CommandArguments`.
        prefix: str, how the user starts a command.
    """
    sections, title = {}, None
    for name, field in flag_fields(cls).items():
        title = field.metadata["section"] or title
        sections.setdefault(title, []).append(_described(name, field, help_of(cls, field)))
    sections["other"].append(_columns("--flagfile=FILE", "Reads flags from a file, one per line."))
    lines = [_wrapped(document.replace("python -m pipelines.", prefix))]
    lines += [f"{title}:\n" + "\n".join(described) + "\n" for title, described in sections.items()]
    return "\n".join(lines).rstrip()


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


def _described(name, field, text):
    (kind, is_list), told, default = kind_of(field), field.metadata, field.default
    if told["values"]:
        text += f" {'One of ' if told['values'][1:] else 'Value: '}{', '.join(told['values'])}."
    if default not in (None, False, ()):
        text += f" Default: {','.join(map(str, default)) if is_list else 'true' if default is True else default}."
    example = {int: "N", float: "X"}.get(kind, "NAME" if told["values"] else "TEXT")
    example = "A,B,..." if is_list and not told["repeatable"] else example
    usage = f"--[no]{name}" if kind is bool else f"--{name}={example}"
    return _columns(usage, f"{text}{' Required.' if told['required'] else ''}")


def _columns(usage, text):
    lines = textwrap.wrap(text, _width() - _INDENT, break_long_words=False, break_on_hyphens=False)
    if len(usage) > _INDENT - 4:
        lines.insert(0, "")
    return "\n".join([f"  {usage:{_INDENT - 4}}  {lines[0]}".rstrip(), *(" " * _INDENT + line for line in lines[1:])])


def _width():
    return max(_INDENT + 20, min(shutil.get_terminal_size((100, 24)).columns, 100))
