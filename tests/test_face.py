"""`import keras_bert` from a user's chair."""

import subprocess
import sys

import pytest

import keras_bert


def python(code, *arguments):
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True).stdout


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


def test_a_keras_file_loads_after_the_import_alone_which_brings_nothing_heavy(build, task, tmp_path):
    inputs, targets, losses = task("pretraining")
    model = build("pretraining")
    model.compile(keras_bert.AdamW(1e-3), losses)
    model.train_on_batch(inputs, targets)
    model.save(tmp_path / "model.keras")
    code = (
        "import sys, keras; before = set(sys.modules); import keras_bert;"
        "print([name for name in sys.argv[2:] if name in set(sys.modules) - before]);"
        "model = keras.saving.load_model(sys.argv[1]); print(model.name, type(model.optimizer).__module__)"
    )
    heavy = ["tensorflow_text", "keras_hub", "tensorflow_datasets", "sklearn", "huggingface_hub", "safetensors"]
    printed = python(code, str(tmp_path / "model.keras"), *heavy)
    assert printed.split() == ["[]", "bert_pretrainer", "keras_bert.training.optimizer"]
