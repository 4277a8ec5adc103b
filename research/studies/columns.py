"""The columns of a study's table: tasks that each row is fine-tuned on."""

import dataclasses
from collections.abc import Callable

import keras_bert
from keras_bert.tasks import ClassificationTask, QuestionAnsweringTask, Start, TaggingTask
from keras_bert.tasks.classification import glue
from keras_bert.tasks.questions import data as squad
from keras_bert.tasks.tagging import data as tagging
from research import rivals
from research.feature_tagging.task import FeatureTaggingTask
from research.rivals.config import is_name
from research.studies.on_bilstm import ClassificationOnBiLSTM, QuestionsOnBiLSTM

# The metrics of the paper's tables, where they are not the main metrics of the tasks.
_METRICS = {"mrpc": "accuracy", "qqp": "accuracy"}
_TITLES = {"mnli": "MNLI-m", "squad": "SQuAD", "ner": "NER", "ner_features": "NER, features"}


@dataclasses.dataclass(frozen=True)
class Sources:
    """Where the data of the tasks is."""

    glue_dir: str | None = None  # Folder of the official GLUE files; `None` downloads them.
    squad_train: str | None = None  # Files in SQuAD's format.
    squad_dev: str | None = None
    ner_train: str | None = None  # Files in CoNLL's format.
    ner_dev: str | None = None


@dataclasses.dataclass(frozen=True)
class Heading:
    """Heading of a column of the table."""

    name: str  # One of `definitions.TASKS`.
    title: str  # Heading of the column.
    metric: str  # The score in it.
    train_examples: int | None  # Limits of the examples; `None` for all.
    dev_examples: int | None


@dataclasses.dataclass(frozen=True)
class Column(Heading):
    """A task of a study."""

    recipe: object  # The `FinetuningRecipe`.
    words: int  # Number of words of one epoch, for estimates.
    content: list  # Hashes of the data.
    # From the directory or name of a model, a folder, options of `load` and whether the model has a BiLSTM, for tagging
    # on features of a frozen encoder, to a `Task`.
    make: Callable
    on_features: bool = False  # Whether all rows train a BiLSTM on features.

    def heading(self):
        """Returns the `Heading`."""
        return Heading(*(getattr(self, field.name) for field in dataclasses.fields(Heading)))


def open_columns(names, scale, sources, metrics=None):
    """Reads the data of tasks, and returns their `Column`s; `metrics` are those that differ from the ablations'."""
    metrics = {**_METRICS, **(metrics or {})}
    try:
        return [_open(name, scale.recipe(name), sources, metrics) for name in names]
    except (ValueError, FileNotFoundError) as error:
        raise type(error)(str(error).replace("`data_dir`", "--glue_dir")) from None


def _open(name, recipe, sources, metrics):
    if name == "squad":
        return _open_squad(recipe, sources)
    if name in ("ner", "ner_features"):
        return _open_tagging(name, recipe, sources)
    task = glue.TASKS[name]
    data = glue.read_all(task, sources.glue_dir).first(recipe.train_examples)
    dev = {name: data.dev[name].first(recipe.dev_examples)}
    data = dataclasses.replace(data, dev=dev, test={}, categories=None)
    texts, content = data.train.text + (data.train.pair or []), [data.train.fingerprint(), dev[name].fingerprint()]
    names = name, _TITLES.get(name, task.title), metrics.get(name, task.main_metric)
    return _column(*names, recipe, _words(texts), content, data, (ClassificationTask, ClassificationOnBiLSTM))


def _open_squad(recipe, sources):
    files = _required("squad", train=sources.squad_train, dev=sources.squad_dev)
    limits = {"max_train_examples": recipe.train_examples, "max_dev_examples": recipe.dev_examples}
    data = squad.read_all([files["train"]], files["dev"], version_2=False, **limits)
    (questions,) = data.train
    words = _words([*questions.questions, *(questions.contexts[number] for number in questions.context)])
    names, content = ("squad", _TITLES["squad"], "f1"), [questions.fingerprint(), data.dev.fingerprint()]
    return _column(*names, recipe, words, content, data, (QuestionAnsweringTask, QuestionsOnBiLSTM))


def _open_tagging(name, recipe, sources):
    files = _required("ner", train=sources.ner_train, dev=sources.ner_dev)
    train = tagging.read(files["train"]).first(recipe.train_examples)
    dev = tagging.read(files["dev"], like=train).first(recipe.dev_examples)
    words, content = sum(map(len, train.words)), [train.fingerprint(), dev.fingerprint()]
    kinds = TaggingTask, FeatureTaggingTask
    return _column(name, _TITLES[name], "f1", recipe, words, content, tagging.Data(train, dev), kinds)


def _column(name, title, metric, recipe, words, content, data, kinds):
    """Returns the `Column` of data; `kinds` are the classes of its task without and with a BiLSTM."""

    def make(model, folder, load_options, with_bilstm=False):
        kind = kinds[with_bilstm]
        settings = kind.Settings(sequence_length=recipe.sequence_length)
        if kind is FeatureTaggingTask:
            return kind(data, Start(model, _load(model), _load), settings, folder / "features")
        return kind(data, Start(model, _load(model, **load_options), _load, load_options), settings)

    limits = recipe.train_examples, recipe.dev_examples
    return Column(name, title, metric, *limits, recipe, words, content, make, name == "ner_features")


def _load(model, **options):
    """Loads what a row starts from: a BERT, or the name of a model that BERT is compared with."""
    return (rivals.load if is_name(model) else keras_bert.load)(model, **options)


def _required(task, **files):
    for part, path in files.items():
        if path is None:
            raise ValueError(
                f"the task {task} needs --{task}_train and --{task}_dev. Received: no --{task}_{part}. Choose other "
                "tasks with --tasks, or give the files"
            )
    return files


def _words(texts):
    return sum(len(text.split()) for text in texts)
