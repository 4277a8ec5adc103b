"""`LoadedBert.fit` and `evaluate`: the tasks and the runs of the commands, on data in Python."""

import contextlib
import dataclasses
import difflib
import logging
import pathlib
import re
import sys
import tempfile

import numpy as np
import tensorflow as tf
import tqdm

from keras_bert.checkpoints.load import load
from keras_bert.checkpoints.loaded import LoadedBert
from keras_bert.checks import check_count, check_not_negative
from keras_bert.experiments.finetuning import Finetuning
from keras_bert.experiments.hyperparameters import Hyperparameters
from keras_bert.tasks import in_memory
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.classification.data import own_data
from keras_bert.tasks.classification.multi_label_task import MultiLabelTask
from keras_bert.tasks.classification.task import ClassificationTask
from keras_bert.tasks.embedding import data as embedding
from keras_bert.tasks.embedding.task import EmbeddingSettings, EmbeddingTask
from keras_bert.tasks.multiple_choice import data as multiple_choice
from keras_bert.tasks.multiple_choice.task import MultipleChoiceTask
from keras_bert.tasks.questions import data as questions
from keras_bert.tasks.questions.task import QuestionAnsweringTask, QuestionSettings
from keras_bert.tasks.tagging import data as tagging
from keras_bert.tasks.tagging.task import TaggingSettings, TaggingTask
from keras_bert.training.distribution import create_strategy
from keras_bert.training.evaluation import Evaluator
from keras_bert.training.input_pipeline import as_source
from keras_bert.training.progress import hidden

_LOG = logging.getLogger("keras_bert")
_FIELDS = tuple(field.name for field in dataclasses.fields(Hyperparameters) if field.name not in ("best", "patience"))
_TRAIN, _DEV = "train", "validation"


@dataclasses.dataclass(frozen=True)
class _Start:
    """What a task is made of.

    Args:
        train, dev: paths of the files.
        name: the name of the model to start from.
        bert: the model.
        pairs: bool, whether texts are pairs.
        labels: list of the classes in the order of the model's, or `None` for those of the training data.
        length: int, maximum number of tokens, or `None` for the default of the task.
        options: dict of the settings of the task.
    """

    train: pathlib.Path
    dev: pathlib.Path
    name: str
    bert: LoadedBert
    pairs: bool
    labels: list | None
    length: int | None
    options: dict

    def length_or(self, default):
        """Returns the length: by default at most the positions of the model."""
        return self.length or min(default, self.bert.config.max_position_embeddings)

    def settings(self, cls):
        """Returns the settings of a task as an object."""
        return cls(**self.options, sequence_length=self.length_or(cls.sequence_length))


def _classification(kind, start):
    pair = "pair" if start.pairs else None
    data = own_data(kind, start.train, start.dev, pair=pair, skip_bad_rows=None, labels=start.labels)
    cls = MultiLabelTask if data.task.multi_label else ClassificationTask
    return cls(data, start.name, start.bert, start.length_or(128), **start.options)


def _tagging(start):
    train, dev = (tagging.read(path) for path in (start.train, start.dev))
    train, dev = (dataclasses.replace(part, path=pathlib.Path(part.path.name)) for part in (train, dev))
    return TaggingTask(train, dev, None, start.name, start.bert, start.settings(TaggingSettings), start.labels)


def _questions(start):
    data = questions.read_all([start.train], start.dev)
    data = dataclasses.replace(data, files={"train": [start.train.name], "dev": start.dev.name, "test": None})
    settings = start.settings(QuestionSettings)
    version_2 = data.train[0].version_2 or data.dev.version_2
    settings = dataclasses.replace(settings, version_2=version_2)
    return QuestionAnsweringTask(data, {start.name: start.bert.identity}, start.bert, settings)


def _multiple_choice(start):
    data = multiple_choice.read_all(start.train, start.dev, first_label=0)
    return MultipleChoiceTask(data, start.name, start.bert, start.length_or(128), **start.options)


def _embedding(start):
    train, dev = (embedding.read(path) for path in (start.train, start.dev))
    if train.score_range and dev.score_range and train.score_range != dev.score_range:
        both = max(train.score_range, dev.score_range)
        train, dev = (embedding.read(path, score_range=both) for path in (start.train, start.dev))
    names = {"train": start.train.name, "dev": start.dev.name}
    length, settings = start.bert.sequence_length or start.length_or(128), EmbeddingSettings(**start.options)
    return EmbeddingTask(train, dev, names, start.name, start.bert, start.length or length, settings)


# The tasks by name: what makes them, and the names of their settings.
_CLASSES = {"class_weight", "language_model_weight"}
_TASKS = {
    "classification": (lambda start: _classification("classification", start), _CLASSES),
    "regression": (lambda start: _classification("regression", start), set()),
    "multi_label": (lambda start: _classification("multi_label", start), {"class_weight", "threshold"}),
    "tagging": (_tagging, {"first_token_only"}),
    "questions": (_questions, {"doc_stride", "max_question_length", "max_answer_length"}),
    "multiple_choice": (_multiple_choice, set()),
    "embedding": (_embedding, {field.name for field in dataclasses.fields(EmbeddingSettings)}),
}


