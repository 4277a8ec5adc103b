"""Says whether SavedModels that `keras_bert.export` wrote are fit to ship.

    python -m pipelines.verify_saved_model saved_models/sst2/1
    python -m pipelines.verify_saved_model --native saved_models/sst2/1

Runs every signature in a fresh process that has TensorFlow and TF-Text alone, on the probes that the export stored, and
compares with the answers it stored; each text also alone. Looks whether TensorFlow Serving has all the ops. With
`--native` also answers in a C++ program without Python, for which a C++ compiler is needed. Prints a line a signature,
and last `fit to ship` or `not fit to ship` and why; the exit status is then 0 or 2. Half a minute; `--native` compiles
for a quarter of a minute the first time.
"""

import sys

from absl import flags

from keras_bert.exporting import verification
from pipelines import common_flags

_TOLERANCE = flags.DEFINE_float(
    "tolerance", None, "Largest difference, of the largest value of an output; 1e-5, float16 2e-2, bfloat16 0.1.", 0.0
)
_NATIVE = flags.DEFINE_bool("native", False, "Also answer in TensorFlow's C++ runtime, without Python.")


def main(directories):
    if not directories:
        raise ValueError("expected the directory of a SavedModel, or several")
    reports = verification.verify(directories, _TOLERANCE.value, _NATIVE.value)
    for report in reports:
        for line in report.lines:
            print(f"{report.directory}: {line}")
    problems = [f"{report.directory}: {problem}" for report in reports for problem in report.problems]
    print(f"not fit to ship: {'; '.join(problems)}" if problems else "fit to ship")
    sys.exit(2 if problems else 0)


if __name__ == "__main__":
    common_flags.run(main, with_arguments=True)
