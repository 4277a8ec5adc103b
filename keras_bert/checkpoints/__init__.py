"""Checkpoints of other programs in and out. Every format is brought to one set of names, see `layout.py`."""
