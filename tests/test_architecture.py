"""Layers of the package: which room may import which. Imports are read from the source without running it."""

import ast
import functools
import graphlib
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]

# The floors, from the ground up: a room imports itself and lower floors.
FLOORS = [
    ["annotations", "checks", "files", "memory", "processor", "progress", "version", "wire_format"],
    ["imports", "other_models"],
    ["config", "metadata", "similarity", "layers"],
    ["text"],
    ["data", "settings"],
    ["training"],
    ["reports", "models", "corpus"],
    ["heads"],
    ["rewirings"],
    ["pretraining", "tasks"],
    ["checkpoints"],
    ["exporting"],
    ["answering"],
    ["runs"],
    ["bert"],
    ["search", "testing", "translation"],
]
# Rooms on lower floors that a room must not import nevertheless.
APART = {
    "models": ["text", "data", "training"],
    "heads": ["data", "training", "corpus", "reports"],
    "rewirings": ["text", "data", "training", "corpus", "reports"],
    "text": ["config", "layers", "memory", "metadata", "similarity"],
    "data": ["config", "layers", "metadata", "similarity"],
    "training": ["config", "layers", "metadata", "similarity", "text"],
    "reports": ["config", "layers", "metadata", "similarity", "text", "data", "training"],
}


def lower_rooms():
    """Returns which rooms each room may import: those of lower floors, but for those that it is apart from."""
    allowed = {}
    below = set()
    for floor in FLOORS:
        for room in floor:
            allowed[room] = sorted(below.difference(APART.get(room, ())))
        below.update(floor)
    return allowed


ROOMS = lower_rooms()
# Separate: implements the protocol of TensorFlow Serving, independent of BERT.
ROOMS["serving"] = ["files", "imports"]
ROOMS["testing"].append("serving")  # A head answers over a server, too.
# The public face and a module of it, whose names are imported on first use.
ROOMS |= {"": ["imports", "processor", "version"], "losses": ["imports"]}
STANDARD = sys.stdlib_module_names
# Rooms with restricted third-party imports, and the packages that they may import.
THIRD_PARTY = {
    **dict.fromkeys(["annotations", "checks", "config", "files", "memory", "metadata", "version", "wire_format"], ()),
    "imports": ("tensorflow",),
    "layers": ("keras",),
}
# Modules with lazy imports.
IMPORTLIB = {"keras_bert/__init__.py", "keras_bert/imports.py"}
# Files with imports that are not allowed in their room.
EXCEPTIONS = {("keras_bert/layers/graphs.py", "tensorflow"), ("keras_bert/layers/graphs.py", "tensorflow.python")}
# Optional dependencies, imported where they are used; so are the modules that need TensorFlow.
OPTIONAL = {"tensorflow", "tensorflow_text", "keras_hub", "huggingface_hub", "tensorflow_datasets", "apache_beam"}
OPTIONAL |= {"pandas", "pyarrow", "scipy", "sklearn", "wandb", "mlflow", "jax"}
NEED_TENSORFLOW = [
    "keras_bert.answering.answerer.",
    "keras_bert.answering.explainer.",
    "keras_bert.answering.input_rows.",
    "keras_bert.answering.row_answers.",
    "keras_bert.heads.answers.",  # By the face, which needs no NumPy.
    "keras_bert.runs.fit",
    "keras_bert.text.lossless.",
    "keras_bert.text.new_words.",
    "keras_bert.text.preprocessor.",
    "keras_bert.text.signatures.",
    "keras_bert.translation.signature.",
]
for path in (ROOT / "keras_bert" / "heads").glob("*_signatures.py"):
    NEED_TENSORFLOW.append(f"keras_bert.heads.{path.stem}")
for path in (ROOT / "keras_bert" / "text").glob("*_tokenizer.py"):
    NEED_TENSORFLOW.append(f"keras_bert.text.{path.stem}.")
# Each needs other packages.
TRANSPORTS = ["keras_bert.serving.rest_client.", "keras_bert.serving.rpc_client.", "keras_bert.serving.server."]
CONVERTERS = ["keras_bert.exporting.onnx_export."]
IMPORTED_INSIDE = tuple(NEED_TENSORFLOW + TRANSPORTS + CONVERTERS)


