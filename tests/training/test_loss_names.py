"""Which numbers of a run are losses, of runs of this version and of earlier ones."""

from keras_bert.training.loss_names import names_of, total, with_total


def test_names():
    numbers = {"step": 1, "hierarchy": 2.0, "other": 1.0, "a_loss": 4.0}
    assert names_of({"losses": ["hierarchy", "other"]}, numbers) == ["hierarchy", "other"]
    assert names_of({"scores": {}}, numbers) == ["a_loss"]  # Of an earlier version.
    assert names_of({}, {"loss": 1.0, "lossy": 1.0}) == ["loss"]


def test_sums():
    numbers = {"hierarchy": 2.0, "other": 1.0, "f1": 0.5}
    losses = ["hierarchy", "other", "not logged"]
    assert total(numbers, losses) == 3
    assert total({"f1": 0.5}, losses) == 0
    assert with_total(numbers, losses) == {"loss": 3.0, **numbers}
    assert with_total({"loss": 5.0, "other": 1.0}, ["loss", "other"]) == {"loss": 5.0, "other": 1.0}
    assert with_total({"f1": 0.5}, losses) == {"f1": 0.5}
