"""The columns of a study's table: tasks that each row is fine-tuned on."""

import dataclasses
from collections.abc import Callable

import keras_bert
from keras_bert.tasks import ClassificationTask, QuestionAnsweringTask, Start, TaggingTask, glue
from research import rivals
from research.feature_tagging.task import FeatureTaggingTask
from research.rivals.config import is_name
from research.studies.on_bilstm import ClassificationOnBiLSTM, QuestionsOnBiLSTM

_TITLES = {name: task.title for name, task in glue.TASKS.items()} | {
    "mnli": "MNLI-m",
    "squad": "SQuAD",
    "ner": "NER",
    "ner_features": "NER, features",
}
# The paper's.
_METRICS = {name: task.main_metric for name, task in glue.TASKS.items()} | {
    "mrpc": "accuracy",
    "qqp": "accuracy",
    "squad": "f1",
    "ner": "f1",
    "ner_features": "f1",
}


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

    def heading(self):
        """Returns the values of its `Heading`."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(Heading)}


@dataclasses.dataclass(frozen=True)
class ColumnData:
    """The data of a task, its parts to train and to select on, and the number of words to train on."""

    data: object
    train: object
    dev: object
    words: int


def open_columns(names, scale, flags, metrics):
    """Reads the data of tasks, and returns their `Column`s.

    `flags` have the files; `metrics` are those that differ from the ablations'.
    """
    metrics_by_task = _METRICS | metrics
    try:
        return [_open_column(name, metrics_by_task[name], scale.recipe(name), flags) for name in names]
    except (ValueError, FileNotFoundError) as error:
        raise type(error)(str(error).replace("`data_dir`", "--glue_dir")) from None


def _open_column(name, metric, recipe, flags):
    """Reads the data of a task, and returns its `Column`."""
    if name == "squad":
        task_class = QuestionAnsweringTask
        class_with_bilstm = QuestionsOnBiLSTM
        read = _read_squad
    elif name in glue.TASKS:
        task_class = ClassificationTask
        class_with_bilstm = ClassificationOnBiLSTM
        read = _read_glue
    else:
        task_class = TaggingTask
        class_with_bilstm = FeatureTaggingTask
        read = _read_entities
    column_data = read(name, recipe, flags)

    def make(model, folder, load_options, with_bilstm=False):
        chosen_class = class_with_bilstm if with_bilstm else task_class
        start = Start(model, _load(model, **load_options), _load, load_options)
        settings = chosen_class.Settings(sequence_length=recipe.sequence_length)
        if chosen_class is FeatureTaggingTask:
            return FeatureTaggingTask(column_data.data, start, settings, folder / "features")
        return chosen_class(column_data.data, start, settings)

    return Column(
        name,
        _TITLES[name],
        metric,
        train_examples=recipe.train_examples,
        dev_examples=recipe.dev_examples,
        recipe=recipe,
        words=column_data.words,
        content=[column_data.train.fingerprint(), column_data.dev.fingerprint()],
        make=make,
    )


def _read_glue(name, recipe, flags):
    """Returns the `ColumnData` of a task of GLUE, like the next ones."""
    data = glue.read_all(glue.TASKS[name], flags.glue_dir).first(recipe.train_examples)
    dev = data.dev[name].first(recipe.dev_examples)
    data = dataclasses.replace(data, dev={name: dev}, test={}, categories=None)
    texts = data.train.text + (data.train.pair or [])
    return ColumnData(data, data.train, dev, _count_words(texts))


def _read_squad(name, recipe, flags):
    """Returns the `ColumnData` of question answering."""
    train, dev = _required_files("squad", flags)
    data = QuestionAnsweringTask.Settings(version_2=False).read(train, dev).first(recipe.train_examples)
    data = dataclasses.replace(data, dev=data.dev.first(recipe.dev_examples))
    (questions,) = data.train
    contexts = [questions.contexts[number] for number in questions.context]
    return ColumnData(data, questions, data.dev, _count_words([*questions.questions, *contexts]))


def _read_entities(name, recipe, flags):
    """Returns the `ColumnData` of named entities."""
    train, dev = _required_files("ner", flags)
    data = TaggingTask.Settings().read(train, dev).first(recipe.train_examples)
    data = dataclasses.replace(data, dev=data.dev.first(recipe.dev_examples))
    return ColumnData(data, data.train, data.dev, sum(map(len, data.train.words)))


def _load(model, **options):
    """Loads what a row starts from: a BERT, or the name of a model that BERT is compared with."""
    if is_name(model):
        return rivals.load(model, **options)
    return keras_bert.load(model, **options)


def _required_files(task, flags):
    """Returns the files of a task for training and dev; raises an error if one of them is not given."""
    paths = []
    for part in ("train", "dev"):
        path = getattr(flags, f"{task}_{part}")
        if path is None:
            raise ValueError(
                f"the task {task} needs --{task}_train and --{task}_dev. Received: no --{task}_{part}. Choose other "
                "tasks with --tasks, or give the files"
            )
        paths.append(path)
    return paths


def _count_words(texts):
    return sum(len(text.split()) for text in texts)
