"""The outputs of a translation signature as Python dicts. Without Keras, for programs that ask a server."""

from keras_bert.heads.answers import strings


def answer(output, row, n_best):
    """Returns the translations of one text, see `LoadedTransformer.predict`."""
    texts, scores = strings(output["translations"]), output["scores"].tolist()
    best = {"translation": texts[0], "score": scores[0]}
    if output["truncated"]:
        best["truncated"] = True
    if n_best:
        pairs = zip(texts[:n_best], scores, strict=False)
        best["translations"] = [{"translation": text, "score": score} for text, score in pairs]
    return best
