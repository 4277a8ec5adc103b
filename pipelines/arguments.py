"""The flags of a command as the fields of a frozen dataclass."""

import dataclasses
import math
import re
import typing

from absl import flags

from keras_bert.tasks.settings import setting as flag

# What a flag must be, by the end of absl's message.
_EXPECTED = {
    "invalid literal for int.*": "an integer",
    "could not convert string to float.*": "a number",
    ".*Non-boolean argument.*": "true or false",
    "value should be one of <(.*)>": r"one of \1",
    ".* is not integer >= (.*)": r"an integer of at least \1",
    ".* is not number >= (.*)": r"a number of at least \1",
    ".* is not (.*)": r"\1",
}


@dataclasses.dataclass(frozen=True)
class CommandArguments:
    """The arguments of a command. Each command adds its flags in a subclass, which is a frozen dataclass, too.

    Args:
        verbose: bool, whether all messages are shown.
        plugins: list of str, the modules to import first.
        positional: tuple of str, the arguments that are not flags.
        given: dict of the flags that are given, by name, as in a command: `{"seed": "--seed=1,2"}`.

    Example:
        class Arguments(CommandArguments):
            model: str = flag(None, "Directory or name of the model.", section="model", required=True)
            seed: list[int] = flag((1,), "Random seed(s).", section="training")

        print(read(Arguments, ["--model=bert", "--seed=1,2"]).seed)
    """

    wording: typing.ClassVar = {}  # What a command says in the description of a shared flag, by the name there.

    verbose: bool = flag(False, "Shows the messages of TensorFlow and other libraries.", section="other")
    plugins: list[str] = flag((), "Modules to import first, which register models of their own.")
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

    def only(self, condition, purpose, *names):
        """Raises an error if flags of these names are given that would do nothing, since a condition is false."""
        given = [name for name in names if name in self.given]
        if given and not condition:
            raise ValueError(f"--{given[0]}: only {purpose}. Received: {self.given[given[0]]}")

    def exclude(self, name, other, why=""):
        """Raises an error if both of two flags have a value."""
        if getattr(self, name) and getattr(self, other):
            raise ValueError(f"--{name}: not with --{other}{why}. Received: both")

    def fill(self, settings, **values):
        """Returns an instance of a dataclass of settings, with these values and those of the flags of equal names."""
        names = {field.name for field in dataclasses.fields(settings)} & flag_fields(type(self)).keys()
        return settings(**{**{name: getattr(self, name) for name in names}, **values})


def flag_fields(cls):
    """Returns the fields that are flags, by name: those of the command first, then those that it shares."""
    own = [name for base in cls.__mro__ for name in vars(base).get("__annotations__", ())]
    fields = {field.name: field for field in dataclasses.fields(cls) if field.metadata.get("help")}
    return {name: fields[name] for name in dict.fromkeys(own) if name in fields}


def read(cls, arguments):
    """Returns an instance of a subclass of `CommandArguments` from the arguments of a command line.

    Raises:
        absl.flags.Error or ValueError: if the arguments are wrong.
    """
    known = define(cls)
    # A flagfile may start with a byte order mark.
    texts = [text.removeprefix("\ufeff") for text in known.read_flags_from_files(arguments, force_gnu=False)]
    positional = known(["", *texts])[1:]
    fields = flag_fields(cls)
    given = {name: known[name].serialize() for name in fields if known[name].present}
    values = {name: _value(known[name], field) for name, field in fields.items()}
    return cls(**values, positional=tuple(positional), given=given)


def read_some(cls, arguments, *names):
    """Returns the values of some flags, with those of flagfiles; other flags may be unknown or missing."""
    known = flags.FlagValues()
    for name in names:
        _define(known, name, flag_fields(cls)[name], cls.wording, is_part=True)
    known(["", *known.read_flags_from_files(arguments, force_gnu=False)], known_only=True)
    return {name: known[name].value for name in names}


def define(cls):
    """Returns the flags of a class for absl, which parses them."""
    known = flags.FlagValues()
    for name, field in flag_fields(cls).items():
        _define(known, name, field, cls.wording)
    return known


def _define(known, name, field, wording, is_part=False):
    (kind, _), told, default = _kind(field), field.metadata, field.default
    text = re.sub(r"\{(\w+)\}", lambda match: wording.get(match[1], match[0]), told["help"])
    options = {"required": told["required"] and not is_part, "flag_values": known}
    if kind is list:
        define = flags.DEFINE_multi_string if told["repeatable"] else flags.DEFINE_list
        define(name, default and list(map(str, default)), text, **options)
    elif kind is bool:
        flags.DEFINE_bool(name, default, text, **options)
    elif kind is str and told["values"]:
        flags.DEFINE_enum(name, default, told["values"], text, **options)
    elif kind is str:
        flags.DEFINE_string(name, default, text, **options)
    else:
        define = flags.DEFINE_integer if kind is int else flags.DEFINE_float
        define(name, default, text, *told["limits"], **options)


def _kind(field):
    """Returns the type of a flag, and the type of the elements of a list."""
    return (list, *typing.get_args(field.type)) if typing.get_origin(field.type) is list else (field.type, None)


def _value(parsed, field):
    """Returns the value of a flag; those of a list become numbers if its annotation says so."""
    kind, element = _kind(field)
    if kind is float and parsed.value is not None and not math.isfinite(parsed.value):
        raise ValueError(f"--{parsed.name} must be a finite number. Received: {parsed.value}")
    if kind is not list or parsed.value is None or element is str:
        return parsed.value
    received, (least, _) = ",".join(parsed.value), field.metadata["limits"]
    try:
        values = [element(text) for text in parsed.value]
    except ValueError:
        wanted = f"{'an integer' if element is int else 'a number'}, or several separated by commas"
        raise ValueError(f"--{parsed.name} must be {wanted}. Received: --{parsed.name}={received}") from None
    if not all(map(math.isfinite, values)):
        raise ValueError(f"--{parsed.name} must be finite numbers. Received: {received}")
    if least is not None and any(value < least for value in values):
        raise ValueError(f"--{parsed.name} must be at least {least}. Received: {received}")
    return values


def explain(error):
    """Returns the message about a wrong value: the flag, what was expected and what was received."""
    if match := re.fullmatch(r"flag --(\w+)=(.*?): (.*)", str(error), re.DOTALL):
        for pattern, expected in _EXPECTED.items():
            if found := re.fullmatch(pattern, match[3], re.DOTALL):
                wanted = found.expand(expected).replace("|", ", ")
                return f"--{match[1]} must be {wanted}. Received: --{match[1]}={match[2]}"
    return str(error)
