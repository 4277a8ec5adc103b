"""The browser of tests of web pages."""

import contextlib
import shutil

import pytest


@contextlib.contextmanager
def chromium():
    """Yields a browser; skips the test without playwright or chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="requires `pip install playwright`")
    path = shutil.which("chromium")
    if not path:
        pytest.skip("requires chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
