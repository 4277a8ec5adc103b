"""The model that `LoadedBert.fit` returns, with its scores and its history."""

import itertools
import logging
import math

from keras_bert.checkpoints.load import open_checkpoint
from keras_bert.runs.grid import setting_text
from keras_bert.runs.without_validation import FinetuningOnAll
from keras_bert.tasks import summary as data_summary
from keras_bert.training import loss_names

_TRAINED = ", fine-tuned"  # The end of the name of a model that is in no folder.
_LOG = logging.getLogger("keras_bert")


def trained_model(bert, finetuning, output_dir):
    """Returns the best model of finished runs, an object of the class of the model that they started from."""
    if finetuning.results is None:  # Otherwise `finish` has shown them.
        _log_scores(finetuning)
    folder = finetuning.output / "model"
    trained = type(bert)(open_checkpoint(folder), dtype=finetuning.hyperparameters.precision)
    name = f"{bert.name.removesuffix(_TRAINED)}{_TRAINED}"
    if output_dir:
        name = str(folder)
    trained.keep_in_memory(name, _results(finetuning))
    return trained


def _results(finetuning):
    """Returns the `results` of the trained model."""
    grid_runs = finetuning.grid_runs
    first = grid_runs.best()[0]  # With folds, the first one.
    curves = grid_runs.curves()[grid_runs.folder(first["setting"]).name]
    best, _ = _best(finetuning)
    return {
        **best,
        "history": _history(curves, first),
        "runs": grid_runs.results,
        "evaluated_on": _evaluated_on(finetuning),
    }


def _evaluated_on(finetuning):
    """Returns what the scores of the trained model are from."""
    if finetuning.plan.folds is not None:
        return finetuning.evaluated_on
    if isinstance(finetuning, FinetuningOnAll):
        return "training data"
    return "validation"


def _best(finetuning):
    """Returns the best result of finished runs, with folds that of all of them, and its scores without losses."""
    first = finetuning.grid_runs.best()[0]  # With folds, the first one.
    best = first
    if finetuning.plan.folds:
        best = finetuning.grid_runs.to_json()["best"]
    losses = loss_names.names_of(first, first["scores"])
    scores = {name: value for name, value in best["scores"].items() if name not in losses}
    return best, scores


def _log_scores(finetuning):
    """Logs the scores of the best run, and warns if they are no better than guesses."""
    best, scores = _best(finetuning)
    text = data_summary.listed(scores)
    if finetuning.hyperparameters.best:
        text += f"; best epoch {best['epoch']} of {best['setting']['epochs']}"
    runs = finetuning.grid_runs.results
    if len(runs) > 1 and finetuning.plan.folds is None:
        text += f"; the best of {len(runs)} runs, {setting_text(best['setting'])}"
    _LOG.info("  scores on %s: %s", finetuning.evaluated_on, text)
    warning = _beside_guesses(finetuning, scores)
    if warning:
        _LOG.warning("%s", warning)


def log_scores_of_folds(finetuning):
    """Logs the scores of predictions by which labels are ranked, and warns if they are no better than guesses."""
    _, scores = _best(finetuning)
    _LOG.info("  scores on %s: %s", finetuning.evaluated_on, data_summary.listed(scores))
    warning = _beside_guesses(finetuning, scores)
    if warning:
        _LOG.warning("the order of the labels says little: %s", warning)


def _beside_guesses(finetuning, scores):
    """Returns a warning if scores are no better than guesses, or else `None`."""
    report = finetuning.task.report
    return data_summary.beside_guesses(report.summary, report.metric, scores, finetuning.is_held_out)


def _history(lines, result):
    """Returns a dict for each epoch: the mean `loss` of training and, after an evaluation, its results as `val_...`.

    `lines` are those of the `metrics.jsonl` of a run, given its result.
    """
    losses = loss_names.names_of(result, result["scores"])
    train = [line for line in lines if line["kind"] == "train"]
    evaluations = [line for line in lines if line["kind"] == "evaluation"]
    if evaluations:
        ends = [line["step"] for line in evaluations]
    else:
        epochs = result.get("epoch", 1)  # A head alone has none.
        last_step = max(line["step"] for line in train)
        ends = [last_step * epoch // epochs for epoch in range(1, epochs + 1)]
    history = []
    for epoch, (start, end) in enumerate(itertools.pairwise([0, *ends]), 1):
        logged = [line for line in train if start < line["step"] <= end]
        values = [loss_names.with_total(line, losses)["loss"] for line in logged]
        entry = {"epoch": epoch, "loss": math.nan}
        if values:
            entry["loss"] = sum(values) / len(values)
        if evaluations:
            entry.update(_validation_results(evaluations[epoch - 1], losses))
        history.append(entry)
    return history


def _validation_results(line, losses):
    """Returns the numbers of an evaluation by their names in the history, a line of `metrics.jsonl` given."""
    results = {}
    for name, value in loss_names.with_total(line, losses).items():
        if name not in ("step", "kind"):
            results[f"val_{name}"] = value
    return results
