"""Command-line programs."""

import sys

INTERRUPTED = 130  # Exit status after Ctrl-C: 128 + SIGINT.


def _handle(kind, error, traceback):
    """Ends a program that was interrupted before `command.run`, while it imports modules, without a traceback."""
    if issubclass(kind, KeyboardInterrupt):
        print("\ninterrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    sys.__excepthook__(kind, error, traceback)


sys.excepthook = _handle
