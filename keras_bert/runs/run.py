"""A run of a grid: the training of one model with one setting, in stages."""

import dataclasses
import logging
import math

from keras_bert.checkpoints.load import load_models
from keras_bert.data.packed_batches import PackedBatches
from keras_bert.files import json_text, read_lines, write_text
from keras_bert.models.description import is_encoder_layer, layers_of, nested_encoder
from keras_bert.models.tuning import enable_lora, freeze_layers
from keras_bert.rewirings.trimmed import build_packed
from keras_bert.runs.grid import setting_text
from keras_bert.runs.results import indented
from keras_bert.runs.unchanged_inputs import check_unchanged
from keras_bert.tasks.base import rate_advice
from keras_bert.tasks.few_examples import few_steps
from keras_bert.training.callbacks import create_callbacks
from keras_bert.training.distribution import sum_over_replicas
from keras_bert.training.optimizer import create_optimizer
from keras_bert.training.seeds import set_random_seed
from keras_bert.training.trainer import Trainer

_LOG = logging.getLogger("keras_bert")


@dataclasses.dataclass(frozen=True)
class StageWeights:
    """The weights after a stage, with which the next one starts."""

    name: str  # Of the stage.
    everything: list
    encoder: dict  # Those of the encoder's layers, lists of arrays by name.

    @classmethod
    def of(cls, stage, model):
        """Returns the weights of a model that a stage has trained."""
        encoder = {name: layer.get_weights() for name, layer in _encoder_layers(model).items()}
        return cls(name=stage.name, everything=model.get_weights(), encoder=encoder)

    def assign(self, stage, model):
        """Gives the model of the next stage all weights if it is the same model, or else those of the encoder."""
        if stage.name == self.name:
            model.set_weights(self.everything)
            return
        for name, layer in _encoder_layers(model).items():
            if name in self.encoder:  # Not every model has the pooler.
                layer.set_weights(self.encoder[name])


def _encoder_layers(model):
    """Returns the layers of the encoder of a model with weights, by name."""
    layers = {}
    for name, layer in layers_of(nested_encoder(model)).items():
        if is_encoder_layer(name) and layer.weights:
            layers[name] = layer
    return layers


