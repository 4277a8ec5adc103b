"""The task of `LoadedBert.fit`: its settings, the model that its runs start from, and its teacher."""

import dataclasses
import logging
import os

from keras_bert.checkpoints.load import load_models
from keras_bert.checkpoints.loaded import LoadedModels
from keras_bert.checks import plain_number
from keras_bert.heads.registry import NO_HEAD
from keras_bert.settings import LongTextSettings, WindowSettings, keywords
from keras_bert.tasks.base import Start
from keras_bert.tasks.teacher import Teacher
from keras_bert.text.long_texts import READING, WINDOWS

_LOG = logging.getLogger("keras_bert")


def make_task(data, bert, length, options, new_head=False, head=None):
    """Returns the task of `fit`, whose runs start from the model in its present state."""
    has_other_head = bert.head != NO_HEAD and not data.task.trains(bert.head)
    if has_other_head and head is None:
        _LOG.info("  head: a new one, %s, in place of %s", data.task.head, bert.head)
    for title, text in data.facts.items():
        _LOG.info("  %s: %s", title, text)
    present = LoadedModels(bert.checkpoint())
    settings = task_settings(data.task, bert, length, options)
    read = data.task.rows.read(data.train, data.dev, settings, name=data.task.name)
    start = Start(bert.name, present, load=_loader(bert, present), new_head=new_head, head=head)
    return data.task(read, start, settings)


def make_intermediate_task(data, bert, length, options):
    """Returns a task to train on before, whose texts are read as those of the last task with these options."""
    return make_task(data, bert, length, _reading_options(data, options))


def task_settings(task, bert, length, options):
    """Returns the settings of a task; by default, sequences have at most the positions of the model."""
    settings = task.Settings(**{name: plain_number(value) for name, value in options.items()})
    sequence_length = plain_number(length)
    if not sequence_length:
        default = settings.sequence_length
        sequence_length = default and min(default, bert.config.max_position_embeddings)
    return dataclasses.replace(settings, sequence_length=sequence_length)


def _reading_options(data, options):
    """Returns how the texts of intermediate data are read that are too long: as those of the task, if they can be."""
    settings = data.task.Settings
    if not issubclass(settings, LongTextSettings):
        return {}
    if options.get("long_texts") == WINDOWS and not issubclass(settings, WindowSettings):
        return {}
    known = keywords(settings)
    return {name: options[name] for name in READING if name in options and name in known}


def _loader(bert, start):
    """Returns the function that loads the start model from memory, and everything else by its name."""

    def load_again(name, dtype=None, **options):
        if name == bert.name:
            return LoadedModels(start.checkpoint(), dtype=dtype, **bert.encoder_options, **options)
        return load_models(name, dtype=dtype, **options)

    return load_again


def check_teacher(teacher):
    """Raises for a teacher that is no model and no name of one, before it is loaded."""
    if not isinstance(teacher, str | os.PathLike | LoadedModels):
        expected = "a trained model, as `fit` and `load` return it, or its directory or name"
        raise ValueError(f"`teacher` must be {expected}. Received: teacher={teacher!r:.100}")


def make_teacher(task, teacher, folder, options):
    """Returns the `Teacher` of a task, given a model or its name; its outputs are kept in a folder."""
    model = load_models(teacher) if isinstance(teacher, str | os.PathLike) else teacher
    return Teacher(task, model.name, model, folder, **options)
