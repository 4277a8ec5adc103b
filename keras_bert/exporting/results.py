"""The outputs of a signature as Python dicts, one per text: for `LoadedBert.predict` and for answers of a server."""

import numpy as np

_NONE = -1e30  # Lower scores of spans mean "none".


def results(outputs, rows, n_best=None):
    """Converts the outputs of a signature from `export` to dicts; `LoadedBert.predict` describes them.

    Args:
        outputs: dict of NumPy arrays that start with the batch dimension.
        rows: list of dicts, the texts of each row by the names of the inputs.
        n_best: int, number of answers in the list that answers to questions contain, and of tokens for a mask. `None`,
            the default, adds no list and keeps all tokens.
    """
    each = ({name: values[index] for name, values in outputs.items()} for index in range(len(rows)))
    return [_result(output, row, n_best) for output, row in zip(each, rows, strict=True)]


def _result(output, row, n_best):
    names = output.keys()
    if {"labels", "probabilities"} <= names:
        return {**_classes(output), **({"logits": output["logits"].tolist()} if "logits" in names else {})}
    if "entities" in names:
        return {"entities": _entities(output, row["text"])}
    if "answer" in names:
        return _answer(output, row["context"], n_best)
    if "mask_count" in names:
        return {"fills": _fills(output, n_best)}
    if "choice" in names:
        return {"choice": int(output["choice"]), "scores": output["probabilities"].tolist()}
    if "translation" in names:
        return _translation(output, n_best)
    if "embedding" in names:
        return {"vector": output["embedding"]}
    return {"value" if name == "score" else name: value.tolist() for name, value in output.items()}


def _translation(output, n_best):
    texts, scores = _strings(output["translations"]), output["scores"].tolist()
    best = {"translation": texts[0], "score": scores[0]}
    if output["truncated"]:
        best["truncated"] = True
    if n_best:
        found = zip(texts[:n_best], scores, strict=False)
        best["translations"] = [{"translation": text, "score": score} for text, score in found]
    return best


def _classes(output):
    labels, probabilities = _strings(output["labels"]), output["probabilities"].tolist()
    scores = dict(zip(labels, probabilities, strict=True))
    if "predicted" in output:
        return {
            "labels": [label for label, is_in in zip(labels, output["predicted"], strict=True) if is_in],
            "scores": scores,
        }
    return {"label": labels[int(np.argmax(probabilities))], "score": max(probabilities), "scores": scores}


def _entities(output, text):
    characters = character_offsets(text)
    count = int(output["entity_count"])
    starts, ends = (characters[output[name][:count]].tolist() for name in ("entity_starts", "entity_ends"))
    types, scores = _strings(output["entity_types"][:count]), output["entity_scores"][:count].tolist()
    return [
        {"text": text[start:end], "label": label, "start": start, "end": end, "score": score}
        for start, end, label, score in zip(starts, ends, types, scores, strict=True)
    ]


def _answer(output, context, n_best):
    characters = character_offsets(context)

    def span(start, end, **score):
        start, end = (int(characters[place]) if place >= 0 else -1 for place in (start, end))
        return {"answer": context[start:end], **score, "start": start, "end": end}

    if "scores" not in output:  # Exported without a list of answers, which probabilities require.
        return span(output["start"], output["end"])
    *scores, null_score = _span_probabilities(output["scores"], output.get("null_score", -np.inf)).tolist()
    best = span(output["start"], output["end"], score=scores[0] if output["start"] >= 0 else null_score)
    if "null_score" in output:
        best["null_score"] = null_score
    if n_best:
        spans = zip(output["starts"], output["ends"], scores, strict=True)
        best["answers"] = [span(start, end, score=score) for start, end, score in spans if start >= 0][:n_best]
    return best


def _span_probabilities(scores, null_score):
    """Returns the softmax over the spans and no answer, which comes last, as in Google's n-best list."""
    scores = np.append(scores, null_score).astype("float64")
    powers = np.where(scores > _NONE, np.exp(scores - scores.max()), 0.0)
    return powers / max(powers.sum(), 1.0)


def _fills(output, n_best):
    count = int(output["mask_count"])
    tokens, probabilities = (output[name][:count, :n_best] for name in ("tokens", "probabilities"))
    return [
        [{"token": token, "score": score} for token, score in zip(_strings(words), scores.tolist(), strict=True)]
        for words, scores in zip(tokens, probabilities, strict=True)
    ]


def character_offsets(text):
    """Returns the character offset of each byte offset of a text, including that of its end."""
    content = np.frombuffer(text.encode(errors="surrogatepass"), np.uint8)
    return np.cumsum(np.append(0, content & 0xC0 != 0x80))  # Continuation bytes of UTF-8 start with the bits 10.


def _strings(values):
    """Decodes an array of strings; those of a client are decoded already."""
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values]
