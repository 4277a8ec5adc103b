"""Callbacks of a training run: TensorBoard, Weights & Biases, MLflow, and those of Keras."""

import os
import pathlib
import socket
import time
import uuid

import keras
import numpy as np
import tensorflow as tf

from keras_bert.checks import check_report_to
from keras_bert.files import json_text, read_json, write_json
from keras_bert.training.loss_names import LOSS, with_total

# Settings that are not hyperparameters.
_UNREPORTED = ("weights", "undecayed", "fused", "rates", "module", "registered_name")
_MLFLOW_LENGTH = 500  # MLflow's limit on the length of a parameter.
# Keras callbacks that set the learning rate.
_SETTING_RATES = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)


class Callback:
    """Base class of callbacks for `Trainer`. With several workers, only the chief worker calls them.

    Example:
        class Printer(Callback):
            def on_log(self, step, numbers):
                print(step, numbers["loss"])

        trainer = Trainer(..., directory="runs/1", callbacks=[TensorBoard("runs/1/tensorboard"), Printer()])
    """

    stops = False  # Whether to stop the run, as after its last step; read after each call of the training graph.

    def on_train_begin(self, settings, step):
        """Called before the first step.

        Args:
            settings: dict of hyperparameters, with dotted names such as `optimizer.weight_decay`.
            step: int, 0 for a new run, else the step after which an interrupted run resumes.
        """

    def on_log(self, step, numbers):
        """Called every `log_every` steps with the means since the last call, and with speeds, `..._per_second`."""

    def on_evaluation(self, step, results):
        """Called after each evaluation."""

    def on_epoch_end(self, step, results):
        """Called after the last step of each epoch, with the results of its evaluation; empty without."""

    def on_train_end(self, results):
        """Called after the last step with the results of `fit`, but not if the run is interrupted."""


def create_callbacks(names, directory, run_name):
    """Returns the callbacks that report the run in a directory, for the names in `REPORT_TO`."""
    check_report_to(names)
    callbacks = []
    if "tensorboard" in names:
        callbacks.append(TensorBoard(pathlib.Path(directory) / "tensorboard"))
    for service in (WeightsAndBiases, MLflow):
        if service.name in names:
            callbacks.append(service(directory, run_name))
    return callbacks


class _Reports(Callback):
    """Base class of callbacks that report numbers by group, such as `train/loss` and `speed/examples_per_second`."""

    def on_log(self, step, numbers):
        by_group = {}
        for name, value in numbers.items():
            group = "speed" if name.endswith("_per_second") else "train"
            by_group[f"{group}/{name}"] = value
        self.report(step, by_group)

    def on_evaluation(self, step, results):
        self.report(step + 0.5, {f"evaluation/{name}": value for name, value in results.items()})

    def report(self, place, numbers):
        """Reports numbers of step `int(place)`; an evaluation comes after the log of the same step."""
        raise NotImplementedError


class TensorBoard(_Reports):
    """Writes event files for TensorBoard, without needing the package. A resumed run keeps one curve."""

    def __init__(self, directory):
        self._directory = pathlib.Path(directory)
        self._writer = None

    def on_train_begin(self, settings, step):
        self._directory.mkdir(parents=True, exist_ok=True)
        old_files = sorted(self._directory.glob("events.out.tfevents.*"))
        earlier = _events_up_to(step, old_files) if step else []
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._writer = tf.io.TFRecordWriter(str(self._directory / name))
        self._write(file_version="brain.Event:2")
        for event in earlier:
            self._writer.write(event.SerializeToString())
        self._writer.flush()
        for path in old_files:
            path.unlink()
        if not step:
            self._add(0, "settings", np.array([_settings_table(settings)], object), plugin="text")

    def report(self, place, numbers):
        for name, value in numbers.items():
            self._add(int(place), name, np.float32(value), plugin="scalars")
        self._writer.flush()

    def on_train_end(self, results):
        self._writer.close()

    def _add(self, step, tag, value, plugin):
        """Adds one value, in the form of `tf.summary.scalar` or `tf.summary.text`."""
        data = tf.compat.v1.SummaryMetadata.PluginData(plugin_name=plugin)
        metadata = tf.compat.v1.SummaryMetadata(plugin_data=data, data_class=1)
        summary = tf.compat.v1.Summary()
        summary.value.add(tag=tag, metadata=metadata, tensor=tf.make_tensor_proto(value))
        self._write(step=step, summary=summary)

    def _write(self, **fields):
        self._writer.write(tf.compat.v1.Event(wall_time=time.time(), **fields).SerializeToString())


