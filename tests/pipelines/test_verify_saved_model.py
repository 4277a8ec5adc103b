"""The command as a user runs it; what it finds is tested in tests/exporting/test_verification.py."""

import shutil

import pytest

import keras_bert
from tests.pipelines.programs import mistake, run

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.verify_saved_model"


@pytest.mark.slow
def test_fit_and_not_fit(build, pieces, tmp_path):
    """Several at once: one is good, one lost its probes, one is nothing."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    keras_bert.export(build("regression"), keras_bert.TextPreprocessor(pieces, 20), good)
    shutil.copytree(good, bad)
    (bad / "assets.extra" / "probes.json").unlink()
    printed, _ = run(PROGRAM, good, bad, tmp_path / "none", status=2)
    *lines, last = printed.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["serving_default", "regress", "tokens", "ops"]
    assert all(line.startswith(f"{good}: ") for line in lines)
    assert last == (
        f"not fit to ship: {bad}: no assets.extra/probes.json, which `export` writes; "
        f"{tmp_path}/none: no SavedModel: it has no saved_model.pb"
    )


def test_a_users_mistake():
    assert mistake(PROGRAM) == "expected the directory of a SavedModel, or several"
