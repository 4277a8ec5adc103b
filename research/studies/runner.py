"""Runs a study: pre-trains its recipes, fine-tunes its rows on all tasks, and collects the scores."""

import dataclasses
import logging
import math
import pathlib

from keras_bert.files import as_numbers, difference, file_hash, read_json, write_json
from keras_bert.runs import Finetuning, Hyperparameters, Plan, open_config, seed_statistics
from research.studies.columns import Heading
from research.studies.corpus import StudyData
from research.studies.definitions import TASKS
from research.studies.pretrained import PretrainedModels

_LOG = logging.getLogger("keras_bert")
_FEATURES = "concat_last_four"  # The best of the paper, used in its table 8.
_STATISTICS = ("mean", "deviation", "lowest", "highest")  # Of the scores over the seeds.
# Settings of `Scale` that pre-trained models depend on.
_PRETRAINING = ("config", "bilm", "vocab_size", "phases", "learning_rate", "warmup", "eval_examples")


class StudyRunner:
    """Runs a study in a folder. Interrupted studies resume; rows, tasks and seeds can be added later.

    The scores of other rows and tasks from earlier runs in the folder are kept. `rows` are the keys of those to run.
    """

    def __init__(self, definition, scale, columns, corpus, output, rows=None, strategy=None, precision="float32"):
        self.definition = definition
        self.scale = scale
        self.columns = columns
        self._rows = [row for row in definition.rows if row.is_built and (rows is None or row.key in rows)]
        self._output = pathlib.Path(output)
        self._strategy = strategy
        self._precision = precision
        self._data = StudyData(corpus, scale, self._output)
        self.models = PretrainedModels(definition, scale, self._data, self._output, strategy, precision)

    def prepare(self):
        """Writes the vocabulary and the pre-training data, and checks that the folder has the same settings."""
        self._check_tasks()
        self.models.check_shares()
        self._check_settings()
        for recipe in self.definition.recipes:
            if self.models.is_finished(recipe):
                self.models.check_unchanged(recipe)
        self._data.prepare(row.recipe for row in self._rows if row.recipe)

    def _check_tasks(self):
        """Raises before the pre-training if a row does not serve a task, or a model has too few positions for one."""
        others = ", ".join(column.name for column in self.columns if column.name.startswith("ner"))
        for row in self._rows:
            if row.recurrent and others:
                raise ValueError(f"--tasks: the row {row.key} serves the tasks of GLUE and squad. Received: {others}")
        for recipe in dict.fromkeys(row.recipe for row in self._rows if not row.recurrent):
            name = recipe.size or self.scale.config
            positions = open_config(name).max_position_embeddings
            for column in self.columns:
                if column.recipe.sequence_length > positions:
                    raise ValueError(
                        f"--config={name}: the task {column.name} needs {column.recipe.sequence_length} positions. "
                        f"Received: max_position_embeddings={positions}"
                    )

    def _check_settings(self):
        """Raises if the folder has a study with other settings; writes those of this one."""
        settings = self._settings_of_models()
        path = self._output / "settings.json"
        if path.exists():
            differs = difference(read_json(path), settings)
            if differs:
                raise ValueError(
                    f"{self._output} has a study with other settings: {differs}. Use the same ones or another "
                    "--output_dir"
                )
        write_json(path, settings)

    def _settings_of_models(self):
        """Returns all that the pre-trained models of the study depend on, for JSON."""
        corpus = self._data.corpus
        train, held_out = corpus.files()
        scale = dataclasses.asdict(self.scale)
        settings = {name: scale[name] for name in _PRETRAINING}
        settings["phases"] = list(settings["phases"])
        settings["study"] = self.definition.title
        settings["precision"] = self._precision
        settings.update(dataclasses.asdict(corpus))
        config = open_config(self.scale.config)
        settings["config"] = {"name": self.scale.config} | dataclasses.asdict(config)
        content = {}
        for path in (*train, *held_out):
            content[f"{path.parent.name}/{path.name}"] = file_hash(path)[:16]
        if corpus.vocabulary:
            content["vocabulary"] = file_hash(corpus.vocabulary)[:16]
        settings["content"] = content
        return settings

    def unfinished(self):
        """Returns the recipes that are not pre-trained yet, and the `(row, column)` without final scores."""
        recipes = []
        pairs = []
        for row in self._rows:
            if row.recipe and row.recipe not in recipes and not self.models.is_finished(row.recipe):
                recipes.append(row.recipe)
            for column in self.columns:
                if not self._is_finished(row, column):
                    pairs.append((row, column))
        return recipes, pairs

    def outdated(self):
        """Returns the `(row, column)` whose scores were made with other settings and are not shown."""
        pairs = []
        for row in self.definition.rows:
            for column in self.columns:
                if self._is_finished(row, column) is False:  # And not `None`: there are scores.
                    pairs.append((row, column))
        return pairs

    def _start(self, row, column):
        """Returns the folder or the name of the model that a row starts from, and options of `load`."""
        if not row.recurrent:
            return self.models.model(row), {}
        name = self.scale.bidaf if column.name == "squad" else self.scale.bilstm
        if row.recipe is not None:
            return name, {"language_model": self.models.model(row)}
        return name, {"vocabulary": str(self._data.vocabulary), "lowercase": self._data.corpus.lowercase}

    def finetune(self, row, column):
        """Fine-tunes the model of a row on a task with all seeds, unless it is finished."""
        if self._is_finished(row, column):
            return
        folder = self._runs_folder(row, column)
        model, load_options = self._start(row, column)
        with_bilstm = row.bilstm or _is_on_features(row, column)
        task = column.make(model, folder, load_options, with_bilstm)
        plan = Plan(
            task,
            self._choices(row, column),
            Hyperparameters(best=False, precision=self._precision),
            folder,
            strategy=self._strategy,
            report_to=(),
        )
        scores, *_ = seed_statistics(_run_all(plan, column.metric), column.metric)  # Those of the best setting.
        facts = {
            "asked": self._asked(row, column),
            "heading": column.heading(),
            "majority": task.report.summary.majority.get(column.metric),
        }
        write_json(self._scores_file(row, column.name), scores | facts, measured=True)

    def _is_finished(self, row, column):
        """Returns whether the scores are final; `None` if there are none."""
        path = self._scores_file(row, column.name)
        if not path.exists():
            return None
        return read_json(path)["asked"] == self._asked(row, column)

    def _asked(self, row, column):
        """Returns what scores depend on besides the model."""
        return {"metric": column.metric, "content": column.content} | self._choices(row, column)

    def finetuning_recipe(self, row, column):
        """Returns the `FinetuningRecipe` of a row and a task; BiLSTMs on features train longer."""
        if _is_on_features(row, column):
            return self.scale.recipe("ner_features")
        return column.recipe

    def runs(self, row, column):
        """Returns the number of runs of a row and a task."""
        return math.prod(map(len, self._choices(row, column).values()))

    def _choices(self, row, column):
        """Returns the grid of a row and a task."""
        recipe = self.finetuning_recipe(row, column)
        learning_rates = self.scale.recurrent_rates if row.recurrent else recipe.learning_rates
        choices = {}
        if _is_on_features(row, column):
            choices["features"] = [row.features or _FEATURES]
        choices["learning_rate"] = list(learning_rates)
        choices["batch_size"] = [recipe.batch_size]
        choices["epochs"] = [recipe.epochs]
        choices["seed"] = list(self.scale.seeds)
        return choices

    def _runs_folder(self, row, column):
        """Returns the folder of the runs of a row and a task, one for each selection of examples."""
        examples = "-".join(content[:8] for content in column.content)
        return self._scores_file(row, column.name).parent / examples

    def _scores_file(self, row, task):
        return self._output / "finetuning" / row.key / task / "scores.json"

    def scores(self):
        """Returns the finished scores, `{row: {task: {"mean", "deviation", "runs", ...}}}`."""
        columns = {column.name: column for column in self.columns}
        scores = {}
        for row in self.definition.rows:
            for name in self._order():
                path = self._scores_file(row, name)
                is_other_task = name not in columns  # Of an earlier run, with the settings of that.
                if path.exists() and (is_other_task or self._is_finished(row, columns[name])):
                    scores.setdefault(row.key, {})[name] = _read_scores(path)
        return scores

    def headings(self, scores):
        """Returns the `Heading`s of the columns, and of other tasks that `scores` contain, in the study's order."""
        headings = {column.name: column for column in self.columns}
        for scores_of_row in scores.values():
            for name, score in scores_of_row.items():
                if name not in headings:
                    headings[name] = Heading(**score["heading"])
        return [headings[name] for name in self._order() if name in headings]

    def _order(self):
        """Returns the names of all tasks, those that are asked for first."""
        asked = [column.name for column in self.columns]
        return list(dict.fromkeys([*asked, *self.definition.tasks, *TASKS]))

    @property
    def shown(self):
        """Returns the keys of the rows of the table: those to run, and those with scores from before."""
        return {row.key for row in self._rows} | self.scores().keys()

    def perplexities(self):
        """Returns the held-out perplexity of the language models of the rows that are pre-trained to the end."""
        shown = self.shown
        perplexities = {}
        for row in self.definition.rows:
            is_whole = row.recipe and row.share == 1
            if is_whole and row.key in shown and self.models.is_finished(row.recipe):
                perplexities[row.key] = self.models.perplexity(row.recipe)
        return perplexities


def _run_all(plan, metric):
    """Runs a `Plan`, and returns the results of all runs, with a score of NaN for those that diverged."""
    finetuning = _OnlyScores(plan)
    try:
        finetuning.run()
    except FloatingPointError as error:  # All runs diverged: the table says so.
        if not finetuning.grid_runs.results:
            raise
        _LOG.warning("%s", error)
    # The folder may have runs with other settings.
    results = [result for result in finetuning.grid_runs.results if result["setting"] in finetuning.settings]
    for result in results:
        result["scores"].setdefault(metric, math.nan)  # A run that diverged has only the task's metric.
    return results


def _read_scores(path):
    """Returns the scores of a row and a task; of runs that diverged they are NaN, which JSON does not have."""
    scores = read_json(path)
    statistics = {name: scores[name] for name in _STATISTICS if name in scores}
    return scores | as_numbers(statistics)


def _is_on_features(row, column):
    """Returns whether named entities are tagged by a BiLSTM on features of a frozen encoder."""
    return column.name == "ner_features" or row.features is not None


class _OnlyScores(Finetuning):
    """Fine-tuning whose models are not kept."""

    keeps_best = False