def _settings_table(settings):
    """Returns settings as a table in Markdown."""
    lines = ["| setting | value |", "|---|---|"]
    for name, value in settings.items():
        shown = str(value).replace("|", " ")
        lines.append(f"| {name} | {shown} |")
    return "\n".join(lines)


def _events_up_to(step, paths):
    """Returns the events with values in some files, up to those of a step."""
    events = []
    for path in paths:
        for event in _events(path):
            if event.summary.value and event.step <= step:
                events.append(event)
    return events


def _events(path):
    """Yields the events of a file up to the first damaged one."""
    try:
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            yield tf.compat.v1.Event.FromString(record)
    except tf.errors.DataLossError:
        return


class TrackingService(_Reports):
    """Base class for services: continues an interrupted run without repeating points; a file keeps its id and place."""

    name: str

    def __init__(self, directory, run_name):
        self._file = pathlib.Path(directory) / f"{self.name}.json"
        self._run_name = run_name

    def on_train_begin(self, settings, step):
        if step and self._file.exists():
            self._state = read_json(self._file)
        else:
            self._state = {"id": None, "step": -1}
        self._state["id"] = self.start(self._state["id"], settings)
        write_json(self._file, self._state)

    def report(self, place, numbers):
        """Sends numbers unless they were sent before."""
        if place > self._state["step"]:
            self.send(int(place), numbers)
            self._state["step"] = place
            write_json(self._file, self._state)

    def start(self, run_id, settings):
        """Starts a run, or continues the one with an id; returns its id."""
        raise NotImplementedError

    def send(self, step, numbers):
        """Sends the numbers of a step."""
        raise NotImplementedError


class WeightsAndBiases(TrackingService):
    """Reports to Weights & Biases; `WANDB_PROJECT`, `WANDB_MODE=offline` and its other variables apply."""

    name = "wandb"

    def start(self, run_id, settings):
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "keras_bert"),
            id=run_id or uuid.uuid4().hex[:8],
            name=self._run_name,
            dir=str(self._file.parent),
            config=settings,
            resume="allow",
            reinit="finish_previous",
            settings=wandb.Settings(quiet=True),
        )
        return self._run.id

    def send(self, step, numbers):
        self._run.log(numbers, step=step)

    def on_train_end(self, results):
        self._run.summary.update(results)
        self._run.finish()


class MLflow(TrackingService):
    """Reports to MLflow; `MLFLOW_TRACKING_URI` and `MLFLOW_EXPERIMENT_NAME` apply."""

    name = "mlflow"

    def start(self, run_id, settings):
        import mlflow

        self._client = mlflow.MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "keras_bert")
        experiment = self._client.get_experiment_by_name(name)
        if experiment:
            experiment_id = experiment.experiment_id
        else:
            experiment_id = self._client.create_experiment(name)
        if run_id is None:
            run_id = self._client.create_run(experiment_id, run_name=self._run_name).info.run_id
            for key, value in settings.items():
                self._client.log_param(run_id, key, str(value)[:_MLFLOW_LENGTH])
        self._client.update_run(run_id, status="RUNNING")
        return run_id

    def send(self, step, numbers):
        for name, value in numbers.items():
            self._client.log_metric(self._state["id"], name, value, step=step)

    def on_train_end(self, results):
        self._client.set_terminated(self._state["id"])


