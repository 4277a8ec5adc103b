"""Settings of tasks as frozen dataclasses: flags of a command, keywords of `fit`, and what a checkpoint stores."""

import dataclasses

from keras_bert.text.long_texts import CUTS, LONG_TEXTS, READING


def setting(
    default,
    help,
    *,
    section=None,
    least=None,
    most=None,
    values=None,
    required=False,
    repeatable=False,
    stored=False,
    of_files=False,
    is_file=False,
    of_held_out=False,
    needs=None,
    excludes=(),
):
    """Returns a field of a dataclass of settings: text, number, bool or list, by its annotation.

    Args:
        default: the default value; a tuple for lists.
        help: string, the description of the flag, `None` for a keyword that is no flag. `{name}` stands for an entry of
            `wording` of the command.
        section: string, the section of `--help`. Defaults to that of the flag before.
        least, most: numbers, inclusive limits of a number.
        values: list of the only texts that are allowed.
        required: bool, whether the flag must be given, or string, the flag without which it must, or several, `folds or
            query`. Defaults to `False`.
        repeatable: bool, whether a list has one element for each time that the flag is given, instead of elements that
            commas separate. Defaults to `False`.
        stored: bool, whether a checkpoint keeps the value, for `evaluate`, `predict` and `export`. Defaults to `False`.
        of_files: bool, whether only files have it, such as names of columns. Defaults to `False`.
        is_file: bool, whether it is the path of a file, or a list of them, which must exist. Defaults to `False`.
        of_held_out: bool, whether it chooses something on rows that the model is not trained on: dev, or those of the
            other folds. Defaults to `False`.
        needs: string, the flag without which this one has no meaning: `model`, `format=jsonl`, `query or queries`. A
            reason may follow after a comma.
        excludes: tuple of the flags, each as in `needs`, with which this one has no meaning.
    """
    metadata = {
        "section": section,
        "help": help,
        "limits": (least, most),
        "values": values,
        "required": required,
        "repeatable": repeatable,
        "stored": stored,
        "of_files": of_files,
        "is_file": is_file,
        "of_held_out": of_held_out,
        "needs": needs,
        "excludes": excludes,
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class LongTextSettings:
    """How the texts of a task are read that are longer than `sequence_length`: a base of its settings."""

    long_texts: str = setting(
        None,
        "Tokens to read of longer texts: the first, the last, or a quarter first and the rest last; default: the "
        "model's, or else head.",
        values=list(CUTS),
        section="data",
    )

    @property
    def reading(self):
        """The options of `TextPreprocessor` that are given; others are those of the model to start from."""
        options = {}
        for name in READING:
            value = getattr(self, name, None)
            if value is not None:
                options[name] = value
        return options


@dataclasses.dataclass(frozen=True)
class WindowSettings(LongTextSettings):
    """The same for a task whose models read whole documents, too, in windows."""

    long_texts: str = setting(
        None,
        "Tokens to read of longer texts: the first, the last, a quarter first and the rest last, or all, in windows; "
        "default: the model's, or else head.",
        values=list(LONG_TEXTS),
        section="data",
    )
    overlap: int = setting(
        None, "Tokens that windows share; default: an eighth of a window.", least=0, needs="long_texts"
    )
    max_windows: int = setting(None, "Maximum number of windows of a text.", least=1, needs="long_texts")


@dataclasses.dataclass(frozen=True)
class CalibrationSettings:
    """The settings of probabilities that can be trusted: a base of those of tasks with classes."""

    calibrate: bool = setting(
        False,
        "Fits a temperature on dev, for probabilities that can be trusted; the model keeps it.",
        section="training",
        of_held_out=True,
    )


@dataclasses.dataclass(frozen=True)
class AnswerSettings(CalibrationSettings):
    """The same for tasks with one answer to each text, which may be left out."""

    answer_at_precision: float = setting(
        None,
        "Precision of the answers, such as 0.95: calibrates, too, and gives no answer below a probability.",
        least=0.5,
        most=0.999,
        of_held_out=True,
    )


def needing_held_out(settings):
    """Returns the names of the settings that are chosen on rows that the model is not trained on, if they are set."""
    names = []
    for field in dataclasses.fields(settings):
        is_set = getattr(settings, field.name) != field.default
        if field.metadata.get("of_held_out") and is_set:
            names.append(field.name)
    return names


def keywords(cls):
    """Returns the names of the settings that `fit` takes as keywords, besides `sequence_length`."""
    names = []
    for field in dataclasses.fields(cls):
        is_keyword = field.metadata and not field.metadata.get("of_files")
        if is_keyword and field.name != "sequence_length":
            names.append(field.name)
    return names
