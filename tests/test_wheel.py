"""The wheel in environments that have only the packages which it declares."""

import functools
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from packaging.requirements import Requirement

from pipelines.__main__ import commands

ROOT = pathlib.Path(__file__).parents[1]
QUICK_START = """
import keras_bert
bert = keras_bert.load("bert_tiny_books")
print(bert.predict("He opened the [MASK] and went out.")["fills"][0][0]["token"], bert.encode("A walk.").shape)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The folder of the package as pip installs it, without dependencies."""
    source = tmp_path_factory.mktemp("source")
    target = tmp_path_factory.mktemp("wheel")
    for name in ("keras_bert", "pipelines", "research", "saved_models"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "-q", "install", "--no-deps"]
    subprocess.run([*pip, "--target", target, source], check=True)
    return target


def requirements(distribution, extra):
    """Returns the names of the packages that a distribution and its requirements declare, with those of an extra."""
    names = {}
    waiting = [(distribution, extra)]
    while waiting:
        distribution, extra = waiting.pop()
        for line in distribution.requires or ():
            requirement = Requirement(line)
            key = (requirement.name, tuple(sorted(requirement.extras)))
            marker = requirement.marker
            is_needed = marker is None or marker.evaluate({"extra": extra})
            if is_needed and key not in names:
                names[key] = importlib.metadata.distribution(requirement.name)
                waiting += [(names[key], each) for each in requirement.extras or {""}]
    return names.values()


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Runs Python with the wheel and the packages that it and an extra declare; returns what is printed."""
    (own,) = importlib.metadata.distributions(path=[str(wheel)])
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    @functools.cache
    def packages(extra):
        """A folder with links to the packages."""
        folder = tmp_path_factory.mktemp("environment")
        files = {path.name: path for path in wheel.iterdir()}
        for distribution in requirements(own, extra):
            tops = {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}
            for top in tops:
                files[top] = distribution.locate_file(top)
        for name, path in files.items():
            (folder / name).symlink_to(path)
        return folder

    def run(extra, *arguments):
        env = {**os.environ, "PYTHONPATH": str(packages(extra)), "KERAS_BACKEND": "tensorflow"}
        call = [sys._base_executable, "-S", *arguments]  # -S: no packages but those of PYTHONPATH.
        return subprocess.run(call, capture_output=True, text=True, cwd=elsewhere, env=env)

    return run


def files_of(folder):
    """Returns the paths of all files of a folder, but for those behind links and what Python compiles."""
    paths = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(folder).as_posix() for path in paths}


@pytest.mark.slow
def test_its_files(wheel):
    """All files of the package, the commands, and the checkpoint that ships: no other package, nothing twice."""
    expected = files_of(ROOT / "keras_bert")
    for name in ("pipelines", "saved_models/bert_tiny_books"):
        expected |= {f"{name}/{path}" for path in files_of(ROOT / name)}
    assert files_of(wheel / "keras_bert") == expected
    tops = {path.name for path in wheel.iterdir() if not path.name.endswith("-info")}
    assert tops == {"bin", "keras_bert"}


@pytest.mark.slow
def test_its_metadata(wheel):
    """What the citation and the documentation say, too."""
    (own,) = importlib.metadata.distributions(path=[str(wheel)])
    metadata = own.metadata
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"  - name: {metadata['Author']}\n" in citation
    assert f"version: {metadata['Version']}\n" in citation
    for url in metadata.get_all("Project-URL"):
        _, _, doi = url.partition("https://doi.org/")
        assert doi in citation
    assert "Programming Language :: Python :: 3.11" in metadata.get_all("Classifier")
    page = (ROOT / "docs" / "install.md").read_text()
    extras = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert set(metadata.get_all("Provides-Extra")) == set(extras)


@pytest.mark.slow
def test_a_checkout_without_symbolic_links(tmp_path):
    """As Git writes them on Windows, text files: the models are installed, without commands."""
    for name in ("keras_bert", "pipelines", "saved_models"):
        ignored = shutil.ignore_patterns("__pycache__", "pipelines", "saved_models")
        shutil.copytree(ROOT / name, tmp_path / "source" / name, ignore=ignored)
    for name in ("pipelines", "saved_models"):
        (tmp_path / "source" / "keras_bert" / name).write_text(f"../{name}")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / "source")
    pip = [sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--target", tmp_path / "target"]
    subprocess.run([*pip, tmp_path / "source"], check=True)
    assert files_of(tmp_path / "target" / "keras_bert") == files_of(ROOT / "keras_bert")
    code = "import keras_bert; print(keras_bert.__file__, keras_bert.BERT_TINY.hidden_size)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "target")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.stdout == f"{tmp_path}/target/keras_bert/__init__.py 128\n", done.stderr


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_declared_packages_suffice(python, wheel):
    console = wheel / "bin" / "keras-bert"
    listed = re.findall(r"^  (\w+)", python("bare", console).stdout, re.MULTILINE)
    assert listed == sorted(commands())
    for name in listed:
        assert f"keras-bert {name} " in python("bare", console, name, "--help").stdout
    error = python("bare", "-c", QUICK_START).stderr
    assert "`keras_bert.load` needs tensorflow, which is not installed" in error
    assert error.count("\n") < 15
    done = python("tensorflow", "-c", QUICK_START)
    assert done.stdout == "door (256,)\n"
    assert done.stderr == ""  # TensorFlow says nothing at its start.
    done = python("tensorflow", console, "predict", "--model=bert_tiny_books", "He opened the [MASK] and went out.")
    assert done.stdout.startswith("door ")
    assert done.stderr == "starting TensorFlow ...\n"
