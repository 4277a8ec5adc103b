"""`import keras_bert` from a user's chair."""

import subprocess
import sys

import pytest

import keras_bert


def python(code, *arguments, **environment):
    import os

    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment}).stdout


def test_every_public_name_is_there():
    for name in keras_bert.__all__:
        assert getattr(keras_bert, name) is not None
    assert set(keras_bert.__all__) <= set(dir(keras_bert))


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="module 'keras_bert' has no attribute 'nothing'"):
        keras_bert.nothing  # noqa: B018


BLOCKED = """
import sys
missing, *names = sys.argv[1:]
sys.modules |= dict.fromkeys(missing.split(","))
try:
    import keras_bert
    for name in names:
        getattr(keras_bert, name)
        print(name)
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.tensorflow
def test_what_is_missing_names_the_extra():
    told = python(BLOCKED, "tensorflow")
    for part in ("TensorFlow is not installed", "pip install keras-bert-whole[tensorflow]", "KERAS_BACKEND=jax"):
        assert part in told
    # TF-Text is for texts alone, and there is none for Windows.
    given = "tensorflow_serving,tensorflow_text", "build_encoder", "TextPreprocessor", "export"
    assert python(BLOCKED, *given).splitlines() == [
        "build_encoder",
        "TextPreprocessor",
        "`keras_bert.export` needs tensorflow_serving, which is not installed. Install it with "
        "`pip install keras-bert-whole[tensorflow]`",
    ]


def test_the_import_adds_little_to_keras():
    code = "import keras, time; t = time.process_time(); import keras_bert; print(time.process_time() - t)"
    assert min(float(python(code)) for _ in range(2)) < 0.2


def test_the_import_brings_nothing_heavy():
    code = (
        "import sys, keras; before = set(sys.modules); import keras_bert;"
        "print([m for m in sys.argv[1:] if m in set(sys.modules) - before])"
    )
    heavy = ["tensorflow_text", "keras_hub", "tensorflow_datasets", "sklearn", "huggingface_hub", "safetensors"]
    assert python(code, *heavy).strip() == "[]"


def test_a_keras_file_loads_after_the_import_alone(build, task, tmp_path):
    inputs, targets, losses = task("pretraining")
    model = build("pretraining")
    model.compile(keras_bert.AdamW(1e-3), losses)
    model.train_on_batch(inputs, targets)
    model.save(tmp_path / "model.keras")
    code = (
        "import sys, keras, keras_bert; model = keras.saving.load_model(sys.argv[1]);"
        "print(model.name, type(model.optimizer).__module__)"
    )
    assert python(code, str(tmp_path / "model.keras")).split()[-2:] == [
        "bert_pretrainer",
        "keras_bert.training.optimizer",
    ]
