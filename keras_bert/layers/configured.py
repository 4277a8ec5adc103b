"""Configs of layers."""

import inspect


class Configured:
    """Mixed into layers whose config is the arguments of `__init__`, each an attribute of its name."""

    def get_config(self):
        kinds = [
            kind for kind in reversed(type(self).__mro__) if issubclass(kind, Configured) and "__init__" in vars(kind)
        ]
        names = [name for kind in kinds for name in inspect.signature(kind.__init__).parameters]
        arguments = {
            name: getattr(self, name) for name in names if name not in ("self", "kwargs") and hasattr(self, name)
        }
        return {**super().get_config(), **arguments}
