"""Methods for few examples: a head on vectors computed once, and before it an encoder tuned on pairs of rows.

The contrastive method is that of SetFit (Tunstall et al., 2022), with all pairs of the rows of a batch.
"""

import functools
import logging

from keras_bert.checks import check_count
from keras_bert.data.document_batches import DocumentRows
from keras_bert.data.splits import Folds
from keras_bert.heads.embedding import build_embedder
from keras_bert.heads.sentence_classification import SentenceClassification, vector_options
from keras_bert.models.description import layers_of
from keras_bert.tasks.head_trainer import HeadTrainer
from keras_bert.tasks.label_pairs import (
    LEAST_ROWS,
    LabelBatches,
    drawn_classes,
    label_pair_loss,
    rows_by_class,
)
from keras_bert.tasks.methods import AUTO, CONTRASTIVE, FULL, PROBE
from keras_bert.tasks.stages import Stage

_LOG = logging.getLogger("keras_bert")
_FOLDS = 4  # Of `AUTO`.
_LEAST_STEPS = 40  # Fewer steps change a model little.
# The defaults of training on the pairs of the rows of a batch.
_RATE = 5e-5
_BATCH_SIZE = 16
# The budget of an epoch of pairs: mean draws of a row, and draws of all rows.
_DRAWS_OF_A_ROW = 20
_MOST_DRAWS = 20_000


def few_steps(task, steps):
    """Returns a sentence if a training of the whole model has so few steps that it changes little, or else `None`."""
    if steps >= _LEAST_STEPS or not task.trains(SentenceClassification.name):
        return None
    advice = "take more epochs"
    if not task.reads_windows:
        advice = f"method='auto' is for few examples, or {advice}"
    return f"steps: only {steps}, which change a model little; {advice}"


def head_of(task, method):
    """Returns the name of the head that a method trains for a class of tasks; `None` for the one of the tasks."""
    if method == FULL:
        return None
    if not task.trains(SentenceClassification.name):
        raise ValueError(
            f"`method`: only for classification, several labels and regression, with the heads of keras_bert. "
            f"Received: method={method!r} for the task {task.name}, with the head {task.head!r}"
        )
    return SentenceClassification.name


