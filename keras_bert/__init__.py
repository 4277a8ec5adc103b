"""BERT for TensorFlow 2 and Keras 3. See README.md; all public names are listed in `__init__.pyi`.

They are imported on first use (PEP 562), so that `import keras_bert` takes a few milliseconds.
"""

import importlib
import os
import warnings

from keras_bert.lazy import lazy_names, register_classes
from keras_bert.version import __version__ as __version__

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's errors alone.

# Flat names of earlier versions, by the module that has them now. They go with the next release.
_MOVED = {
    "baselines": "build_bidaf build_bilm build_bilstm_classifier",
    "data": "Batches PackedBatches PairBatches Stream TowerBatches",
    "losses": "Loss classification_loss cosine_loss distillation_loss in_batch_loss multi_label_loss "
    "pretraining_distillation_losses pretraining_losses regression_loss span_loss token_loss triplet_loss",
    "memory": "explain_out_of_memory keep_freed_memory",
    "models": "build_bi_encoder build_bilstm_encoder build_bilstm_tagger build_packed build_trimmed "
    "split_bilstm_tagger take_layers",
    "pretraining": "add_teacher count_words learn_vocabulary without_teacher",
    "search": "build_index open_index rerank",
    "translation": "Beam Decoder InverseSquareRootSchedule LosslessTokenizer Sampling TransformerConfig beam_search "
    "build_transformer sample",
}
_PLACES = {name: f"keras_bert.{module}" for module, names in _MOVED.items() for name in names.split()}

_import, __dir__, __all__ = lazy_names(__name__, __file__)


def __getattr__(name):
    if name not in _PLACES:
        return _import(name)
    place = _PLACES[name]
    message = f"keras_bert.{name} is now {place}.{name}; the old name goes with the next release"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return getattr(importlib.import_module(place), name)


register_classes()
