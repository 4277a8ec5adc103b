"""Models with a single block, which is enough for these tests."""

from tests.models.conftest import config

__all__ = ["config"]
