"""Runs a command: its arguments, its messages, the user's mistakes, Ctrl-C and SIGTERM."""

import contextlib
import functools
import importlib.util
import logging
import os
import re
import shlex
import shutil
import signal
import sys
import textwrap
import warnings

from absl import flags

import keras_bert
from keras_bert.files import one_writer
from keras_bert.imports import naming_extras, quiet_start
from keras_bert.progress import LogHandler, is_harmless
from keras_bert.training.interruption import TERMINATED

from . import INTERRUPTED
from .arguments import flag_fields, help_page, parse, wrapped_command
from .early_checks import find_mistakes, is_first_worker
from .plugins import LOADED, import_plugins

__all__ = ["run", "spelling"]  # The public ones.
# Errors caused by the user, or by a missing optional package; any other error is a bug and keeps its traceback.
MISTAKES = (ValueError, OSError, MemoryError, FloatingPointError, ModuleNotFoundError)
CONSOLE = "keras-bert"
_STARTING = "starting TensorFlow ..."
# `learning_rate`, `learning_rate=0.1`; columns of a file, one or several, are matched before and have no group.
_PARAMETER = re.compile(r"columns? `[^`]*`(?:(?:,| and) `[^`]*`)*|`(\w+)(=[^`]*)?`")
_HELP = {"--help", "-h", "--helpshort", "--helpfull"}


