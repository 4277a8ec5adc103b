"""Fine-tuning over a grid: what a whole grid does around its runs."""

import gc

import pytest

from keras_bert.runs.finetuning import Finetuning, Plan
from keras_bert.runs.hyperparameters import Hyperparameters
from tests.runs.grid_task import stand_in_task

TASK = stand_in_task()


@pytest.fixture
def unfrozen():
    """Excludes no objects from garbage collections, as in a program; tests exclude theirs."""
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.freeze()


@pytest.mark.usefixtures("unfrozen")
@pytest.mark.parametrize("fails", [False, True])
def test_garbage_is_that_of_the_runs(tmp_path, monkeypatch, fails):
    """During a grid, collections leave out what was there before; a program that leaves out its own keeps it so."""
    frozen = []

    def train(self):
        frozen.append(gc.get_freeze_count())
        if fails:
            raise OSError

    monkeypatch.setattr(Finetuning, "train_runs", train)
    runs = Finetuning(Plan(TASK, {"seed": [1]}, Hyperparameters(), tmp_path))

    def run():
        if not fails:
            runs.run()
            return
        with pytest.raises(OSError):
            runs.run()

    run()
    assert frozen[0] > 0
    assert gc.get_freeze_count() == 0
    gc.freeze()
    of_program = gc.get_freeze_count()
    run()
    assert frozen[1] <= of_program  # Some have been freed since.
    assert gc.get_freeze_count() > 0
