"""Runs a study: pre-trains its recipes, fine-tunes its rows on all tasks, and collects the scores."""

import dataclasses
import json
import logging
import math
import pathlib
import shutil

from keras_bert.corpus import lines
from keras_bert.corpus.word_counts import count_words
from keras_bert.corpus.wordpiece_trainer import learn_vocabulary
from keras_bert.experiments import grid
from keras_bert.experiments.finetuning import Finetuning
from keras_bert.experiments.grid_runs import remove_snapshots
from keras_bert.experiments.hyperparameters import Hyperparameters
from keras_bert.experiments.pretraining import open_held_out, open_phases
from keras_bert.experiments.pretraining_model import Objective, PretrainingSettings, open_config
from keras_bert.experiments.pretraining_run import PretrainingRun
from keras_bert.experiments.studies.columns import TASKS, Heading
from keras_bert.experiments.unchanged_inputs import check_unchanged
from keras_bert.files import difference, file_hash, read_json, replacing, write_json
from keras_bert.pretraining.generate import generate
from keras_bert.pretraining.masking import Masking
from keras_bert.pretraining.settings import Settings
from keras_bert.training.progress import messages
from keras_bert.training.snapshots import Snapshots

_LOG = logging.getLogger("keras_bert")
_FEATURES = "concat_last_four"  # The best of the paper, used in its table 8.
# Settings of `Scale` that pre-trained models depend on.
_PRETRAINING = ("config", "bilm", "vocab_size", "phases", "learning_rate", "warmup", "eval_examples")
_PARTS = 10  # Snapshots of a pre-training.


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The text to pre-train on.

    Args:
        text: glob pattern of the text files; one sentence per line, with a blank line between documents.
        held_out: glob pattern of other files to evaluate on; `None` holds out the last file of `text`.
        vocabulary: path of a vocabulary; `None` learns one from `text`.
        lowercase: bool, whether the vocabulary is uncased. Defaults to `True`.
    """

    text: str
    held_out: str | None = None
    vocabulary: str | None = None
    lowercase: bool = True

    def files(self):
        """Returns the paths to train on, and those to evaluate on."""
        paths = lines.find(self.text)
        if self.held_out:
            return paths, lines.find(self.held_out)
        if len(paths) < 2:
            raise ValueError(
                f"--data={self.text}: a single file. Expected several files, of which the last one is held out, or "
                "--eval_data with other text"
            )
        return paths[:-1], paths[-1:]


class StudyRunner:
    """Runs a study in a folder. Interrupted studies resume; rows, tasks and seeds can be added later.

    The scores of other rows and tasks from earlier runs in the folder are kept.

    Args:
        definition: a `StudyDefinition`.
        scale: a `Scale`.
        columns: list of `Column`s.
        corpus: a `Corpus`.
        output: the folder.
        rows: list of the keys of the rows to run. Defaults to all rows.
        strategy: see `create_strategy`. Defaults to one device.
        precision: str, name of a Keras dtype policy. Defaults to "float32".

    Attributes:
        language_model: function from a size such as "bilm_H-256" to what recipes with `bilm` pre-train, see
            `PretrainingSettings`. It must be set for these recipes.
    """

    language_model = None

    def __init__(self, definition, scale, columns, corpus, output, rows=None, strategy=None, precision="float32"):
        self.definition, self.scale, self.columns = definition, scale, columns
        self._rows = [row for row in definition.rows if row.is_built and (rows is None or row.key in rows)]
        self._corpus, self._output = corpus, pathlib.Path(output)
        self._strategy, self._precision = strategy, precision

    def prepare(self):
        """Writes the vocabulary and the pre-training data, and checks that the folder has the same settings."""
        self._check_lengths()
        self._check_shares()
        train, held_out = self._corpus.files()
        self._check_settings(train, held_out)
        for recipe in self.recipes:
            if self._result(recipe).exists():
                self._check_models(recipe)
        kinds = sorted({row.recipe.special_tokens for row in self._rows if row.recipe}, reverse=True)
        with messages() as show:
            vocabulary = self._vocabulary(train, show)
            for special_tokens in kinds:
                options = {"lowercase": self._corpus.lowercase, "special_tokens": special_tokens}
                options["next_sentence"] = special_tokens  # All rows with special tokens have the same examples.
                for length in sorted({phase["length"] for phase in self.scale.phases}):
                    settings = Settings(sequence_length=length, **options)
                    generate(train, self._records(length, special_tokens), vocabulary, settings, progress=show)
                settings = Settings(sequence_length=self.scale.phases[0]["length"], **options)
                generate(held_out, self._records("held_out", special_tokens), vocabulary, settings, progress=show)

    def _check_lengths(self):
        """Raises before the pre-training if a task needs more positions than a model has."""
        for row in self._rows:
            self._check_tasks(row)
        for recipe in dict.fromkeys(row.recipe for row in self._rows if not row.recurrent):
            name = recipe.size or self.scale.config
            positions = open_config(name).max_position_embeddings
            for column in self.columns:
                if column.recipe.sequence_length > positions:
                    raise ValueError(
                        f"--config={name}: the task {column.name} needs {column.recipe.sequence_length} positions. "
                        f"Received: max_position_embeddings={positions}"
                    )

    def _check_shares(self):
        """Raises if no snapshot is at the shares of the steps that rows start from."""
        steps = self.scale.steps
        if steps % _PARTS and any(row.share < 1 for row in self.definition.rows):
            raise ValueError(
                f"--phase: rows with a share of the steps need a number of steps that {_PARTS} divides. "
                f"Received: {steps}"
            )

    def _check_tasks(self, row):
        if unknown := [column.name for column in self.columns if row.recurrent and column.name.startswith("ner")]:
            raise ValueError(
                f"--tasks: the row {row.key} serves the tasks of GLUE and squad. Received: {', '.join(unknown)}"
            )

    def _check_settings(self, train, held_out):
        scale = dataclasses.asdict(self.scale)
        found = {name: scale[name] for name in _PRETRAINING}
        found["phases"] = list(found["phases"])
        found |= {"study": self.definition.title, "precision": self._precision, **dataclasses.asdict(self._corpus)}
        found["config"] = {"name": self.scale.config, **dataclasses.asdict(open_config(self.scale.config))}
        found["content"] = {f"{path.parent.name}/{path.name}": file_hash(path)[:16] for path in (*train, *held_out)}
        if self._corpus.vocabulary:
            found["content"]["vocabulary"] = file_hash(self._corpus.vocabulary)[:16]
        path = self._output / "settings.json"
        if path.exists() and (differs := difference(read_json(path), found)):
            raise ValueError(
                f"{self._output} has a study with other settings: {differs}. Use the same ones or another --output_dir"
            )
        write_json(path, found)

    def _check_models(self, recipe):
        """Raises if the models of a finished pre-training are not those that rows were fine-tuned from."""
        folder = self._folder(recipe)
        content = {file.parent.name: file_hash(file)[:16] for file in sorted(folder.glob("model*/model.*"))}
        check_unchanged(folder, {f"{folder.name}/{name}": {"content": found} for name, found in content.items()})

    def _vocabulary(self, train, show):
        """Returns the path of the vocabulary, which is learned once."""
        if self._corpus.vocabulary:
            return self._corpus.vocabulary
        path = self._output / "vocab.txt"
        if not path.exists():
            counts, _ = count_words(train, self._corpus.lowercase, progress=show)
            learn_vocabulary(counts, self.scale.vocab_size, unused=0, progress=show).save(path)
        return path

    def _records(self, length, special_tokens=True):
        return self._output / "data" / (str(length) if special_tokens else f"{length}_plain")

    @property
    def recipes(self):
        """Returns the different recipes, in the order of the rows, with the shares of the steps to keep models of."""
        recipes = {}
        for row in self.definition.rows:
            if row.recipe is not None:
                recipes.setdefault(row.recipe, set()).add(row.share)
        return recipes

    def unfinished(self):
        """Returns the recipes that are not pre-trained yet, and the `(row, column)` without final scores."""
        recipes = dict.fromkeys(row.recipe for row in self._rows if row.recipe)
        recipes = [recipe for recipe in recipes if not self._result(recipe).exists()]
        pairs = [(row, column) for row in self._rows for column in self.columns]
        return recipes, [pair for pair in pairs if not self._is_finished(*pair)]

    def outdated(self):
        """Returns the `(row, column)` whose scores were made with other settings and are not shown."""
        columns = {column.name: column for column in self.columns}
        pairs = [(row, column) for row in self.definition.rows for column in columns.values()]
        return [pair for pair in pairs if self._scores(*pair).exists() and not self._is_finished(*pair)]

    def pretraining(self, recipe, directory, batch=None):
        """Returns the `PretrainingRun` of a recipe; `batch` overrides the batch sizes."""
        masking = Masking(mask_share=recipe.mask_share, random_share=recipe.random_share)
        masking = None if recipe.causal or recipe.bilm or masking == Masking() else masking
        objective = Objective(recipe.next_sentence, recipe.causal, recipe.bilm, masking)
        phases = [{**phase, "batch": batch or phase["batch"]} for phase in self.scale.phases]
        settings = PretrainingSettings(
            phases,
            objective,
            config=self.language_model(self.scale.bilm) if recipe.bilm else recipe.size or self.scale.config,
            positions=None if recipe.positions == "learned" else recipe.positions,
            learning_rate=self.scale.learning_rate,
            warmup=self.scale.warmup,
            precision=self._precision,
            save_every=max(1, self.scale.steps // _PARTS),
        )
        special_tokens = recipe.special_tokens
        sources = [self._records(length, special_tokens) for length in sorted({phase["length"] for phase in phases})]
        records = open_phases(phases, sources, objective)
        source = self._records("held_out", special_tokens)
        held_out = open_held_out(source, records[0], objective, examples=self.scale.eval_examples)
        return PretrainingRun(settings, records, directory, held_out, self._strategy, report_to=[])

    def curves(self):
        """Returns the lines of `metrics.jsonl` of each pre-training, by the title of its first row."""
        titles = {row.recipe: row.title for row in reversed(self.definition.rows) if row.recipe}
        files = {titles[recipe]: self._folder(recipe) / "metrics.jsonl" for recipe in self.recipes}
        return {
            name: [json.loads(line) for line in path.read_text().splitlines()]
            for name, path in files.items()
            if path.exists()
        }

    def pretrain(self, recipe):
        """Pre-trains a recipe, unless it is finished."""
        if self._result(recipe).exists():
            return
        folder, kept = self._folder(recipe), self._kept_steps(recipe)
        self._check_kept(folder, kept)
        run = self.pretraining(recipe, folder)

        def keep():
            if (step := int(run.trainer.optimizer.iterations)) in kept:
                with replacing(folder / f"model-{step}") as temporary:
                    shutil.copytree(folder / "model", temporary)

        results = run.fit(after_save=keep)
        run.save()
        remove_snapshots(folder)
        self._check_models(recipe)
        write_json(self._result(recipe), results)

    def _check_kept(self, folder, kept):
        """Starts again if a model to keep is missing, since the process was killed while it was written."""
        newest = Snapshots(folder / "snapshots", write=False).newest() if folder.exists() else None
        lost = [step for step in kept if newest and step <= newest["step"] and not (folder / f"model-{step}").exists()]
        if lost:
            _LOG.warning("%s lacks the model of step %d: its pre-training starts again", folder, lost[0])
            shutil.rmtree(folder)

    def _kept_steps(self, recipe):
        return {round(self.scale.steps * share): share for share in self.recipes[recipe] if share < 1}

    def _folder(self, recipe):
        return self._output / "pretraining" / recipe.folder

    def _result(self, recipe):
        return self._folder(recipe) / "result.json"

    def _start(self, row, column):
        """Returns the folder or the name of the model that a row starts from, and options of `load`."""
        if not row.recurrent:
            return self._model(row), {"bilstm": True} if row.bilstm else {}
        name = self.scale.bidaf if column.name == "squad" else self.scale.bilstm
        if row.recipe is not None:
            return name, {"language_model": self._model(row)}
        vocabulary = self._corpus.vocabulary or str(self._output / "vocab.txt")
        return name, {"vocabulary": vocabulary, "lowercase": self._corpus.lowercase}

    def _model(self, row):
        """Returns the folder of the model that a row is fine-tuned from."""
        steps = {share: step for step, share in self._kept_steps(row.recipe).items()}
        return str(self._folder(row.recipe) / (f"model-{steps[row.share]}" if row.share < 1 else "model"))

    def finetune(self, row, column):
        """Fine-tunes the model of a row on a task with all seeds, unless it is finished."""
        if self._is_finished(row, column):
            return
        folder, on_features = self._runs_folder(row, column), _is_on_features(row, column)
        model, options = self._start(row, column)
        task = column.make(model, folder, options, **({"on_features": True} if on_features else {}))
        hyperparameters = Hyperparameters(best=False, precision=self._precision)
        choices = self._choices(row, column)
        finetuning = _OnlyScores(task, choices, hyperparameters, folder, strategy=self._strategy, report_to=[])
        try:
            finetuning.run()
        except FloatingPointError as error:  # All runs diverged: the table says so.
            if not finetuning.grid_runs.results:
                raise
            _LOG.warning("%s", error)
        asked = grid.settings(**choices)  # The folder may have runs with other settings.
        results = [result for result in finetuning.grid_runs.results if result["setting"] in asked]
        for result in results:
            result["scores"].setdefault(column.metric, math.nan)  # A run that diverged has only the task's metric.
        best = grid.summary(results, column.metric)[0]
        facts = {
            "asked": self._asked(row, column),
            "heading": dataclasses.asdict(column.heading()),
            "majority": (task.summary["majority"] or {}).get(column.metric),
        }
        write_json(self._scores(row, column), {**best, **facts})

    def _is_finished(self, row, column):
        path = self._scores(row, column)
        return path.exists() and read_json(path)["asked"] == self._asked(row, column)

    def _asked(self, row, column):
        """Returns what scores depend on besides the model."""
        return {"metric": column.metric, "content": column.content, **self._choices(row, column)}

    def finetuning_recipe(self, row, column):
        """Returns the `FinetuningRecipe` of a row and a task; BiLSTMs on features train longer."""
        return self.scale.recipe("ner_features") if _is_on_features(row, column) else column.recipe

    def runs(self, row, column):
        """Returns the number of runs of a row and a task."""
        choices = self._choices(row, column)
        return len(choices["seed"]) * len(choices["learning_rate"])

    def _choices(self, row, column):
        """Returns the grid of a row and a task."""
        recipe = self.finetuning_recipe(row, column)
        return {
            **({"features": [row.features or _FEATURES]} if _is_on_features(row, column) else {}),
            "learning_rate": list(self.scale.recurrent_rates if row.recurrent else recipe.learning_rates),
            "batch_size": [recipe.batch_size],
            "epochs": [recipe.epochs],
            "seed": list(self.scale.seeds),
        }

    def _runs_folder(self, row, column):
        """Returns the folder of the runs of a row and a task, one for each selection of examples."""
        return self._scores(row, column).parent / "-".join(content[:8] for content in column.content)

    def _scores(self, row, column):
        return self._output / "finetuning" / row.key / column.name / "scores.json"

    def scores(self):
        """Returns the finished scores, `{row: {task: {"mean", "deviation", "runs", ...}}}`."""
        columns, found = {column.name: column for column in self.columns}, {}
        for row in self.definition.rows:
            for name in self._order():
                path, column = self._output / "finetuning" / row.key / name / "scores.json", columns.get(name)
                if path.exists() and (column is None or self._is_finished(row, column)):
                    found.setdefault(row.key, {})[name] = read_json(path)
        return found

    def headings(self, scores):
        """Returns the `Heading`s of the columns, and of other tasks that `scores` contain, in the study's order."""
        found = {column.name: column.heading() for column in self.columns}
        for row in scores.values():
            found |= {name: Heading(**score["heading"]) for name, score in row.items() if name not in found}
        return [found[name] for name in self._order() if name in found]

    def _order(self):
        """Returns the names of all tasks, those that are asked for first."""
        return list(dict.fromkeys([*(column.name for column in self.columns), *self.definition.tasks, *TASKS]))

    @property
    def shown(self):
        """Returns the keys of the rows of the table: those to run, and those with scores from before."""
        return {row.key for row in self._rows} | self.scores().keys()

    def perplexities(self):
        """Returns the held-out perplexity of the language models of the rows that are pre-trained to the end."""
        shown, found = self.shown, {}
        for row in self.definition.rows:
            if row.recipe and row.key in shown and row.share == 1 and self._result(row.recipe).exists():
                found[row.key] = _perplexity(read_json(self._result(row.recipe))["mlm_loss"])
        return found


def _perplexity(loss):
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def _is_on_features(row, column):
    return column.on_features or row.features is not None


class _OnlyScores(Finetuning):
    """Fine-tuning whose models are not kept."""

    def _save(self, model, logits, setting):
        pass
