"""Reads and writes checkpoints of any format, which are all mapped to one set of names, see `layout.py`."""
