"""The tasks of `LoadedBert.fit` and `evaluate`, made of data in Python."""

import dataclasses

from keras_bert.checkpoints.loaded import LoadedBert
from keras_bert.data.sources import Memory
from keras_bert.tasks import in_memory_rows
from keras_bert.tasks.class_names import class_name
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

TRAIN, DEV = "train", "validation"


@dataclasses.dataclass(frozen=True)
class Parts:
    """What a task is made of."""

    train: Memory
    dev: Memory
    name: str
    bert: LoadedBert
    pairs: bool
    labels: list | None  # In the order of the model's; `None` for those of the training data.
    length: int | None  # `None` for the default of the task.
    options: dict  # Settings of the task.

    def length_or(self, default):
        """Returns the length: by default at most the positions of the model."""
        return self.length or min(default, self.bert.config.max_position_embeddings)

    def settings(self, cls):
        """Returns the settings of a task as an object."""
        return cls(**self.options, sequence_length=self.length_or(cls.sequence_length))


def _classification(kind, start):
    columns = {"text": "text", "pair": "pair" if start.pairs else None}
    data = own_data(kind, start.train, start.dev, **columns, skip_bad_rows=None, labels=start.labels)
    cls = MultiLabelTask if data.task.multi_label else ClassificationTask
    return cls(data, start.name, start.bert, start.length_or(128), **start.options)


def _tagging(start):
    scheme = start.options.get("scheme")
    start = dataclasses.replace(
        start, options={name: start.options[name] for name in start.options if name != "scheme"}
    )
    train = tagging.read(start.train, scheme=scheme)
    dev = train if start.dev is start.train else tagging.read(start.dev, scheme=scheme, like=train)
    return TaggingTask(train, dev, None, start.name, start.bert, start.settings(TaggingSettings), start.labels)


def _questions(start):
    data = questions.read_all([start.train], start.dev)
    settings = start.settings(QuestionSettings)
    version_2 = data.train[0].version_2 or data.dev.version_2
    settings = dataclasses.replace(settings, version_2=version_2)
    return QuestionAnsweringTask(data, {start.name: start.bert.identity}, start.bert, settings)


def _multiple_choice(start):
    data = multiple_choice.read_all(start.train, start.dev, first_label=0)
    return MultipleChoiceTask(data, start.name, start.bert, start.length_or(128), **start.options)


def _embedding(start):
    train = embedding.read(start.train)
    dev = train if start.dev is start.train else embedding.read(start.dev)
    if train.score_range and dev.score_range and train.score_range != dev.score_range:
        both = max(train.score_range, dev.score_range)
        train, dev = (embedding.read(path, score_range=both) for path in (start.train, start.dev))
    names = {"train": start.train.name, "dev": start.dev.name}
    length, settings = start.bert.sequence_length or start.length_or(128), EmbeddingSettings(**start.options)
    return EmbeddingTask(train, dev, names, start.name, start.bert, start.length or length, settings)


# The tasks by name: what makes them, and the names of their settings.
_CLASSES = {"class_weight", "language_model_weight"}
TASKS = {
    "classification": (lambda start: _classification("classification", start), _CLASSES),
    "regression": (lambda start: _classification("regression", start), set()),
    "multi_label": (lambda start: _classification("multi_label", start), {"class_weight", "threshold"}),
    "tagging": (_tagging, {"first_token_only", "scheme"}),
    "questions": (_questions, {"doc_stride", "max_question_length", "max_answer_length"}),
    "multiple_choice": (_multiple_choice, set()),
    "embedding": (_embedding, {field.name for field in dataclasses.fields(EmbeddingSettings)}),
}


def make_task(name, parts, bert, labels, length, options, places=("texts", "validation")):
    """Returns the task of texts and targets by part; messages call the parts by `places`, the arguments of Python.

    Nothing is said about `DEV` if it is `TRAIN`.
    """
    make, known = TASKS[name]
    if unknown := options.keys() - known:
        raise ValueError(f"the task {name} has no option {sorted(unknown)[0]!r}. Expected one of: {sorted(known)}")
    if isinstance(weights := options.get("class_weight"), dict):
        options["class_weight"] = {class_name(label): weight for label, weight in weights.items()}
    is_train = parts[DEV] is parts[TRAIN]
    train, dev = (
        Memory(place, in_memory_rows.rows_of(place, name, *part))
        for place, part in zip(places, (parts[TRAIN], ([], None) if is_train else parts[DEV]), strict=True)
    )
    pairs = isinstance(parts[TRAIN][0][0], tuple)
    task = make(Parts(train, train if is_train else dev, bert.name, bert, pairs, labels, length, options))
    if is_train:
        task.summary["overlap"] = dict.fromkeys(task.summary["overlap"], 0)
        task.facts = {title: text for title, text in task.facts.items() if not title.startswith("dev ")}
    return task