class Run:
    """Trains a model with a setting of a grid. Interrupted, it resumes.

    `finetuning` is the `Finetuning` with the task, the hyperparameters and the devices. A subclass may train on other
    rows, choose among several weights, or train another model.
    """

    def __init__(self, finetuning, setting, folder):
        self.finetuning = finetuning
        self.setting = setting
        self.folder = folder
        self.task = finetuning.task
        self.hyperparameters = finetuning.hyperparameters

    def finish(self):
        """Trains the model and computes its logits.

        Returns:
            The trainer; the result, a dict with `scores`; and the logits of each split, dicts of arrays:
            `{"dev": {...}, "test": {...}}`. A run that raises `FloatingPointError` is ranked last; the grid continues.
        """
        trainer, result = self.train(self.stages())
        report = self.task.report
        logits = {
            "dev": report.dev_logits(trainer.fitted_outputs),
            "test": report.test_logits(trainer.fitted_outputs),
        }
        return trainer, result, logits

    def stages(self):
        """Returns the stages; of several workers the first one writes files for them, which the others read."""
        strategy = self.finetuning.strategy
        writes = self.finetuning.grid_runs.write
        if strategy and not writes:
            sum_over_replicas(strategy, 0)  # Waits for the files.
        stages = self.finetuning.stages(self.setting)
        if strategy and writes:
            sum_over_replicas(strategy, 0)  # The files are written.
        return stages

    def train(self, stages):
        """Trains a model in stages. Returns its trainer, and its result: the scores on dev and their epoch."""
        _LOG.info("%s", indented(f"training: {setting_text(self.setting)}"))
        set_random_seed(self.setting["seed"], keep_kernels=self.finetuning.programs.has_program)
        *earlier, last = stages
        weights = None
        for number, stage in enumerate(earlier, 1):
            weights = self._weights_after(stage, self.folder / f"before_{number}", weights)
        if last.solve is not None:
            return self._solve_head(last, weights)
        return self._train_last(last, weights)

    def _weights_after(self, stage, folder, weights):
        """Returns the `StageWeights` after one stage; its trainer is freed before the next one is created."""
        trainer, batches = self.create_trainer(stage, folder, weights)
        trainer.fit(batches, **self._fit_options())
        return StageWeights.of(stage, trainer.model)

    def _fit_options(self):
        """Returns the arguments of `Trainer.fit` that are the same for all stages."""
        return {
            "epochs": self.setting["epochs"],
            "save_every": self.finetuning.plan.save_every,
            "log_every": self.finetuning.plan.log_every,
            "progress": self.finetuning.grid_runs.progress,
        }

    def _solve_head(self, stage, weights):
        """Trains the head of a stage without steps. Returns what `train` does."""
        trainer = stage.solve(self.build(stage, self._start_name, weights))
        if self.finetuning.grid_runs.write:
            line = {"kind": "train", "step": 1} | trainer.losses
            write_text(self.folder / "metrics.jsonl", json_text(line) + "\n")
        scores = trainer.losses if stage.dev is None else trainer.evaluate(stage.dev)
        return trainer, {"scores": scores, "losses": trainer.loss_names}  # A head has no epochs.

    def _train_last(self, stage, weights):
        """Trains the last stage in steps, and evaluates it. Returns what `train` does."""
        shared = self.hyperparameters
        metric = self.task.report.metric
        trainer, batches = self.create_trainer(stage, self.folder, weights, stage.score)
        epochs = self.setting["epochs"]
        advice = few_steps(self.task, epochs * batches.steps)
        if advice:
            _LOG.info("%s", indented(advice))
        before = self.finetuning.scores_before(trainer, stage.dev)
        scores = trainer.fit(
            batches,
            evaluation=stage.dev,
            best=metric if shared.best else None,
            patience=shared.patience,
            **self._fit_options(),
        )
        if trainer.trained_steps < epochs * batches.steps:
            last_epoch = _epoch_of(trainer.trained_steps, batches)
            _LOG.info("%s", indented(f"stopped early after epoch {last_epoch} of {epochs}"))
        epoch = _epoch_of(scores.pop("step", trainer.trained_steps), batches)
        result = {"scores": scores, "losses": trainer.loss_names, "epoch": epoch}
        if before and stage.dev is not None:
            result["before"] = before
            if scores[metric] < before[metric]:
                _LOG.warning("training made the %s on dev worse, see the scores before training", metric)
        if shared.lora_rank:
            trainable = trainer.model.trainable_weights
            result["trained_weights"] = sum(math.prod(weight.shape) for weight in trainable)
        if self.finetuning.grid_runs.write and not self.task.training.compares_start:
            self._add_rate_advice(result)
        return trainer, result

    def _add_rate_advice(self, result):
        """Adds a sentence about the learning rate to the result of a run whose loss hardly fell."""
        lines = read_lines(self.folder / "metrics.jsonl")
        rate = self.setting["learning_rate"]
        advice = rate_advice(lines, result["losses"], rate, self.task.training.default_rates)
        if advice:
            _LOG.warning("%s: %s", setting_text(self.setting), advice)
            result["advice"] = advice

    def create_trainer(self, stage, folder, weights, metrics=()):
        """Returns the trainer of one stage and its batches."""
        start_name = self._start_name
        batches = self._batches(stage)
        steps = self.setting["epochs"] * batches.steps
        trainer = Trainer(
            lambda: self.build(stage, start_name, weights),
            lambda model: self._create_optimizer(model, steps),
            stage.loss,
            metrics=metrics,
            settings={"model": start_name, "precision": self.hyperparameters.precision},
            rewire=self._rewiring(stage),
            **self.options(folder),
        )
        return trainer, batches

    def _create_optimizer(self, model, steps):
        """Returns the optimizer of a model for a training of some steps."""
        shared = self.hyperparameters
        return create_optimizer(
            model,
            self.setting["learning_rate"],
            steps,
            warmup_steps=round(shared.warmup * steps),
            weight_decay=shared.weight_decay,
            epsilon=shared.epsilon,
            bias_correction=shared.bias_correction,
            layer_decay=shared.layer_decay,
        )

    def _rewiring(self, stage):
        """Returns what makes the model of the training steps, which have the model's logits.

        They are those of rows without padding, or without the vectors that its head does not read.
        """
        if self.hyperparameters.pack:
            return build_packed
        return stage.rewire or self.task.training.rewire

    def _batches(self, stage):
        """Returns the batches to train a stage on."""
        options = {"batch_size": self.setting["batch_size"], "seed": self.setting["seed"]}
        if self.hyperparameters.pack:
            return PackedBatches(*stage.examples(), **options)
        grouped = self.hyperparameters.group_by_length
        return stage.batches(*stage.examples(), grouped=grouped, **options)

    def options(self, folder):
        """Returns the arguments of `Trainer` that are the same for all models."""
        finetuning = self.finetuning
        name = f"{self.task.title}, {setting_text(self.setting)}"
        callbacks = create_callbacks(finetuning.plan.report_to, folder, name)
        return {
            "directory": folder,
            "strategy": finetuning.strategy,
            "micro_batches": self.hyperparameters.gradient_accumulation,
            "seed": self.setting["seed"],
            "programs": finetuning.programs,
            "callbacks": [*callbacks, *finetuning.plan.callbacks],
        }

    @property
    def _start_name(self):
        """The directory or name of the model that the run starts from."""
        return self.setting.get("model", self.task.model)

    def build(self, stage, name, weights):
        """Returns the model of a stage with the weights of the stage before, `None` for those of the start."""
        shared = self.hyperparameters
        keeps_encoder = stage.solve is not None and weights is None
        bert = self._loaded(name, keeps_encoder)
        # It may have changed since the first run.
        check_unchanged(self.finetuning.output / "runs", {name: bert.identity}, write=False)
        model = stage.build(bert)
        if shared.lora_rank is not None:
            enable_lora(model, shared.lora_rank, alpha=shared.lora_alpha)
        if weights is not None:
            weights.assign(stage, model)
        if shared.freeze_layers is not None:
            freeze_layers(model, shared.freeze_layers)
        if not model.trainable_weights:
            raise ValueError(f"`freeze_layers`: nothing is left to train. Received: {shared.freeze_layers}")
        return model

    def _loaded(self, name, keeps_encoder):
        """Returns the loaded model to start from; a run that keeps its encoder needs no copy."""
        start = self.task.start
        precision = self.hyperparameters.precision
        if keeps_encoder and name == self.task.model and not start.load_options:
            table = start.bert.encoder.get_layer("token_embedding")
            if table.dtype_policy.name == precision:
                return start.bert
        load = start.load or load_models
        return load(name, dtype=precision, **start.load_options)


def _epoch_of(step, batches):
    """Returns the epoch that a step belongs to, from 1 on."""
    return -(-step // batches.steps)
