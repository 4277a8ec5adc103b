"""The models that `predict` asks: one that is loaded here, or one that a server has."""

import dataclasses
import functools
import inspect
import itertools
from collections.abc import Callable

import numpy as np

from keras_bert import other_models
from keras_bert.data.formats import source
from keras_bert.heads.answers import each_text, of_outputs
from keras_bert.serving import Client
from keras_bert.tasks.rows import not_registered
from keras_bert.text.long_texts import READING
from keras_bert.text.token_counts import CutTexts

from . import command, common_flags

# Flags that models here have, and served ones do not: those of how texts are read, and those of heads.
READING_FLAGS = ("sequence_length", *READING)
HEAD_FLAGS = ("beam_size", "length_penalty", "hypothesis", "multi_label", "temperature")


@dataclasses.dataclass(frozen=True)
class AnsweringModel:
    """A model that answers rows of texts.

    Attributes:
        inputs: list of tuples, the names of the inputs that the model takes; `None` for a model of a task whose rows
            are its own.
        predict: function from a list of rows, which are dicts, to the list of their answers.
        reading: dict, how to read rows of a file: arguments of `stream_texts`, or for a task with rows of its own of
            `stream_own`.
    """

    inputs: list | None
    predict: Callable
    reading: dict = dataclasses.field(default_factory=dict)


def loaded_model(arguments):
    """Loads `--model`, and returns it as an `AnsweringModel`."""
    from keras_bert.heads.registry import answering
    from keras_bert.tasks.registry import stored_settings, task_of

    bert = common_flags.load_model(arguments.model)
    translates = "beam_size" in inspect.signature(bert.predict).parameters
    options = arguments.values("n_best", "candidate_labels", *READING_FLAGS, *HEAD_FLAGS)
    _check_options(options, translates, arguments.model, bert.head)

    def predict(rows):
        return bert.predict(rows, batch_size=arguments.batch_size, **options)

    columns = getattr(bert, "columns", None)
    if translates or arguments.candidate_labels:
        return AnsweringModel([("text",)], predict, {"known": columns, "words": False})
    task = task_of(bert)
    if task and task.rows.convert:
        convert = functools.partial(task.rows.asked, settings=stored_settings(task, bert))
        return AnsweringModel(None, predict, {"convert": convert})
    head = answering(bert.head)
    return AnsweringModel(head.inputs(bert), predict, {"known": columns, "words": head.takes_words})


def _check_options(options, translates, model, head):
    """Raises an error for options that a model of translation, or any other one, does not have."""
    meaningless = ["beam_size", "length_penalty"]
    if translates:
        meaningless = ["candidate_labels", *READING_FLAGS]
    for name in meaningless:
        if name in options:
            raise ValueError(f"--{name} has no meaning for {model}, whose head is {head}")


def served_model(arguments):
    """Returns the model `--model` of a server as an `AnsweringModel`."""
    client = Client(arguments.server, arguments.protocol)
    signatures = client.metadata(arguments.model)["signatures"]
    if arguments.candidate_labels:
        _check_served_labels(arguments.model, arguments.candidate_labels, signatures)
        return _served_zero_shot(arguments, client)
    signature = signatures["serving_default"]
    _check_n_best(arguments.model, arguments.n_best, signature["outputs"])
    # The second input comes last.
    names = sorted(signature["inputs"], key=lambda name: name in ("pair", "context", "choices"))
    ask = functools.partial(_ask, arguments, client, names)
    convert = _row_converter(arguments, client.about(arguments.model))
    if convert is None:
        return AnsweringModel([tuple(names)], ask)

    def ask_converted(rows):
        return ask([convert("the row", row) for row in rows])

    return AnsweringModel(None, ask_converted, {"convert": convert})


def _served_zero_shot(arguments, client):
    """Returns the served model with the signature that takes candidate labels."""

    def ask(rows):
        labeled = [row | {"labels": arguments.candidate_labels} for row in rows]
        return _ask(arguments, client, ("text", "labels"), labeled, signature="zero_shot")

    return AnsweringModel([("text",)], ask)


