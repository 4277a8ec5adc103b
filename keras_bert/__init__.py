"""BERT for TensorFlow 2 and Keras 3. See README.md; all public names are listed here.

They are imported on first use (PEP 562), so that `import keras_bert` takes a few milliseconds.
"""

import difflib
import importlib
import os
import sys

from keras_bert.extras import naming_extras
from keras_bert.version import __version__

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # TensorFlow's warnings, without its greeting.

# Modules of classes that `.keras` files may contain.
_SAVED = ("keras_bert.layers", "keras_bert.training.optimizer")
_SAVED_WITH_TENSORFLOW = ("keras_bert.text.preprocessor",)
_MODULES = {
    "keras_bert": "baselines layers translation",
    "keras_bert.translation.config": "TransformerConfig",
    "keras_bert.translation.model": "build_transformer",
    "keras_bert.translation.decoding": "Decoder",
    "keras_bert.translation.beam_search": "Beam beam_search",
    "keras_bert.translation.sampling": "Sampling sample",
    "keras_bert.text.lossless": "LosslessTokenizer",
    "keras_bert.config": "BERT_TINY BERT_MINI BERT_SMALL BERT_MEDIUM BERT_BASE BERT_LARGE BertConfig named_config",
    "keras_bert.models.encoder": "build_encoder",
    "keras_bert.models.pretrainer": "build_next_sentence build_pretrainer",
    "keras_bert.models.student": "add_teacher take_layers without_teacher",
    "keras_bert.models.heads": (
        "build_classifier build_embedder build_multiple_choice build_span_labeler build_token_classifier"
    ),
    "keras_bert.models.bi_encoder": "build_bi_encoder",
    "keras_bert.models.packed": "build_packed",
    "keras_bert.models.trimmed": "build_trimmed",
    "keras_bert.models.bilstm_encoder": "build_bilstm_encoder",
    "keras_bert.models.bilstm_tagger": "build_bilstm_tagger",
    "keras_bert.baselines.bilm": "build_bilm",
    "keras_bert.baselines.bilstm_classifier": "build_bilstm_classifier",
    "keras_bert.baselines.bidaf": "build_bidaf",
    "keras_bert.models.describe": "describe",
    "keras_bert.models.freezing": "freeze_layers",
    "keras_bert.models.lora": "enable_lora merge_lora",
    "keras_bert.models.split_bilstm_tagger": "split_bilstm_tagger",
    "keras_bert.checkpoints.load": "load",
    "keras_bert.checkpoints.save": "save",
    "keras_bert.checkpoints.keras_hub": "to_keras_hub",
    "keras_bert.checkpoints.litert_export": "export_litert",
    "keras_bert.checkpoints.onnx_export": "export_onnx",
    "keras_bert.search.index": "open_index",
    "keras_bert.search.index_builder": "build_index",
    "keras_bert.search.reranking": "rerank",
    "keras_bert.text.tokenizer_json": "AddedToken",
    "keras_bert.text.vocabulary": "Vocabulary",
    "keras_bert.text.tokenizer": "BertTokenizer",
    "keras_bert.text.preprocessor": "TextPreprocessor",
    "keras_bert.corpus.word_counts": "count_words",
    "keras_bert.corpus.wordpiece_trainer": "learn_vocabulary",
    "keras_bert.memory": "explain_out_of_memory keep_freed_memory",
    "keras_bert.training.optimizer": "LAMB AdamW create_optimizer",
    "keras_bert.training.schedule": "InverseSquareRootSchedule LinearSchedule",
    "keras_bert.exporting.export": "build_text_model export",
    "keras_bert.tasks.classification.zero_shot": "ZeroShot",
    "keras_bert.training.trainer": "Trainer",
    "keras_bert.training.distribution": "create_strategy",
    "keras_bert.training.bucketing": "Batches",
    "keras_bert.training.packed_batches": "PackedBatches",
    "keras_bert.training.pair_bucketing": "PairBatches",
    "keras_bert.training.tower_bucketing": "TowerBatches",
    "keras_bert.training.input_pipeline": "Stream",
    "keras_bert.training.contrastive": "cosine_loss in_batch_loss triplet_loss",
    "keras_bert.training.distillation": "distillation_loss pretraining_distillation_losses",
    "keras_bert.training.losses": "Loss classification_loss multi_label_loss pretraining_losses regression_loss "
    "span_loss token_loss",
}
_PUBLIC = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name):
    if name not in _PUBLIC:
        similar = [] if name.startswith("_") else difflib.get_close_matches(name, _PUBLIC, 1)
        hint = f". Did you mean {similar[0]!r}?" if similar else ""
        raise AttributeError(f"module 'keras_bert' has no attribute {name!r}{hint}", name=name, obj=None)
    module = _PUBLIC[name]
    jax = ", or set the environment variable KERAS_BACKEND=jax for the models alone, which run on JAX"
    with naming_extras(f"`keras_bert.{name}`", jax):
        value = (
            importlib.import_module(f"{module}.{name}")
            if module == __name__
            else getattr(importlib.import_module(module), name)
        )
        _register_classes()
    globals()[name] = value
    return value


def __dir__():
    return __all__


def _register_classes():
    """Tells Keras about the classes in `.keras` files. It is called with the first name that is used, not by a hook in
    the import of Keras, which takes seconds: most commands would wait for it in vain."""
    if "keras" not in sys.modules:
        return
    on_tensorflow = sys.modules["keras"].config.backend() == "tensorflow"
    for module in (*_SAVED, *(_SAVED_WITH_TENSORFLOW if on_tensorflow else ())):
        importlib.import_module(module)


_register_classes()
