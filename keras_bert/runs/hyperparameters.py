"""What all runs of a grid share, and the settings of pre-training, as flags and keywords; without TensorFlow."""

import dataclasses

from keras_bert.checks import check_count, check_not_negative, check_positive, with_plain_numbers
from keras_bert.settings import setting

PRECISIONS = ["float32", "mixed_bfloat16", "mixed_float16"]  # Those of the commands; `fit` takes any dtype policy.
_WHOLE = "lora_rank, which freezes the whole encoder"
_PACKED = "pack, whose rows have one length"


@with_plain_numbers
@dataclasses.dataclass(frozen=True, kw_only=True)
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

    warmup: float = setting(0.1, "Fraction of the steps used for warmup.", least=0, most=1, section="training")
    weight_decay: float = setting(0.01, "Weight decay, except on biases and LayerNorms.")
    epsilon: float = setting(1e-6, "Epsilon of AdamW; PyTorch's default is 1e-8.")
    layer_decay: float = setting(None, "Learning rate factor from each block to the one below.")
    bias_correction: bool = setting(True, "Bias correction of the optimizer; Google's BERT has none.")
    freeze_layers: int = setting(None, "Freezes the embeddings and this many of the lowest blocks.", excludes=(_WHOLE,))
    lora_rank: int = setting(
        None,
        "Trains LoRA adapters of this rank, such as 8, and the head, at about ten times the default learning rate.",
        least=1,
    )
    lora_alpha: float = setting(None, "Scale of the adapters; default: twice the rank.", least=0, needs="lora_rank")
    group_by_length: bool = setting(True, "Batches rows of similar length, which is faster.", excludes=(_PACKED,))
    pack: bool = setting(False, "Packs several texts into each row; for classification and tagging.")
    gradient_accumulation: int = setting(1, "Micro-batches per batch.", least=1)
    precision: str = setting("float32", "Computation precision.", values=PRECISIONS)
    # Differs from BERT: the original evaluates the weights after the last epoch.
    best: bool = setting(
        True, "Keeps the best epoch on dev by the task's metric, instead of the last one as in the paper."
    )
    patience: int = setting(
        None,
        "Epochs without a better score on dev, or an equal one with a lower loss, after which a run stops.",
        least=1,
    )

    def __post_init__(self):
        check_count("gradient_accumulation", self.gradient_accumulation)
        check_not_negative("weight_decay", self.weight_decay)
        check_positive("epsilon", self.epsilon)

    def to_dict(self):
        """Returns the values by name, those of LoRA and packing only if they are used."""
        values = dataclasses.asdict(self)
        if not self.pack:
            del values["pack"]
        if not self.lora_rank:
            del values["lora_rank"]
            del values["lora_alpha"]
        return values


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingHyperparameters:
    """Settings of pre-training that are flags of its command, too. Defaults follow the paper.

    `positions` are those of `build_encoder`; of the `optimizer`, LAMB is for large batches. `seed` is that of weights
    and dropout; `pack` tells whether the rows of a batch contain several examples each, see `PackedRecords`.
    """

    pack: bool = setting(
        False, "Packs several short examples into each row of a batch.", section="training", excludes=("teacher",)
    )
    positions: str = setting(
        None,
        "Position embeddings of new weights; default: learned.",
        values=["learned", "sinusoid", "none"],
        needs="config",
    )
    optimizer: str = setting("adamw", "Optimizer; LAMB is for large batches.", values=["adamw", "lamb"])
    learning_rate: float = setting(1e-4, "Peak learning rate.", least=0)
    warmup: float = setting(0.01, "Fraction of the steps used for warmup.", least=0, most=1)
    bias_correction: bool = setting(False, "Bias correction of the optimizer; Google's BERT has none.")
    remat: bool = setting(False, "Recomputes activations: half the speed, a third of the memory.")
    seed: int = setting(1, "Random seed.", least=0)
    save_every: int = setting(1000, "Steps between snapshots and between evaluations.", least=1)
    gradient_accumulation: int = setting(1, "Micro-batches per batch.", least=1)
    precision: str = setting("float32", "Computation precision.", values=PRECISIONS)
