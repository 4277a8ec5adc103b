"""Layer configs."""

import inspect


class Configured:
    """Mixin for layers whose config contains the arguments of `__init__`, each stored under its own name."""

    def get_config(self):
        kinds = [
            kind for kind in reversed(type(self).__mro__) if issubclass(kind, Configured) and "__init__" in vars(kind)
        ]
        names = [name for kind in kinds for name in inspect.signature(kind.__init__).parameters]
        arguments = {
            name: getattr(self, name) for name in names if name not in ("self", "kwargs") and hasattr(self, name)
        }
        return {**super().get_config(), **arguments}
