"""The version, apart so that a build reads it without Keras."""

__version__ = "0.1.0"