def flat_settings(settings, prefix=""):
    """Returns nested settings as one dict with dotted names, lists as JSON, without settings of single weights."""
    flat = {}
    for name, value in settings.items():
        if name in _UNREPORTED or value is None:
            continue
        if isinstance(value, dict):
            inner_prefix = prefix if name == "config" else f"{prefix}{name}."
            flat.update(flat_settings(value, inner_prefix))
        elif isinstance(value, list | tuple):
            flat[prefix + name] = json_text(value, ensure_ascii=True)
        else:
            flat[prefix + name] = value
    return flat


def check_callbacks(callbacks):
    """Raises an error unless all of a list are callbacks that leave the learning rate alone."""
    for callback in callbacks:
        if not isinstance(callback, Callback | keras.callbacks.Callback):
            raise ValueError(f"`callbacks` must be a list of Keras callbacks. Received: {callback!r:.100}")
        if isinstance(callback, _SETTING_RATES):
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
        losses: list of the names of the losses of training.
    """

    def __init__(self, callbacks, model, losses):
        self._losses = list(losses)
        for callback in callbacks:
            _set_mode(callback, self._losses)
        self._callbacks = keras.callbacks.CallbackList(callbacks, model=model)
        self._model = model
        self._model.stop_training = False
        self._per_epoch = 1
        self._epoch = None
        self._batches = 0  # Of the epoch so far, and the sums of their losses.
        self._sums = {}

    @property
    def stops(self):
        """Whether a callback has set `stop_training`."""
        return self._model.stop_training

    def on_train_begin(self, settings, step):
        self._per_epoch = settings["batches.steps"]
        epochs = -(-settings["total_steps"] // self._per_epoch)
        self._callbacks.set_params({"epochs": epochs, "steps": self._per_epoch, "verbose": 0})
        self._callbacks.on_train_begin()

    def on_log(self, step, numbers):
        epoch, batch = divmod(step - 1, self._per_epoch)
        if epoch != self._epoch:
            self._begin_epoch(epoch)
        self._callbacks.on_train_batch_begin(batch)
        self._batches += 1
        for name, value in with_total(numbers, self._losses).items():
            if name == LOSS or name in self._losses:
                self._sums[name] = self._sums.get(name, 0.0) + value
        self._callbacks.on_train_batch_end(batch, self._means())

    def _begin_epoch(self, epoch):
        self._epoch = epoch
        self._batches = 0
        self._sums = {}
        self._callbacks.on_epoch_begin(epoch)

    def on_epoch_end(self, step, results):
        if self._epoch is None:  # The run resumes with the evaluation of its last epoch.
            self._begin_epoch(step // self._per_epoch - 1)
        logs = self._means()
        for name, value in with_total(results, self._losses).items():
            logs[f"val_{name}"] = value
        self._callbacks.on_epoch_end(self._epoch, logs)

    def on_train_end(self, results):
        self._callbacks.on_train_end(self._means())

    def _means(self):
        """Returns the mean losses of the epoch so far."""
        return {name: value / self._batches for name, value in self._sums.items()}


def _set_mode(callback, losses):
    """Tells a Keras callback that monitors a score that higher is better: Keras knows this only of its own metrics."""
    if getattr(callback, "mode", None) != "auto":
        return
    name = callback.monitor.removeprefix("val_")
    is_loss = name in losses or name.endswith(LOSS)  # Also that of an earlier stage.
    callback.mode = "min" if is_loss else "max"


def adapted(callbacks, model, losses, several_workers):
    """Returns the callbacks of a `Trainer`, the Keras callbacks among them as one `KerasCallbacks`.

    `losses` are the names of the losses.
    """
    check_callbacks(callbacks)
    own = []
    of_keras = []
    for callback in callbacks:
        if isinstance(callback, keras.callbacks.Callback):
            of_keras.append(callback)
        else:
            own.append(callback)
    if of_keras and several_workers:
        raise ValueError("Keras callbacks run on one machine: they cannot stop the other workers. Received: several")
    if of_keras:
        own.append(KerasCallbacks(of_keras, model, losses))
    return own