def violations(root):
    """Returns the forbidden imports of a tree, one line each."""
    found = []
    for path in sorted((root / "keras_bert").rglob("*.py")):
        found += violations_of(path, root)
    for path in sorted((root / "pipelines").glob("*.py")):
        for line, module, _ in imports(path):
            if module.startswith("pipelines.") and module != "pipelines.common_flags":
                found.append(f"{path.relative_to(root)}:{line}: a pipeline imports {module}")
    return found + circles(root)


def violations_of(path, root):
    """Returns the forbidden imports of a file of the package, one line each."""
    name = path.relative_to(root).as_posix()
    room = room_of(path.relative_to(root / "keras_bert"))
    if room not in ROOMS:
        return [f"{name}: no such room"]
    found = []
    for line, module, inside in imports(path):
        package = ".".join(module.split(".")[:2])
        if (name, package) not in EXCEPTIONS:
            found += [f"{name}:{line}: {error}" for error in judge(room, module, inside)]
    if name not in IMPORTLIB and re.search(r"\bimport_module\(|\b__import__\(", path.read_text()):
        found.append(f"{name}: imports a module by its name")
    return found


def room_of(path):
    """Returns the room of a file, by its path in the package; "" for the face."""
    parts = path.with_suffix("").parts
    if parts == ("__init__",):
        return ""
    return parts[0]


def circles(root):
    """Returns modules that import each other, directly or through others, at their top or inside functions."""
    modules = {}
    for path in sorted((root / "keras_bert").rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        modules[name.removesuffix(".__init__")] = path
    graph = {}
    for name, path in modules.items():
        graph[name] = []
        for _, imported, _ in imports(path):
            for target in (imported, imported.rpartition(".")[0]):
                # A package imports its own modules, and a module of a package does not import the package.
                is_own = target == name or name.startswith(f"{target}.")
                if target in modules and not is_own:
                    graph[name].append(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [f"a circle of imports: {' -> '.join(error.args[1])}"]
    return []


def judge(room, module, inside):
    """Yields what is wrong with an import of a module by a room."""
    package, _, target = module.partition(".")
    if module.endswith(".*"):
        yield "import *"
    if inside and package not in OPTIONAL and not module.startswith(IMPORTED_INSIDE):
        yield f"{module} is imported inside a function"
    if package == "keras_bert":
        target_room = target.split(".")[0]
        if target_room == "" or target_room not in (room, *ROOMS[room]):
            yield f"{room or 'the face'} imports {module}"
    elif package == "pipelines" or (room in THIRD_PARTY and package not in STANDARD.union(THIRD_PARTY[room])):
        yield f"{room} imports {module}"


@functools.cache
def imports(path):
    """Returns (line, dotted name, whether inside a function) for every import of a file."""
    tree = ast.parse(path.read_text())
    inner = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner.update(id(child) for child in ast.walk(node))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            base = ""
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            base = f"{node.module}."
        elif isinstance(node, ast.ImportFrom):
            base = f"keras_bert.<relative>{node.module or ''}."
        else:
            continue
        for name in node.names:
            found.append((node.lineno, base + name.name, id(node) in inner))
    return found


def test_rooms_only_import_lower_floors():
    assert violations(ROOT) == []


def test_the_documented_floors_are_those_of_this_test():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", page, re.MULTILINE)
    documented = {int(floor): re.findall(r"`(\w+)`", rooms) for floor, rooms in rows}
    pipelines = documented.pop(len(FLOORS) + 1)
    assert pipelines == ["pipelines"]
    assert [documented[floor] for floor in sorted(documented)] == FLOORS


def test_graphs_are_traced_without_autograph():
    """No function needs it, and converting them all takes a quarter of the time until the first step."""
    graphs = 0
    for path in [*(ROOT / "keras_bert").rglob("*.py"), *(ROOT / "pipelines").glob("*.py")]:
        text = path.read_text()
        if "tf.function" not in text:
            continue
        nodes = list(ast.walk(ast.parse(text)))
        keywords_of_calls = {id(node.func): node.keywords for node in nodes if isinstance(node, ast.Call)}
        for node in nodes:
            is_function = isinstance(node, ast.Attribute) and node.attr == "function"
            if is_function and ast.unparse(node) == "tf.function":
                graphs += 1
                keywords = keywords_of_calls.get(id(node), [])
                assert "autograph=False" in map(ast.unparse, keywords), f"{path}:{node.lineno}"
    assert graphs > 5


CHANGING_CALL = re.compile(r"(vars\(.*\)|.*\.__dict__)\.update|object\.__setattr__")


def patches(source):
    """Returns the lines that give an object other attributes than it was made with, past its class."""
    nodes = list(ast.walk(ast.parse(source)))
    return [node.lineno for node in nodes if is_patch(node)]


def is_patch(node):
    if isinstance(node, ast.Call):
        return CHANGING_CALL.fullmatch(ast.unparse(node.func)) is not None
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    else:
        targets = []
    return any(isinstance(target, ast.Attribute) and target.attr == "__dict__" for target in targets)


def test_objects_are_whole_when_they_are_made():
    """What changes is an argument, a property or a new object."""
    found = set()
    for folder in ("keras_bert", "pipelines", "research"):
        for path in (ROOT / folder).rglob("*.py"):
            if patches(path.read_text(encoding="utf-8")):
                found.add(path.relative_to(ROOT).as_posix())
    assert found == set()


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("self.__dict__ = other.__dict__", [1]),
        ("vars(self).update(vars(other), name=1)", [1]),
        ("self.__dict__.update(state)", [1]),
        ("object.__setattr__(self, 'name', 1)", [1]),
        ("facts = dict(vars(self))\nfacts.update(other)", []),
        ("copied = object.__new__(type(self))\ncopied.name = self.name", []),
    ],
)
def test_only_patches_are_found(line, lines):
    assert patches(line) == lines


