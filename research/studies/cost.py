"""What a study will cost: its runs, its steps, and an estimate of the time from a few timed steps."""

import dataclasses
import time

from keras_bert.data import Phases

_BATCH = 32  # Largest batch of the timed steps.
TIMED_STEPS = 10  # Steps of one call of the training graph.
_TOKENS_PER_WORD = 1.3
_EVALUATION = 1.3  # Time of training and evaluation, relative to training alone.


def work_text(runner, recipes, pairs):
    """Describes what is left to do: recipes to pre-train, and `(row, column)` to fine-tune."""
    texts = []
    if recipes:
        runs = _counted(len(recipes), "pre-training run")
        texts.append(f"{runs} of {runner.scale.steps:,} steps")
    if pairs:
        runs = _counted(sum(runner.runs(row, column) for row, column in pairs), "fine-tuning run")
        tasks = dict.fromkeys(column.title for _, column in pairs)
        texts.append(f"{runs} on {', '.join(tasks)}")
    return " and ".join(texts) or "nothing: all runs are finished"


def _counted(count, noun):
    """Returns a number and a noun."""
    return f"{count} {noun}s" if count > 1 else f"{count} {noun}"


def estimate(runner, recipes, pairs):
    """Returns the estimated seconds of all pre-training runs and of all fine-tuning runs.

    A few steps are timed of each kind of model, and the time until the first one, which each run takes too. Fine-tuning
    is assumed to take as long per token as pre-training; that of recurrent models is left out.
    """
    timed_pairs = [(row, column) for row, column in pairs if not row.recurrent]
    different = {_kind_of_model(recipe): recipe for recipe in recipes}
    for row, _ in timed_pairs:
        different[_kind_of_model(row.recipe)] = row.recipe
    costs = {kind: _measure(runner, recipe) for kind, recipe in different.items()}
    tokens = sum(phase["steps"] * phase["batch"] * phase["length"] for phase in runner.scale.phases)
    pretraining = sum(costs[_kind_of_model(recipe)].seconds(1, tokens) for recipe in recipes)
    finetuning = 0.0
    for row, column in timed_pairs:
        runs = runner.runs(row, column)
        words = column.words * runner.finetuning_recipe(row, column).epochs * runs
        cost = costs[_kind_of_model(row.recipe)]
        finetuning += _EVALUATION * cost.seconds(runs, words * _TOKENS_PER_WORD)
    return pretraining, finetuning


@dataclasses.dataclass(frozen=True)
class Cost:
    """The seconds until the first step of a run, and those of each token."""

    start: float
    per_token: float

    def seconds(self, runs, tokens):
        """Returns the seconds of some runs with these tokens together."""
        return self.start * runs + self.per_token * tokens


def _kind_of_model(recipe):
    """Returns what the time of a step depends on."""
    return recipe.size, recipe.causal, recipe.next_sentence, recipe.bilm


def _measure(runner, recipe):
    """Returns the `Cost` of a pre-training, from a few steps."""
    batch = min(_BATCH, runner.scale.phases[0]["batch"])
    run = runner.models.create_run(recipe, None, batch)
    records = run.records[0]
    steps = min(TIMED_STEPS, records.steps // 2) or 1
    seconds = []
    for count in (steps, steps, 2 * steps):  # The first one traces the graph. The start of a run takes time, too.
        began = time.monotonic()
        run.trainer.fit(Phases([(records, count)]), steps=count)
        seconds.append(time.monotonic() - began)
    first, once, twice = seconds
    tokens = steps * batch * records.sequence_length
    per_token = max(twice - once, 0.2 * twice) / tokens
    return Cost(first, per_token)
