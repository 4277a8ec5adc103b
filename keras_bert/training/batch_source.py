"""The interface of the batch sources that `Trainer` reads."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple


class BatchSource:
    """Batches in epochs of a fixed number of steps; reading can start at any step of an epoch.

    Base class of `Batches`, `Stream`, `Phases` and `pretraining.dataset.Records`. Unknown attributes are `None`.

    Attributes:
        steps: int, batches per epoch.
        batch_size: int, rows per batch.
        sequence_length: int, maximum length of a row.
        num_examples: int, examples per epoch.
        tokens: int, tokens per epoch, without padding.
        seed: int, shuffle seed.
    """

    steps: Any = None
    batch_size: Any = None
    sequence_length: Any = None
    num_examples: Any = None
    tokens: Any = None
    seed: Any = None

    @property
    def sources(self):
        """The sources that a run reads in sequence, only this one."""
        return [self]

    def longest(self, name):
        """Returns the maximum length of a row of an input."""
        return self.sequence_length

    def dataset(self, epoch=0, start=0):
        """Returns the batches of an epoch, starting at step `start`.

        Returns:
            A `tf.data.Dataset` of `(inputs, targets, weights)`: `targets` may be `None`, `weights` is float32
            `(batch,)`, 0 for filler rows.
        """
        raise NotImplementedError

    def row_indices(self, epoch=0):
        """Returns the row indices of each batch, integer arrays with -1 for filler; `None` if rows are in order."""
        return None

    def segment(self, step):
        """Returns the `Segment` of a run that starts at `step`, also in mid-epoch: the rest of the epoch."""
        epoch, start = divmod(step, self.steps)
        return Segment(self, functools.partial(self.dataset, epoch, start), self.steps - start)


class Segment(NamedTuple):
    """Steps of a run that are read by one iterator over one source."""

    source: BatchSource
    make_dataset: Callable
    steps: float  # Infinite for a stream.
