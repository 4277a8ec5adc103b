"""Ctrl-C and SIGTERM: the first one is noted, and what a saved run ends with."""

import os
import signal
import threading

import pytest

from keras_bert.training.interruption import TERMINATED, Interruption, stopped

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def _handlers():
    """Shells let background jobs ignore Ctrl-C; the handlers of this process are put back."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number):
    os.kill(os.getpid(), number)


def test_messages():
    assert stopped(1000, 20_000, None) == "stopped at step 1,000 of 20,000, not saved"
    assert "saved to runs/a; repeat the command" in stopped(1, 2, "runs/a")


def test_sigterm_ends_with_its_status():
    said = []
    interruption = Interruption()
    with interruption.handled():
        assert not interruption.requested
        send(signal.SIGTERM)
        assert interruption.requested
        with pytest.raises(SystemExit) as error:
            interruption.stop("stopped", said.append)
    assert error.value.code == TERMINATED == 143
    assert said == ["stopped"]


def test_ctrl_c_ends_with_a_keyboard_interrupt():
    interruption = Interruption()
    with interruption.handled():
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="^stopped$"):
            interruption.stop("stopped", print)


def test_a_second_ctrl_c_is_not_noted():
    with Interruption().handled():
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="^$"):
            send(signal.SIGINT)


def test_handlers_are_put_back():
    interruption = Interruption()
    with interruption.handled():
        send(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not interruption.requested


def test_an_ignored_ctrl_c_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interruption().handled():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_threads_have_no_signals():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run():
        with Interruption().handled():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
