"""What all command lines share: how they start and how they end."""

import sys

from absl import app

# A user's mistakes; anything else is ours and keeps its traceback.
_MISTAKES = (ValueError, OSError, MemoryError)


def run(main):
    """Runs `main()` after the flags are parsed; a user's mistake ends in one line and exit status 2."""

    def guarded(argv):
        if len(argv) > 1:
            sys.exit(_complain(f"unexpected argument(s) {' '.join(argv[1:])}. Expected flags alone, see --help"))
        try:
            main()
        except _MISTAKES as error:
            sys.exit(_complain(error))

    app.run(guarded)


def _complain(message):
    print(f"error: {' '.join(str(message).split())}", file=sys.stderr)
    return 2
