"""The version, in a separate file so that builds can read it without importing Keras."""

__version__ = "0.1.0"
