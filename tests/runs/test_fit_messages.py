"""What `fit` shows, whatever logging the program has."""

import logging

import pytest

from keras_bert.runs.fit_messages import messages

LOG = logging.getLogger("keras_bert")


@pytest.mark.parametrize(
    ("level", "verbose", "shown"),
    [("WARNING", True, "a\nwarning: b\n"), ("INFO", True, ""), ("WARNING", False, "")],
)
def test_messages_are_shown_unless_the_program_shows_them(level, verbose, shown, caplog, capsys):
    caplog.set_level(level)
    with messages(verbose):
        LOG.info("a")
        LOG.warning("b")
    LOG.info("c")
    assert capsys.readouterr().out == shown
    expected = {"INFO": ["a", "b", "c"], "WARNING": [] if verbose else ["b"]}
    assert caplog.messages == expected[level]
