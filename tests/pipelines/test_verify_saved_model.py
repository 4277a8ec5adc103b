"""The command; tests/exporting/test_verification.py covers the checks."""

import csv

import pytest

import keras_bert
from tests.pipelines.programs import mistake, parsed

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


@pytest.mark.slow
def test_a_valid_model_and_its_score(verify, build, pieces, tmp_path):
    model, preprocessor = build("classification"), keras_bert.TextPreprocessor(pieces, 20)
    keras_bert.export(model, preprocessor, tmp_path / "1", labels=["a", "b", "c"])
    texts = ["a b", "c d e", "f", "g h i j"]
    predicted = ["abc"[index] for index in model(preprocessor(texts))["logits"].numpy().argmax(-1)]
    with open(tmp_path / "dev.csv", "w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *zip(texts, predicted, strict=True)])
    status, (*lines, scores, last) = verify(tmp_path / "1", f"--labelled={tmp_path}/dev.csv")
    assert [line.split(": ")[1] for line in lines] == ["serving_default", "classify", "tokens", "ops"]
    assert all(line.startswith(f"{tmp_path}/1: ") for line in lines)
    assert scores.startswith(f"{tmp_path}/1: labelled: 4 rows, accuracy 100.00, macro_f1 ")
    assert (status, last) == (0, "fit to ship")


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


def test_user_errors():
    assert mistake(PROGRAM) == "expected one or more SavedModel directories"
