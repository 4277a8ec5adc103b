"""Fine-tuning over a grid of settings and seeds: runs, the best model, its export and the reports.

A `FinetuningTask` contains the task-specific code, `Finetuning` everything else.
"""

import dataclasses
import logging
import math
import pathlib
import textwrap

import keras

from keras_bert.baselines.config import BaselineConfig
from keras_bert.checkpoints.load import load
from keras_bert.checkpoints.save import save
from keras_bert.experiments import grid, model_card
from keras_bert.experiments.origins import check_origins
from keras_bert.experiments.report import write_report
from keras_bert.experiments.study import Study
from keras_bert.exporting.export import export
from keras_bert.files import write_json, write_text
from keras_bert.models.freezing import freeze_layers
from keras_bert.models.lora import enable_lora
from keras_bert.models.packed import build_packed
from keras_bert.models.trimmed import build_trimmed
from keras_bert.reports.environment import environment
from keras_bert.reports.names import short_name
from keras_bert.reports.page import Head
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.classification.thresholds import threshold_text
from keras_bert.training.callbacks import create_callbacks
from keras_bert.training.collectives import sum_over_replicas
from keras_bert.training.distribution import is_chief
from keras_bert.training.optimizer import create_optimizer
from keras_bert.training.progress import announced
from keras_bert.training.trainer import Trainer

_LOG = logging.getLogger("keras_bert")
_WARNINGS = ("data warning", "warning")  # Facts that the report shows as warnings.
_OPTIMIZER_FIELDS = ("weight_decay", "epsilon", "bias_correction", "layer_decay")


@dataclasses.dataclass(frozen=True)
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

    warmup: float = 0.1
    weight_decay: float = 0.01
    epsilon: float = 1e-6
    layer_decay: float | None = None
    bias_correction: bool = True
    freeze_layers: int | None = None
    lora_rank: int | None = None
    lora_alpha: float | None = None
    group_by_length: bool = True
    pack: bool = False
    gradient_accumulation: int = 1
    precision: str = "float32"
    # Differs from BERT: the original evaluates the weights after the last epoch.
    best: bool = True
    patience: int | None = None

    def to_dict(self):
        """Returns the values by name, those of LoRA and packing only if they are used."""
        used = {"pack": self.pack, "lora_rank": self.lora_rank, "lora_alpha": self.lora_rank}
        return {name: value for name, value in dataclasses.asdict(self).items() if used.get(name, True)}


