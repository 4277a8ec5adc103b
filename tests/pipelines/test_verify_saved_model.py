"""The command as a user runs it."""

import shutil

import pytest

import keras_bert
from tests.pipelines.programs import run

pytestmark = pytest.mark.tensorflow

SIGNATURES = {
    "classification": ["serving_default", "classify", "tokens", "ops"],
    "regression": ["serving_default", "regress", "tokens", "ops"],
    "token_classification": ["serving_default", "tokens", "ops"],
    "question_answering": ["serving_default", "tokens", "ops"],
    "pretraining": ["serving_default", "next_sentence", "tokens", "ops"],
    "multiple_choice": ["serving_default", "tokens", "ops"],
    "encoder": ["serving_default", "tokens", "ops"],
}
OPTIONS = {
    "token_classification": {"labels": ["O", *(f"{prefix}-{kind}" for kind in "ABCD" for prefix in "BI")]},
    "question_answering": {"top": 2, "null_threshold": 0.5},
}


@pytest.fixture
def exported(build, pieces, tmp_path):
    """Exports a model of a head."""

    def export(head, **options):
        directory = tmp_path / head
        preprocessor = keras_bert.TextPreprocessor(pieces, 20)
        keras_bert.export(build(head, **options), preprocessor, directory, **OPTIONS.get(head, {}))
        return directory

    return export


def verify(*arguments):
    return run("pipelines.verify_saved_model", *arguments)


@pytest.mark.slow
def test_fit_and_not_fit(exported):
    """Several at once: one is good, one lost its probes, one is nothing."""
    good = exported("regression")
    bad = shutil.copytree(good, good.with_name("bad"))
    (bad / "assets.extra" / "probes.json").unlink()
    done = verify(good, bad, good.parent / "none")
    assert done.returncode == 2, done.stderr
    *lines, last = done.stdout.splitlines()
    assert [line.split(": ")[1] for line in lines] == SIGNATURES["regression"]
    assert all(line.startswith(f"{good}: ") for line in lines)
    assert last == (
        f"not fit to ship: {bad}: no assets.extra/probes.json, which `export` writes; "
        f"{good.parent}/none: no SavedModel: it has no saved_model.pb"
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_every_head_natively_too(exported, dtype):
    directories = [exported(head, dtype=dtype) for head in SIGNATURES]
    done = verify("--native", *directories)
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, last = done.stdout.splitlines()
    assert last == "fit to ship"
    for directory, names in zip(directories, SIGNATURES.values(), strict=True):
        mine = [line for line in lines if line.startswith(f"{directory}: ")]
        assert [line.split(": ")[1] for line in mine] == [*names, "serving_default natively, without Python"]
        assert ", 0 not linked by TensorFlow Serving (20" in mine[-2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: expected the directory of a SavedModel, or several"),
        (["--tolerance=-1", "a"], "flag --tolerance=-1: -1.0 is not a non-negative number"),
    ],
)
def test_a_users_mistake(arguments, message):
    done = verify(*arguments)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_smaller_tolerance(exported):
    directory = exported("regression")
    done = verify("--tolerance=1e-12", directory)
    assert done.returncode == 2
    assert "score differs by " in done.stdout.splitlines()[-1]
