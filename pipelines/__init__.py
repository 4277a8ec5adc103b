"""Command lines: flags, a few library calls, a log."""
