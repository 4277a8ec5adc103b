"""The task of data in Python, which follows from the columns of their rows or from texts and targets."""

from keras_bert.data import in_memory
from keras_bert.tasks import registry
from keras_bert.tasks.rows import first_known


def infer_rows(rows, targets=None):
    """Returns the task of rows of a data set, dicts by column: by their columns, or else by their targets.

    `targets` are a list, the name of a column, or `None` for those that the task finds. Where they are elsewhere, the
    columns of other targets do not count.
    """
    task = _task_of_columns(rows[0], targets)
    if task is not None:
        return task
    if targets is None or isinstance(targets, str):
        column = targets or "label"
        values = [row.get(column) for row in rows]
    else:
        values = in_memory.targets_of(rows, targets)
        task = registry.recognized(rows[0], values)
        if task is not None:
            return task
    return infer([str(rows[0])[:50]], values)


def _task_of_columns(row, targets):
    """Returns the task with the most columns that a row has, the first one of several; `None` if no task has any."""
    best_task = None
    most_columns = 0
    for task in registry.in_order_of_recognition():
        names = row.keys() - _unused_targets(task, targets)
        for known in task.rows.columns:
            if known <= names and len(known) > most_columns:
                best_task = task
                most_columns = len(known)
    return best_task


def _unused_targets(task, targets):
    """Returns the columns of a task that do not count as targets, since the targets are elsewhere."""
    if targets is None:
        return set()
    columns = set(task.rows.target_columns)
    if isinstance(targets, str):
        columns.discard(targets)
    return columns


def infer(texts, targets):
    """Returns the task of texts and targets."""
    _check_all_have_targets(texts, targets)
    task = registry.recognized(texts[0], targets)
    if task is not None:
        return task
    received = "no targets" if targets is None else f"targets such as {targets[0]!r:.50}"
    expected = "; ".join(f"{task.rows.expects}, task={task.name!r}" for task in registry.TASKS)
    raise ValueError(
        f"the task does not follow from the data. Received: texts such as {texts[0]!r:.50} with {received}. "
        f"Expected {expected}"
    )


def _check_all_have_targets(texts, targets):
    """Raises for a missing target of texts or pairs whose targets are strings or numbers."""
    are_texts = isinstance(texts[0], str | tuple)
    are_plain = isinstance(first_known(targets), str | int | float)
    if are_texts and are_plain and None in targets:
        raise ValueError(
            f"targets[{targets.index(None)}] is missing. Expected a target for each text: leave out or fill rows "
            "without one"
        )