def run(document, cls, main, check=None, positional=False, tensorflow=True, resumes=False):
    """Reads the flags of a command and calls its `main` with them.

    Exits with one line and status 2 after a user's mistake, 130 after Ctrl-C and 143 after SIGTERM.

    Args:
        document: str, the documentation of the command, for `--help`.
        cls: subclass of `CommandArguments`.
        main: function of the arguments.
        check: function of the arguments that raises an error for mistakes, before TensorFlow starts, besides those that
            `find_mistakes` finds. Defaults to `None`.
        positional: bool, whether the command takes arguments that are not flags. Defaults to `False`.
        tensorflow: bool, whether the command needs TensorFlow, or a function of the arguments that tells it. Defaults
            to `True`.
        resumes: bool, whether the command continues what was interrupted; one at a time writes to `output_dir`.
            Defaults to `False`.

    Example:
        if __name__ == "__main__":
            run(__doc__, Arguments, main)
    """
    if _HELP & set(sys.argv[1:]):
        with ignoring_closed_pipes():
            print(help_page(document, cls.of(sys.argv[1:]), "".join(_spelling())), flush=True)
        return
    signal.signal(signal.SIGTERM, _terminate)  # `Trainer.fit` has its own handler.
    try:
        with naming_extras("this command"):
            cls = cls.of(sys.argv[1:])  # Messages about mistakes name its flags, too.
            arguments = parse(document, cls, sys.argv[1:])
            _prepare(arguments, check, positional)
            with one_writer(getattr(arguments, "output_dir", None), resumes and is_first_worker()):
                needs_tensorflow = tensorflow(arguments) if callable(tensorflow) else tensorflow
                if needs_tensorflow and not arguments.verbose:
                    start_tensorflow()
                with ignoring_closed_pipes(), keras_bert.memory.explain_out_of_memory():
                    main(arguments)
                    sys.stdout.flush()
    except (*MISTAKES, flags.Error) as error:
        message = " ".join(str(error).split())
        print(f"error: {as_flags(message, flag_fields(cls))}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as error:
        _print_end("interrupted", error, resumes)
        _exit(INTERRUPTED)
    except _Terminated as error:
        _print_end("terminated", error, resumes)
        _exit(TERMINATED)
    except SystemExit as error:
        _exit(error.code)


def _prepare(arguments, check, positional):
    """Sets up the messages and the plugins, and finds mistakes in the arguments."""
    if arguments.positional and not positional:
        raise ValueError(f"unexpected argument(s) {' '.join(arguments.positional)}. Expected only flags, see --help")
    show_messages(arguments.verbose)
    _keep_workers_out()
    import_plugins(arguments.plugins, arguments.verbose)
    logging.getLogger("keras_bert").addFilter(functools.partial(_rename, flag_fields(type(arguments))))
    find_mistakes(arguments, check)


def _print_end(what, error, resumes):
    """Prints that a command was interrupted or terminated, and that it continues if it is repeated."""
    message = str(error)  # That of `Trainer` tells where it has saved the run.
    if not message:
        message = f"{what}; repeat the command to continue" if resumes else what
    lines = textwrap.fill(message, 100, subsequent_indent="  ", break_long_words=False)
    print(f"\n{lines}", file=sys.stderr)


def _keep_workers_out():
    """Has the processes that this one starts find no modules in the working directory, unless this one does."""
    if os.getcwd() not in map(os.path.abspath, sys.path):
        os.environ["PYTHONSAFEPATH"] = "1"


def show_messages(verbose=False):
    """Shows this package's messages and the warnings of all others, without prefixes."""
    handler = LogHandler()
    if verbose:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    else:
        handler.addFilter(_of_interest)
        warnings.formatwarning = lambda message, *_: f"warning: {message}\n"
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def _of_interest(record):
    """Keeps this package's messages and the warnings of others, except those of every export and every grid."""
    if record.name.startswith("keras_bert"):
        return True
    return record.levelno >= logging.WARNING and not is_harmless(record)


def start_tensorflow():
    """Imports TensorFlow without the messages that it prints at every start, and says that it takes a while.

    On a terminal the line vanishes; in a log, a pipe or a notebook it stays.
    """
    is_started = sys.modules.get("tensorflow") is not None
    is_installed = importlib.util.find_spec("tensorflow") is not None
    is_said = is_installed and not is_started
    vanishes = sys.stderr.isatty()
    if is_said:
        end = "\r" if vanishes else "\n"
        print(_STARTING, end=end, file=sys.stderr, flush=True)
    with quiet_start():
        import tensorflow  # noqa: F401
    if is_said and vanishes:
        print(" " * len(_STARTING), end="\r", file=sys.stderr, flush=True)


def _rename(fields, record):
    """Changes a message that is logged as `as_flags` does; a filter of Python 3.11 cannot return another record."""
    record.msg = as_flags(record.getMessage(), fields)
    record.args = ()
    return True


def as_flags(message, fields):
    """Names the flags of this command, as a shell takes them, instead of the parameters of the library for them."""

    def renamed(match):
        parameter, value = match.groups()
        if parameter not in fields:
            return match[0]
        return f"--{parameter}{_shell_value(value)}" if value else f"--{parameter}"

    return _PARAMETER.sub(renamed, message)


def _shell_value(value):
    """Returns `=value`, as messages of the library have it, as a shell takes it after a flag."""
    text = value.removeprefix("=")
    if text in ("True", "False"):
        return f"={text.lower()}"
    if re.fullmatch(r"'[^']*'|\"[^\"]*\"", text):  # As Python writes a string.
        text = text[1:-1]
    return f"={shlex.quote(text)}"


class _Terminated(BaseException):
    """SIGTERM was received, and not in `Trainer.fit`."""


def _terminate(*_):
    raise _Terminated


def _exit(status):
    if "jax" in sys.modules and status in (INTERRUPTED, TERMINATED):  # It crashes when Python ends in a computation.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


@contextlib.contextmanager
def ignoring_closed_pipes():
    """Ends quietly when the reader of the output, such as `head`, has closed it."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def spelling(name):
    """Returns a command as this user runs it: `keras-bert predict` or `python -m pipelines.predict`, with plugins."""
    program, separator = _spelling()
    plugins = f" --plugins={','.join(LOADED)}" if LOADED else ""
    return f"{_program(program)}{separator}{name}{plugins}"


def _spelling():
    """Returns the program that this user starts, and what is between it and the command's name."""
    if sys.argv[0].startswith(f"{CONSOLE} "):
        return CONSOLE, " "
    return "python", f" -m {__package__}."


def _program(name):
    """Returns the name of a program beside this Python, or its path if the shell would start another one."""
    path = os.path.join(os.path.dirname(sys.executable), name)
    if not os.path.exists(path) or os.path.abspath(shutil.which(name) or "") == path:
        return name
    relative = os.path.relpath(path)
    if relative.startswith(os.pardir):
        return shlex.quote(path)
    return shlex.quote(relative)


def print_next(line, what=None):
    """Prints a command to run next and, in the line before it, what it does."""
    label = "next:"
    command = wrapped_command(" " * 14 + line)
    if what:
        print(f"{label:14}{what}")
        print(command)
    else:
        print(label + command[len(label) :])  # The label takes the place of some of the spaces.
