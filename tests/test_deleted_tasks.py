"""A task can be deleted: its folder, its commands, its page and tests, and its lines in the lists. All else stays."""

import re
import shutil

import pytest

from tests import documents
from tests.pipelines.programs import run
from tests.test_wings import HERE

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]
ROOT = documents.ROOT
COPIED = ("keras_bert", "pipelines", "tests", "docs")
# They compare with every task of the package.
LINKED = ("research", "benchmarks", "saved_models")
LISTS = ("keras_bert/tasks/registry.py", "keras_bert/tasks/__init__.pyi", "mkdocs.yml")
# The commands of a task, and its page; the class is that in the list of tasks.
TASKS = {
    "tagging": (["run_tagging"], "entities", "TaggingTask"),
    "question_answering": (["run_squad", "score_squad"], "questions", "QuestionAnsweringTask"),
    "multiple_choice": (["run_multiple_choice"], "multiple_choice", "MultipleChoiceTask"),
    "embedding": (["run_embedding"], "embedding_training", "EmbeddingTask"),
}
IMPORT = """
import contextlib, importlib, io, pathlib, runpy, sys
for path in sorted(pathlib.Path("keras_bert").rglob("*.py")):
    importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
from pipelines.__main__ import commands
for name in commands():
    sys.argv[1:] = ["--help"]
    with contextlib.redirect_stdout(io.StringIO()) as page:
        runpy.run_module(f"pipelines.{name}", run_name="__main__", alter_sys=True)
    assert "--" in page.getvalue(), name
"""
# What walks the list of tasks, or names one. Of the documentation, the lists of the reference and of the commands.
KEPT = [
    "tasks/test_summary.py",
    "data/test_sources.py",
    "data/test_in_memory.py",
    "pipelines/test_early_checks.py",
    "test_documents.py",
]
CHOSEN = "not test_documents or every_public_name or commands_are_listed or links"
# Without all at once, as no task imports another.
ONCE = [
    "test_architecture.py",
    "pipelines/test_command.py",
    "tasks/test_base.py",
    "runs/test_saved_model_scores.py",
    "pipelines/test___main__.py",
    "runs/test_fit.py::test_weights_and_scores_are_those_of_the_command",
]
EACH = [[task] for task in TASKS]


@pytest.mark.parametrize("tasks", [*EACH, list(TASKS)], ids="-".join)
def test_everything_else_stays(tmp_path, tasks):
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=ignored)
    for name in LINKED:
        (tmp_path / name).symlink_to(ROOT / name)
    for path in [*ROOT.glob("*.*"), ROOT / "Makefile"]:
        if path.is_file():
            shutil.copy(path, tmp_path)
    shutil.rmtree(tmp_path / "tests" / "research")
    for task in tasks:
        delete(tmp_path, task, *TASKS[task])
    if len(tasks) == 1:
        tests = [f"tests/{name}" for name in KEPT]
    else:
        tests = [f"tests/{name}" for name in ONCE]
    flags = ["-q", "-n", "0", "-p", "no:cacheprovider", "-k", CHOSEN]
    run("pytest", *flags, *tests, before=HERE + IMPORT, cwd=tmp_path, PYTHONPATH=str(tmp_path))


def delete(root, task, commands, page, cls):
    """Deletes the files of a task, and its lines in lists."""
    for folder in (f"keras_bert/tasks/{task}", f"tests/tasks/{task}"):
        shutil.rmtree(root / folder)
    for command in commands:
        (root / f"pipelines/{command}.py").unlink()
        (root / f"tests/pipelines/test_{command}.py").unlink(missing_ok=True)
    (root / f"docs/tutorials/{page}.md").unlink()
    own = rf"\b{cls}\b|\bkeras_bert\.tasks\.{task}\b|: tutorials/{page}\.md$|^\| `({'|'.join(commands)})` \|"
    for name in LISTS:
        lines = (root / name).read_text().splitlines(keepends=True)
        kept = [line for line in lines if not re.search(own, line)]
        (root / name).write_text("".join(kept))
    # Tables and the reference are lists; prose loses its links.
    link = re.compile(rf"\[([^]]*)\]\([^)]*\b{page}\.md[^)]*\)")
    for path in [*(root / "docs").rglob("*.md"), root / "README.md"]:
        lines = path.read_text().splitlines(keepends=True)
        text = "".join(without_lists(lines, own))
        path.write_text(link.sub(r"\1", text))


def without_lists(lines, own):
    """Leaves out the lines of tables and of the reference that match, with the options of the latter."""
    kept = []
    is_deleted = False
    for line in lines:
        is_own = line.startswith(("|", ":::")) and re.search(own, line)
        is_option_of_deleted = is_deleted and line.startswith("    options:")
        is_deleted = is_own or is_option_of_deleted
        if not is_deleted:
            kept.append(line)
    return kept
