"""Questions with choices to train and evaluate on, rows in the layouts of `data.choices`, and their settings."""

import dataclasses

from keras_bert.data.choice_labels import key_names
from keras_bert.data.choice_layouts import COLUMNS, INDEX, TARGETS
from keras_bert.data.choices import ChoiceExamples, read, tell_aside
from keras_bert.data.formats import source
from keras_bert.data.task_data import TaskData
from keras_bert.settings import AnswerSettings, WindowSettings, setting
from keras_bert.tasks.rows import RowFormat


@dataclasses.dataclass(frozen=True)
class ChoiceSettings(AnswerSettings, WindowSettings):
    """Settings of reading texts with choices."""

    text_column: str = setting(
        None, "Column with the text; default: `question` or `text`.", section="data", of_files=True
    )
    choice_columns: list[str] = setting(
        None, "Columns with the choices; default: `choices`, or names such as `A` and `choice1`.", of_files=True
    )
    label_column: str = setting(
        None, "Column with the right choice; default: `label`, `answer`, `key` or `answerKey`.", of_files=True
    )
    first_label: str = setting(None, "Number of the first choice; default: as the labels show.", values=["0", "1"])
    sequence_length: int = setting(128, "Maximum number of tokens of a text with one choice.", least=5)

    def read(self, train, dev, test=None, skip_bad_rows=None):
        """Returns the `ChoiceData` of files or sources."""
        first_label = None
        if self.first_label is not None:
            if str(self.first_label) not in ("0", "1"):
                raise ValueError(f"`first_label` must be 0 or 1. Received: first_label={self.first_label!r}")
            first_label = int(self.first_label)
        return read_all(
            train,
            dev,
            test,
            text=self.text_column,
            choices=self.choice_columns,
            label=self.label_column,
            first_label=first_label,
            skip=skip_bad_rows,
        )


@dataclasses.dataclass(frozen=True)
class ChoiceData(TaskData):
    """The `ChoiceExamples` of a task, and the names of their files."""

    train: ChoiceExamples
    dev: ChoiceExamples  # Selects the best run.
    test: ChoiceExamples | None  # To predict.
    names: dict
    typed: bool = False  # Whether dev has rows of JSON.

    @property
    def parts(self):
        """The `ChoiceExamples` by split."""
        return {split: getattr(self, split) for split in self.names}

    @property
    def keys(self):
        """The labels of all choices, in the style of the training data: letters, or numbers from 0 or 1."""
        widths = [max(map(len, part.choices)) for part in self.parts.values()]
        return key_names(self.train.first_key, max(widths))


class ChoiceRows(RowFormat):
    """Rows with a text and choices, in one of several layouts."""

    expects = "dicts with text and choices, with the index of the right choice"
    columns = COLUMNS
    target_columns = TARGETS

    def row(self, place, text, target):
        if not self.recognizes(text, None):
            raise ValueError(f"{place} must be a dict with `text` and `choices`. Received: {text!r:.100}")
        choices = text.get("choices")
        index = target
        if isinstance(target, str) and isinstance(choices, list) and target in choices:
            index = choices.index(target)
        return self.without_targets(text) | {INDEX: index}


def read_all(train_file, dev_file, predict_file=None, text=None, choices=None, label=None, first_label=None, skip=None):
    """Reads `ChoiceData`; unless `first_label` is given, numbers are those of the training data in all files.

    `text`, `choices` and `label` are as in `read`. Data to predict is scored if it has labels. At most `skip`
    unreadable rows are skipped in train and dev each.
    """
    columns = {"text": text, "choices": choices, "label": label}
    train_source = source(train_file)
    dev_source = source(dev_file)
    train = read(train_source, **columns, first_label=first_label, skip_bad_rows=skip)
    if first_label is None:
        first_label = train.first_label
    if dev_source is train_source:  # Data in Python without validation.
        dev = train
    else:
        dev = read(dev_source, **columns, first_label=first_label, skip_bad_rows=skip)
    names = {"train": train_source.name, "dev": dev_source.name}
    test_source = None
    test = None
    if predict_file:
        test_source = source(predict_file)
        test = read(test_source, **columns, first_label=first_label, labeled=False)
        names["test"] = test_source.name
    tell_aside(train_source, train)
    for origin, examples in ((dev_source, dev), (test_source, test)):
        if examples is not None and examples.aside != train.aside:
            tell_aside(origin, examples)
    return ChoiceData(train, dev, test, names, dev_source.typed)
