"""Verifies SavedModels written by `keras_bert.export` before deployment.

    python -m pipelines.verify_saved_model saved_models/sst2/1
    python -m pipelines.verify_saved_model saved_models/sst2/2 --reference=saved_models/sst2/1 --labeled=dev.csv

Runs every signature on the stored probes in a new process with only TensorFlow and TF-Text, and compares the outputs
with the stored ones, batched and for each text alone. Checks that TensorFlow Serving links all ops. Prints a line for
each signature and then `fit to ship` or `not fit to ship` with the reasons; the exit status is 0 or 2. Takes half a
minute.

`--labeled` scores a classifier, a regression model or a model for question answering on your data: a table as for
`run_glue`, with the columns of texts that the model was trained on unless flags name others, a file in SQuAD's format,
or with `--task` the folder of GLUE's official files, whose dev set is read. With `--reference`, such as the float32
version of a model in int8, a score that is lower by more than `--max_drop` points is a problem.
"""

import os
import pathlib
import sys

from keras_bert.tasks.classification.glue import TASKS

from . import command, common_flags
from .arguments import flag

_COLUMNS = ("text_column", "pair_column", "label_column")


class Arguments(common_flags.TableColumns):
    tolerance: float = flag(
        None,
        "Maximum relative difference; default: 1e-5, float16 2e-2, bfloat16 0.1, int8 0.05.",
        least=0,
        section="verification",
    )
    labeled: str = flag(None, "Labeled data: a table, a SQuAD file, or with --task a folder.", section="data")
    reference: str = flag(None, "SavedModel to compare the score with.", needs="labeled")
    max_drop: float = flag(
        0.5, "Points by which the main score may be below the reference's.", least=0, needs="reference"
    )
    task: str = flag(
        None, "GLUE task of the official files in the folder --labeled.", values=list(TASKS), needs="labeled"
    )


def check(arguments):
    directories = arguments.positional
    labeled = arguments.labeled
    if not directories:
        raise ValueError("expected one or more SavedModel directories")
    for directory in [*directories, arguments.reference]:
        if directory:
            _check_saved_model(directory)
    arguments.only(labeled, "with --labeled", *_COLUMNS)
    arguments.only(not arguments.task, "without --task", *_COLUMNS)
    if labeled and not os.path.exists(labeled):
        raise ValueError(f"--labeled={labeled}: no such file or folder")
    if labeled and len(directories) > 1:
        raise ValueError(f"--labeled is for one SavedModel. Received: {len(directories)} directories")


def _check_saved_model(directory):
    """Raises an error for a folder without a SavedModel; a folder of versions is told the newest one."""
    folder = pathlib.Path(directory).expanduser()
    if (folder / "saved_model.pb").is_file():
        return
    if not folder.exists():
        raise ValueError(f"{directory}: no such folder. Expected a SavedModel, such as saved_models/sst2/1")
    if not folder.is_dir():
        raise ValueError(f"{directory} is a file. Expected the folder of a SavedModel, such as saved_models/sst2/1")
    hint = "Expected the folder of one version, such as saved_models/sst2/1"
    newest = _newest_version(folder)
    if newest is not None:
        hint = f"Did you mean {newest}?"
    raise ValueError(f"{directory} is no SavedModel, it has no saved_model.pb. {hint}")


def _newest_version(folder):
    """Returns the SavedModel with the highest number in a folder of versions or an output, or `None`."""
    versions = []
    for pattern in ("*", "saved_model/*"):
        for path in folder.glob(f"{pattern}/saved_model.pb"):
            if path.parent.name.isdecimal():
                versions.append(path.parent)
    return max(versions, key=lambda version: int(version.name), default=None)


def main(arguments):
    from keras_bert.exporting import verification

    reports = verification.verify(arguments.positional, arguments.tolerance)
    problems = []
    for report in reports:
        for line in report.lines:
            print(f"{report.directory}: {line}", flush=True)
        problems += [f"{report.directory}: {problem}" for problem in report.problems]
    first = reports[0]  # With --labeled, it is the only one.
    if arguments.labeled and first.lines:  # It could be run.
        problems += [f"{first.directory}: {problem}" for problem in _score(arguments, first)]
    print(f"not fit to ship: {'; '.join(problems)}" if problems else "fit to ship")
    sys.exit(2 if problems else 0)


def _score(arguments, report):
    """Prints scores on labeled data, and returns a list with a problem if they are too low."""
    from keras_bert.runs.saved_model_scores import compare

    columns = {"text": arguments.text_column, "pair": arguments.pair_column, "label": arguments.label_column}
    reference = arguments.reference
    comparison = compare(report.directory, arguments.labeled, reference, arguments.task, **columns)
    print(f"{report.directory}: labeled: {comparison}", flush=True)
    if reference and comparison.drop > arguments.max_drop:
        name = next(iter(comparison.scores))
        return [f"{name} is {comparison.drop:.2f} points below that of {reference}"]
    return []


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, positional=True)
