"""SavedModels that take raw text, and files for other runtimes.

`Graph` is for the layers of a head of one's own.
"""

from keras_bert.imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
