"""The options of `export` that a loaded model decides: by its head, its checkpoint and the task it was trained on."""

from keras_bert.heads.registry import answering, describe, is_regression
from keras_bert.tasks import registry


def stored_options(bert, model=None):
    """Returns the arguments of `export` for a loaded model, a dict; those of a user replace them.

    `model` is `bert.model()` by default, or `bert.encoder`, whose vectors are then pooled as the checkpoint says.
    """
    description = describe(bert.model() if model is None else model)
    head = answering(description.head)
    options = {
        "labels": labels_of(bert, description),
        "pair": head.requires_pair or (head.takes_pair and bool(bert.pair)),
        "columns": bert.columns,
        "task": task_facts(bert),
        **head.stored(bert),
    }
    if head.name == bert.head:
        return {**options, **registry.own_signatures(bert)}
    return {"pooling": bert.pooling, "normalize": bert.normalize, **options}


def task_facts(bert):
    """Returns the `name` of the task that a model was trained on, and the `settings` that it keeps, or `None`.

    `converts` is there and true if the task has rows of its own, so that answers to rows need the task.
    """
    name = getattr(bert, "task", None)  # Other models have none.
    if name is None:
        return None
    converts = any(task.name == name and task.trains(bert.head) and task.rows.convert for task in registry.TASKS)
    return {"name": name, "settings": bert.task_settings or {}, **({"converts": True} if converts else {})}


def labels_of(bert, description):
    """Returns the names of the classes that a model of the checkpoint has, or `None`."""
    if description.num_classes is None or is_regression(description):
        return None
    return bert.labels
