"""Keras callbacks in the training loop of `Trainer`."""

import keras

from keras_bert.training.callbacks import Callback


def check_callbacks(callbacks):
    """Raises an error unless all of a list are callbacks that leave the learning rate alone."""
    for callback in callbacks:
        if not isinstance(callback, Callback | keras.callbacks.Callback):
            raise ValueError(f"`callbacks` must be a list of Keras callbacks. Received: {callback!r:.100}")
        if isinstance(callback, keras.callbacks.LearningRateScheduler | keras.callbacks.ReduceLROnPlateau):
            raise ValueError(
                "`callbacks` must not set the learning rate, which has a schedule of warm-up and decay. "
                f"Received: {type(callback).__name__}"
            )


class KerasCallbacks(Callback):
    """Calls Keras callbacks as `model.fit` does, with `loss` and, after an evaluation, its results as `val_...`.

    A call of the training graph has several steps, so that the methods of its batches are called together after it.
    When a run resumes, epochs go on counting, but callbacks start anew.

    Args:
        callbacks: list of `keras.callbacks.Callback`.
        model: the model that they see, whose weights are those of training.
    """

    def __init__(self, callbacks, model):
        for callback in callbacks:  # Higher scores are better, which Keras knows only of its own metrics.
            if getattr(callback, "mode", None) == "auto" and not callback.monitor.endswith("loss"):
                callback.mode = "max"
        self._callbacks, self._model = keras.callbacks.CallbackList(callbacks, model=model), model
        self._model.stop_training = False
        self._per_epoch, self._epoch, self._batches, self._sums = 1, None, 0, {}

    @property
    def stops(self):
        """Whether a callback has set `stop_training`."""
        return self._model.stop_training

    def on_train_begin(self, settings, step):
        self._per_epoch = settings["batches.steps"]
        self._callbacks.set_params(
            {"epochs": -(-settings["total_steps"] // self._per_epoch), "steps": self._per_epoch, "verbose": 0}
        )
        self._callbacks.on_train_begin()

    def on_log(self, step, numbers):
        epoch, batch = divmod(step - 1, self._per_epoch)
        if epoch != self._epoch:
            self._begin_epoch(epoch)
        self._callbacks.on_train_batch_begin(batch)
        self._batches += 1
        for name, value in with_loss(numbers).items():
            if name.endswith("loss"):
                self._sums[name] = self._sums.get(name, 0.0) + value
        self._callbacks.on_train_batch_end(batch, self._means())

    def _begin_epoch(self, epoch):
        self._epoch, self._batches, self._sums = epoch, 0, {}
        self._callbacks.on_epoch_begin(epoch)

    def on_epoch_end(self, step, results):
        if self._epoch is None:  # The run resumes with the evaluation of its last epoch.
            self._begin_epoch(step // self._per_epoch - 1)
        results = {f"val_{name}": value for name, value in with_loss(results).items()}
        self._callbacks.on_epoch_end(self._epoch, {**self._means(), **results})

    def on_train_end(self, results):
        self._callbacks.on_train_end(self._means())

    def _means(self):
        """Returns the mean losses of the epoch so far."""
        return {name: value / self._batches for name, value in self._sums.items()}


def with_loss(numbers):
    """Adds `loss`, the sum of all terms, which Keras callbacks read."""
    terms = [value for name, value in numbers.items() if name.endswith("_loss")]
    return {"loss": sum(terms), **numbers} if terms else numbers


def adapted(callbacks, model, several_workers):
    """Returns the callbacks of a `Trainer`, the Keras callbacks among them as one `KerasCallbacks`."""
    check_callbacks(callbacks)
    foreign = [callback for callback in callbacks if isinstance(callback, keras.callbacks.Callback)]
    if foreign and several_workers:
        raise ValueError("Keras callbacks run on one machine: they cannot stop the other workers. Received: several")
    own = [callback for callback in callbacks if callback not in foreign]
    return own + ([KerasCallbacks(foreign, model)] if foreign else [])
