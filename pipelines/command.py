"""Runs a command: its flags, `--help`, messages, errors and Ctrl-C."""

import contextlib
import logging
import os
import re
import shlex
import shutil
import sys
import tempfile
import textwrap
import warnings

import tqdm
from absl import flags

import keras_bert

from . import INTERRUPTED

# Errors caused by the user, or by a missing optional package; any other error is a bug and keeps its traceback.
MISTAKES = (ValueError, OSError, MemoryError, FloatingPointError, ModuleNotFoundError)
CONSOLE = "keras-bert"

_LOG = logging.getLogger("keras_bert")
_SECTIONS = []  # Pairs of a title and the names of the flags defined before it.
_OLD_NAMES = {}
_PARAMETERS = {"form": "format", "output": "output_dir", "directory": "output_dir", "vocabulary": "vocab"}
_PARAMETERS |= {"next_sentence": "next_sentence"}
# TensorFlow prints these at every start. Whether a machine without an NVIDIA device has no driver is of no interest.
_NOISE = ["All log messages before absl", "cudart_stub", "cpu_feature_guard", "^To enable the following instructions"]
_NOISE += ["oneDNN custom operations are on"]
_NVIDIA = "/dev/nvidiactl"
_HARMLESS = re.compile("unsupported characters|triggered tf.function retracing")
_VERBOSE = flags.DEFINE_bool("verbose", False, "Shows the messages of TensorFlow and other libraries.")
_INDENT = 32  # Columns of a flag's name in `--help`.


