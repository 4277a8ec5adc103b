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
        columns = ["index", task.text, *([task.pair] if task.pair else []), *([task.label] if split != "test" else [])]
        headless = task.header and split != "test"
        columns = task.header if headless else columns
        lines = [] if headless else ["\t".join(columns)]
        for index in range(test_rows if split == "test" else len(WORDS)):
            label = task.strings[index % len(task.strings)] if task.strings else f"{index % 6}.5"
            row = index % len(WORDS)
            cells = {"index": str(index), task.text: WORDS[row], task.label: label, task.pair: OTHERS[row]}
            lines.append("\t".join(cells.get(column, "-") for column in columns))
        (folder / names[0]).write_text("\n".join(lines) + "\n")


def write_diagnostics(path):
    """Writes a labeled diagnostic set: three rows about negation."""
    rows = [["", "", "Negation", "", WORDS[row], WORDS[row], label] for row, label in enumerate(TASKS["ax"].labels)]
    lines = ["\t".join(row) for row in [[*_COARSE, "Premise", "Hypothesis", "Label"], *rows]]
    path.write_text("\n".join(lines) + "\n")
