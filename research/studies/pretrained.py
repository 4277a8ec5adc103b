"""The pre-trained models of a study, one for each recipe."""

import logging
import math
import shutil

from keras_bert.files import file_hash, read_json, read_lines, replacing, write_json
from keras_bert.pretraining import Masking
from keras_bert.runs import (
    Objective,
    PretrainingRun,
    PretrainingSettings,
    check_unchanged,
    newest_step,
    open_eval_data,
    open_phases,
)
from research.rivals.pretraining import LanguageModelObjective, NewLanguageModel

_LOG = logging.getLogger("keras_bert")
SNAPSHOTS = 10  # Of a pre-training.


class PretrainedModels:
    """Pre-trains the recipes of a study. Interrupted pre-trainings resume."""

    def __init__(self, definition, scale, data, folder, strategy, precision):
        self._definition = definition
        self._scale = scale
        self._data = data
        self._folder = folder / "pretraining"
        self._strategy = strategy
        self._precision = precision

    def check_shares(self):
        """Raises if no snapshot is at the shares of the steps that rows start from."""
        steps = self._scale.steps
        if steps % SNAPSHOTS and any(row.share < 1 for row in self._definition.rows):
            raise ValueError(
                f"--phases: rows with a share of the steps need a number of steps that {SNAPSHOTS} divides. "
                f"Received: {steps}"
            )

    def check_unchanged(self, recipe):
        """Raises if the models of a finished pre-training are not those that rows were fine-tuned from."""
        folder = self.folder(recipe)
        facts = {}
        for file in sorted(folder.glob("model*/model.*")):
            facts[f"{folder.name}/{file.parent.name}"] = {"content": file_hash(file)[:16]}
        check_unchanged(folder, facts)

    def is_finished(self, recipe):
        """Returns whether a recipe is pre-trained."""
        return self._result(recipe).exists()

    def create_run(self, recipe, directory, batch=None):
        """Returns the `PretrainingRun` of a recipe; `batch` overrides the batch sizes."""
        objective = _objective(recipe)
        phases = [dict(phase) for phase in self._scale.phases]
        if batch:
            for phase in phases:
                phase["batch"] = batch
        if recipe.bilm:
            config = NewLanguageModel(self._scale.bilm)
        else:
            config = recipe.size or self._scale.config
        settings = PretrainingSettings(
            phases,
            objective,
            config=config,
            positions=None if recipe.positions == "learned" else recipe.positions,
            learning_rate=self._scale.learning_rate,
            warmup=self._scale.warmup,
            precision=self._precision,
            save_every=max(1, self._scale.steps // SNAPSHOTS),
        )
        lengths = sorted({phase["length"] for phase in phases})
        sources = [self._data.records(length, recipe.special_tokens) for length in lengths]
        records = open_phases(phases, sources, objective)
        held_out = open_eval_data(
            self._data.records("held_out", recipe.special_tokens),
            records[0],
            objective,
            examples=self._scale.eval_examples,
        )
        return PretrainingRun(
            settings,
            records,
            directory,
            eval_data=held_out,
            strategy=self._strategy,
            report_to=[],
        )

    def pretrain(self, recipe):
        """Pre-trains a recipe, unless it is finished."""
        if self.is_finished(recipe):
            return
        folder = self.folder(recipe)
        steps_to_keep = self._kept_steps(recipe)
        self._remove_if_incomplete(folder, steps_to_keep)
        run = self.create_run(recipe, folder)

        def keep():
            step = int(run.trainer.optimizer.iterations)
            if step in steps_to_keep:
                with replacing(folder / f"model-{step}") as temporary:
                    shutil.copytree(folder / "model", temporary)

        results = run.fit(after_save=keep)
        run.save()
        shutil.rmtree(folder / "snapshots")
        self.check_unchanged(recipe)
        write_json(self._result(recipe), results, measured=True)

    def _remove_if_incomplete(self, folder, kept):
        """Starts again if a model to keep is missing, since the process was killed while it was written."""
        newest = newest_step(folder)
        if not newest:
            return
        for step in kept:
            if step <= newest and not (folder / f"model-{step}").exists():
                _LOG.warning("%s lacks the model of step %d: its pre-training starts again", folder, step)
                shutil.rmtree(folder)
                return

    def _kept_steps(self, recipe):
        """Returns the steps whose models are kept, besides that of the last one, with their shares of all steps."""
        shares = self._definition.recipes[recipe]
        return {round(self._scale.steps * share): share for share in shares if share < 1}

    def folder(self, recipe):
        """Returns the folder of a pre-training."""
        return self._folder / recipe.folder

    def _result(self, recipe):
        return self.folder(recipe) / "result.json"

    def model(self, row):
        """Returns the folder of the model that a row is fine-tuned from."""
        folder = self.folder(row.recipe)
        for step, share in self._kept_steps(row.recipe).items():
            if share == row.share:
                return str(folder / f"model-{step}")
        return str(folder / "model")

    def curves(self):
        """Returns the lines of `metrics.jsonl` of each pre-training, by the title of its first row."""
        titles = {}
        for row in self._definition.rows:
            if row.recipe:
                titles.setdefault(row.recipe, row.title)
        lines = {}
        for recipe in self._definition.recipes:
            path = self.folder(recipe) / "metrics.jsonl"
            if path.exists():
                lines[titles[recipe]] = read_lines(path)
        return lines

    def perplexity(self, recipe):
        """Returns the held-out perplexity of a finished pre-training."""
        try:
            return math.exp(read_json(self._result(recipe))["mlm_loss"])
        except OverflowError:
            return math.inf


def _objective(recipe):
    """Returns the `Objective` of a recipe."""
    masking = Masking(mask_share=recipe.mask_share, random_share=recipe.random_share)
    if recipe.causal or recipe.bilm or masking == Masking():
        masking = None
    if recipe.bilm:
        return LanguageModelObjective(recipe.next_sentence, recipe.causal, masking=masking)
    return Objective(recipe.next_sentence, recipe.causal, masking=masking)
