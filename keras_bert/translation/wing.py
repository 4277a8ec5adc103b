"""What the rest of the package knows of translation."""

from keras_bert.other_models import register_models


def answer(output, row, n_best):
    """Returns the translations of one text, see `LoadedTransformer.predict`."""
    from keras_bert.heads.answers import strings  # Needs NumPy, which `import keras_bert` does not.

    texts = strings(output["translations"])
    scores = output["scores"].tolist()
    best = {"translation": texts[0], "score": scores[0]}
    if output["truncated"]:
        best["truncated"] = True
    if n_best:
        translations = []
        for text, score in zip(texts[:n_best], scores[:n_best], strict=True):
            translations.append({"translation": text, "score": score})
        best["translations"] = translations
    return best


register_models(
    "keras_bert.translation",
    model_types=["marian"],
    names=["transformer"],
    answers={"translations": answer},
)