def fit(
    bert,
    texts,
    targets=None,
    *,
    validation=None,
    validation_split=None,
    task=None,
    output_dir=None,
    learning_rate=None,
    batch_size=None,
    epochs=None,
    seed=1,
    sequence_length=None,
    patience=None,
    callbacks=(),
    strategy=None,
    verbose=True,
    **options,
):
    """See `LoadedBert.fit`."""
    _check_numbers(learning_rate=learning_rate, batch_size=batch_size, epochs=epochs, seed=seed)
    column = targets if isinstance(targets, str) else None
    rows, targets = in_memory.read(texts, targets)
    task = in_memory.check_task(task) if task else in_memory.infer(rows, targets)
    held_out = _held_out(rows, targets, validation, validation_split, seed, column)
    if not held_out and patience is not None:
        raise ValueError(f"`patience` needs `validation` or `validation_split`. Received: patience={patience}")
    parts = {_TRAIN: (rows, targets), _DEV: held_out or (rows, targets)}
    if validation_split:
        parts[_TRAIN] = _without(rows, targets, held_out[2])
    shared, own = _split_options(task, options)
    precision = shared.pop("precision", bert.encoder.dtype_policy.name)
    hyperparameters = Hyperparameters(precision=precision, best=bool(held_out), patience=patience, **shared)
    strategy = create_strategy(strategy) if isinstance(strategy, str) else strategy
    start = LoadedBert(bert.checkpoint())
    with _messages(verbose), contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        made = _make_task(task, folder, parts, start, None, sequence_length, own)
        made.load = _loader(bert, start)
        if not held_out:  # The validation data are those to train on.
            made.summary["overlap"] = dict.fromkeys(made.summary["overlap"], 0)
            made.facts = {title: text for title, text in made.facts.items() if not title.startswith("dev ")}
        choices = {
            "learning_rate": _listed(learning_rate) or list(made.learning_rates[:1]),
            "batch_size": _listed(batch_size) or [made.batch_size],
            "epochs": _listed(epochs) or [made.epochs],
            "seed": _listed(seed),
        }
        output = pathlib.Path(output_dir).expanduser() if output_dir else folder / "run"
        report_to = ("tensorboard",) if output_dir else ()
        runs = Finetuning if held_out else _WithoutValidation
        finetuning = runs(made, choices, hyperparameters, output, strategy=strategy, report_to=report_to)
        finetuning.callbacks = list(callbacks)
        finetuning.run()
        best = finetuning.grid_runs.best()[0]
        listed = data_summary.listed({name: best["scores"][name] for name in best["scores"] if "loss" not in name})
        place = f"validation: {listed}; epoch {best['epoch']} of {best['setting']['epochs']}"
        _LOG.info("  scores on %s", place if held_out else f"the training data: {listed}")
        curves = finetuning.grid_runs.curves()[finetuning.grid_runs.folder(best["setting"]).name]
        if output_dir and finetuning.grid_runs.write:
            _LOG.info("%s", finetuning.finish())
        trained = load(output / "model", dtype=precision)
        trained.keep_in_memory(str(output / "model") if output_dir else f"{bert.name}, fine-tuned")
    trained.results = {**best, "history": [line for line in curves if line["kind"] == "evaluation"]}
    return trained


def evaluate(bert, texts, targets=None, *, sequence_length=None, verbose=True, **options):
    """See `LoadedBert.evaluate`."""
    rows, targets = in_memory.read(texts, targets)
    task = _task_of(bert)
    length = sequence_length or bert.sequence_length
    with _messages(verbose), tempfile.TemporaryDirectory() as folder:
        parts = {_TRAIN: (rows, targets), _DEV: (rows, targets)}
        labels = bert.labels if task in ("classification", "multi_label", "tagging") else None
        options |= {"threshold": bert.thresholds} if bert.thresholds is not None else {}
        made = _make_task(task, pathlib.Path(folder), parts, bert, labels, length, options)
        made.null_threshold = bert.null_threshold
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


def _make_task(name, folder, parts, bert, labels, length, options):
    """Writes the rows of the parts as files, and returns the task that reads them."""
    paths = {}
    for part, (rows, targets, *_) in parts.items():
        paths[part] = folder / f"{part}.{'json' if name == 'questions' else 'jsonl'}"
        in_memory.write(paths[part], name, rows, targets)
    make, known = _TASKS[name]
    if unknown := options.keys() - known:
        raise ValueError(f"the task {name} has no option {sorted(unknown)[0]!r}. Expected one of: {sorted(known)}")
    options = {{"class_weight": "class_weights"}.get(option, option): value for option, value in options.items()}
    pairs = isinstance(parts[_TRAIN][0][0], tuple)
    try:
        return make(_Start(*paths.values(), bert.name, bert, pairs, labels, length, options))
    except ValueError as error:
        raise ValueError(_in_python(str(error), paths)) from None


