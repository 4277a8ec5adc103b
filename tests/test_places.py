"""The tests of a file stand at its path: `keras_bert/text/spans.py` is tested by `tests/text/test_spans.py`."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
# Folders of sources, and where their tests are.
TESTED = {
    "keras_bert": "tests",
    "pipelines": "tests/pipelines",
    "research": "tests/research",
}
# Sources without a test of their own, and what tests them instead.
WITHOUT = {
    "keras_bert/losses.py": "public names of training/losses.py",
    "keras_bert/runs/pretraining_report.py": "the whole report, in tests/pipelines/test_run_pretraining.py",
    "keras_bert/text/long_texts.py": "names of settings, which tests/heads/test_long_texts.py goes through",
    "keras_bert/version.py": "one string",
}
# Tests of no single source, and what they test together.
TOGETHER = {
    "tests/answering/test_captum.py": "explanations, beside captum",
    "tests/checkpoints/test_goldens.py": "readers, builders and heads, beside Google's and Hugging Face's programs",
    "tests/checkpoints/test_peft_peers.py": "adapters, beside peft",
    "tests/checkpoints/test_starting_models.py": "readers, tokenizers and heads of MPNet and RoBERTa",
    "tests/checkpoints/test_world.py": "readers, tokenizers and heads, on folders as the world keeps them",
    "tests/exporting/test_confidence.py": "a confidence in `predict`, `evaluate`, `fit` and every runtime",
    "tests/exporting/test_native.py": "exports in TensorFlow's C++ runtime",
    "tests/exporting/test_serving_batches.py": "signatures of every head, and recipes of the documentation",
    "tests/extending/test_files.py": "the user's files, and the guide that shows them",
    "tests/extending/test_intents_task.py": "a user's task, in all commands",
    "tests/extending/test_ordinal_head.py": "a user's head, in all commands",
    "tests/extending/test_ranking_head.py": "a user's head, in all commands",
    "tests/extending/test_relations_task.py": "a user's task, in all commands",
    "tests/extending/test_topics_head.py": "a user's head with two outputs, in all commands",
    "tests/layers/test_layers.py": "configs, outputs and refusals of all layers",
    "tests/models/test_optimizer.py": "both optimizers on every backend",
    "tests/research/test_public_face.py": "files of research, and the public names and commands that they use",
    "tests/runs/test_long_texts.py": "long texts, from `fit` to the SavedModel",
    "tests/runs/test_shared_program.py": "runs of one process, beside a process for each",
    "tests/serving/server/test_every_head.py": "the server, the client and the README's commands",
    "tests/serving/server/test_web_page.py": "the files of serving/server/page, in a browser",
    "tests/test_architecture.py": "the imports of all files",
    "tests/test_benchmarks.py": "the names that benchmarks take",
    "tests/test_conftest.py": "the fixtures of all tests",
    "tests/test_deleted_tasks.py": "the package without a task",
    "tests/test_documents.py": "the documentation",
    "tests/test_face.py": "the public names",
    "tests/test_places.py": "the places of tests",
    "tests/test_prose.py": "the prose of all files",
    "tests/test_wheel.py": "the wheel",
    "tests/test_wings.py": "the package without a wing",
    "tests/translation/test_model_peers.py": "encoder-decoders and their folders, beside transformers",
}


def place(source):
    """Returns the path of the test of a source."""
    folder, *parts = pathlib.PurePosixPath(source).parts
    tests = pathlib.PurePosixPath(TESTED[folder], *parts[:-1])
    return (tests / f"test_{parts[-1]}").as_posix()


def sources(root):
    """Returns the paths of the sources that need a test: all but those that list the names of a folder."""
    found = []
    for folder in TESTED:
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if path.name != "__init__.py" and not name.startswith("keras_bert/pipelines/"):  # A link.
                found.append(name)
    return found


def files_with_tests(root):
    """Returns the paths of the files with tests."""
    return [path.relative_to(root).as_posix() for path in sorted((root / "tests").rglob("test_*.py"))]


def test_every_source_has_a_test_at_its_path():
    existing = set(files_with_tests(ROOT))
    untested = [source for source in sources(ROOT) if place(source) not in existing]
    assert untested == sorted(WITHOUT)


def test_every_test_names_its_source():
    places = {place(source) for source in sources(ROOT)}
    homeless = [test for test in files_with_tests(ROOT) if test not in places]
    assert homeless == sorted(TOGETHER)


@pytest.mark.parametrize(
    ("source", "test"),
    [
        ("keras_bert/files.py", "tests/test_files.py"),
        ("keras_bert/tasks/tagging/conll.py", "tests/tasks/tagging/test_conll.py"),
        ("pipelines/predict.py", "tests/pipelines/test_predict.py"),
        ("research/rivals/flags.py", "tests/research/rivals/test_flags.py"),
    ],
)
def test_the_place_of_a_test(source, test):
    assert place(source) == test
