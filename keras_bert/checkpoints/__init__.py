"""Reads and writes checkpoints of any format, which are all mapped to one set of names, see `tensors.py`.

The public names are for what loads models of one's own, see `register_models`. They are imported on first use.
"""

from keras_bert.imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
