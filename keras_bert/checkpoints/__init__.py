"""Reads and writes checkpoints, this package's and other programs'. All formats are mapped to one set of names, see `layout.py`."""
