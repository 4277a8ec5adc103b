"""BERT for TensorFlow 2 and Keras 3. See README.md; all public names are listed here and in the modules of `_MODULES`.

They are imported on first use (PEP 562), so that `import keras_bert` takes a few milliseconds.
"""

import importlib
import os
import warnings

from keras_bert.lazy import lazy_names, register_classes
from keras_bert.version import __version__

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # TensorFlow's warnings, without its greeting.

_MODULES = {
    "keras_bert": "baselines data layers losses memory models pretraining search serving translation",
    "keras_bert.config": "BERT_TINY BERT_MINI BERT_SMALL BERT_MEDIUM BERT_BASE BERT_LARGE BertConfig named_config",
    "keras_bert.models.encoder": "build_encoder",
    "keras_bert.models.pretrainer": "build_next_sentence build_pretrainer",
    "keras_bert.models.heads": (
        "build_classifier build_embedder build_multiple_choice build_span_labeler build_token_classifier"
    ),
    "keras_bert.models.describe": "describe",
    "keras_bert.models.freezing": "freeze_layers",
    "keras_bert.models.lora": "enable_lora merge_lora",
    "keras_bert.checkpoints.load": "load",
    "keras_bert.checkpoints.save": "save",
    "keras_bert.checkpoints.keras_hub": "to_keras_hub",
    "keras_bert.checkpoints.litert_export": "export_litert",
    "keras_bert.checkpoints.onnx_export": "export_onnx",
    "keras_bert.text.tokenizer_json": "AddedToken",
    "keras_bert.text.vocabulary": "Vocabulary",
    "keras_bert.text.tokenizer": "BertTokenizer",
    "keras_bert.text.preprocessor": "TextPreprocessor",
    "keras_bert.training.optimizer": "LAMB AdamW create_optimizer",
    "keras_bert.training.schedule": "LinearSchedule",
    "keras_bert.exporting.export": "build_text_model export",
    "keras_bert.tasks.classification.zero_shot": "ZeroShot",
    "keras_bert.training.trainer": "Trainer",
    "keras_bert.training.distribution": "create_strategy",
}
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

_import, _, _names = lazy_names(__name__, _MODULES)
__all__ = ["__version__", *_names]


def __getattr__(name):
    if name not in _PLACES:
        return _import(name)
    place = _PLACES[name]
    message = f"keras_bert.{name} is now {place}.{name}; the old name goes with the next release"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return getattr(importlib.import_module(place), name)


def __dir__():
    return __all__


register_classes()
