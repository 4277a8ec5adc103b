"""What a study will cost: its runs, its steps, and an estimate of the time from a few timed steps."""

import time

from keras_bert.data import Phases

_BATCH = 32  # Largest batch of the timed steps.
_STEPS = 10  # Steps of one call of the training graph.
_TOKENS_PER_WORD = 1.3
_EVALUATION = 1.3  # Time of training and evaluation, relative to training alone.


def work_text(runner, recipes, pairs):
    """Describes what is left to do: recipes to pre-train, and `(row, column)` to fine-tune."""
    texts = []
    if recipes:
        several = "s" * (len(recipes) > 1)
        texts.append(f"{len(recipes)} pre-training run{several} of {runner.scale.steps:,} steps")
    if pairs:
        runs = sum(runner.runs(row, column) for row, column in pairs)
        tasks = list(dict.fromkeys(column.title for _, column in pairs))
        texts.append(f"{runs} fine-tuning run{'s' * (runs > 1)} on {', '.join(tasks)}")
    return " and ".join(texts) or "nothing: all runs are finished"


def estimate(runner, recipes, pairs):
    """Returns the estimated seconds of all pre-training runs and of all fine-tuning runs.

    A few steps are timed of each kind of model, and the time until the first one, which each run takes too. Fine-tuning
    is assumed to take as long per token as pre-training; that of recurrent models is left out.
    """
    pairs = [(row, column) for row, column in pairs if not row.recurrent]
    needed = [*recipes, *(row.recipe for row, _ in pairs)]
    costs = {_kind(recipe): recipe for recipe in needed}
    costs = {kind: _seconds(runner, recipe) for kind, recipe in costs.items()}
    scale = runner.scale
    tokens = sum(phase["steps"] * phase["batch"] * phase["length"] for phase in scale.phases)
    pretraining = sum(_time(costs[_kind(recipe)], 1, tokens) for recipe in recipes)
    finetuning = 0.0
    for row, column in pairs:
        runs = runner.runs(row, column)
        words = column.words * runner.finetuning_recipe(row, column).epochs * runs
        finetuning += _EVALUATION * _time(costs[_kind(row.recipe)], runs, words * _TOKENS_PER_WORD)
    return pretraining, finetuning


def _time(cost, runs, tokens):
    start, per_token = cost
    return start * runs + per_token * tokens


def _kind(recipe):
    """Returns what the time of a step depends on."""
    return recipe.size, recipe.causal, recipe.next_sentence, recipe.bilm


def _seconds(runner, recipe):
    """Returns the seconds until the first step, and those of each token."""
    batch = min(_BATCH, runner.scale.phases[0]["batch"])
    run = runner.models.create_run(recipe, None, batch)
    records = run.records[0]
    steps = min(_STEPS, records.steps // 2) or 1
    seconds = []
    for count in (steps, steps, 2 * steps):  # The first one traces the graph. The start of a run takes time, too.
        began = time.monotonic()
        run.trainer.fit(Phases([(records, count)]), steps=count)
        seconds.append(time.monotonic() - began)
    per_token = max(seconds[2] - seconds[1], 0.2 * seconds[2]) / (steps * batch * records.sequence_length)
    return seconds[0], per_token
