"""The flags of a command as the fields of a frozen dataclass, and the page of `--help`."""

import contextlib
import dataclasses
import math
import re
import shutil
import textwrap
import typing

from absl import flags

from keras_bert.checks import hint, similar
from keras_bert.settings import setting as flag

__all__ = ["CommandArguments", "flag"]  # The public ones.
# Parameters of the library that flags of other names set, for messages.
FLAG_OF = {"output": "output_dir", "directory": "output_dir", "vocabulary": "vocab", "form": "format", "top": "n_best"}
FLAG_OF |= {"sources": "data", "held_out": "eval_data", "phases": "phase", "stride": "doc_stride"}
FLAG_OF |= {"zero_shot": "hypothesis", "bert": "model"}
_INDENT = 32  # Columns of the name of a flag in the page of `--help`.
_WHOLE = {"break_long_words": False, "break_on_hyphens": False}
# Flags that other programs have.
_HINTS = dict.fromkeys(["num_labels", "num_classes"], "The classes are those of the labels in the data")


@dataclasses.dataclass(frozen=True)
class CommandArguments:
    """The arguments of a command. Each command adds its flags in a subclass, which is a frozen dataclass, too.

    `positional` are the arguments that are not flags; `given` has the flags that are given, by name, as in a command:
    `{"seed": "--seed=1,2"}`.

    Example:
        class Arguments(CommandArguments):
            model: str = flag(None, "Directory or name of the model.", section="model", required=True)
            seed: list[int] = flag((1,), "Random seed(s).", section="training")

        print(parse("", Arguments, ["--model=bert", "--seed=1,2"]).seed)
    """

    wording: typing.ClassVar = {}  # What a command says in the description of a shared flag, by the name there.
    others: typing.ClassVar = {}  # What to do instead of a flag that only other commands have, by its name.

    verbose: bool = flag(False, "Shows the messages of TensorFlow and other libraries.", section="other")
    plugins: list[str] = flag(
        (), "Modules to import first, which register models of their own; commas separate several.", repeatable=True
    )
    positional: tuple = ()
    given: dict = dataclasses.field(default_factory=dict)

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        dataclasses.dataclass(frozen=True)(cls)

    @classmethod
    def of(cls, arguments):
        """Returns the class of the arguments of a command line, which may say of more flags."""
        return cls

    @property
    def flagfile(self):
        """The given flags as lines for `--flagfile`."""
        names = [name for name in flag_fields(type(self)) if name in self.given and name != "verbose"]
        return "".join(f"{self.given[name]}\n" for name in names)

    def values(self, *names):
        """Returns the values of flags that have one, by name."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def only(self, condition, purpose, *names):
        """Raises an error if flags of these names are given that would do nothing, since a condition is false."""
        given = [name for name in names if name in self.given]
        if given and not condition:
            raise ValueError(f"--{given[0]}: only {purpose}. Received: {self.given[given[0]]}")

    def check_conditions(self):
        """Raises an error if a flag is given without one that it needs, or with one that it excludes, see `setting`."""
        for name, field in flag_fields(type(self)).items():
            if needed := field.metadata["needs"]:
                self.only(self._has(needed), f"with --{needed.replace(' or ', ' or --')}", name)
            for other in field.metadata["excludes"]:
                if name in self.given and getattr(self, name) is not False and self._has(other):
                    raise ValueError(f"--{name}: not with --{other}. Received: both")

    def _has(self, condition):
        """Returns whether flags have a value: `model`, `format=jsonl`, `query or squad`; a reason follows a comma."""
        pairs = [text.partition("=") for text in condition.partition(",")[0].split(" or ")]
        return any(
            getattr(self, name, None) == value if value else getattr(self, name, None) for name, _, value in pairs
        )

    def fill(self, settings, **values):
        """Returns an instance of a dataclass of settings, with these values and those of the flags of equal names."""
        names = {field.name for field in dataclasses.fields(settings)} & flag_fields(type(self)).keys()
        return settings(**{**{name: getattr(self, name) for name in names}, **values})


def flag_fields(cls):
    """Returns the fields that are flags, by name: those of the command first, then those that it shares."""
    own = [name for base in cls.__mro__ for name in vars(base).get("__annotations__", ())]
    fields = {field.name: field for field in dataclasses.fields(cls) if field.metadata.get("help")}
    return {name: fields[name] for name in dict.fromkeys(own) if name in fields}


def kind_of(field):
    """Returns the type of a flag, for a list that of its elements, and whether it is a list."""
    is_list = typing.get_origin(field.type) is list
    return typing.get_args(field.type)[0] if is_list else field.type, is_list


def help_of(cls, field):
    """Returns the description of a flag of a class, with the words of the command."""
    return re.sub(r"\{(\w+)\}", lambda match: cls.wording.get(match[1], match[0]), field.metadata["help"])


def parse(document, cls, arguments):
    """Returns an instance of a subclass of `CommandArguments` from the arguments of a command line.

    The documentation of the command has examples for the message about missing flags.

    Raises:
        absl.flags.Error or ValueError: if the arguments are wrong.
    """
    fields = flag_fields(cls)
    known, positional = _read(fields, arguments, {**_HINTS, **cls.others})
    values = {name: _value(known[name], field) for name, field in fields.items()}
    if missing := [name for name, field in fields.items() if _is_missing(name, field, values)]:
        raise ValueError(" ".join([*(_missing(name, document, cls, fields[name]) for name in missing), "See --help"]))
    given = {name: known[name].serialize() for name in fields if known[name].present}
    return cls(**values, positional=tuple(positional), given=given)


def parse_some(cls, arguments, *names):
    """Returns the values of some flags, with those of flagfiles; other flags may be unknown or missing."""
    fields = {name: flag_fields(cls)[name] for name in names}
    known, _ = _read(fields, arguments, known_only=True)
    return {name: _value(known[name], field) for name, field in fields.items()}


def _read(fields, arguments, hints=_HINTS, known_only=False):
    """Returns absl's flags, which are texts, lists of texts, or bools, and the arguments that are none.

    `hints` are sentences about unknown flags by name.
    """
    known = flags.FlagValues()
    for name, field in fields.items():
        kind, is_list = kind_of(field)
        define = flags.DEFINE_bool if kind is bool else flags.DEFINE_string
        if is_list:
            define = flags.DEFINE_multi_string if field.metadata["repeatable"] else flags.DEFINE_list
        define(name, None, "", flag_values=known)
    try:
        # A flagfile may start with a byte order mark.
        texts = [text.removeprefix("\ufeff") for text in known.read_flags_from_files(arguments, force_gnu=False)]
        return known, known(["", *texts], known_only)[1:]
    except flags.UnrecognizedFlagError as error:
        more = hint(error.flagname, fields, hints, "--{}", "See --help")
        raise ValueError(f"Unknown flag --{error.flagname}. {more}") from None
    except flags.CantOpenFlagFileError as error:
        raise ValueError(str(error).removeprefix("ERROR:: ")) from None
    except flags.IllegalFlagValueError as error:
        given = re.fullmatch(r"flag (--\w+)(=.*?): .*Non-boolean.*", str(error), re.DOTALL)
        raise ValueError(
            f"{given[1]} must be true or false. Received: {given[1]}{given[2]}" if given else error
        ) from None


def _value(parsed, field):
    """Returns the value of a flag, by default that of its field."""
    kind, is_list = kind_of(field)
    found = parsed.value if parsed.present else field.default
    if found is None or kind is bool:
        return found
    (least, most), names = field.metadata["limits"], field.metadata["values"]
    with contextlib.suppress(ValueError):
        values = [_integer(text) if kind is int else kind(text) for text in (found if is_list else [found])]
        if all(value in names if names else kind is str or _is_within(value, least, most) for value in values):
            return values if is_list else values[0]
    expected = "an integer" if kind is int else "a finite number" if least is None else "a number"
    expected += "" if least is None else f" of at least {least}" if most is None else f" from {least} to {most}"
    expected = f"one of {', '.join(names)}" if names else expected
    several = ", or several separated by commas" if is_list else ""
    fix = nearest(found if is_list else [found], names or ())
    raise ValueError(f"--{parsed.name} must be {expected}{several}. Received: {parsed.serialize()}{fix}")


def nearest(values, names):
    """Returns a question about the name that is most similar to the first value that is none, or an empty text."""
    for value in values:
        if value not in names:
            nearest = similar(str(value), names)
            return f". Did you mean {nearest}?" if nearest else ""
    return ""


def _integer(value):
    return int(value, 0 if value[:2] in ("0x", "0o") else 10) if isinstance(value, str) else value


def _is_within(value, least, most):
    is_finite = isinstance(value, int) or math.isfinite(value)
    return is_finite and (least is None or value >= least) and (most is None or value <= most)


def _is_missing(name, field, values):
    """Returns whether a required flag has no value; one may be required unless another flag has one."""
    required = field.metadata["required"]
    if not required or values[name]:
        return False
    others = required.split(" or ") if isinstance(required, str) else []
    return not any(values.get(other) for other in others)


def _missing(name, document, cls, field):
    """Returns the message about a required flag, with the example in the command's documentation."""
    # The last command of the documentation is this one, those before it prepare files.
    examples = [match[0].rstrip("`,.;") for match in re.finditer(rf'--{name}=("[^"]*"|(?!\.\.\.)\S+)', document)]
    example = f" Example: {examples[-1]}." if examples else ""
    return f"--{name} is required: {help_of(cls, field)}{example}"


def help_page(document, cls, prefix):
    """Returns the documentation of a command, with how the user starts one as `prefix`, and its flags by section."""
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
    return " \\\n".join(textwrap.wrap(line, _width() - 2, subsequent_indent=indent, **_WHOLE)).replace("\0", " ")


def _wrapped(document):
    """Fits documentation into the terminal: paragraphs, and commands of several lines."""
    parts = []
    for part in document.rstrip().split("\n\n"):
        if not part.startswith(" "):
            parts.append(textwrap.fill(part, _width(), **_WHOLE))
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
    return _columns(usage, f"{text}{' Required.' if told['required'] is True else ''}")


def _columns(usage, text):
    lines = textwrap.wrap(text, _width() - _INDENT, **_WHOLE)
    if len(usage) > _INDENT - 4:
        lines.insert(0, "")
    return "\n".join([f"  {usage:{_INDENT - 4}}  {lines[0]}".rstrip(), *(" " * _INDENT + line for line in lines[1:])])


def _width():
    return max(_INDENT + 20, min(shutil.get_terminal_size((100, 24)).columns, 100))
