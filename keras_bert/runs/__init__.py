"""Experiments: grids of fine-tuning runs and their statistics, pre-training, resumption, progress.

The public names are for a command or a study of one's own. They are imported on first use.
"""

from keras_bert.imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
