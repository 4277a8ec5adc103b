"""The models of all heads, as they are exported."""

from tests.exporting.conftest import model_of, preprocessor  # noqa: F401
