"""The loop over training steps, several of which are one call of a graph."""

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.memory import explain_out_of_memory
from keras_bert.processor import warn_of_emulation
from keras_bert.progress import announced
from keras_bert.training.distribution import replica_dataset
from keras_bert.training.memory_estimate import check_memory
from keras_bert.training.step import PENALTY

_CALL_S = 1.0  # Approximate limit of the duration of a call, so that progress is shown and Ctrl-C is noticed.


class StepsDone(NamedTuple):
    """What a call of the training graph has done."""

    step: int  # The last one that is done.
    numbers: list  # A dict of numbers for each step of the call.
    rates: dict  # Examples, tokens and steps per second; empty if the call was traced.
    is_signalled: bool  # Whether a worker received a signal to stop.


class StepLoop:
    """Trains with a `Program`, several steps per call of its graph; `show` announces its tracing."""

    def __init__(self, program, options, interruption, show):
        self._program = program
        self._strategy = program.strategy
        self._losses = program.losses
        self._options = options
        self._interruption = interruption
        self._show = show
        self.several_workers = isinstance(self._strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self._seconds = None  # Of a step of the last call; `None` if the next call is traced.

    def run(self, batches, step, total, every) -> Iterator[StepsDone]:
        """Trains from `step` to `total`; calls of the graph end at each multiple of any of `every`."""
        warn_of_emulation(self._program.model._flatten_layers())
        for source in batches.sources:
            check_memory(self._program.step, source, self._options.micro_batches, self._strategy)
        source = None
        while step < total:
            # A resumed run starts here in mid-epoch: the segment is the rest of the epoch from `step` on.
            segment = batches.segment(step)
            if source is not None and segment.source is not source:
                self._seconds = None  # It is traced with the static shapes of the new source.
            source = segment.source
            end = min(step + segment.steps, total)
            yield from self._train_segment(segment, step, end, every)
            step = end

    def _train_segment(self, segment, step, end, every):
        """Trains from `step` to `end` with the batches of a segment; yields a `StepsDone` after each call of the graph.

        Whoever reads them may stop in between.
        """
        dataset = replica_dataset(self._strategy, segment.make_dataset, self._program.divide)
        iterator = iter(dataset)
        while step < end:
            count = min(self._steps_of_call(), end - step)
            for steps in every:
                count = min(count, steps - step % steps)
            is_traced = self._seconds is None
            began = time.monotonic()
            with (
                explaining_out_of_memory(segment.source),
                announced("tracing the training step", show=is_traced and self._show),
            ):
                numbers, is_signalled = self._call(iterator, step, count)
            seconds = time.monotonic() - began  # Of the whole call, whose numbers are there.
            self._seconds = seconds / count
            step += count
            speeds = {} if is_traced else rates(segment.source, count, seconds)
            yield StepsDone(step, numbers, speeds, is_signalled)

    def _steps_of_call(self):
        """Returns the number of steps of the next call: one to trace, later those of about a second."""
        if self._seconds is None:
            return 1
        if self.several_workers:  # They need the same number.
            return self._options.steps_per_call
        steps_of_a_second = int(_CALL_S / max(self._seconds, 1e-9))
        return max(1, min(self._options.steps_per_call, steps_of_a_second))

    def _call(self, iterator, step, count):
        """Trains `count` steps; returns the numbers of each, a list of dicts, and whether a worker is to stop."""
        is_requested = tf.constant(float(self._interruption.requested))
        values = self._program.train(iterator, step, count, is_requested).astype(float)
        numbers = []
        is_signalled = False
        for index, values_of_step in enumerate(values.tolist()):
            line = dict(zip(self._program.step.names, values_of_step, strict=True))
            self._check_finite(step + index, line)
            is_signalled = bool(line.pop("stop")) or is_signalled
            numbers.append(line)
        if self._interruption.requested and not self.several_workers:
            is_signalled = True  # During this call. Several workers stop together, after the next one.
        return numbers, is_signalled

    def _check_finite(self, step, line):
        """Raises an error if a loss of a step is not finite."""
        losses = {}
        for name in [*(loss.name for loss in self._losses), PENALTY]:
            if name in line:
                losses[name] = line[name]
        if not np.isfinite(list(losses.values())).all():
            raise FloatingPointError(
                f"the loss is not finite at step {step}: {losses}. Usual causes: a learning rate that is too high, a "
                "warm-up that is too short, labels outside the classes. Snapshots on disk are from earlier steps"
            )


def explaining_out_of_memory(batches):
    """Returns a context manager whose out-of-memory errors name the size of the batches."""
    return explain_out_of_memory(batch_size=batches.batch_size, length=batches.sequence_length)


def rates(batches, steps, seconds):
    """Returns examples, tokens and steps per second, as far as the batches know them."""
    done = {}
    for name, amount_of_epoch in (("examples", batches.num_examples), ("tokens", batches.tokens)):
        if amount_of_epoch:
            done[name] = amount_of_epoch / batches.steps * steps
    done["steps"] = steps
    return {name: amount / max(seconds, 1e-9) for name, amount in done.items()}
