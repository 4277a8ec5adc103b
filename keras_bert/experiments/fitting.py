"""`LoadedBert.fit` and `evaluate`: the tasks and the runs of the commands, on data in Python."""

import copy
import dataclasses
import itertools
import logging
import math
import pathlib
import tempfile

import keras
import tensorflow as tf

from keras_bert.checkpoints import other_names
from keras_bert.checkpoints.load import load
from keras_bert.checkpoints.loaded import LoadedBert
from keras_bert.checks import check_choice, check_count, check_not_negative
from keras_bert.data.batch_source import as_source
from keras_bert.experiments.finetuning import Finetuning
from keras_bert.experiments.fit_messages import messages
from keras_bert.experiments.grid import setting_text
from keras_bert.experiments.hyperparameters import Hyperparameters
from keras_bert.experiments.kept_state import kept_state
from keras_bert.experiments.task_makers import DEV, TASKS, TRAIN, make_task
from keras_bert.files import check_writable, one_writer
from keras_bert.metadata import answer_length
from keras_bert.models.freezing import check_frozen
from keras_bert.tasks import in_memory
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.class_names import class_name
from keras_bert.text.labels import placeholders
from keras_bert.training.distribution import KINDS, create_strategy, is_chief
from keras_bert.training.evaluation import Evaluator
from keras_bert.training.keras_callbacks import check_callbacks, with_loss

_TRAINED = ", fine-tuned"  # The end of the name of a model that is in no folder.
_LOG = logging.getLogger("keras_bert")
_FIELDS = tuple(field.name for field in dataclasses.fields(Hyperparameters) if field.name not in ("best", "patience"))


def choices(**values):
    """Returns the values of a grid as lists by name, of `None` an empty one; raises for those that no run can have."""
    listed = {name: _listed(value) for name, value in values.items()}
    for name, numbers in listed.items():
        for value in numbers:
            if name == "learning_rate":
                check_not_negative(name, value)
            else:
                check_count(name, value, least=0 if name == "seed" else 1)
    return listed


def _listed(value):
    value = value.tolist() if hasattr(value, "tolist") else value  # Of NumPy.
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def fit(bert, data, choices, options, *, output_dir, sequence_length, patience, callbacks, strategy, verbose):
    """See `LoadedBert.fit`; `data` is a `FitData`."""
    callbacks = keras.tree.flatten(callbacks or [])
    check_callbacks(callbacks)
    if "trainable" in vars(bert) or not all(layer.trainable for layer in bert.encoder.layers):
        raise ValueError("`fit` trains a new model, which does not know of `trainable`. Expected freeze_layers=...")
    if any(layer.quantization_mode for layer in bert.encoder._flatten_layers()):
        raise ValueError("`fit` trains floats. Expected a model without quantize(), and a dtype other than int8")
    if patience is not None and not data.held_out:
        raise ValueError(f"`patience` needs `validation` or `validation_split`. Received: patience={patience}")
    shared, own = _split_options(data.task, options)
    shared = {
        "precision": bert.encoder.get_layer("token_embedding").dtype_policy.name,
        "best": data.held_out,
        "patience": patience,
        **shared,
    }
    hyperparameters = Hyperparameters(**shared)
    check_frozen(hyperparameters.freeze_layers or 0, bert.config.num_hidden_layers)
    if sequence_length:
        bert.preprocessor(sequence_length)  # Raises an error if the model has fewer positions.
    if isinstance(strategy, str):
        check_choice("strategy", strategy, KINDS)
        strategy = create_strategy(strategy)
    if output_dir:
        output_dir = pathlib.Path(output_dir).expanduser()
        check_writable(output_dir)
    write = strategy is None or is_chief(strategy)
    with kept_state(), messages(verbose), one_writer(output_dir, write), tempfile.TemporaryDirectory() as folder:
        made = _start(data, bert, sequence_length, own)
        output = output_dir or pathlib.Path(folder) / "run"
        report_to = ("tensorboard",) if output_dir else ()
        runs = Finetuning if data.held_out else _WithoutValidation
        finetuning = runs(
            made, made.choices(**choices), hyperparameters, output, strategy=strategy, report_to=report_to
        )
        finetuning.grid_runs.counts_earlier = False
        finetuning.callbacks, finetuning.save_every = callbacks, None if output_dir else 0
        finetuning.run()
        if output_dir and finetuning.grid_runs.write:
            _LOG.info("%s", finetuning.finish())
        name = f"{bert.name.removesuffix(_TRAINED)}{_TRAINED}"
        return _trained(finetuning, str(output / "model") if output_dir else name)


def _start(data, bert, length, options):
    """Returns the task of `fit`, which loads the model to start from in its present state."""
    start = LoadedBert(bert.checkpoint())
    made = make_task(data.task, data.parts, start, None, length, options)
    made.load, made.facts = _loader(bert, start), {**data.facts, **made.facts}
    return made


