"""The flags of a command as the fields of a frozen dataclass, and the page of `--help`."""

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
        lines = []
        for name in flag_fields(type(self)):
            if name in self.given and name != "verbose":
                lines.append(f"{self.given[name]}\n")
        return "".join(lines)

    def values(self, *names):
        """Returns the values of flags that have one, by name."""
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def only(self, condition, purpose, *names):
        """Raises an error if flags of these names are given that would do nothing, since a condition is false."""
        if condition:
            return
        for name in names:
            if name in self.given:
                raise ValueError(f"--{name}: only {purpose}. Received: {self.given[name]}")

    def check_conditions(self):
        """Raises an error if a flag is given without one that it needs, or with one that it excludes, see `setting`."""
        for name, field in flag_fields(type(self)).items():
            needed = field.metadata["needs"]
            if needed:
                self.only(self._has(needed), f"with --{needed.replace(' or ', ' or --')}", name)
            for other in field.metadata["excludes"]:
                if name in self.given and getattr(self, name) is not False and self._has(other):
                    raise ValueError(f"--{name}: not with --{other}. Received: both")

    def _has(self, condition):
        """Returns whether flags have a value: `model`, `format=jsonl`, `query or squad`; a reason follows a comma."""
        alternatives = condition.partition(",")[0]
        for alternative in alternatives.split(" or "):
            name, _, expected = alternative.partition("=")
            value = getattr(self, name, None)
            is_met = value == expected if expected else bool(value)
            if is_met:
                return True
        return False

    def fill(self, settings, **values):
        """Returns an instance of a dataclass of settings, with these values and those of the flags of equal names."""
        settings_names = {field.name for field in dataclasses.fields(settings)}
        shared = settings_names & flag_fields(type(self)).keys()
        filled = {name: getattr(self, name) for name in shared}
        filled.update(values)
        return settings(**filled)


@dataclasses.dataclass(frozen=True)
class FlagType:
    """What a flag takes: values of one type, or a list of them."""

    element: type
    is_list: bool

    @classmethod
    def of(cls, field):
        """Returns the type by the annotation of a field, such as `int` or `list[int]`."""
        if typing.get_origin(field.type) is list:
            return cls(typing.get_args(field.type)[0], is_list=True)
        return cls(field.type, is_list=False)


