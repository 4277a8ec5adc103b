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
    open_held_out,
    open_phases,
)
from research.rivals.pretraining import LanguageModelObjective, NewLanguageModel

_LOG = logging.getLogger("keras_bert")
_PARTS = 10  # Snapshots of a pre-training.


class PretrainedModels:
    """Pre-trains the recipes of a study. Interrupted pre-trainings resume."""

    def __init__(self, definition, scale, data, folder, strategy, precision):
        self._definition, self._scale, self._data, self._folder = definition, scale, data, folder / "pretraining"
        self._strategy, self._precision = strategy, precision

    def check_shares(self):
        """Raises if no snapshot is at the shares of the steps that rows start from."""
        steps = self._scale.steps
        if steps % _PARTS and any(row.share < 1 for row in self._definition.rows):
            raise ValueError(
                f"--phase: rows with a share of the steps need a number of steps that {_PARTS} divides. "
                f"Received: {steps}"
            )

    def check_unchanged(self, recipe):
        """Raises if the models of a finished pre-training are not those that rows were fine-tuned from."""
        folder = self.folder(recipe)
        content = {file.parent.name: file_hash(file)[:16] for file in sorted(folder.glob("model*/model.*"))}
        check_unchanged(folder, {f"{folder.name}/{name}": {"content": found} for name, found in content.items()})

    def is_finished(self, recipe):
        """Returns whether a recipe is pre-trained."""
        return self._result(recipe).exists()

    def create_run(self, recipe, directory, batch=None):
        """Returns the `PretrainingRun` of a recipe; `batch` overrides the batch sizes."""
        masking = Masking(mask_share=recipe.mask_share, random_share=recipe.random_share)
        masking = None if recipe.causal or recipe.bilm or masking == Masking() else masking
        kind = LanguageModelObjective if recipe.bilm else Objective
        objective = kind(recipe.next_sentence, recipe.causal, masking=masking)
        phases = [{**phase, "batch": batch or phase["batch"]} for phase in self._scale.phases]
        settings = PretrainingSettings(
            phases,
            objective,
            config=NewLanguageModel(self._scale.bilm) if recipe.bilm else recipe.size or self._scale.config,
            positions=None if recipe.positions == "learned" else recipe.positions,
            learning_rate=self._scale.learning_rate,
            warmup=self._scale.warmup,
            precision=self._precision,
            save_every=max(1, self._scale.steps // _PARTS),
        )
        names = [*sorted({phase["length"] for phase in phases}), "held_out"]
        *sources, held_out = [self._data.records(name, recipe.special_tokens) for name in names]
        records = open_phases(phases, sources, objective)
        held_out = open_held_out(held_out, records[0], objective, examples=self._scale.eval_examples)
        options = {"held_out": held_out, "strategy": self._strategy, "report_to": []}
        return PretrainingRun(settings, records, directory, **options)

    def pretrain(self, recipe):
        """Pre-trains a recipe, unless it is finished."""
        if self.is_finished(recipe):
            return
        folder, kept = self.folder(recipe), self._kept_steps(recipe)
        self._check_kept(folder, kept)
        run = self.create_run(recipe, folder)

        def keep():
            if (step := int(run.trainer.optimizer.iterations)) in kept:
                with replacing(folder / f"model-{step}") as temporary:
                    shutil.copytree(folder / "model", temporary)

        results = run.fit(after_save=keep)
        run.save()
        shutil.rmtree(folder / "snapshots")
        self.check_unchanged(recipe)
        write_json(self._result(recipe), results, measured=True)

    def _check_kept(self, folder, kept):
        """Starts again if a model to keep is missing, since the process was killed while it was written."""
        newest = newest_step(folder)
        lost = [step for step in kept if newest and step <= newest and not (folder / f"model-{step}").exists()]
        if lost:
            _LOG.warning("%s lacks the model of step %d: its pre-training starts again", folder, lost[0])
            shutil.rmtree(folder)

    def _kept_steps(self, recipe):
        return {round(self._scale.steps * share): share for share in self._definition.recipes[recipe] if share < 1}

    def folder(self, recipe):
        """Returns the folder of a pre-training."""
        return self._folder / recipe.folder

    def _result(self, recipe):
        return self.folder(recipe) / "result.json"

    def model(self, row):
        """Returns the folder of the model that a row is fine-tuned from."""
        steps = {share: step for step, share in self._kept_steps(row.recipe).items()}
        return str(self.folder(row.recipe) / (f"model-{steps[row.share]}" if row.share < 1 else "model"))

    def curves(self):
        """Returns the lines of `metrics.jsonl` of each pre-training, by the title of its first row."""
        titles = {row.recipe: row.title for row in reversed(self._definition.rows) if row.recipe}
        files = {titles[recipe]: self.folder(recipe) / "metrics.jsonl" for recipe in self._definition.recipes}
        return {name: read_lines(path) for name, path in files.items() if path.exists()}

    def perplexity(self, recipe):
        """Returns the held-out perplexity of a finished pre-training."""
        try:
            return math.exp(read_json(self._result(recipe))["mlm_loss"])
        except OverflowError:
            return math.inf
