"""`LoadedBert.evaluate`: the scores of a trained model on texts with targets."""

import copy
import dataclasses
import math

import tensorflow as tf

from keras_bert.data import in_memory
from keras_bert.data.batch_source import as_source
from keras_bert.data.sources import PythonRows
from keras_bert.heads.class_settings import placeholders
from keras_bert.heads.confidence import Confidence, checked_confidence
from keras_bert.heads.registry import describe, head_named
from keras_bert.metadata import answer_length
from keras_bert.runs.fit_data import data_set_rows, task_rows, with_targets
from keras_bert.runs.fit_messages import messages
from keras_bert.runs.fit_task import task_settings
from keras_bert.settings import keywords, needing_held_out
from keras_bert.tasks import confidence, registry
from keras_bert.tasks.base import Start
from keras_bert.tasks.class_names import class_name
from keras_bert.training.evaluation import Evaluator


def evaluate(bert, texts, targets=None, *, sequence_length=None, verbose=True, **options):
    """See `LoadedBert.evaluate`."""
    task = registry.task_of(bert)
    if task is None:
        raise ValueError(
            "`evaluate` needs a model with the head of a task, which was fine-tuned, see `fit`. "
            f"Received: head={bert.head!r}"
        )
    rows = _labeled_rows(bert, task, texts, targets)
    labels = _classes(bert) if head_named(bert.head).has_classes else None
    _check_options(task, options)
    settings = _answer_settings(bert, task, sequence_length, options)
    train_rows = rows
    if not task.rows.needs_train and "class_weight" not in options:
        train_rows = rows[:2]  # Nothing is trained: if the classes are known, two rows do.
    with messages(verbose):
        read = task.rows.read(
            PythonRows("texts", train_rows),
            PythonRows("texts", rows),
            settings,
            labels=labels,
            name=task.name,
        )
        labeled = copy.copy(bert)
        labeled.labels = labels  # Tasks keep the head of a model with the same classes.
        scores = _scores(task(read, Start(bert.name, labeled), settings))
    return {name: float(value) for name, value in scores.items()}


def _labeled_rows(bert, task, texts, targets):
    """Returns texts and targets as the rows of the model's task."""
    texts = in_memory.listed(texts)
    if task.rows.convert is None:  # Otherwise it decides itself what it reads.
        texts = in_memory.with_known_texts(texts, targets, bert.columns)
    rows = data_set_rows(texts, targets)
    if rows is not None:
        return with_targets(task, "texts", rows, targets)
    read_texts, read_targets = in_memory.read(texts, targets)
    if read_targets is None and task.rows.needs_targets:
        raise ValueError("`evaluate` needs `targets`, one for each text, as in `fit`. Received: targets=None")
    return task_rows(task, "texts", read_texts, read_targets)


def _classes(bert):
    """Returns the classes of a model, as tasks name them; `None` for regression."""
    logits = bert.model().output.get("logits")
    count = len(bert.labels or ()) if logits is None else logits.shape[-1]
    if count <= 1 and not bert.multi_label:
        return None
    return [class_name(label) for label in bert.labels or placeholders(count)]


def _check_options(task, options):
    """Raises for options that the task does not have."""
    known = keywords(task.Settings)
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise ValueError(f"the task {task.name} has no option {unknown[0]!r}. Expected one of: {sorted(known)}")


def _answer_settings(bert, task, sequence_length, options):
    """Returns the settings of the task: those that are given, and others as the model stores them."""
    stored = dict(bert.task_settings or {})
    if bert.thresholds is not None:
        stored["threshold"] = bert.thresholds
    all_options = stored | options
    settings = task_settings(task, bert, answer_length(bert, sequence_length), all_options)
    names = needing_held_out(settings)
    if names:
        raise ValueError(f"`{names[0]}` is an option of `fit`, which stores what it chooses. Received: {all_options}")
    if hasattr(settings, "null_threshold"):
        # Without a threshold, `predict` answers every question.
        threshold = math.inf if bert.null_threshold is None else bert.null_threshold
        settings = dataclasses.replace(settings, null_threshold=threshold)
    return settings


def _scores(task):
    """Returns the losses and the scores of the model that a task starts from, a dict of numbers."""
    bert = task.bert
    trusted = None
    if bert.confidence is not None:
        fields = head_named(bert.head).confidence_fields(describe(bert.model()))
        trusted = Confidence.of(checked_confidence(bert.confidence, fields))
    model = task.training.own_model(bert)
    evaluator = Evaluator(model, tf.distribute.get_strategy(), task.training.losses)
    batches = as_source(task.dev, finite=True)
    outputs, golds, losses = evaluator.outputs(batches, with_losses=True)
    judged = outputs
    if bert.multi_label:  # Thresholds are those of the answered probabilities.
        judged = confidence.scaled(outputs, head_named(bert.head).classes, trusted)
    scores = losses | task.report.score(golds, judged)
    if trusted is not None:
        kept = task.report.dev_logits(lambda _: outputs)
        scores |= confidence.scores(trusted, task.report.decisions(kept))
    return scores
