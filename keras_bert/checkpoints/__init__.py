"""Reads and writes checkpoints of other programs. All formats are mapped to one set of names, see `layout.py`."""
