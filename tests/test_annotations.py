"""What type checkers are told equals what the functions take and return; mypy finds mistakes, and none in the pages."""

import dataclasses
import importlib.util
import inspect
import re
import subprocess
import sys
import typing

import pytest

import keras_bert
from keras_bert import annotations
from keras_bert.bert import LoadedBert
from keras_bert.metadata import Metadata
from keras_bert.models.encoder import build_encoder
from keras_bert.runs.hyperparameters import Hyperparameters
from tests import documents

# A mistake of a user in each line; programs that run it name them only then.
WRONG = """
bert.fit(texts, labels, epochs="3")
bert.fit(texts, labels, learning_rte=3e-5)
bert.fit(texts, labels, class_weight="balancd")
bert.fit(texts, labels, strategy="mirored")
reviews.predct("A film with charm.")
reviews.predict()
reviews.predict("A film with charm.", n_bst=3)
reviews.predict("A film with charm.")["lable"]
reviews.predict(texts)["label"]
reviews.predict("A film with charm.")["score"][0]
reviews.evaluate(texts, labels)["accuracy"]["mean"]
reviews.evaluate(texts, labels, doc_strid=64)
reviews.results["score"]
reviews.encode(texts, batchsize=8)
reviews.save("my_model", format="hugging_face")
reviews.export("saved_models/reviews/1", precision="int9")
keras_bert.save(reviews.model(), "my_model", reviews.vocabulary, treshold=0.5)
keras_bert.load("my_model", dtpe="float32")
keras_bert.lod("my_model")
"""
BEGIN = """
import keras_bert
texts, labels = ["A charming film.", "A dull film."], ["good", "bad"]
bert = keras_bert.load("bert_tiny_books")
reviews = bert.fit(texts, labels, epochs=3)
first: str = reviews.predict(texts)[0]["label"]
grade = bert.fit(texts, labels, task="grading", labels=labels).predict("A film.")["grade"]
frame = reviews.predict(texts, as_frame=True).head()
"""
# Packages without types, or with so many that they take minutes.
CONFIG = """
[mypy]
ignore_missing_imports = true
disable_error_code = var-annotated
[mypy-keras.*,numpy.*,tensorflow.*,google.*,sklearn.*,scipy.*,absl.*,transformers.*,torch.*,pandas.*,pyarrow.*,datasets.*]
follow_imports = skip
"""


def keys(typed_dict):
    return set(typing.get_type_hints(typed_dict))


def keywords(function):
    parameters = inspect.signature(function).parameters.values()
    return {part.name for part in parameters if part.kind == part.KEYWORD_ONLY}


@pytest.mark.tensorflow
def test_options_of_training_are_those_of_the_tasks():
    from keras_bert.settings import keywords as settings_of
    from keras_bert.tasks.registry import TASKS
    from keras_bert.tasks.teacher import Teacher
    from keras_bert.training.distribution import KINDS

    assert set(typing.get_args(annotations.TaskName)) == {task.name for task in TASKS}
    assert typing.get_args(annotations.StrategyName) == KINDS
    options_of_tasks = set()
    for task in TASKS:
        options_of_tasks.update(settings_of(task.Settings))
    assert keys(annotations.TaskOptions) == options_of_tasks
    shared = {field.name for field in dataclasses.fields(Hyperparameters)} - {"best", "patience"}
    of_teachers = keywords(Teacher.__init__) & keys(annotations.FitOptions)
    assert of_teachers == {"temperature", "alpha"}
    assert keys(annotations.FitOptions) - keys(annotations.TaskOptions) == shared | {"alpha"}


@pytest.mark.tensorflow
def test_types_allow_the_values_of_settings():
    from keras_bert.tasks.registry import TASKS

    hints = typing.get_type_hints(annotations.TaskOptions)
    for task in TASKS:
        for field in dataclasses.fields(task.Settings):
            if field.name in hints and field.metadata["values"]:
                allowed = set(literals(hints[field.name]))
                assert set(field.metadata["values"]) <= allowed, field.name


def literals(hint):
    """Returns the strings that a type allows."""
    inner = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        return inner
    found = []
    for part in inner:
        found += literals(part)
    return found


@pytest.mark.tensorflow
def test_options_of_models_and_exports_are_those_of_the_functions():
    from keras_bert.heads.registry import HEADS

    own = {"lowercase", "labels", "task"}
    assert keys(annotations.ModelSettings) == set(Metadata().settings) - own
    assert keys(annotations.SaveOptions) - keys(annotations.ModelSettings) == keywords(keras_bert.save)
    head_options = keys(annotations.HeadOptions)
    of_translations = {"beam", "n_best"}
    of_heads = set()
    for head in HEADS:
        of_heads.update(head.text_options)
    assert head_options == of_heads | of_translations
    assert keys(annotations.ExportOptions) - head_options == keywords(keras_bert.export)
    assert keys(annotations.EncoderOptions) == keywords(build_encoder) - {"dtype"} | {"num_layers"}
    zero_shot = {field.name for field in dataclasses.fields(keras_bert.ZeroShot)}
    given_otherwise = {"zero_shot", "prompts", "default_prompt_name"}
    assert keys(annotations.PredictOptions) == head_options - of_translations - given_otherwise | zero_shot


def test_overloads_have_the_keywords_of_the_method():
    for name in ("predict", "fit"):
        method = getattr(LoadedBert, name)
        first, *_ = typing.get_overloads(method)
        assert keywords(first) == keywords(method)
    assert keywords(typing.get_overloads(keras_bert.load)[1]) == keywords(keras_bert.load)


def test_answers_have_the_documented_keys():
    """Those of the table in the guide."""
    page = (documents.ROOT / "docs/guides/checkpoints.md").read_text()
    _, _, table = page.partition("| head | a text is | fields |")
    table, _, _ = table.partition("\n\n")
    documented = set()
    for line in table.splitlines()[2:]:
        _, _, fields = line.split(" | ")
        documented.update(re.findall(r"`(\w+)`", fields))
    inner = keys(annotations.Entity) | keys(annotations.Fill) | {"replaced"}
    assert len(documented) > 12
    assert documented <= keys(annotations.Answer) | inner


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_a_type_checker_finds_mistakes_and_none_in_the_pages(tmp_path):
    """mypy takes half a minute; pyright, which brings a program of 100 MB, finds the same, see CONTRIBUTING.md."""
    (tmp_path / "mypy.ini").write_text(CONFIG)
    (tmp_path / "wrong.py").write_text(BEGIN + WRONG)
    for page in documents.PAGES:
        if documents.name(page).startswith(("README", "docs/tutorials")):
            codes = []
            for block in documents.blocks(page):
                if block.language == "python" and not block.title:
                    codes.append(block.code)
            (tmp_path / f"page_{page.stem}.py").write_text("\n".join(codes))
    command = [sys.executable, "-m", "mypy", "--config-file=mypy.ini", "--cache-dir=cache", "."]
    environment = {"MYPYPATH": str(documents.ROOT), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    found = set(re.findall(r"^([^/\n]\S*\.py):(\d+): error", done.stdout, re.MULTILINE))
    first = BEGIN.count("\n") + 2
    last = first + WRONG.count("\n") - 2
    assert found == {("wrong.py", str(line)) for line in range(first, last + 1)}, done.stdout
