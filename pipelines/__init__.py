"""Command-line programs. A command of one's own uses these modules; those of other commands have `Arguments`, `check`
and `main`, which it may extend. See "A command of your own" in docs/guides/commands.md.
"""

import os
import sys

__all__ = ["arguments", "command", "common_flags"]

INTERRUPTED = 130  # Exit status after Ctrl-C: 128 + SIGINT.


def _handle(error_type, error, traceback):
    """Ends a program that was interrupted before `command.run`, while it imports modules, without a traceback."""
    if issubclass(error_type, KeyboardInterrupt):
        print("\ninterrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    sys.__excepthook__(error_type, error, traceback)


def _leave_working_directory():
    """Takes the working directory off `sys.path`, where `python -m` puts it, so that no file of a user's replaces a
    module; not if this package would not be found without it, in a checkout that is not installed."""
    is_started = sys.argv[:1] == ["-m"]  # Until Python has found the command.
    if not is_started or sys.flags.safe_path:
        return
    top = sys.modules[__name__.partition(".")[0]]
    needed = os.path.realpath(os.path.dirname(os.path.dirname(top.__file__)))
    if needed in map(os.path.realpath, sys.path[1:]):
        del sys.path[0]


sys.excepthook = _handle
_leave_working_directory()
