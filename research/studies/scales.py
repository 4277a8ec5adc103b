"""Scales of the studies: the sizes of models and data, from the paper's to a demonstration of minutes."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class FinetuningRecipe:
    """How a task is fine-tuned."""

    learning_rates: tuple = (5e-5, 4e-5, 3e-5, 2e-5)  # The one with the best mean over the seeds counts.
    batch_size: int = 32
    epochs: int = 3
    sequence_length: int = 128
    train_examples: int | None = None  # `None` for all.
    dev_examples: int | None = None


@dataclasses.dataclass(frozen=True)
class Scale:
    """Sizes of a study."""

    config: str  # Name of the model's size, unless a row has its own.
    phases: tuple  # Tuple of dicts with `length`, `steps` and `batch`, the phases of pre-training.
    learning_rate: float  # Peak learning rate of pre-training.
    tasks: dict  # Dict of `FinetuningRecipe`s by task name; `glue` is that of all other tasks.
    seeds: tuple = (1, 2, 3)  # The seeds of fine-tuning.
    bilm: str = "bilm_H-128"  # Names of the sizes of the models that BERT is compared with, see `named_rival`.
    bilstm: str = "bilstm_H-128_E-128"
    bidaf: str = "bidaf_H-64_E-128"
    vocab_size: int = 30522  # Size of the vocabulary if one is learned.
    warmup: float = 0.1  # Fraction of the steps of pre-training used for warmup.
    eval_examples: int = 2000  # Number of held-out examples for the perplexity.
    recurrent_rates: tuple = (1e-3,)  # The learning rates of models without BERT, for all tasks.

    def recipe(self, task):
        """Returns the `FinetuningRecipe` of a task."""
        return self.tasks.get(task, self.tasks["glue"])

    @property
    def steps(self):
        """Returns the number of pre-training steps."""
        return sum(phase["steps"] for phase in self.phases)


def _phases(*phases):
    """Returns phases of tuples: the length of sequences, the steps and the batch size."""
    return tuple({"length": length, "steps": steps, "batch": batch} for length, steps, batch in phases)


def _tasks(glue, squad, ner, features_epochs):
    """Returns recipes by task; feature-based tagging trains longer, and only a BiLSTM."""
    features = dataclasses.replace(ner, learning_rates=(1e-3,), epochs=features_epochs)
    return {"glue": glue, "squad": squad, "ner": ner, "ner_features": features}


_PAPER = FinetuningRecipe()
_SQUAD = FinetuningRecipe((5e-5,), sequence_length=384)
_SMALL = FinetuningRecipe((3e-4,))
_TINY = dataclasses.replace(_SMALL, learning_rates=(3e-4, 1e-4))
_MINI = dataclasses.replace(_SMALL, train_examples=10_000)
_DEMO = FinetuningRecipe((3e-4,), batch_size=16, epochs=1, sequence_length=64, train_examples=300, dev_examples=200)
_DEMO_SQUAD = dataclasses.replace(_DEMO, sequence_length=128, train_examples=100, dev_examples=50)
_MINI_SQUAD = FinetuningRecipe(
    (3e-4,), batch_size=16, epochs=3, sequence_length=256, train_examples=2000, dev_examples=2000
)

SCALES = {
    # The paper's, for machines with accelerators.
    "base": Scale(
        "base",
        _phases((128, 900_000, 256), (512, 100_000, 256)),
        1e-4,
        _tasks(_PAPER, _SQUAD, _PAPER, 20),
        (1, 2, 3, 4, 5),
        bilm="bilm",  # These three are of the published sizes.
        bilstm="bilstm",
        bidaf="bidaf",
        warmup=0.01,
    ),
    # A day on one accelerator.
    "tiny": Scale(
        "tiny",
        _phases((128, 180_000, 64), (512, 20_000, 16)),
        5e-4,
        _tasks(_TINY, dataclasses.replace(_SQUAD, learning_rates=(3e-4,)), _SMALL, 20),
        warmup=0.01,
    ),
    # Hours on two cores.
    "mini": Scale(
        "L-4_H-128",
        # Mostly short rows: a small model learns faster from them.
        _phases((32, 2000, 128), (128, 500, 32), (256, 150, 16)),
        1e-3,
        _tasks(_MINI, _MINI_SQUAD, _MINI, 10),
        vocab_size=8000,
    ),
    # Minutes on two cores: shows that a study runs, not what it finds.
    "demo": Scale(
        "L-4_H-128",
        _phases((32, 50, 32)),
        1e-3,
        _tasks(_DEMO, _DEMO_SQUAD, _DEMO, 1),
        (1, 2),
        vocab_size=2000,
        eval_examples=200,
    ),
}
