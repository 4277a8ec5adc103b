"""Pre-training: the vocabulary, records from text files, their batches, and a teacher of the model."""

from keras_bert.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "keras_bert.corpus.word_counts": "count_words",
        "keras_bert.corpus.wordpiece_trainer": "learn_vocabulary",
        "keras_bert.models.student": "add_teacher without_teacher",
        "keras_bert.pretraining.beam": "generate_with_beam",
        "keras_bert.pretraining.dataset": "Records",
        "keras_bert.pretraining.generation": "generate",
        "keras_bert.pretraining.masking": "Masking",
        "keras_bert.pretraining.settings": "Settings",
    },
)
