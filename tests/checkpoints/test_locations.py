"""The bundled checkpoints: found by name in a checkout and in an installed wheel, small, with a card."""

import functools
import os
import pathlib
import subprocess
import sys
import tomllib

import keras
import numpy as np
import pytest

import keras_bert

ROOT = pathlib.Path(__file__).parents[2]
SHIPPED = sorted(path.parent.name for path in (ROOT / "saved_models").glob("*/config.json"))


@pytest.fixture(scope="module")
def shipped():
    return functools.cache(keras_bert.load)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_checkpoint_is_complete_and_small(shipped, name):
    folder = ROOT / "saved_models" / name
    assert sum(path.stat().st_size for path in folder.iterdir()) < 20e6
    card = (folder / "README.md").read_text()
    assert all(title in card for title in ("# Data", "# Settings", "# Scores", "# Limitations"))
    bert = shipped(name)
    assert bert.vocabulary is not None
    assert bert.left_out(bert.pretrainer()) == []


@pytest.mark.tensorflow
def test_it_predicts_masked_words_of_books(eager, shipped):
    bert = shipped("bert_tiny_books")
    text = "He opened the [MASK] and went into the room."
    inputs = bert.preprocessor(32, padding="longest", keep_special_tokens=("[MASK]",))([text])
    places = np.argwhere(inputs["token_ids"] == bert.vocabulary.id("[MASK]"))[:, 1:]
    outputs = bert.pretrainer()({**inputs, "mask_positions": keras.ops.convert_to_tensor(places, "int32")})
    best = np.argsort(-np.array(outputs["mlm_logits"])[0, 0])[:5]
    assert "door" in [bert.vocabulary.pieces[piece] for piece in best]


def test_a_wheel_has_every_package():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = [path.parent for room in ("keras_bert", "pipelines") for path in (ROOT / room).rglob("__init__.py")]
    found = [".".join(folder.relative_to(ROOT).parts) for folder in folders if folder.name != "pipelines"]
    assert sorted(packages) == sorted([*found, "keras_bert.pipelines", "keras_bert.saved_models"])


@pytest.mark.slow
@pytest.mark.tensorflow
def test_an_installed_wheel_finds_it_and_has_the_console_command(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", tmp_path / "site", wheel], check=True)
    program = "import keras_bert; print(keras_bert.__file__); print(keras_bert.load('bert_tiny_books'))"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    file, loaded = done.stdout.splitlines()
    assert file.startswith(str(tmp_path / "site"))
    assert "bert_tiny_books" in loaded
    assert not (tmp_path / "site" / "pipelines").exists()
    done = subprocess.run(
        [sys.executable, tmp_path / "site" / "bin" / "keras-bert", "convert_checkpoint", "--help"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "keras-bert convert_checkpoint --model=" in done.stdout
