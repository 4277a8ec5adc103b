"""Training steps, several per call of a graph."""

import time

import numpy as np
import tensorflow as tf

from keras_bert.memory import explain_out_of_memory
from keras_bert.processor import warn_of_emulation
from keras_bert.training.distribution import replica_dataset
from keras_bert.training.memory_estimate import check_memory
from keras_bert.training.progress import announced
from keras_bert.training.step import PENALTY

_CALL_S = 1.0  # Approximate limit of the duration of a call, so that progress is shown and Ctrl-C is noticed.


class StepLoop:
    """Trains with a `TrainStep` on each replica, several steps per call of a graph; `show` announces its tracing."""

    def __init__(self, train_step, strategy, options, interruption, show):
        self._train_step, self._strategy, self._losses = train_step, strategy, train_step.losses
        self._options, self._interruption, self._show = options, interruption, show
        self.several_workers = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self._train, self._seconds = self._new_graph(), None

    def run(self, batches, step, total, every):
        """Trains from `step` to `total`, several steps per call; calls end at each multiple of any of `every`.

        Yields the steps done; the numbers of each step of the call, a list of dicts; examples, tokens and steps per
        second, empty if the call was traced; whether a worker received a signal to stop.
        """
        warn_of_emulation(self._train_step.model._flatten_layers())
        for source in batches.sources:
            check_memory(self._train_step, source, self._options.micro_batches, self._strategy)
        segment, left = None, 0
        while step < total:
            if not left:
                # A resumed run starts here in mid-epoch: the segment is the rest of the epoch from `step` on.
                before, segment = segment, batches.segment(step)
                if before and before.source is not segment.source:
                    # So that it is traced with the static shapes of the new source.
                    self._train, self._seconds = self._new_graph(), None
                dataset = replica_dataset(
                    self._strategy, segment.make_dataset, self._losses, self._options.micro_batches
                )
                iterator, left = iter(dataset), segment.steps
            count = min(self._steps_of_call(), left, total - step, *(steps - step % steps for steps in every))
            traced, began = self._seconds is None, time.monotonic()
            with (
                explaining_out_of_memory(segment.source),
                announced("tracing the training step", show=traced and self._show),
            ):
                numbers, stop = self._call(iterator, step, count)
            seconds = time.monotonic() - began
            step, left, self._seconds = step + count, left - count, seconds / count
            yield step, numbers, {} if traced else rates(segment.source, count, seconds), stop

    def _steps_of_call(self):
        """Returns the number of steps of the next call: one to trace, later those of about a second."""
        if self._seconds is None:
            return 1
        if self.several_workers:  # They need the same number.
            return self._options.steps_per_call
        return max(1, min(self._options.steps_per_call, int(_CALL_S / max(self._seconds, 1e-9))))

    def _call(self, iterator, step, count):
        """Trains `count` steps; returns the numbers of each, a list of dicts, and whether a worker is to stop."""
        stopping = tf.constant(float(self._interruption.requested))
        rows = self._train(iterator, tf.constant(step), tf.constant(count), stopping).numpy()
        numbers = [dict(zip(self._train_step.names, row, strict=True)) for row in rows.astype(float).tolist()]
        for index, line in enumerate(numbers):
            self._check_finite(step + index, line)
        stop = any([line.pop("stop") for line in numbers])
        return numbers, stop or (self._interruption.requested and not self.several_workers)

    def _new_graph(self):
        return tf.function(self._train_steps, reduce_retracing=True, autograph=False)

    def _train_steps(self, iterator, first, count, stop):
        def train(index, numbers):
            result = self._strategy.run(self._train_step, (*next(iterator), first + index, stop))
            return index + 1, numbers.write(index, self._strategy.experimental_local_results(result)[0])

        # Several steps in one call of a graph: Python, the transfer of the numbers and the check for signals cost once
        # per call instead of once per step, a few milliseconds that are as long as the step of a small model. It can go
        # if calls of a graph return before their results are there.
        numbers = tf.TensorArray(tf.float32, count, element_shape=[None])
        return tf.while_loop(lambda index, _: index < count, train, (0, numbers))[1].stack()

    def _check_finite(self, step, line):
        names = [*(loss.name for loss in self._losses), PENALTY]
        losses = {name: line[name] for name in names if name in line}
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
    amounts = {"examples": batches.num_examples, "tokens": batches.tokens}
    done = {name: amount / batches.steps * steps for name, amount in amounts.items() if amount}
    return {name: amount / max(seconds, 1e-9) for name, amount in {**done, "steps": steps}.items()}
