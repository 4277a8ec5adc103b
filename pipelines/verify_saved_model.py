"""Verifies SavedModels written by `keras_bert.export` before deployment.

    python -m pipelines.verify_saved_model saved_models/sst2/1
    python -m pipelines.verify_saved_model saved_models/sst2/2 --reference=saved_models/sst2/1 --labelled=dev.csv

Runs every signature on the stored probes in a new process with only TensorFlow and TF-Text, and compares the outputs
with the stored ones, batched and for each text alone. Checks that TensorFlow Serving links all ops. Prints a line for
each signature and then `fit to ship` or `not fit to ship` with the reasons; the exit status is 0 or 2. Takes half a
minute.

`--labelled` scores a classifier, a regression model or a model for question answering on your data: a table as for
`run_glue`, a file in SQuAD's format, or with `--task` the folder of GLUE's official files, whose dev set is read. With
`--reference`, such as the float32 version of a model in int8, a score that is lower by more than `--max_drop` points is
a problem.
"""

import os
import sys

from absl import flags

from . import command, common_flags

command.section("verification")
_TOLERANCE = flags.DEFINE_float(
    "tolerance", None, "Maximum relative difference; default: 1e-5, float16 2e-2, bfloat16 0.1, int8 0.05.", 0.0
)
command.section("labelled data")
_LABELLED = flags.DEFINE_string("labelled", None, "Labelled data: a table, a SQuAD file, or with --task a folder.")
_REFERENCE = flags.DEFINE_string("reference", None, "SavedModel to compare the score with.")
_MAX_DROP = flags.DEFINE_float("max_drop", 0.5, "Points by which the main score may be below the reference's.", 0.0)
_TASK = flags.DEFINE_string("task", None, "GLUE task of the official files in the folder --labelled.")
_TEXT = flags.DEFINE_string("text_column", "text", "Column with the text.")
_PAIR = flags.DEFINE_string("pair_column", None, "Column with the second text.")
_LABEL = flags.DEFINE_string("label_column", "label", "Column(s) with the label.")


def check(directories):
    if not directories:
        raise ValueError("expected one or more SavedModel directories")
    columns = [flag.name for flag in (_TEXT, _PAIR, _LABEL)]
    common_flags.only(_LABELLED.value, "with --labelled", _REFERENCE.name, _TASK.name, *columns)
    common_flags.only(_REFERENCE.value, "with --reference", _MAX_DROP.name)
    common_flags.only(not _TASK.value, "without --task", *columns)
    if not _LABELLED.value:
        return
    if not os.path.exists(_LABELLED.value):
        raise ValueError(f"--labelled={_LABELLED.value}: no such file or folder")
    if len(directories) > 1:
        raise ValueError(f"--labelled is for one SavedModel. Received: {len(directories)} directories")


def main(directories):
    from keras_bert.exporting import verification

    reports = verification.verify(directories, _TOLERANCE.value)
    for report in reports:
        for line in report.lines:
            print(f"{report.directory}: {line}", flush=True)
    if _LABELLED.value and reports[0].lines:  # It could be run.
        _score(reports[0])
    problems = [f"{report.directory}: {problem}" for report in reports for problem in report.problems]
    print(f"not fit to ship: {'; '.join(problems)}" if problems else "fit to ship")
    sys.exit(2 if problems else 0)


def _score(report):
    """Prints scores on labelled data and adds a problem if they are too low."""
    from keras_bert.experiments.labelled import compare

    columns = {"text": _TEXT.value, "pair": _PAIR.value, "label": _LABEL.value}
    found = compare(report.directory, _LABELLED.value, _REFERENCE.value, _TASK.value, **columns)
    print(f"{report.directory}: labelled: {found}", flush=True)
    if _REFERENCE.value and found.drop > _MAX_DROP.value:
        name = next(iter(found.scores))
        report.problems.append(f"{name} is {found.drop:.2f} points below that of {_REFERENCE.value}")


if __name__ == "__main__":
    command.run(main, with_arguments=True, check=check)