def _in_python(message, paths):
    """Names the arguments of Python in a message about files and flags."""
    for part, path in zip(("texts", "validation"), paths.values(), strict=True):
        message = re.sub(
            rf"{re.escape(str(path))}:(\d+)", lambda match, part=part: f"{part}[{int(match[1]) - 1}]", message
        )
        message = message.replace(str(path), part).replace(path.name, part)
    message = message.replace("class_weights", "class_weight")
    return re.sub(r"--(\w+)(=\w+)?", lambda match: match[1] + (f"={match[2][1:]!r}" if match[2] else ""), message)


def _loader(bert, start):
    """Returns the function that loads the start model from memory, and everything else by its name."""

    def load_again(name, dtype=None, **options):
        if name == bert.name:
            return LoadedBert(start.checkpoint(), dtype=dtype, **bert.encoder_options, **options)
        return load(name, dtype=dtype, **options)

    return load_again


def _task_of(bert):
    """Returns the task of a model's head."""
    tasks = {"token_classification": "tagging", "question_answering": "questions"}
    tasks |= {"multiple_choice": "multiple_choice", "embedding": "embedding"}
    if bert.head == "classification":
        return "multi_label" if bert.multi_label else "classification" if bert.labels else "regression"
    if bert.head not in tasks:
        raise ValueError(f"`evaluate` needs a model that was fine-tuned, see `fit`. Received: head={bert.head!r}")
    return tasks[bert.head]


def _check_numbers(**settings):
    """Raises for settings of runs, numbers or lists of them, that no run can have."""
    for name, values in settings.items():
        for value in _listed(values):
            if name == "learning_rate":
                check_not_negative(name, value)
            else:
                check_count(name, value, least=0 if name == "seed" else 1)


def _held_out(rows, targets, validation, split, seed, column):
    """Returns the texts and targets of the validation data, and their row numbers if they are split off.

    `column` is the name of the targets in data frames, or `None`.
    """
    if validation is not None and split is not None:
        raise ValueError("`validation` and `validation_split` exclude each other. Received: both")
    if split is not None:
        count = round(split * len(rows)) if isinstance(split, float) and 0 < split < 1 else 0
        if not 0 < count < len(rows):
            raise ValueError(
                f"`validation_split` must be a share of the rows, such as 0.1. Received: {split!r} of {len(rows)} rows"
            )
        chosen = set(np.random.default_rng(_listed(seed)[0]).permutation(len(rows))[:count].tolist())
        return *_rows(rows, targets, sorted(chosen)), chosen
    if validation is None:
        return None
    parts = validation if isinstance(validation, tuple) else (validation, column)
    if len(parts) > 2:
        raise ValueError(f"`validation` must be a tuple of texts and targets. Received: {len(parts)} parts")
    return in_memory.read(*parts, place="validation")


def _rows(rows, targets, numbers):
    return [rows[number] for number in numbers], None if targets is None else [targets[number] for number in numbers]


def _without(rows, targets, left_out):
    return _rows(rows, targets, [number for number in range(len(rows)) if number not in left_out])


def _split_options(task, options):
    """Returns the options of all runs and those of the task; raises for others."""
    shared = {name: value for name, value in options.items() if name in _FIELDS}
    own = {name: value for name, value in options.items() if name in _TASKS[task][1]}
    if unknown := sorted(options.keys() - shared.keys() - own.keys()):
        known = [*_FIELDS, *sorted(_TASKS[task][1])]
        similar = difflib.get_close_matches(unknown[0], [*known, "learning_rate", "epochs", "batch_size"], 1)
        hint = f". Did you mean {similar[0]!r}?" if similar else f". Expected one of: {', '.join(known)}"
        raise ValueError(f"`fit` has no option {unknown[0]!r} for the task {task}{hint}")
    return shared, own


def _listed(value):
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


@contextlib.contextmanager
def _messages(verbose):
    """Shows what the commands show, on standard output; without `verbose` only warnings."""
    if not verbose:
        with hidden():
            yield
        return
    level, handler = _LOG.level, _Handler()
    configured = _LOG.handlers or logging.getLogger().handlers  # By the user.
    with contextlib.redirect_stderr(sys.stdout):
        if not configured:
            _LOG.addHandler(handler)
            _LOG.setLevel(logging.INFO)
        try:
            yield
        finally:
            _LOG.removeHandler(handler)
            _LOG.setLevel(level)


class _Handler(logging.Handler):
    """Writes messages above the progress line."""

    def emit(self, record):
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        tqdm.tqdm.write(f"{level}{record.getMessage()}", sys.stdout)
