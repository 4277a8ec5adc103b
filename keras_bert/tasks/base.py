"""The base class of the task-specific code of fine-tuning, and its results."""

import abc
import dataclasses
import functools
import types

from keras_bert.tasks.ensembles import mean_logits
from keras_bert.training.bucketing import Batches
from keras_bert.training.packed_batches import PackedBatches


@dataclasses.dataclass(frozen=True)
class Findings:
    """A task's results for the predictions of the best runs.

    Args:
        results: dict, the task's entries in `results.json`; `scores` are the dev scores.
        scores: the scores in one line.
        facts: dict, entries for the head of the report.
        tables: Markdown tables for the end of `results.md`.
        sections: HTML sections for the end of `report.html`.
        errors: rows of `errors.tsv`, the header first.
        messages: lines to print.
        measured: dict, the dev scores that are compared with the majority baseline.
        same: string, the prediction for all rows of dev; `None` if the predictions differ.
    """

    results: dict
    scores: str
    facts: dict
    tables: list
    sections: list
    errors: list
    messages: tuple = ()
    measured: dict = dataclasses.field(default_factory=dict)
    same: str | None = None


def start_text(model, bert):
    """Describes the model that a task starts from.

    Args:
        model: string, its directory or name.
        bert: what `keras_bert.load` returns for it.
    """
    return f"{model}, {bert.config.size}"


class FinetuningTask(abc.ABC):
    """Base class of the tasks for `Finetuning`.

    Attributes:
        title: heading of the results.
        metric: name of the score that selects the best run.
        model: directory or name of the checkpoint to start from, unless `model` is in the grid.
        bert: a loaded checkpoint with the vocabulary of the models.
        sequence_length: maximum number of tokens of a sequence.
        settings: dict of the task's settings, which must be the same for all runs in a folder.
        facts: dict, entries about the data for the head of the report.
        summary: dict of JSON values about the data, see `tasks.summary`.
        card: dict of the task's metadata for the model card, see `model_card.write`.
        train: list of functions that return `(inputs, targets)`, one for each training stage, usually one.
        dev: `Batches` to evaluate on.
        loss: a `Loss`.
        combine: function that combines the logits of several runs, a list of arrays.
        load: function that loads the model to train, and again after it was saved. Defaults to `keras_bert.load`.
        load_options: dict, options of `load` for the model to train.
        compares_start: bool, whether the model is evaluated before training, too.
        can_pack: bool, whether several texts can share a row, see `PackedBatches`.
    """

    load, load_options, compares_start, can_pack = None, types.MappingProxyType({}), False, False
    combine = staticmethod(mean_logits)

    @functools.cached_property
    def origins(self):
        """Facts about the models that runs start from, by name, see `check_origins`."""
        return {self.model: self.bert.facts}

    def select(self, setting):
        """Prepares the data for a run with these settings; returns the batches to evaluate on."""
        return self.dev

    def batches(self, examples, batch_size, seed, grouped):
        """Returns the training batches of `examples`, one of `train`."""
        return Batches(*examples(), batch_size, seed=seed, grouped=grouped)

    def packed_batches(self, examples, batch_size, seed):
        """Returns the training batches of `examples` with several texts in each row."""
        return PackedBatches(*examples(), batch_size, seed=seed)

    def complete(self, model):
        """Returns the model to save, given a trained one from `build`."""
        return model

    @abc.abstractmethod
    def build(self, bert):
        """Builds the model to train from a loaded checkpoint."""

    @abc.abstractmethod
    def score(self, targets, outputs):
        """Returns the dev scores as a dict."""

    @abc.abstractmethod
    def dev_logits(self, predict):
        """Returns the dev logits as a dict of arrays; `predict` is a function from `Batches` to the model's outputs."""

    @abc.abstractmethod
    def test_logits(self, predict):
        """Returns the logits of the data to predict like `dev_logits`."""

    @abc.abstractmethod
    def save_options(self, logits):
        """Returns the task's arguments of `keras_bert.save`, given the dev logits of the run to save."""

    @abc.abstractmethod
    def export_options(self, bert):
        """Returns the task's arguments of `keras_bert.export` for the saved model."""

    @abc.abstractmethod
    def conclude(self, dev, test, output):
        """Writes predictions to the folder `output` and returns `Findings`. `dev` and `test` are logits."""
