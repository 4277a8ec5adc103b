"""Answers of loaded models in Python: why a model answers what it does."""
