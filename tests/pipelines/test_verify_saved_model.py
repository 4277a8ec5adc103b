"""The command; tests/exporting/test_verification.py covers the checks."""

import pytest

from tests.pipelines.programs import parsed

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.verify_saved_model"


@pytest.fixture
def verify(capsys):
    """Runs the command; returns its exit status and the lines that it prints."""

    def run(*arguments):
        program, arguments = parsed(PROGRAM, *arguments)
        with pytest.raises(SystemExit) as end:
            program.main(arguments)
        return end.value.code, capsys.readouterr().out.splitlines()

    return run


def test_invalid_models(verify, tmp_path):
    """A SavedModel without probes, and a directory that does not exist."""
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "saved_model.pb").touch()
    assert verify(tmp_path / "bad", tmp_path / "none") == (
        2,
        [
            f"not fit to ship: {tmp_path}/bad: no assets.extra/probes.json, which `export` writes; "
            f"{tmp_path}/none: no SavedModel: it has no saved_model.pb"
        ],
    )
