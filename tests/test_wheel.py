"""The wheel in environments that have only the packages which it declares."""

import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).parents[1]
QUICK_START = """
import keras_bert
bert = keras_bert.load("bert_tiny_books")
print(bert.predict("He opened the [MASK] and went out.")["fills"][0][0]["token"], bert.encode("A walk.").shape)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The folder of the package as pip installs it, without dependencies."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("keras_bert", "pipelines", "research", "saved_models"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
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
            if key not in names and (requirement.marker is None or requirement.marker.evaluate({"extra": extra})):
                names[key] = importlib.metadata.distribution(requirement.name)
                waiting += [(names[key], each) for each in requirement.extras or {""}]
    return names.values()


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Runs Python with the wheel and the packages that it and an extra declare; returns what is printed."""
    (own,) = importlib.metadata.distributions(path=[str(wheel)])
    folders = {}

    def run(extra, *arguments):
        if extra not in folders:
            folders[extra] = tmp_path_factory.mktemp("environment")
            files = {path.name: path for path in wheel.iterdir()}
            for distribution in requirements(own, extra):
                tops = {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}
                files |= {top: distribution.locate_file(top) for top in tops}
            for name, path in files.items():
                (folders[extra] / name).symlink_to(path)
        env = {**os.environ, "PYTHONPATH": str(folders[extra]), "KERAS_BACKEND": "tensorflow"}
        call = [sys._base_executable, "-S", *arguments]  # -S: no packages but those of PYTHONPATH.
        return subprocess.run(call, capture_output=True, text=True, cwd=folders[extra], env=env)

    return run


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_declared_packages_suffice(python, wheel):
    assert {path.name for path in wheel.iterdir() if not path.name.endswith("-info")} == {"bin", "keras_bert"}
    assert "keras-bert run_glue --task=" in python("bare", wheel / "bin" / "keras-bert", "run_glue", "--help").stdout
    error = python("bare", "-c", QUICK_START).stderr
    assert "`keras_bert.load` needs tensorflow, which is not installed" in error
    assert error.count("\n") < 15
    done = python("tensorflow", "-c", QUICK_START)
    assert (done.stdout, done.stderr) == ("door (256,)\n", "")  # TensorFlow says nothing at its start.
