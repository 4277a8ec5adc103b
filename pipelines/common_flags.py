"""What all command lines share: how they start and how they end."""

import sys

from absl import app

# A user's mistakes; anything else is ours and keeps its traceback.
_MISTAKES = (ValueError, OSError, MemoryError)


def run(main, with_arguments=False):
    """Runs `main()` after the flags are parsed; a user's mistake ends in one line and exit status 2.

    Args:
        main: the function; `with_arguments`, it is called with the list of what stands beside the flags.
        with_arguments: whether there may be anything beside the flags.
    """

    def guarded(argv):
        if len(argv) > 1 and not with_arguments:
            sys.exit(_complain(f"unexpected argument(s) {' '.join(argv[1:])}. Expected flags alone, see --help"))
        try:
            main(argv[1:]) if with_arguments else main()
        except _MISTAKES as error:
            sys.exit(_complain(error))

    app.run(guarded)


def _complain(message):
    print(f"error: {' '.join(str(message).split())}", file=sys.stderr)
    return 2
