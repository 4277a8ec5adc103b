"""Terms of the loss of `Trainer`, imported on first use."""

from keras_bert.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "keras_bert.training.contrastive": "cosine_loss in_batch_loss triplet_loss",
        "keras_bert.training.distillation": "distillation_loss pretraining_distillation_losses",
        "keras_bert.training.losses": "Loss classification_loss multi_label_loss pretraining_losses regression_loss "
        "span_loss token_loss",
    },
)
