"""The protocol of everything that `Trainer` reads batches from."""

import functools
from collections.abc import Callable
from typing import NamedTuple


class BatchSource:
    """Batches in epochs of a fixed number of steps; an epoch can start at any step.

    Base class of `Batches`, `Stream`, `Phases` and `pretraining.dataset.Records`. An attribute that a source does not
    know is `None`.

    Attributes:
        steps: int, batches of an epoch.
        batch_size: int, rows of a batch.
        sequence_length: int, the greatest length of a row.
        examples: int, rows of an epoch.
        tokens: int, tokens of an epoch without padding.
        seed: int, seed of the order.
    """

    steps = batch_size = sequence_length = examples = tokens = seed = None

    def dataset(self, epoch=0, start=0):
        """The batches of an epoch from step `start` on.

        Returns:
            `tf.data.Dataset` of `(inputs, targets, weights)`: `targets` may be `None`, `weights` is float32 `(batch,)`,
            0 for rows that only fill up a batch.
        """
        raise NotImplementedError

    def rows(self, epoch=0):
        """The row numbers of each batch, a list of integer arrays, -1 for filler; `None` if rows keep their order."""
        return None

    def segment(self, step):
        """The `Segment` of a run that starts at `step`: by default the rest of an epoch."""
        epoch, start = divmod(step, self.steps)
        return Segment(self, functools.partial(self.dataset, epoch, start), self.steps - start)


class Segment(NamedTuple):
    """Steps of a run that one iterator over one source serves.

    Args:
        source: the `BatchSource`.
        make_dataset: function without arguments that makes the dataset.
        steps: how many steps it serves; infinite for a stream.
    """

    source: BatchSource
    make_dataset: Callable
    steps: float
