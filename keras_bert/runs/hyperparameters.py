"""Hyperparameters shared by all runs of a grid."""

import dataclasses

import keras

from keras_bert.checks import check_count, check_not_negative, check_positive


@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters shared by all runs of a grid.

    Args:
        warmup: float, fraction of the steps used for learning rate warmup.
        weight_decay: float, weight decay of AdamW, not applied to biases and LayerNorms.
        epsilon: float, epsilon of AdamW.
        layer_decay: float, factor of the learning rate from each block to the one below; `None` disables it.
        bias_correction: bool, whether AdamW corrects the bias of its moments; Google's optimizer does not.
        freeze_layers: int, freezes the embeddings and this many of the lowest blocks; `None` freezes nothing.
        lora_rank: int, trains LoRA adapters of this rank instead of the encoder; `None` trains the encoder.
        lora_alpha: float, scale of the adapters; `None` is twice the rank.
        group_by_length: bool, whether to batch rows of similar length.
        pack: bool, whether each row of a batch contains several texts instead, see `PackedBatches`.
        gradient_accumulation: int, number of micro-batches per batch.
        precision: string, name of a Keras dtype policy.
        best: bool, whether a run keeps the weights of its best epoch on dev instead of the last ones.
        patience: int, number of epochs without improvement after which a run stops; `None` disables early stopping.
    """

    warmup: float = 0.1
    weight_decay: float = 0.01
    epsilon: float = 1e-6
    layer_decay: float | None = None
    bias_correction: bool = True
    freeze_layers: int | None = None
    lora_rank: int | None = None
    lora_alpha: float | None = None
    group_by_length: bool = True
    pack: bool = False
    gradient_accumulation: int = 1
    precision: str = "float32"
    # Differs from BERT: the original evaluates the weights after the last epoch.
    best: bool = True
    patience: int | None = None

    def __post_init__(self):
        try:
            keras.dtype_policies.get(self.precision)
        except (ValueError, TypeError):
            known = "the name of a dtype policy of Keras, such as 'float32' or 'mixed_bfloat16'"
            raise ValueError(f"`precision` must be {known}. Received: precision={self.precision!r}") from None
        check_count("gradient_accumulation", self.gradient_accumulation)
        check_not_negative("weight_decay", self.weight_decay)
        check_positive("epsilon", self.epsilon)

    def to_dict(self):
        """Returns the values by name, those of LoRA and packing only if they are used."""
        used = {"pack": self.pack, "lora_rank": self.lora_rank, "lora_alpha": self.lora_rank}
        return {name: value for name, value in dataclasses.asdict(self).items() if used.get(name, True)}
