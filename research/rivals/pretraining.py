"""Pre-training of ELMo's language model on the records of BERT."""

import dataclasses

import tensorflow as tf

from keras_bert.pretraining import Records
from keras_bert.runs import Objective
from research.rivals.config import named_rival
from research.rivals.models import build_rival


@dataclasses.dataclass(frozen=True)
class NewLanguageModel:
    """A language model of both directions, such as "bilm_H-256", as `config` of `PretrainingSettings`."""

    name: str

    def config(self, vocab_size):
        """Returns the `RivalConfig`."""
        return named_rival(self.name, vocab_size)

    def build(self, vocab_size, dtype=None, **options):
        """Builds the model; `options` of BERT's encoder are refused."""
        given = [name for name, value in options.items() if value]
        if given:
            raise ValueError(f"--config={self.name}: a bilm has no {', '.join(given)}")
        return build_rival(self.config(vocab_size), dtype=dtype)


class BidirectionalRecords(Records):
    """Batches of records without masks for a language model in each direction, see `build_bilm`."""

    def __init__(self, source, *args, **options):
        super().__init__(source, *args, **options)
        if self.static:
            raise ValueError(f"{source}: a bidirectional language model needs records without masks. Received: masks")

    def _inputs_and_targets(self, epoch, step, features):
        """The targets are the next tokens, then the previous ones; none at padding."""
        ids = features["input_ids"]
        padding_mask = features["input_mask"]
        real = tf.cast(padding_mask[:, 1:], tf.float32)
        labels = tf.concat([ids[:, 1:], ids[:, :-1]], 1)
        targets = {"mask_labels": labels, "mask_weights": tf.concat([real, real], 1)}
        return {"token_ids": ids, "padding_mask": padding_mask}, targets


class LanguageModelObjective(Objective):
    """The next and the previous token."""

    records = BidirectionalRecords

    def __post_init__(self):
        if self.causal:
            raise ValueError("a bilm reads in both directions. Received: --causal")
        if self.next_sentence:
            raise ValueError("--config: a bilm is trained without next sentence prediction. Add --next_sentence=false")
