"""Writes files of GLUE tasks in the official layout."""

from keras_bert.tasks.classification.glue import TASKS

# All of the same length, so that each function is traced once.
WORDS = ["a b c", "c d a", "e f g", "b c h", "g h a", "d e f"] * 2
OTHERS = [WORDS[(index * 5) % len(WORDS)] for index in range(len(WORDS))]
_COARSE = ["Lexical Semantics", "Predicate-Argument Structure", "Logic", "Knowledge"]


def write_task(folder, task, test_rows=12):
    """Writes train, dev and test rows with alternating labels."""
    folder = folder / task.title
    folder.mkdir(parents=True, exist_ok=True)
    for split, names in task.files.items():
        lines = []
        columns = _columns(task, split)
        if split != "test" and task.header:  # The file has no names of columns.
            columns = task.header
        else:
            lines.append("\t".join(columns))
        count = test_rows if split == "test" else len(WORDS)
        for index in range(count):
            cells = _cells(task, index)
            lines.append("\t".join(cells.get(column, "-") for column in columns))
        (folder / names[0]).write_text("\n".join(lines) + "\n")


def _columns(task, split):
    columns = ["index", task.text]
    if task.pair:
        columns.append(task.pair)
    if split != "test":
        columns.append(task.label)
    return columns


def _cells(task, index):
    """Returns the cells of a row by column."""
    label = f"{index % 6}.5"
    if task.strings:
        label = task.strings[index % len(task.strings)]
    row = index % len(WORDS)
    return {"index": str(index), task.text: WORDS[row], task.label: label, task.pair: OTHERS[row]}


def write_diagnostics(path):
    """Writes a labeled diagnostic set: three rows about negation."""
    lines = ["\t".join([*_COARSE, "Premise", "Hypothesis", "Label"])]
    for row, label in enumerate(TASKS["ax"].labels):
        lines.append("\t".join(["", "", "Negation", "", WORDS[row], WORDS[row], label]))
    path.write_text("\n".join(lines) + "\n")