class FewExamples:
    """One or several methods that train the models of a task on few rows.

    Args:
        task: the `Task`, whose `Start` has the head of `head_of`.
        method: string, one of `METHODS` but "full".
        folds: `Folds` that "auto" compares by. Defaults to a few.

    Attributes:
        methods: tuple of the names of the methods to compare, or of the only one.
        folds: `Folds`, `None` without cross-validation.
    """

    def __init__(self, task, method, folds=None):
        self._task = task
        self._check_task(method)
        self.methods = (method,)
        self.folds = folds
        if method == AUTO:
            self._compare()

    def _check_task(self, method):
        """Raises an error if a method cannot train the task."""
        task = self._task
        split = task.splits["train"][0]
        if any(isinstance(value, DocumentRows) for value in split.inputs.values()):
            raise ValueError(f"`long_texts`: 'windows' only with method='full'. Received: method={method!r}")
        if getattr(task.start.bert, "has_pair_layers", False):
            raise ValueError(f"`method`: only for BERT. Received: method={method!r} for {task.model}")
        if method == CONTRASTIVE:
            self._check_pairs(split.examples.labels)

    def _check_pairs(self, labels):
        """Raises an error if rows with these labels have no pairs to learn from."""
        if self._task.labels is None:
            raise ValueError("`method`: pairs come from classes. Expected method='probe' for numbers")
        if len(drawn_classes(labels)) < 2:
            raise ValueError(
                "`method`: all rows have the same labels, so that no pair is dissimilar. Expected other rows, or "
                "method='probe'"
            )
        sizes = map(len, rows_by_class(labels).values())
        if max(sizes, default=0) < 2:
            raise ValueError(
                "`method`: no two rows have a class in common, so there are no pairs to learn from. Expected more "
                "rows of a class, or method='probe'"
            )

    def _compare(self):
        """Sets the methods to compare, and the folds if there are none; rows that cannot be divided leave the probe."""
        reason = self._reason_not_to_compare()
        if reason is not None:
            _LOG.info("  method: probe, without a comparison: %s", reason)
            self.methods = (PROBE,)
            self.folds = None
            return
        self.methods = (PROBE, CONTRASTIVE)
        if not self._has_held_out_rows():
            self.folds = Folds(self._most_folds())

    def _reason_not_to_compare(self):
        """Returns why the rows cannot be divided to compare methods, or `None`."""
        if self._task.labels is None:
            return "pairs come from classes, not from numbers"
        sizes = self._class_sizes()
        if self._has_held_out_rows():
            return "no class has two examples" if max(sizes.values()) == 1 else None
        if self._most_folds() >= 2:
            return None
        rarest = min(sizes, key=sizes.get)
        if sizes[rarest] >= 2:
            return "all rows are of one group, and cross-validation needs two"
        return f"the class {self._task.labels[rarest]} has one example, and cross-validation needs two"

    def _has_held_out_rows(self):
        """Whether there are rows to score the methods on: those of validation, or those of folds that were given."""
        return self._task.held_out or self.folds is not None

    def _class_sizes(self):
        """Returns the number of training rows of each class, by its id."""
        labels = self._task.splits["train"][0].examples.labels
        return {label: len(members) for label, members in rows_by_class(labels).items()}

    def _most_folds(self):
        """Returns the number of folds that each hold a row of every class, at most a few."""
        groups = set(self._task.splits["train"][0].examples.groups())
        return min(_FOLDS, min(self._class_sizes().values()), len(groups))

    def choices(self, learning_rate=None, batch_size=None, epochs=None, seed=None):
        """Returns the grid of the runs, see `Training.choices`; without pairs it has the seeds alone."""
        choices = {"method": list(self.methods)}
        if CONTRASTIVE in self.methods:
            choices["learning_rate"] = learning_rate or [_RATE]
            choices["batch_size"] = batch_size or [_BATCH_SIZE]
            for size in choices["batch_size"]:
                check_count("batch_size", size, LEAST_ROWS)
            choices["epochs"] = epochs or [1]
        choices["seed"] = seed or [1]
        return choices

    def stages(self, task, setting):
        """Returns the `Stage`s of a run; `task` is that of a fold, or that of all rows."""
        stages = []
        if setting["method"] == CONTRASTIVE:
            stages.append(self._pair_stage(task))
        split = task.splits["train"][0]
        # A tuned encoder has seen the rows: on its vectors, cross-validation of the head says nothing.
        tries_names = setting["method"] == PROBE
        stages.append(
            Stage(
                name=SentenceClassification.name,
                build=task.training.build,
                loss=task.training.loss,
                examples=split.pair,
                score=task.report.score,
                dev=task.dev,
                solve=functools.partial(HeadTrainer, task=task, tries_names=tries_names),
            )
        )
        return stages

    def _pair_stage(self, task):
        """Returns the `Stage` that tunes the encoder on pairs of rows."""
        split = task.splits["train"][0]
        return Stage(
            name="pairs",
            build=_build_embedder,
            loss=label_pair_loss(),
            examples=split.pair,
            score=task.report.score,
            batches=functools.partial(_label_batches, labels=split.examples.labels),
        )


def _label_batches(inputs, targets, *, labels, batch_size, seed, grouped):
    """Returns `LabelBatches` with the steps of the budget; rows are drawn by their labels, and never `grouped`."""
    draws = min(_DRAWS_OF_A_ROW * len(labels), _MOST_DRAWS)
    steps = max(_LEAST_STEPS, -(-draws // batch_size))
    return LabelBatches(
        inputs,
        targets,
        labels=labels,
        batch_size=batch_size,
        steps=steps,
        seed=seed,
    )


def _build_embedder(bert):
    """Returns the encoder with its pooling; a projection keeps its weights, as the head needs it."""
    options = vector_options(bert)
    embedder = build_embedder(bert.encoder, **options)
    projection = layers_of(embedder).get("sentence_projection")
    if projection is not None:
        layers = layers_of(bert.model())
        trained = layers.get("sentence_projection", layers.get("vector_projection"))
        projection.set_weights(trained.get_weights())
        projection.trainable = False
    return embedder