def run(main, with_arguments=False, tensorflow=True, check=None, resumes=False):
    """Parses the flags and runs `main()`. User errors print one line and exit with status 2, Ctrl-C with 130.

    Args:
        main: function to run; called with the list of positional arguments if `with_arguments`.
        with_arguments: bool, whether positional arguments are allowed. Defaults to `False`.
        tensorflow: bool, whether the command needs TensorFlow, or a function that returns it. Defaults to `True`.
        check: function that raises an error for mistakes, called like `main` before TensorFlow starts. Defaults to
            `None`.
        resumes: bool, whether the same command continues what was interrupted. Defaults to `False`.
    """
    try:
        arguments = _parse(sys.argv, main.__globals__["__doc__"])
        if arguments and not with_arguments:
            raise ValueError(f"unexpected argument(s) {' '.join(arguments)}. Expected only flags, see --help")
        show_messages(_VERBOSE.value)
        for old, new in _OLD_NAMES.items():
            if flags.FLAGS[old].present:
                _LOG.warning("--%s is now --%s; the old name will be removed in the next release", old, new)
        given = [arguments] if with_arguments else []
        if check:
            check(*given)
        if (tensorflow() if callable(tensorflow) else tensorflow) and not _VERBOSE.value:
            _start_tensorflow()
        with ignoring_closed_pipes(), keras_bert.explain_out_of_memory():
            main(*given)
            sys.stdout.flush()
    except (*MISTAKES, flags.Error) as error:
        print(f"error: {_as_flags(' '.join(str(error).split()))}", file=sys.stderr)
        if isinstance(error, ModuleNotFoundError) and error.name == "tensorflow":
            print("This command needs TensorFlow: pip install tensorflow tensorflow-text", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as error:  # `Trainer` says where it has saved the run.
        message = str(error) or f"interrupted{'; repeat the command to continue' if resumes else ''}"
        print(f"\n{textwrap.fill(message, 100, subsequent_indent='  ', break_long_words=False)}", file=sys.stderr)
        if "jax" in sys.modules:  # It crashes when Python ends during a computation.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        sys.exit(INTERRUPTED)


def _as_flags(message):
    """Names the flags of this command instead of the parameters that they set."""
    for parameter, flag in _PARAMETERS.items():
        if flag in flags.FLAGS and (parameter == flag or parameter not in flags.FLAGS):
            message = message.replace(f"`{parameter}`", f"--{flag}")
    return message


@contextlib.contextmanager
def ignoring_closed_pipes():
    """Ends quietly when the reader of the output, such as `head`, has closed it."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def section(title):
    """Starts a section of `--help`: the flags that are defined after this call."""
    _SECTIONS.append((title, set(flags.FLAGS)))


def renamed(**names):
    """Accepts the old names of flags, `old="new"`, with a warning."""
    for old, new in names.items():
        flags.DEFINE_alias(old, new)
        _OLD_NAMES[old] = new


def spelling(name):
    """Returns a command as this user runs it: `keras-bert predict` or `python -m pipelines.predict`."""
    program, rest = _spelling()
    return f"{_program(program)}{rest}{name}"


def _spelling():
    """Returns the program that this user starts, and what is before the command's name."""
    return (CONSOLE, " ") if sys.argv[0].startswith(f"{CONSOLE} ") else ("python", f" -m {__package__}.")


def _program(name):
    """Returns the name of a program beside this Python, or its path if the shell would start another one."""
    path = os.path.join(os.path.dirname(sys.executable), name)
    if not os.path.exists(path) or os.path.abspath(shutil.which(name) or "") == path:
        return name
    relative = os.path.relpath(path)
    return shlex.quote(path if relative.startswith(os.pardir) else relative)


def given_flags():
    """Returns the given flags as lines for `--flagfile`."""
    names = [name for name in _names() if name not in _OLD_NAMES and flags.FLAGS[name].present]
    return "".join(f"{flags.FLAGS[name].serialize()}\n" for name in names)


def _names():
    """Returns the names of the command's flags, in the order of their definition."""
    before = _SECTIONS[0][1]
    return [name for name in flags.FLAGS if name not in before]


def _parse(arguments, document):
    """Parses the flags and returns the positional arguments; `--help` prints the help and exits."""
    asked = {"--help", "-h", "--helpshort", "--helpfull"} & set(arguments[1:])
    if asked:
        with ignoring_closed_pipes():
            print(flags.FLAGS.get_help() if "--helpfull" in asked else _help(document), flush=True)
        sys.exit(0)
    try:
        given = flags.FLAGS.read_flags_from_files(arguments[1:], force_gnu=False)
        # A flagfile may start with a byte order mark.
        return flags.FLAGS([arguments[0], *(argument.removeprefix("\ufeff") for argument in given)])[1:]
    except flags.CantOpenFlagFileError as error:
        raise ValueError(str(error).removeprefix("ERROR:: ")) from None
    except flags.IllegalFlagValueError as error:
        message = re.sub(r"invalid literal for int.*", "expected an integer", str(error))
        message = re.sub(r"could not convert string to float.*", "expected a number", message)
        missing = re.findall(r"flag --(\w+)=None: .*must have a value", message)
        raise ValueError(_missing(missing, document) if missing else message) from None


def _missing(names, document):
    """Returns the message about required flags, with the examples in the command's documentation."""
    parts = []
    for name in names:
        # The last command of the documentation is this one, those before it prepare files.
        examples = [match[0] for match in re.finditer(rf'--{name}=("[^"]*"|\S+)', document)]
        example = f" Example: {examples[-1]}." if examples else ""
        parts.append(f"--{name} is required: {_text(flags.FLAGS[name])}{example}")
    return " ".join([*parts, "See --help"])


def _help(document):
    """Returns the documentation of the command and its flags by section."""
    names, sections = [name for name in _names() if name not in _OLD_NAMES], {}
    ends = [before for _, before in _SECTIONS[1:]] + [set(names)]
    for (title, before), end in zip(_SECTIONS, ends, strict=True):
        sections.setdefault(title, []).extend(_described(name) for name in names if name in end - before)
    other = [_described("verbose"), _columns("--flagfile=FILE", "Reads flags from a file, one per line.")]
    lines = [_wrapped(document.replace("python -m pipelines.", "".join(_spelling())))]
    lines += [f"{title}:\n" + "\n".join(described) + "\n" for title, described in {**sections, "other": other}.items()]
    return "\n".join(lines).rstrip()


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


def print_next(line, what=None):
    """Prints a command to run next and, in the line before it, what it does."""
    line = wrapped_command(" " * 14 + line)
    print(f"next:         {what}\n{line}" if what else f"next:{line[5:]}")


def wrapped_command(line):
    """Continues a command, which may be indented, on further lines if it is wider than the terminal."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    line = re.sub('"[^"]*"', lambda quoted: quoted[0].replace(" ", "\0"), line)
    options = {"subsequent_indent": indent, "break_long_words": False, "break_on_hyphens": False}
    return " \\\n".join(textwrap.wrap(line, _width() - 2, **options)).replace("\0", " ")


def _described(name):
    flag = flags.FLAGS[name]
    required = any("must have a value" in validator.message for validator in flag.validators)
    default = "" if flag.default in (None, False, []) else f" Default: {flag.default_as_str.strip(chr(39))}."
    text = _text(flag)
    values = getattr(flag.parser, "enum_values", None)
    text += f" {'One of ' if values[1:] else 'Value: '}{', '.join(values)}." if values else ""
    return _columns(_usage(flag), f"{text}{default}{' Required.' if required else ''}")


def _text(flag):
    return re.sub(r"^<[^>]*>: |;\s+repeat this option.*", "", flag.help)  # Added by absl to enums and lists.


def _usage(flag):
    if flag.boolean:
        return f"--[no]{flag.name}"
    kinds = {"int": "N", "float": "X", "string enum": "NAME", "comma separated list of strings": "A,B,..."}
    return f"--{flag.name}={kinds.get(flag.flag_type(), 'TEXT')}"


def _width():
    return max(_INDENT + 20, min(shutil.get_terminal_size((100, 24)).columns, 100))


def _columns(usage, text):
    lines = textwrap.wrap(text, _width() - _INDENT, break_long_words=False, break_on_hyphens=False)
    if len(usage) > _INDENT - 4:
        lines.insert(0, "")
    return "\n".join([f"  {usage:{_INDENT - 4}}  {lines[0]}".rstrip(), *(" " * _INDENT + line for line in lines[1:])])


def show_messages(verbose=False):
    """Shows this package's messages and the warnings of all others, without prefixes."""
    handler = _Handler()
    handler.setFormatter(_Formatter())
    if not verbose:
        handler.addFilter(_of_interest)
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        warnings.formatwarning = lambda message, *_: f"warning: {message}\n"
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


class _Handler(logging.StreamHandler):
    """Writes messages above the progress line."""

    def emit(self, record):
        tqdm.tqdm.write(self.format(record), self.stream)


class _Formatter(logging.Formatter):
    def format(self, record):
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return level + super().format(record)


def _of_interest(record):
    """Keeps this package's messages and the warnings of others, except those of every export and every grid."""
    own = record.name.startswith("keras_bert")
    return own or (record.levelno >= logging.WARNING and not _HARMLESS.search(record.getMessage()))


def _start_tensorflow():
    """Imports TensorFlow without the messages that it prints at every start."""
    shown = "starting TensorFlow ...\r" if sys.stderr.isatty() else ""
    print(shown, end="", file=sys.stderr, flush=True)
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)
        try:
            import tensorflow as tf

            tf.config.list_physical_devices()  # Looks for GPUs.
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            printed.seek(0)
            noise = re.compile("|".join([*_NOISE, *([] if os.path.exists(_NVIDIA) else ["cuInit"])]))
            print(re.sub("[^\r]", " ", shown), end="", file=sys.stderr, flush=True)
            lines = printed.read().decode("utf-8", "replace").splitlines(keepends=True)
            sys.stderr.writelines(line for line in lines if not noise.search(line))
