"""The tasks of `LoadedBert.fit` and `evaluate`, made of data in Python."""

import contextlib
import dataclasses
import logging
import pathlib
import re

from keras_bert.checkpoints.loaded import LoadedBert
from keras_bert.tasks import in_memory_files
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

    train: pathlib.Path
    dev: pathlib.Path
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
    pair = "pair" if start.pairs else None
    data = own_data(kind, start.train, start.dev, pair=pair, skip_bad_rows=None, labels=start.labels)
    cls = MultiLabelTask if data.task.multi_label else ClassificationTask
    return cls(data, start.name, start.bert, start.length_or(128), **start.options)


def _tagging(start):
    scheme = start.options.get("scheme")
    start = dataclasses.replace(
        start, options={name: start.options[name] for name in start.options if name != "scheme"}
    )
    train = tagging.read(start.train, scheme=scheme)
    dev = tagging.read(start.dev, scheme=scheme, like=train)
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
TASKS = {
    "classification": (lambda start: _classification("classification", start), _CLASSES),
    "regression": (lambda start: _classification("regression", start), set()),
    "multi_label": (lambda start: _classification("multi_label", start), {"class_weight", "threshold"}),
    "tagging": (_tagging, {"first_token_only", "scheme"}),
    "questions": (_questions, {"doc_stride", "max_question_length", "max_answer_length"}),
    "multiple_choice": (_multiple_choice, set()),
    "embedding": (_embedding, {field.name for field in dataclasses.fields(EmbeddingSettings)}),
}


def make_task(name, folder, parts, bert, labels, length, options, places=("texts", "validation")):
    """Writes the rows of the parts as files, and returns the task that reads them.

    Nothing is said about `DEV` if it is `TRAIN`. Messages call the parts by `places`, the names of the arguments of
    Python, and name these instead of flags.
    """
    paths = {}
    for part, (rows, targets, *_) in parts.items():
        paths[part] = folder / f"{part}.{'json' if name == 'questions' else 'jsonl'}"
        in_memory_files.write(paths[part], name, rows, targets)
    make, known = TASKS[name]
    if unknown := options.keys() - known:
        raise ValueError(f"the task {name} has no option {sorted(unknown)[0]!r}. Expected one of: {sorted(known)}")
    options = {{"class_weight": "class_weights"}.get(option, option): value for option, value in options.items()}
    if isinstance(weights := options.get("class_weights"), dict):
        options["class_weights"] = {class_name(label): weight for label, weight in weights.items()}
    pairs, in_python = isinstance(parts[TRAIN][0][0], tuple), _PythonNames(places, paths.values())
    is_train = parts[DEV] is parts[TRAIN]
    with in_python.used(paths[DEV] if is_train else None):
        task = make(Parts(*paths.values(), bert.name, bert, pairs, labels, length, options))
    if is_train:
        task.summary["overlap"] = dict.fromkeys(task.summary["overlap"], 0)
        task.facts = {title: text for title, text in task.facts.items() if not title.startswith("dev ")}
    task.title, task.warnings = in_python(task.title), list(map(in_python, task.warnings))
    task.facts = {title: in_python(text) for title, text in task.facts.items()}
    task.card["trained_on"] = in_python(task.card["trained_on"])
    task.card["dataset"] = {name: in_python(text) for name, text in task.card["dataset"].items()}
    return task


class _PythonNames:
    """Names `places`, arguments of Python, in messages about their files, `paths`, and about flags."""

    def __init__(self, places, paths):
        self._files = list(zip(places, paths, strict=True))

    def __call__(self, message):
        for place, path in self._files:
            line = rf"{re.escape(str(path))}:(\d+)"
            message = re.sub(line, lambda match, place=place: f"{place}[{int(match[1]) - 1}]", message)
            message = message.replace(str(path), place).replace(path.name, place)
        message = message.replace("class_weights", "class_weight")
        message = re.sub(r"\bin line (\d+)", lambda match: f"in row {int(match[1]) - 1}", message)
        return re.sub(
            r"--(\w+)(=[a-z]\w+)?", lambda match: match[1] + (f"={match[2][1:]!r}" if match[2] else ""), message
        )

    @contextlib.contextmanager
    def used(self, repeated):
        """Changes errors and log messages while the block runs; drops messages about a file that repeats another."""
        log = logging.getLogger("keras_bert")

        def rename(record):
            message = record.getMessage()
            record.msg, record.args = self(message), ()
            return repeated is None or str(repeated) not in message

        log.addFilter(rename)
        try:
            yield
        except ValueError as error:
            raise ValueError(self(str(error))) from None
        finally:
            log.removeFilter(rename)
