"""The command; tests/exporting/test_verification.py covers the checks."""

import shutil

import pytest

import keras_bert
from tests.pipelines.programs import mistake, run

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.verify_saved_model"


@pytest.mark.slow
def test_valid_and_invalid_models(build, pieces, tmp_path):
    """Three directories: a valid SavedModel, one without probes, and one that does not exist."""
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


def test_user_errors():
    assert mistake(PROGRAM) == "expected one or more SavedModel directories"
