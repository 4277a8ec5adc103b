"""What the rest of the package knows of translation."""

from keras_bert.other_models import register_models


def answer(output, row, n_best):
    """Returns the translations of one text, see `LoadedTransformer.predict`."""
    from keras_bert.heads.answers import strings  # Needs NumPy, which `import keras_bert` does not.

    texts, scores = strings(output["translations"]), output["scores"].tolist()
    best = {"translation": texts[0], "score": scores[0]}
    if output["truncated"]:
        best["truncated"] = True
    if n_best:
        pairs = zip(texts[:n_best], scores, strict=False)
        best["translations"] = [{"translation": text, "score": score} for text, score in pairs]
    return best


register_models(
    "keras_bert.translation",
    model_types=["marian"],
    names=["transformer"],
    answers={"translations": answer},
)
