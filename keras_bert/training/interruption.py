"""Ctrl-C and SIGTERM during training: the run stops after the current step and saves its state.

1. `Interruption` notes the signal.
2. `StepLoop` ends the current call of the graph, in which the replicas of all workers sum their flags, so that all of
   them stop at the same step; `Evaluator` stops after the current batch.
3. `Trainer.fit` saves a snapshot and calls `Interruption.stop`: exit status 143, or `KeyboardInterrupt` after Ctrl-C.
4. The same program, started again, resumes at the next step, see `BatchSource.segment`.
"""

import contextlib
import signal
import threading

TERMINATED = 143  # Exit status after SIGTERM: 128 + 15.


def stopped(step, total, directory):
    """Returns the message about a run that stopped after a step; `directory` is `None` if nothing is saved."""
    saved = "not saved"
    if directory:
        saved = f"saved to {directory}; repeat the command to continue"
    return f"stopped at step {step:,} of {total:,}, {saved}"


class InterruptedEvaluation(Exception):
    """An evaluation was stopped; it is repeated when the run resumes."""


class Interruption:
    """Turns the first Ctrl-C or SIGTERM into `requested`. A second Ctrl-C raises `KeyboardInterrupt` at once."""

    def __init__(self):
        self.requested = False
        self._by_user = False
        self._before = {}  # The handlers of the signals outside of `handled`.

    @contextlib.contextmanager
    def handled(self):
        """Handles both signals while the block runs, in the main thread and unless the process ignores Ctrl-C."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = [signal.SIGTERM]
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            numbers.append(signal.SIGINT)
        self._before = {number: signal.signal(number, self._request) for number in numbers}
        try:
            yield
        finally:
            for number, handler in self._before.items():
                signal.signal(number, handler)
            self.requested = False
            self._by_user = False

    def _request(self, number, _):
        """Handles the first signal of a number; the handler before it handles a second Ctrl-C."""
        self.requested = True
        if number == signal.SIGINT:
            self._by_user = True
            signal.signal(number, self._before[number])

    def stop(self, message, say):
        """Ends a saved run: `KeyboardInterrupt` with a message after Ctrl-C, else exit with status 143."""
        if self._by_user:
            raise KeyboardInterrupt(message)
        say(message)
        raise SystemExit(TERMINATED)