def _check_served_labels(model, labels, signatures):
    """Raises an error if a served model cannot classify by these candidate labels."""
    if "zero_shot" not in signatures:
        raise ValueError(
            f"--candidate_labels: the served {model} has no signature zero_shot. Export it with "
            f'{command.spelling("export_saved_model")} --hypothesis="This text is about {{}}."'
        )
    if len(labels) == 1 and "predicted" not in signatures["zero_shot"]["outputs"]:
        raise single_label_error(labels[0], "a model that was exported with multi_label=True")


def single_label_error(label, exception):
    """Returns the error about a single candidate label, which needs one to compare with."""
    return ValueError(
        "--candidate_labels must be at least 2 labels: a single one always has the probability 1, except with "
        f"{exception}. Received: {label!r}"
    )


def _check_n_best(model, n_best, outputs):
    """Raises an error if a served model does not give as many answers as `--n_best` says."""
    if not n_best:
        return
    if not {"answer", "mask_count", "translations"}.intersection(outputs):
        raise ValueError(f"--n_best: the served {model} has one answer to each text. Expected no --n_best")
    if "answer" in outputs and "scores" not in outputs:
        export = command.spelling("export_saved_model")
        raise ValueError(f"--n_best: the served {model} gives one answer. Export it with {export} --n_best=...")
    if "translations" in outputs:
        beams = outputs["translations"].get("shape", [None, None])[1]
        if beams and beams < n_best:
            raise ValueError(f"--n_best: the served {model} gives {beams} translations. Received: {n_best}")


def _row_converter(arguments, about):
    """Returns a function from the place of a row of the task of a served model, and the row, to the model's inputs.

    Returns `None` for a model of no such task.

    The task is one of a plugin, which the server names; the settings are those of the model.
    """
    stored = about.get("task") or {}
    if not arguments.plugins:
        if stored.get("converts"):
            raise not_registered(stored["name"], arguments.model, stored["settings"])
        return None
    from keras_bert.tasks.registry import TASKS

    if "task" not in about and arguments.is_table:
        _check_unknown_task(arguments, [task for task in TASKS if task.rows.convert])
    task = next((task for task in TASKS if task.name == stored.get("name")), None)
    if task is None and stored.get("converts"):
        raise not_registered(stored["name"], arguments.model, stored["settings"])
    if task is None or task.rows.convert is None:
        return None
    settings = task.Settings(**stored["settings"])

    def convert(place, row):
        asked = task.rows.asked(place, row, settings)
        if isinstance(asked, dict):
            return asked
        if isinstance(asked, str):
            return {"text": asked}
        text, pair = asked
        return {"text": text, "pair": pair}

    return convert


def _check_unknown_task(arguments, tasks):
    """Raises for rows of a task with rows of its own, if the server does not tell the task of its model."""
    _, row = next(source(arguments.input).stream(), (None, None))
    if not isinstance(row, dict):
        return
    for task in tasks:
        if any(columns <= row.keys() for columns in task.rows.columns):
            raise ValueError(
                f"{arguments.input} has rows of the task {task.name}, whose texts depend on the settings of the model, "
                "which this server does not tell. Ask `keras-bert serve` over REST, or convert the rows to the inputs "
                f"of the model first, and leave out --plugins. Received: --server={arguments.server} "
                f"--protocol={arguments.protocol}"
            )


def _ask(arguments, client, names, rows, signature=None):
    """Returns the answers of a server to rows with inputs of these names."""
    answers = []
    cut = CutTexts("questions" if "question" in names else "texts")
    for batch in rectangles(rows, arguments.batch_size):
        inputs = {}
        for name in names:
            inputs[name] = [row[name] for row in batch]
        outputs = client.predict(arguments.model, inputs, signature=signature)
        outputs = {name: np.asarray(values) for name, values in outputs.items()}
        convert = other_models.answering(outputs) or of_outputs(outputs)
        answers += each_text(convert, outputs, batch, arguments.n_best)
        cut.add(outputs)
    cut.tell()
    return answers


def rectangles(rows, batch_size):
    """Yields batches of rows with equally many choices, since the tensors of requests are not ragged."""
    for _, alike in itertools.groupby(rows, lambda row: len(row.get("choices", ()))):
        alike = list(alike)
        for start in range(0, len(alike), batch_size):
            yield alike[start : start + batch_size]
