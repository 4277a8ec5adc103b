"""One of several workers, which writes the final weights of its runs.

python -m tests.training.small_worker DIRECTORY INDEX
"""

import pathlib
import sys

import numpy as np

from keras_bert.training.distribution import create_strategy
from tests.training import small_run, small_towers


def main(directory, index):
    directory = pathlib.Path(directory)
    strategy = create_strategy("auto", timeout_s=60)
    run = small_run.trainer(directory / "bert", strategy)
    small_run.fit(run)
    np.savez(directory / f"bert-{index}.npz", **small_run.weights(run))
    towers = small_towers.train(directory / "towers", strategy=strategy)
    np.savez(directory / f"towers-{index}.npz", **towers.weights)


if __name__ == "__main__":
    main(*sys.argv[1:])
