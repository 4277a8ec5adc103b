"""What the rest of the package knows of translation."""

from keras_bert.other_models import register_models


def _answer(output, row, n_best):
    from keras_bert.translation.answer import answer  # Needs NumPy, which `import keras_bert` does not.

    return answer(output, row, n_best)


register_models(
    "keras_bert.translation",
    model_types=["marian"],
    names=["transformer"],
    answers={"translations": _answer},
)
