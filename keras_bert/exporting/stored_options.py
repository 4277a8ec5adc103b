"""The options of `export` that a loaded model decides: by its head, its checkpoint and the task it was trained on."""

from keras_bert.heads.registry import answering, describe, is_regression
from keras_bert.tasks import registry


def stored_options(bert, model=None):
    """Returns the arguments of `export` for a loaded model, a dict; those of a user replace them.

    `model` is `bert.model()` by default, or `bert.encoder`, whose vectors are then pooled as the checkpoint says.
    """
    description = describe(bert.model() if model is None else model)
    head = answering(description.head)
    options = {}
    is_encoder_alone = head.name != bert.head
    if is_encoder_alone:
        options["pooling"] = bert.pooling
        options["normalize"] = bert.normalize
    options["labels"] = labels_of(bert, description)
    options["pair"] = head.requires_pair or (head.takes_pair and bool(bert.pair))
    options["columns"] = bert.columns
    options["task"] = task_facts(bert)
    options.update(head.stored(bert))
    if not is_encoder_alone:
        options.update(registry.own_signatures(bert))
    return options


def task_facts(bert):
    """Returns the `name` of the task that a model was trained on, and the `settings` that it keeps, or `None`.

    `converts` is there and true if the task has rows of its own, so that answers to rows need the task.
    """
    name = getattr(bert, "task", None)  # Other models have none.
    if name is None:
        return None
    facts = {"name": name, "settings": bert.task_settings or {}}
    for task in registry.TASKS:
        if task.name == name and task.trains(bert.head) and task.rows.convert:
            facts["converts"] = True
    return facts


def labels_of(bert, description):
    """Returns the names of the classes that a model of the checkpoint has, or `None`."""
    if description.num_classes is None or is_regression(description):
        return None
    return bert.labels
