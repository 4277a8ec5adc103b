"""Public names of a package that are imported on first use (PEP 562)."""

import importlib
import sys


def lazy_names(package, modules):
    """Returns the `__getattr__` of a package.

    Args:
        package: str, the name of the package.
        modules: dict of the modules in the package, by the public names that they define.
    """

    def __getattr__(name):
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__
