"""BERT for TensorFlow 2 and Keras 3. See README.md; all public names are listed in `__init__.pyi`.

They are imported on first use (PEP 562), so that `import keras_bert` takes a few milliseconds.
"""

import importlib
import os
import pathlib

from keras_bert.imports import lazy_names, register_classes
from keras_bert.processor import use_onednn
from keras_bert.version import __version__ as __version__

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's errors alone.

use_onednn()

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

register_classes()

# The wings say which models they open.
for _file in sorted(pathlib.Path(__file__).parent.glob("*/wing.py")):
    importlib.import_module(f"{__name__}.{_file.parent.name}.wing")