FORBIDDEN = [
    ("layers/a.py", "import tensorflow as tf", "layers imports tensorflow"),
    ("layers/a.py", "import numpy as np", "layers imports numpy"),
    ("layers/a.py", "from keras_bert.models import encoder", "layers imports keras_bert.models.encoder"),
    ("config.py", "import keras", "config imports keras"),
    ("tasks/a.py", "from keras_bert.checkpoints import load", "tasks imports keras_bert.checkpoints"),
    ("runs/a.py", "from keras_bert.search import index", "runs imports keras_bert.search"),
    ("search/a.py", "from keras_bert.translation import task", "search imports keras_bert.translation"),
    ("models/a.py", "from keras_bert.layers import *", "import *"),
    ("models/a.py", "def f():\n    import json", "json is imported inside a function"),
    ("models/a.py", "from . import encoder", "models imports keras_bert.<relative>"),
    ("models/a.py", "from pipelines import common_flags", "models imports pipelines"),
    ("models/a.py", "importlib.import_module(name)", "models/a.py: imports a module by its name"),
    ("attic/a.py", "import keras", "no such room"),
    ("serving/a.py", "from keras_bert.text import packing", "serving imports keras_bert.text.packing"),
    ("../pipelines/run_a.py", "from pipelines import run_b", "a pipeline imports pipelines.run_b"),
]
ALLOWED = [
    ("layers/a.py", "import math\nimport keras\nfrom keras_bert.layers.b import c"),
    ("checkpoints/a.py", "import numpy\nfrom keras_bert.text.vocabulary import Vocabulary"),
    ("checkpoints/a.py", "def f():\n    import tensorflow as tf"),
    ("../pipelines/run_a.py", "import keras_bert\nfrom pipelines import common_flags"),
]


def write_file(root, file, code):
    """Writes a file of the package."""
    (root / "keras_bert").mkdir()
    path = root / "keras_bert" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{code}\n")


@pytest.mark.parametrize(("file", "code", "message"), FORBIDDEN)
def test_a_forbidden_import_is_found(tmp_path, file, code, message):
    write_file(tmp_path, file, code)
    (found,) = violations(tmp_path)
    assert message in found


@pytest.mark.parametrize(("file", "code"), ALLOWED)
def test_allowed_imports(tmp_path, file, code):
    write_file(tmp_path, file, code)
    assert violations(tmp_path) == []


@pytest.mark.parametrize("before", ["", "def f():\n    "])
def test_a_circular_import_within_a_room_is_found(tmp_path, before):
    (tmp_path / "keras_bert" / "text").mkdir(parents=True)
    for name, other in ("ab", "bc", "ca"):
        line = f"{before}from keras_bert.text.{other} import thing\n"
        (tmp_path / "keras_bert" / "text" / f"{name}.py").write_text(line)
    (found,) = circles(tmp_path)
    assert found.startswith("a circle of imports: keras_bert.text.")
