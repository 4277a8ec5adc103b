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
        """Returns the `Data` of files or sources."""
        columns = {"text": self.text_column, "choices": self.choice_columns, "label": self.label_column}
        first = self.first_label
        if first is not None:
            if str(first) not in ("0", "1"):
                raise ValueError(f"`first_label` must be 0 or 1. Received: first_label={first!r}")
            first = int(first)
        return read_all(train, dev, test, **columns, first_label=first, skip=skip_bad_rows)


@dataclasses.dataclass(frozen=True)
class Data(TaskData):
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
        width = max(len(row) for part in self.parts.values() for row in part.choices)
        return key_names(self.train.first_key, width)


class ChoiceRows(RowFormat):
    """Rows with a text and choices, in one of several layouts."""

    expects = "dicts with text and choices, with the index of the right choice"
    columns = COLUMNS
    target_columns = TARGETS

    def row(self, place, text, target):
        if not self.recognizes(text, None):
            raise ValueError(f"{place} must be a dict with `text` and `choices`. Received: {text!r:.100}")
        choices = text.get("choices")
        if isinstance(target, str) and isinstance(choices, list) and target in choices:
            target = choices.index(target)
        return {**self.without_targets(text), INDEX: target}


def read_all(train_file, dev_file, predict_file=None, text=None, choices=None, label=None, first_label=None, skip=None):
    """Reads `Data`; unless `first_label` is given, numbers are those of the training data in all files.

    `text`, `choices` and `label` are as in `read`. Data to predict is scored if it has labels. At most `skip`
    unreadable rows are skipped in train and dev each.
    """
    columns = {"text": text, "choices": choices, "label": label}
    train_file, dev_file = source(train_file), source(dev_file)
    train = read(train_file, **columns, first_label=first_label, skip_bad_rows=skip)
    first_label = train.first_label if first_label is None else first_label
    same = dev_file is train_file  # Data in Python without validation.
    dev = train if same else read(dev_file, **columns, first_label=first_label, skip_bad_rows=skip)
    test_file = predict_file and source(predict_file)
    test = test_file and read(test_file, **columns, first_label=first_label, labeled=False)
    tell_aside(train_file, train)
    for origin, examples in ((dev_file, dev), (test_file, test)):
        if examples is not None and examples.aside != train.aside:
            tell_aside(origin, examples)
    files = {"train": train_file, "dev": dev_file, **({"test": test_file} if test_file else {})}
    return Data(train, dev, test, {split: file.name for split, file in files.items()}, dev_file.typed)
