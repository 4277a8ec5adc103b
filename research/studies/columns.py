"""The columns of a study's table: tasks that each row is fine-tuned on."""

import dataclasses
from collections.abc import Callable

import keras_bert
from keras_bert.tasks import ClassificationTask, QuestionAnsweringTask, Start, TaggingTask, glue
from research import rivals
from research.feature_tagging.task import FeatureTaggingTask
from research.rivals.config import is_name
from research.studies.on_bilstm import ClassificationOnBiLSTM, QuestionsOnBiLSTM

_TITLES = {name: task.title for name, task in glue.TASKS.items()}
_TITLES |= {"mnli": "MNLI-m", "squad": "SQuAD", "ner": "NER", "ner_features": "NER, features"}
_METRICS = {name: task.main_metric for name, task in glue.TASKS.items()}
_METRICS |= {"mrpc": "accuracy", "qqp": "accuracy", "squad": "f1", "ner": "f1", "ner_features": "f1"}  # The paper's.


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


def open_columns(names, scale, flags, metrics):
    """Reads the data of tasks, and returns their `Column`s.

    `flags` have the files; `metrics` are those that differ from the ablations'.
    """
    metrics = {**_METRICS, **metrics}
    try:
        return [_open(name, metrics[name], scale.recipe(name), flags) for name in names]
    except (ValueError, FileNotFoundError) as error:
        raise type(error)(str(error).replace("`data_dir`", "--glue_dir")) from None


def _open(name, metric, recipe, flags):
    if name == "squad":
        kinds, read = (QuestionAnsweringTask, QuestionsOnBiLSTM), _read_squad
    elif name in glue.TASKS:
        kinds, read = (ClassificationTask, ClassificationOnBiLSTM), _read_glue
    else:
        kinds, read = (TaggingTask, FeatureTaggingTask), _read_entities
    data, words, *parts = read(name, recipe, flags)

    def make(model, folder, load_options, with_bilstm=False):
        kind, start = kinds[with_bilstm], Start(model, _load(model, **load_options), _load, load_options)
        features = [folder / "features"] if kind is FeatureTaggingTask else []
        return kind(data, start, kind.Settings(sequence_length=recipe.sequence_length), *features)

    limits, content = (recipe.train_examples, recipe.dev_examples), [part.fingerprint() for part in parts]
    return Column(name, _TITLES[name], metric, *limits, recipe, words, content, make)


def _read_glue(name, recipe, flags):
    """Returns data, the number of its words, and its parts for training and dev, like the next ones."""
    data = glue.read_all(glue.TASKS[name], flags.glue_dir).first(recipe.train_examples)
    dev = data.dev[name].first(recipe.dev_examples)
    data = dataclasses.replace(data, dev={name: dev}, test={}, categories=None)
    return data, _words(data.train.text + (data.train.pair or [])), data.train, dev


def _read_squad(name, recipe, flags):
    train, dev = _required("squad", flags)
    data = QuestionAnsweringTask.Settings(version_2=False).read(train, dev).first(recipe.train_examples)
    data = dataclasses.replace(data, dev=data.dev.first(recipe.dev_examples))
    (questions,) = data.train
    texts = [*questions.questions, *(questions.contexts[number] for number in questions.context)]
    return data, _words(texts), questions, data.dev


def _read_entities(name, recipe, flags):
    train, dev = _required("ner", flags)
    data = TaggingTask.Settings().read(train, dev).first(recipe.train_examples)
    data = dataclasses.replace(data, dev=data.dev.first(recipe.dev_examples))
    return data, sum(map(len, data.train.words)), data.train, data.dev


def _load(model, **options):
    """Loads what a row starts from: a BERT, or the name of a model that BERT is compared with."""
    return (rivals.load if is_name(model) else keras_bert.load)(model, **options)


def _required(task, flags):
    """Returns the files of a task for training and dev."""
    files = {part: getattr(flags, f"{task}_{part}") for part in ("train", "dev")}
    for part, path in files.items():
        if path is None:
            raise ValueError(
                f"the task {task} needs --{task}_train and --{task}_dev. Received: no --{task}_{part}. Choose other "
                "tasks with --tasks, or give the files"
            )
    return files.values()


def _words(texts):
    return sum(len(text.split()) for text in texts)
