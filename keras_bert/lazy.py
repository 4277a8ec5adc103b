"""Public names of a package that are imported on first use (PEP 562)."""

import importlib
import os
import pathlib
import re
import sys

from keras_bert.checks import similar
from keras_bert.extras import naming_extras
from keras_bert.quiet import quiet_start

# Modules of classes that `.keras` files may contain.
_SAVED = ("keras_bert.layers", "keras_bert.training.optimizer")
_SAVED_WITH_TENSORFLOW = ("keras_bert.text.preprocessor",)
_TRANSFORMERS = re.compile("from_pretrained|pipeline|load_model|get_model|Auto(Model|Tokenizer)|(TF)?Bert(Model|For)")
_ON_JAX = os.environ.get("KERAS_BACKEND") == "jax"
_ADVICE = (
    "" if _ON_JAX else ", or set the environment variable KERAS_BACKEND=jax for the models alone, which run on JAX"
)


def lazy_names(package, file):
    """Returns `__getattr__`, `__dir__` and `__all__` of a module.

    The names and their places are those of the stub beside it, `*.pyi`, which editors and type checkers read: lines
    `from module import name as name`. `package` is the name of the module, `file` its path.
    """
    stub = pathlib.Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    module_of = {name: module for module, name in re.findall(r"^from (\S+) import (\w+)", stub, re.MULTILINE)}
    names = sorted(module_of)

    def __getattr__(name):
        if name not in module_of:
            found = None if name.startswith("_") else similar(name, names)
            hint = f". Did you mean {found!r}?" if found else ""
            hint = ". keras_bert.load(path_or_name) opens a checkpoint" if _TRANSFORMERS.match(name) else hint
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}", name=name, obj=None)
        module = module_of[name]
        with naming_extras(f"`{package}.{name}`", _ADVICE), quiet_start():
            is_module = module == package
            value = importlib.import_module(f"{module}.{name}" if is_module else module)
            value = value if is_module else getattr(value, name)
            register_classes()
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__, lambda: names, names


def register_classes():
    """Tells Keras about the classes in `.keras` files. It is called with the first name that is used, not by a hook in
    the import of Keras, which takes seconds: most commands would wait for it in vain."""
    if "keras" not in sys.modules:
        return
    on_tensorflow = sys.modules["keras"].config.backend() == "tensorflow"
    for module in (*_SAVED, *(_SAVED_WITH_TENSORFLOW if on_tensorflow else ())):
        importlib.import_module(module)