def _trained(finetuning, name):
    """Returns the best model of finished runs, under a name."""
    grid_runs = finetuning.grid_runs
    best = grid_runs.best()[0]
    scores = {metric: value for metric, value in best["scores"].items() if "loss" not in metric}
    found = data_summary.listed(scores)
    if finetuning.hyperparameters.best:
        found += f"; best epoch {best['epoch']} of {best['setting']['epochs']}"
    if len(grid_runs.results) > 1:
        found += f"; the best of {len(grid_runs.results)} runs, {setting_text(best['setting'])}"
    if finetuning.results is None:  # Which `finish` has not shown.
        _LOG.info("  scores on %s: %s", finetuning.evaluated_on, found)
    curves = grid_runs.curves()[grid_runs.folder(best["setting"]).name]
    trained = load(finetuning.output / "model", dtype=finetuning.hyperparameters.precision)
    trained.keep_in_memory(name)
    trained.results = {**best, "history": _history(curves, best["epoch"]), "runs": grid_runs.results}
    return trained


def _history(lines, epochs):
    """Returns a dict for each epoch: the mean `loss` of training and, after an evaluation, its results as `val_...`."""
    train = [line for line in lines if line["kind"] == "train"]
    evaluations = [line for line in lines if line["kind"] == "evaluation"]
    ends = [line["step"] for line in evaluations]
    ends = ends or [max(line["step"] for line in train) * epoch // epochs for epoch in range(1, epochs + 1)]
    history = []
    for epoch, (start, end) in enumerate(itertools.pairwise([0, *ends]), 1):
        losses = [with_loss(line)["loss"] for line in train if start < line["step"] <= end]
        results = with_loss(evaluations[epoch - 1]) if evaluations else {}
        results = {f"val_{name}": value for name, value in results.items() if name not in ("step", "kind")}
        history.append({"epoch": epoch, "loss": sum(losses) / len(losses) if losses else math.nan, **results})
    return history


def evaluate(bert, texts, targets=None, *, sequence_length=None, verbose=True, **options):
    """See `LoadedBert.evaluate`."""
    rows, targets = in_memory.read(texts, targets)
    task = _task_of(bert)
    if targets is None and task != "embedding":
        raise ValueError("`evaluate` needs `targets`, one for each text, as in `fit`. Received: targets=None")
    length = answer_length(bert, sequence_length)
    with messages(verbose):
        # Nothing is trained: if the labels are known, two rows do.
        known = task in ("classification", "multi_label", "regression") and "class_weight" not in options
        few = slice(2 if known else None)
        parts = {TRAIN: (rows[few], targets and targets[few]), DEV: (rows, targets)}
        labels = _classes(bert) if task in ("classification", "multi_label", "tagging") else None
        options = options if bert.thresholds is None else {"threshold": bert.thresholds, **options}
        bert = copy.copy(bert)
        bert.labels = labels  # Tasks keep the head of a model with the same classes.
        made = make_task(task, parts, bert, labels, length, options, places=("texts", "texts"))
        # Without a threshold, `predict` answers every question.
        made.null_threshold = math.inf if bert.null_threshold is None else bert.null_threshold
        losses = made.loss if isinstance(made.loss, list) else [made.loss]
        evaluator = Evaluator(made.build(bert), tf.distribute.get_strategy(), losses)
        outputs, golds, results = evaluator.outputs(as_source(made.dev, finite=True), with_losses=True)
        return {name: float(value) for name, value in {**results, **made.score(golds, outputs)}.items()}


class _WithoutValidation(Finetuning):
    """Keeps the weights of the last epoch; the scores are those on the training data."""

    evaluated_on = "the training data"

    def train_run(self, setting, folder):
        trainer, result = self.train(setting, folder, self.task.train, None)
        result["scores"] = trainer.evaluate(self.task.dev)
        return trainer, result, {"dev": self.task.dev_logits(trainer.predict), "test": {}}


def _loader(bert, start):
    """Returns the function that loads the start model from memory, and everything else by its name."""

    def load_again(name, dtype=None, **options):
        if name == bert.name:
            return LoadedBert(start.checkpoint(), dtype=dtype, **bert.encoder_options, **options)
        return load(name, dtype=dtype, **options)

    return load_again


def _classes(bert):
    """Returns the classes of a model, as tasks name them; `None` for regression."""
    count = bert.model().output["logits"].shape[-1]
    return list(map(class_name, bert.labels or placeholders(count))) if count > 1 or bert.multi_label else None


def _task_of(bert):
    """Returns the task of a model's head."""
    tasks = {"token_classification": "tagging", "question_answering": "questions"}
    tasks |= {"multiple_choice": "multiple_choice", "embedding": "embedding"}
    if bert.head == "classification":
        return "multi_label" if bert.multi_label else "classification" if _classes(bert) else "regression"
    if bert.head not in tasks:
        raise ValueError(f"`evaluate` needs a model that was fine-tuned, see `fit`. Received: head={bert.head!r}")
    return tasks[bert.head]


def _split_options(task, options):
    """Returns the options of all runs and those of the task; raises for others."""
    shared = {name: value for name, value in options.items() if name in _FIELDS}
    own = {name: value for name, value in options.items() if name in TASKS[task][1]}
    if unknown := sorted(options.keys() - shared.keys() - own.keys()):
        known = ["targets", *LoadedBert.fit.__kwdefaults__, *_FIELDS, *sorted(TASKS[task][1])]
        hint = other_names.hint(unknown[0], known, other_names.FIT)
        raise ValueError(f"`fit` has no option {unknown[0]!r} for the task {task}. {hint}")
    return shared, own