class Finetuning:
    """Runs a grid, keeps the best model on dev, exports it and writes the reports. Interrupted runs resume.

    Args:
        task: a `FinetuningTask`.
        choices: dict of lists of values for `learning_rate`, `batch_size`, `epochs`, `seed` and, if the task
            has them, `model` or `features`.
        hyperparameters: `Hyperparameters` of all runs.
        output: output folder.
        ensemble: int, number of best runs in the ensemble. Defaults to 1.
        strategy: see `create_strategy`; `None` uses one device.
        log_every: int, steps between lines of a run's `metrics.jsonl`. Defaults to 1.
        report_to: list of names, see `create_callbacks`. Defaults to TensorBoard.

    Attributes:
        report: the content of `results.json`, set by `finish`.

    Example:
        choices = {"learning_rate": [3e-5], "batch_size": [32], "epochs": [3], "seed": [1, 2]}
        finetuning = Finetuning(task, choices, Hyperparameters(), "runs/mrpc")
        finetuning.run()
        print(finetuning.finish())
    """

    evaluated_on = "dev"

    def __init__(
        self,
        task,
        choices,
        hyperparameters,
        output,
        ensemble=1,
        strategy=None,
        log_every=1,
        report_to=("tensorboard",),
    ):
        if hyperparameters.pack and not task.can_pack:
            raise ValueError(f"--pack: only for classification and tagging with BERT. Received: {task.title}")
        self.report_to = report_to
        self.task, self.hyperparameters, self.strategy = task, hyperparameters, strategy
        self.settings, self.output, self.log_every = grid.settings(**choices), pathlib.Path(output), log_every
        self.study = Study(output, task.metric, ensemble, strategy is None or is_chief(strategy), task.combine)
        self.report, self._parameters, self._thresholds, self._before = None, None, {}, None

    def run(self):
        """Trains the unfinished runs of the grid."""
        _LOG.info("%s", self.task.title)
        for name, text in self.task.facts.items():
            _LOG.info("%s", _indented(f"{name}: {text}"))
        for problem in data_summary.warnings(self.task.summary):
            _LOG.warning("%s", problem)
        if len(self.settings) > 1:
            _LOG.info("  runs: %d", len(self.settings))
        check_origins(self.output / "runs", self.task.origins, self.study.write)
        self.study.run(self.settings, self._common(), self._run)

    def _common(self):
        options = {"load_options": dict(self.task.load_options)} if self.task.load_options else {}
        return {**self.task.settings, **self.hyperparameters.to_dict(), **options}

    def _run(self, setting, folder):
        """Trains one run. Returns its result, its logits and a function that saves its model."""
        dev = self._select(setting)
        trainer, result = self._train(setting, folder, self.task.train, dev)
        logits = {"dev": self.task.dev_logits(trainer.predict), "test": self.task.test_logits(trainer.predict)}
        return result, logits, lambda: self._save(trainer.model, logits["dev"], setting)

    def _select(self, setting):
        """Selects the setting in the task; of several workers the first one writes files, which the others read."""
        if self.strategy and not self.study.write:
            sum_over_replicas(self.strategy, 0)
        dev = self.task.select(setting)
        if self.strategy and self.study.write:
            sum_over_replicas(self.strategy, 0)
        return dev

    def _train(self, setting, folder, stages, dev):
        """Trains a model in stages. Returns its trainer, and its result: the scores on `dev` and their epoch."""
        _LOG.info("%s", _indented(f"training: {grid.setting_text(setting)}"))
        keras.backend.clear_session()
        keras.utils.set_random_seed(setting["seed"])
        *earlier, last = stages
        weights, shared = None, self.hyperparameters
        for number, examples in enumerate(earlier, 1):
            weights = self._weights_after(setting, examples, folder / f"before_{number}", weights)
        trainer, batches = self._trainer(setting, last, folder, weights, self.task.score)
        if self.task.compares_start and self._before is None:
            losses = {loss.name for loss in trainer.losses}
            found = trainer.evaluate(dev)
            self._before = {name: value for name, value in found.items() if name not in losses}
            _LOG.info("%s", _indented(f"before training: {data_summary.listed(self._before)}"))
        scores = trainer.fit(
            batches,
            epochs=setting["epochs"],
            evaluation=dev,
            best=self.task.metric if shared.best else None,
            patience=shared.patience,
            log_every=self.log_every,
            progress=self.study.progress,
        )
        epoch = scores.pop("step", setting["epochs"] * batches.steps) // batches.steps
        result = {"scores": scores, "epoch": epoch}
        if self._before:
            result["before"] = self._before
            if scores[self.task.metric] < self._before[self.task.metric]:
                _LOG.warning("training made the %s on dev worse, see the scores before training", self.task.metric)
        if shared.lora_rank:
            result["trained_weights"] = sum(math.prod(weight.shape) for weight in trainer.model.trainable_weights)
        return trainer, result

    def _weights_after(self, setting, examples, folder, weights):
        """Returns the weights after one stage; its trainer is freed before the next one is created."""
        trainer, batches = self._trainer(setting, examples, folder, weights)
        trainer.fit(batches, epochs=setting["epochs"], log_every=self.log_every, progress=self.study.progress)
        return trainer.model.get_weights()

    def _trainer(self, setting, examples, folder, weights, metrics=()):
        """Returns the trainer of one stage and its batches."""
        shared, name = self.hyperparameters, setting.get("model", self.task.model)
        rows = examples, setting["batch_size"], setting["seed"]
        batches = self.task.packed_batches(*rows) if shared.pack else self.task.batches(*rows, shared.group_by_length)
        steps = setting["epochs"] * batches.steps

        def optimizer(model):
            warmup = round(shared.warmup * steps)
            options = {field: getattr(shared, field) for field in _OPTIMIZER_FIELDS}
            return create_optimizer(model, setting["learning_rate"], steps, warmup, **options)

        trainer = Trainer(
            lambda: self._build(name, weights),
            optimizer,
            self.task.loss,
            metrics=metrics,
            directory=folder,
            strategy=self.strategy,
            micro_batches=shared.gradient_accumulation,
            seed=setting["seed"],
            settings={"model": name, "precision": shared.precision},
            callbacks=create_callbacks(self.report_to, folder, f"{self.task.title}, {grid.setting_text(setting)}"),
            rewire=build_packed if shared.pack else build_trimmed,
        )
        return trainer, batches

    def _build(self, name, weights):
        bert = load(name, dtype=self.hyperparameters.precision, **self.task.load_options)
        check_origins(self.output / "runs", {name: bert.facts}, write=False)  # It may change while the grid runs.
        model = self.task.build(bert)
        if self.hyperparameters.lora_rank is not None:
            enable_lora(model, self.hyperparameters.lora_rank, self.hyperparameters.lora_alpha)
        if weights is not None:
            model.set_weights(weights)
        if self.hyperparameters.freeze_layers is not None:
            freeze_layers(model, self.hyperparameters.freeze_layers)
        if not model.trainable_weights:
            raise ValueError(
                f"nothing is left to train. Received: --freeze_layers={self.hyperparameters.freeze_layers}"
            )
        return model

    def _save(self, model, logits, setting):
        bert = self.task.bert
        for folder in self._formats():
            base = setting.get("model", self.task.model)
            options = {"format": "peft", "base": base} if folder == "adapter" else {}
            save(
                self.task.complete(model),
                self.output / folder,
                bert.vocabulary,
                lowercase=bert.lowercase,
                strip_accents=bert.strip_accents,
                sequence_length=self.task.sequence_length,
                **self.task.save_options(logits),
                **options,
            )

    def _formats(self):
        """Returns the folders of the model."""
        return ["model", "adapter"] if self.hyperparameters.lora_rank else ["model"]

    def finish(self):
        """Scores the ensemble, writes predictions, results, report and model card, and exports the best model.

        Returns:
            A summary to print.
        """
        study, task = self.study, self.task
        findings = task.conclude(study.logits("dev"), study.logits("test"), self.output)
        self._export()
        warning = data_summary.no_better(task.summary, task.metric, findings.measured, findings.same)
        best = self._best_facts(findings.scores)
        problems = data_summary.warnings(task.summary)
        facts = {
            **task.facts,
            **({"data warning": "; ".join(problems)} if problems else {}),
            **best,
            **self._lora_facts(),
            **({"warning": warning} if warning else {}),
            **findings.facts,
        }
        self.report = {
            **findings.results,
            "facts": facts,
            "data": task.summary,
            "no_better_than_majority": warning is not None,
            **study.summary(),
        }
        write_json(self.output / "results.json", self.report)
        title, (summary, runs) = f"{task.title}, {self.evaluated_on}", self._tables()
        listed = (f"- {model_card.escaped(f'{name}: {text}')}" for name, text in facts.items())
        lines = [f"# {model_card.escaped(title)}", "", *listed, ""]
        lines += [*(summary if any(row["runs"] > 1 for row in self.report["summary"]) else []), *runs, *findings.tables]
        write_text(self.output / "results.md", "\n".join(lines).rstrip() + "\n")
        with announced("writing the report"):
            self._write_report(facts, findings)
        for folder in self._formats():
            write_text(self.output / folder / "README.md", self._model_card(findings))
        messages = [*findings.messages, *([_indented(f"warning: {warning}").lstrip()] if warning else [])]
        shown = {**best, **{name: text for name, text in findings.facts.items() if name == "thresholds"}}
        shown = [_indented(f"{name}: {text}") for name, text in shown.items() if name != "settings"]  # Already printed.
        return "\n".join([*messages, "", title, *summary, *shown, ""])

    def _tables(self):
        """Returns lists of Markdown tables, of the settings and of the runs; both are empty for a single run."""
        results, metric = self.study.results, self.study.metric
        if len(results) == 1:
            return [], []
        return [grid.markdown(self.report["summary"], metric)], [grid.runs_table(results, metric)]

    def _best_facts(self, scores):
        """Returns entries about the best runs for the head of the report."""
        best = self.study.best()
        setting, epoch = best[0]["setting"], best[0].get("epoch")
        before = {"scores before training": data_summary.listed(best[0]["before"])} if "before" in best[0] else {}
        together = f" (ensemble of the {len(best)} best runs)" if len(best) > 1 else ""
        chosen = f"; epoch {epoch} of {setting['epochs']}" if epoch else ""
        if len(self.study.results) == 1:
            return {"settings": grid.setting_text(setting), **before, "scores on dev": scores + chosen}
        return {"best run": grid.setting_text(setting) + chosen, **before, "scores on dev": scores + together}

    def _lora_facts(self):
        """Returns an entry about the number of trained weights."""
        trained, rank = self.study.best()[0].get("trained_weights"), self.hyperparameters.lora_rank
        if not trained:
            return {}
        return {"trained weights": f"{trained:,} of {self._parameters:,}: the head and LoRA adapters of rank {rank}"}

    def _model_card(self, findings):
        best = self.report["best"]
        settings = {**best["setting"], **self.hyperparameters.to_dict()}
        settings |= {name: self.task.settings.get(name) for name in ("sequence_length", "class_weights")}
        settings |= self._thresholds
        scores = {name: best["scores"][name] for name in findings.measured}
        config = self.task.bert.config
        kind = config.title if isinstance(config, BaselineConfig) else "BERT"
        return model_card.write(self.output.resolve().name, self.task, self.evaluated_on, settings, scores, kind)

    def _write_report(self, facts, findings):
        study, replicas = self.study, self.strategy.num_replicas_in_sync if self.strategy else 1
        model = study.best()[0]["setting"].get("model", self.task.model)
        settings = {name: sorted({run["setting"][name] for run in study.results}) for name in self.settings[0]}
        settings = {name: ", ".join(map(str, values)) for name, values in settings.items()}
        warnings = [facts[name] for name in _WARNINGS if name in facts]
        facts = {**facts, **({"parameters": f"{self._parameters:,}"} if self._parameters else {})}
        head = Head(
            f"{self.task.title} - {short_name(model)}",
            {name: text for name, text in facts.items() if name not in _WARNINGS},
            environment(study.seconds(), replicas),
            {**settings, **self._common()},
            [f"Warning: {warning}." for warning in warnings],
        )
        path, runs = self.output / "report.html", study.results
        write_report(path, head, study.metric, runs, study.curves(), findings.sections, findings.errors)

    def _export(self):
        with announced("exporting the model", delay=0):
            bert = load(self.output / "model")  # Reloaded outside of any strategy, in float32.
            model = bert.model()
            self._parameters = model.count_params()
            named = None if bert.thresholds is None else threshold_text(bert.thresholds, bert.labels)
            self._thresholds = {"null_threshold": bert.null_threshold, "thresholds": named}
            export(
                model,
                bert.preprocessor(self.task.sequence_length, padding="longest"),
                self.output / "saved_model" / "1",
                **self.task.export_options(bert),
            )


def _indented(text):
    return textwrap.fill(text, 100, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
