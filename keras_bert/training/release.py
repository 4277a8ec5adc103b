"""Memory of models that are no longer needed."""

import contextlib
import gc

from tensorflow.python.framework import ops

_PREFIX = "CustomGradient-"


@contextlib.contextmanager
def releasing_graphs():
    """Frees what was trained inside, graphs and weights, once nothing else holds it.

    TensorFlow registers the gradient function of every custom gradient that a graph has, for ever, and that function
    holds the graph, which holds the weights: a model trained after another would find less memory each time. Models
    from inside can be used after it, but no longer differentiated in new graphs.
    """
    registry = ops.gradient_registry._registry
    before = {name for name in registry if name.startswith(_PREFIX)}
    try:
        yield
    finally:
        for name in [name for name in registry if name.startswith(_PREFIX) and name not in before]:
            del registry[name]
        gc.collect()
