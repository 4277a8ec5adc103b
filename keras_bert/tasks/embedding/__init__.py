"""Data and metrics of sentence encoders."""
