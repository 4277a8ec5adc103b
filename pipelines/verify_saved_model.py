"""Verifies SavedModels written by `keras_bert.export` before deployment.

    python -m pipelines.verify_saved_model saved_models/sst2/1

Runs every signature on the stored probes in a new process with only TensorFlow and TF-Text, and compares the outputs
with the stored ones, batched and for each text alone. Checks that TensorFlow Serving links all ops. Prints a line for
each signature and then `fit to ship` or `not fit to ship` with the reasons; the exit status is 0 or 2. Takes half a
minute.
"""

import sys

from absl import flags

from . import command

command.section("verification")
_TOLERANCE = flags.DEFINE_float(
    "tolerance", None, "Maximum relative difference; default: 1e-5, float16 2e-2, bfloat16 0.1.", 0.0
)


def check(directories):
    if not directories:
        raise ValueError("expected one or more SavedModel directories")


def main(directories):
    from keras_bert.exporting import verification

    reports = verification.verify(directories, _TOLERANCE.value)
    for report in reports:
        for line in report.lines:
            print(f"{report.directory}: {line}")
    problems = [f"{report.directory}: {problem}" for report in reports for problem in report.problems]
    print(f"not fit to ship: {'; '.join(problems)}" if problems else "fit to ship")
    sys.exit(2 if problems else 0)


if __name__ == "__main__":
    command.run(main, with_arguments=True, check=check)
