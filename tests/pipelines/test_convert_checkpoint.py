"""The command as a user runs it."""

import numpy as np
import pytest

import keras_bert
from tests.pipelines.programs import run

pytestmark = pytest.mark.tensorflow


def slow(*values):
    """One more start of the program."""
    return pytest.param(*values, marks=pytest.mark.slow)


def convert(*flags, cwd="."):
    return run("pipelines.convert_checkpoint", *flags, cwd=cwd)


@pytest.mark.slow
def test_hugging_face_to_google(build, pieces, tmp_path):
    model = build("pretraining")
    keras_bert.save(model, tmp_path / "hf", pieces, lowercase=True)
    done = convert(f"--input={tmp_path}/hf", f"--output={tmp_path}/google", "--format=google", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(f"google (google, {model.count_params():,} parameters)")
    copy = keras_bert.load(tmp_path / "google")
    assert copy.vocabulary.pieces == tuple(pieces)
    for left, right in zip(copy.pretrainer().trainable_weights, model.trainable_weights, strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy())


def test_what_has_no_place_is_told(build, tmp_path):
    import json

    keras_bert.save(build("pretraining"), tmp_path / "hf", None)
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    config["architectures"], config["keras_bert"] = ["BertModel"], {}
    (tmp_path / "hf" / "config.json").write_text(json.dumps(config))
    done = convert(f"--input={tmp_path}/hf", f"--output={tmp_path}/out", "--format=keras")
    assert done.returncode == 0, done.stderr
    assert "left out, no place in a model with head='encoder': cls.predictions.bias, " in done.stdout
    assert keras_bert.load(tmp_path / "out").head == "encoder"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--input=./none", "--output=out"], "error: ./none: no such checkpoint. Tried: the path none"),
        slow(["--input=.", "--output=out"], "error: .: not a checkpoint. Expected config.json"),
        slow(["--input=.", "--output=out", "more"], "error: unexpected argument(s) more"),
    ],
)
def test_a_users_mistake_is_one_line_and_status_2(tmp_path, flags, message):
    done = convert(*flags, cwd=tmp_path)
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(message)
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