def flag_fields(cls):
    """Returns the fields that are flags, by name: those of the command first, then those that it shares."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    flags_by_name = {}
    for base in cls.__mro__:
        for name in vars(base).get("__annotations__", ()):
            if name in fields and fields[name].metadata.get("help"):
                flags_by_name.setdefault(name, fields[name])
    return flags_by_name


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
    parsed, positional = _parse_flags(fields, arguments, _HINTS | cls.others)
    values = {name: _flag_value(parsed[name], field) for name, field in fields.items()}
    _check_required(document, cls, fields, values)
    given = {name: parsed[name].serialize() for name in fields if parsed[name].present}
    return cls(**values, positional=tuple(positional), given=given)


def parse_some(cls, arguments, *names):
    """Returns the values of some flags, with those of flagfiles; other flags may be unknown or missing."""
    all_fields = flag_fields(cls)
    fields = {name: all_fields[name] for name in names}
    parsed, _ = _parse_flags(fields, arguments, known_only=True)
    return {name: _flag_value(parsed[name], field) for name, field in fields.items()}


def _parse_flags(fields, arguments, hints=_HINTS, known_only=False):
    """Returns absl's flags, which are texts, lists of texts, or bools, and the arguments that are none.

    `hints` are sentences about unknown flags by name.
    """
    parsed = flags.FlagValues()
    for name, field in fields.items():
        define = _defining_function(field)
        define(name, None, "", flag_values=parsed)
    try:
        texts = parsed.read_flags_from_files(arguments, force_gnu=False)
        # A flagfile may start with a byte order mark.
        texts = [text.removeprefix("\ufeff") for text in texts]
        _program, *positional = parsed(["", *texts], known_only)
    except flags.UnrecognizedFlagError as error:
        more = hint(error.flagname, fields, hints, "--{}", "See --help")
        raise ValueError(f"Unknown flag --{error.flagname}. {more}") from None
    except flags.CantOpenFlagFileError as error:
        raise ValueError(str(error).removeprefix("ERROR:: ")) from None
    except flags.IllegalFlagValueError as error:
        raise ValueError(_about_illegal_value(error)) from None
    return parsed, positional


def _defining_function(field):
    """Returns the function of absl that defines a flag; numbers are texts there, which `_flag_value` reads."""
    flag_type = FlagType.of(field)
    if flag_type.is_list and field.metadata["repeatable"]:
        return flags.DEFINE_multi_string
    if flag_type.is_list:
        return flags.DEFINE_list
    if flag_type.element is bool:
        return flags.DEFINE_bool
    return flags.DEFINE_string


def _about_illegal_value(error):
    """Returns the message about a bool that is neither true nor false, or the error of absl if it is about another."""
    given = re.fullmatch(r"flag (--\w+)(=.*?): .*Non-boolean.*", str(error), re.DOTALL)
    if given is None:
        return error
    return f"{given[1]} must be true or false. Received: {given[1]}{given[2]}"


def _flag_value(parsed, field):
    """Returns the value of a flag, by default that of its field; raises an error for one that is not allowed."""
    flag_type = FlagType.of(field)
    given = parsed.value if parsed.present else field.default
    if given is None or flag_type.element is bool:
        return given
    elements = given if flag_type.is_list else [given]
    try:
        values = [_converted(element, flag_type.element) for element in elements]
    except ValueError:
        raise _wrong_value(parsed, field, elements) from None
    if not all(_is_allowed(value, field) for value in values):
        raise _wrong_value(parsed, field, elements)
    return values if flag_type.is_list else values[0]


def _converted(value, element_type):
    """Returns a text, or a default that has the type already, as a value of the type of a flag.

    Raises a ValueError, and nothing else, for a text that is none.
    """
    if element_type is not int:
        return element_type(value)
    if not isinstance(value, str):
        return value
    is_prefixed = value[:2] in ("0x", "0o")
    return int(value, 0 if is_prefixed else 10)  # Exactly: a seed may have more digits than a float.


def _is_allowed(value, field):
    """Returns whether a value is one of the names that a flag allows or, for numbers, within its limits."""
    names = field.metadata["values"]
    if names:
        return value in names
    if isinstance(value, str):
        return True
    if isinstance(value, float) and not math.isfinite(value):
        return False
    least, most = field.metadata["limits"]
    return (least is None or value >= least) and (most is None or value <= most)


def _wrong_value(parsed, field, elements):
    """Returns the error about a flag with a value that is not allowed; `elements` are those that were given."""
    expected = _expected_value(field)
    if FlagType.of(field).is_list:
        expected += ", or several separated by commas"
    fix = nearest(elements, field.metadata["values"] or ())
    return ValueError(f"--{parsed.name} must be {expected}. Received: {parsed.serialize()}{fix}")


def _expected_value(field):
    """Returns in words what a flag allows, such as `one of lower, upper` or `an integer of at least 1`."""
    names = field.metadata["values"]
    if names:
        return f"one of {', '.join(names)}"
    is_integer = FlagType.of(field).element is int
    least, most = field.metadata["limits"]
    if least is None:
        return "an integer" if is_integer else "a finite number"
    number = "an integer" if is_integer else "a number"
    if most is None:
        return f"{number} of at least {least}"
    return f"{number} from {least} to {most}"


def nearest(values, names):
    """Returns a question about the name that is most similar to the first value that is none, or an empty text."""
    for value in values:
        if value not in names:
            nearest = similar(str(value), names)
            return f". Did you mean {nearest}?" if nearest else ""
    return ""


def _check_required(document, cls, fields, values):
    """Raises an error that describes each required flag without a value, with the example of the documentation."""
    sentences = []
    for name, field in fields.items():
        if not _is_missing(name, field, values):
            continue
        sentences.append(f"--{name} is required: {help_of(cls, field)}")
        # The last command of the documentation is this one, those before it prepare files.
        examples = re.finditer(rf'--{name}=("[^"]*"|(?!\.\.\.)\S+)', document)
        examples = [match[0].rstrip("`,.;") for match in examples]
        if examples:
            sentences.append(f"Example: {examples[-1]}.")
    if sentences:
        raise ValueError(" ".join([*sentences, "See --help"]))


def _is_missing(name, field, values):
    """Returns whether a required flag has no value; one may be required unless another flag has one."""
    required = field.metadata["required"]
    if not required or values[name]:
        return False
    others = required.split(" or ") if isinstance(required, str) else []
    return not any(values.get(other) for other in others)


def help_page(document, cls, prefix):
    """Returns the documentation of a command, with how the user starts one as `prefix`, and its flags by section."""
    sections = {}
    title = None
    for name, field in flag_fields(cls).items():
        title = field.metadata["section"] or title
        lines_of_flag = _described_flag(name, field, help_of(cls, field))
        sections.setdefault(title, []).append(lines_of_flag)
    sections["other"].append(_two_columns("--flagfile=FILE", "Reads flags from a file, one per line."))
    page = [_wrapped(document.replace("python -m pipelines.", prefix))]
    for title, described in sections.items():
        page.append(f"{title}:\n" + "\n".join(described) + "\n")
    return "\n".join(page).rstrip()


def wrapped_command(line):
    """Continues a command, which may be indented, on further lines if it is wider than the terminal."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    line = re.sub('"[^"]*"', lambda quoted: quoted[0].replace(" ", "\0"), line)
    lines = textwrap.wrap(line, _width() - 2, subsequent_indent=indent, **_WHOLE)
    return " \\\n".join(lines).replace("\0", " ")


def _wrapped(document):
    """Fits documentation into the terminal: paragraphs, and commands of several lines."""
    fitted = []
    for paragraph in document.rstrip().split("\n\n"):
        if not paragraph.startswith(" "):
            fitted.append(textwrap.fill(paragraph, _width(), **_WHOLE))
            continue
        commands = re.sub(r" \\\n +", " ", paragraph).split("\n")
        fitted.append("\n".join(map(wrapped_command, commands)))
    return "\n\n".join(fitted) + "\n"


def _described_flag(name, field, text):
    """Returns the lines of `--help` about a flag; `text` is its description, to which values and default are added."""
    description = [text]
    allowed = field.metadata["values"]
    if allowed:
        label = "One of" if len(allowed) > 1 else "Value:"
        description.append(f"{label} {', '.join(allowed)}.")
    if field.default not in (None, False, ()):  # Nor 0, which equals `False`.
        description.append(f"Default: {_shown_default(field.default)}.")
    if field.metadata["required"] is True:
        description.append("Required.")
    return _two_columns(_usage(name, field), " ".join(description))


def _usage(name, field):
    """Returns a flag as it is given, such as `--epochs=A,B,...`, with `N` for an integer and `X` for a number."""
    flag_type = FlagType.of(field)
    if flag_type.element is bool:
        return f"--[no]{name}"
    if flag_type.is_list and not field.metadata["repeatable"]:
        return f"--{name}=A,B,..."
    if flag_type.element is int:
        return f"--{name}=N"
    if flag_type.element is float:
        return f"--{name}=X"
    if field.metadata["values"]:
        return f"--{name}=NAME"
    return f"--{name}=TEXT"


def _shown_default(default):
    """Returns a default as a command line has it."""
    if default is True:
        return "true"
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return str(default)


def _two_columns(usage, text):
    """Returns a flag and its description beside it, which starts below a flag that is too long."""
    lines = textwrap.wrap(text, _width() - _INDENT, **_WHOLE)
    if len(usage) > _INDENT - 4:
        lines.insert(0, "")
    first = f"  {usage:{_INDENT - 4}}  {lines[0]}".rstrip()
    others = [" " * _INDENT + line for line in lines[1:]]
    return "\n".join([first, *others])


def _width():
    """Returns the width of the page: that of the terminal, at most 100 columns."""
    columns = shutil.get_terminal_size((100, 24)).columns
    return max(_INDENT + 20, min(columns, 100))
