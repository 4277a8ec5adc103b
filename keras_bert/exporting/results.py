"""The outputs of a signature as Python dicts, one per text: for `LoadedBert.predict` and for answers of a server."""

import numpy as np

_NONE = -1e30  # Lower scores of spans mean "none".


def results(outputs, rows, n_best=None):
    """Converts the outputs of a signature from `export` to dicts; `LoadedBert.predict` describes them.

    `rows` are dicts of texts. Without `n_best`, answers to questions have no list, and a mask all tokens.
    """
    each = ({name: values[index] for name, values in outputs.items()} for index in range(len(rows)))
    return [_result(output, row, n_best) for output, row in zip(each, rows, strict=True)]


def _result(output, row, n_best):
    convert = next((convert for names, convert in _RESULTS if names <= output.keys()), _numbers)
    return convert(output, row, n_best)


def _translation(output, row, n_best):
    texts, scores = _strings(output["translations"]), output["scores"].tolist()
    best = {"translation": texts[0], "score": scores[0]}
    if output["truncated"]:
        best["truncated"] = True
    if n_best:
        pairs = zip(texts[:n_best], scores, strict=False)
        best["translations"] = [{"translation": text, "score": score} for text, score in pairs]
    return best


def _classes(output, row, n_best):
    labels, probabilities = _strings(output["labels"]), output["probabilities"].tolist()
    scores = {"scores": dict(zip(labels, probabilities, strict=True))}
    if "logits" in output:
        scores["logits"] = output["logits"].tolist()
    if "predicted" in output:
        return {"labels": [label for label, is_in in zip(labels, output["predicted"], strict=True) if is_in], **scores}
    return {"label": labels[int(np.argmax(probabilities))], "score": max(probabilities), **scores}


def _entities(output, row, n_best):
    text = row["text"]
    characters = character_offsets(text)
    count = int(output["entity_count"])
    starts, ends = (characters[output[name][:count]].tolist() for name in ("entity_starts", "entity_ends"))
    types, scores = _strings(output["entity_types"][:count]), output["entity_scores"][:count].tolist()
    entities = [
        {"text": text[start:end], "label": label, "start": start, "end": end, "score": score}
        for start, end, label, score in zip(starts, ends, types, scores, strict=True)
    ]
    return {"entities": entities}


def _replaced(output, row, n_best):
    text, count = row["text"], int(output["token_count"])
    starts, ends = (character_offsets(text)[output[name][:count]].tolist() for name in ("starts", "ends"))
    replaced, scores = (output[name][:count].tolist() for name in ("replaced", "scores"))
    tokens = [
        {"text": text[start:end], "replaced": is_replaced, "start": start, "end": end, "score": score}
        for start, end, is_replaced, score in zip(starts, ends, replaced, scores, strict=True)
    ]
    return {"tokens": tokens}


def _answer(output, row, n_best):
    context = row["context"]
    characters = character_offsets(context)

    def span(start, end, **score):
        start, end = (int(characters[place]) if place >= 0 else -1 for place in (start, end))
        return {"answer": context[start:end], **score, "start": start, "end": end}

    if not {"scores", "probability"} & output.keys():  # Exported by an earlier version, without a list of answers.
        return span(output["start"], output["end"])
    *scores, null_score = _span_probabilities(output).tolist()
    best = span(output["start"], output["end"], score=scores[0] if output["start"] >= 0 else null_score)
    if "null_score" in output:
        best["null_score"] = null_score
    if n_best:
        spans = zip(output["starts"], output["ends"], scores, strict=True)
        best["answers"] = [span(start, end, score=score) for start, end, score in spans if start >= 0][:n_best]
    return best


def _span_probabilities(output):
    """Returns the probabilities of the spans and of no answer, which comes last, as in Google's n-best list."""
    scores = output.get("scores", output.get("score"))
    scores = np.append(scores, output.get("null_score", -np.inf)).astype("float64")
    powers = np.where(scores > _NONE, np.exp(scores - scores.max()), 0.0)
    if best := output.get("probability"):
        return powers * (best / powers[0 if output["start"] >= 0 else -1])
    return powers / max(powers.sum(), 1.0)  # Exported by an earlier version.


def _fills(output, row, n_best):
    count = int(output["mask_count"])
    tokens, probabilities = (output[name][:count, :n_best] for name in ("tokens", "probabilities"))
    fills = [
        [{"token": token, "score": score} for token, score in zip(_strings(words), scores.tolist(), strict=True)]
        for words, scores in zip(tokens, probabilities, strict=True)
    ]
    return {"fills": fills}


def _choice(output, row, n_best):
    return {"choice": int(output["choice"]), "scores": output["probabilities"].tolist()}


def _embedding(output, row, n_best):
    return {"embedding": output["embedding"]}


def _numbers(output, row, n_best):
    """Regression, which earlier versions exported as `score`, and next sentence."""
    return {"value" if name == "score" else name: value.tolist() for name, value in output.items()}


def character_offsets(text):
    """Returns the character offset of each byte offset of a text, including that of its end."""
    content = np.frombuffer(text.encode(errors="surrogatepass"), np.uint8)
    return np.cumsum(np.append(0, content & 0xC0 != 0x80))  # Continuation bytes of UTF-8 start with the bits 10.


def _strings(values):
    """Decodes an array of strings; those of a client are decoded already."""
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values]


# The outputs that tell what a signature answers, and what converts its answers; without any of them, `_numbers`.
_RESULTS = (
    ({"labels", "probabilities"}, _classes),
    ({"entities"}, _entities),
    ({"replaced"}, _replaced),
    ({"answer"}, _answer),
    ({"mask_count"}, _fills),
    ({"choice"}, _choice),
    ({"translation"}, _translation),
    ({"embedding"}, _embedding),
)
