"""The message of a model on token ids that is given texts."""

import functools

import numpy as np

# Keras' own message prints all texts and names no way out. A subclass of `keras.Model` would say it better, but the
# models of this package are plain functional ones, which load anywhere; so these methods of the object are wrapped. A
# model that Keras loads or clones does without. It can go when Keras calls something of the model before it reads data.
_METHODS = ("fit", "evaluate", "predict")


def check_texts(model):
    """Makes the methods of a model that take data refuse texts with one line."""
    for name in _METHODS:
        setattr(model, name, _checked(getattr(model, name), name))


def _checked(method, name):
    @functools.wraps(method)
    def checked(x=None, *args, **kwargs):
        for part in x.values() if isinstance(x, dict) else x if isinstance(x, tuple) else (x,):
            column = isinstance(part, list | np.ndarray) or hasattr(part, "to_numpy")  # A Series.
            first = next(iter(part[:1] if column else [part]), None)
            if isinstance(first, str | bytes):
                raise ValueError(
                    f"`{name}` of a model on token ids takes no texts. Expected what "
                    "`bert.preprocessor(sequence_length)` returns for them, best in `tf.data.Dataset.map`; or "
                    "`bert.fit` and `bert.predict` of "
                    f"`keras_bert.load`, which take texts. Received: {str(first)!r:.50}"
                )
        return method(x, *args, **kwargs)

    return checked
