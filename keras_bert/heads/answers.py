"""The outputs of signatures as Python dicts, one for each text: the `answer` of heads.

Without Keras, so that a program that asks a server starts at once.
"""

import numpy as np

from keras_bert.heads.answer_forms import are_scores
from keras_bert.text.token_counts import (
    RESERVED,
    STRONGEST,
    STRONGEST_END,
    STRONGEST_START,
    split_counts,
    with_counts,
)

CANDIDATES = 20  # Spans that share the probability of the answers to a question, as in Google's n-best list.
_NONE = -1e30  # Lower scores of spans mean "none".


def each_text(answer, outputs, rows, n_best=None):
    """Returns the answers to texts, `rows`, from the outputs of a signature for all of them.

    Without `n_best`, answers to questions have no list, and a mask all tokens. The numbers of tokens come last, if
    there are any: older exports have none.
    """
    outputs, counts = split_counts(outputs)
    answers = []
    for index, row in enumerate(rows):
        found = answer({name: values[index] for name, values in outputs.items()}, row, n_best)
        if not isinstance(found, dict):
            raise ValueError(f"`answer` of a head must return a dict, the fields by name. Received: {found!r:.100}")
        if counts:
            of_text = {name: int(values[index]) for name, values in counts.items()}
            found = with_counts(found, _in_characters(of_text, row))
        answers.append(found)
    return answers


def _in_characters(counts, row):
    """Returns what outputs tell about the tokens of a text, with the offsets of its strongest window in characters."""
    if STRONGEST_START not in counts:
        return counts
    text = row["text"] if "choices" in row else row[list(row)[-1]]  # Of a pair, the second one has windows.
    characters = character_offsets(text)
    strongest = {
        "start": int(characters[counts[STRONGEST_START]]),
        "end": int(characters[counts[STRONGEST_END]]),
    }
    others = {name: value for name, value in counts.items() if name not in (STRONGEST_START, STRONGEST_END)}
    return {**others, STRONGEST: strongest}


def flat(answer):
    """Returns an answer with a field `score_...` for each class in place of the dict `scores`, for tables.

    `scores` that are not a dict of numbers stay as they are.
    """
    scores = answer.get("scores")
    if not are_scores(scores) or any(f"score_{label}" in answer for label in scores):
        return answer
    columns = {}
    for name, value in answer.items():
        if name == "scores":
            columns.update({f"score_{label}": score for label, score in scores.items()})
        else:
            columns[name] = value
    return columns


def of_outputs(names):
    """Returns what converts the outputs of a server, which does not tell the head, only the names of outputs."""
    return next((convert for needed, convert in _BY_OUTPUTS if needed <= set(names)), plain)


def add_outputs(names, convert):
    """Adds what converts the outputs of signatures that have these."""
    _BY_OUTPUTS[:] = [(set(names), convert), *(known for known in _BY_OUTPUTS if known[0] != set(names))]


def check_outputs(names):
    """Raises for names of outputs that do not tell the signatures of a head from those of other heads."""
    if any(name in RESERVED for name in names):
        owner = "numbers of tokens"
    elif BUILT_IN_OUTPUTS.issuperset(names):
        owner = "built-in heads"
    else:
        return
    raise ValueError(
        "`outputs` of a head must be names of outputs that only its signatures have, and none of "
        f"{', '.join(RESERVED)}. Received: outputs={tuple(names)}, names of {owner}"
    )


def classes(output, row, n_best):
    labels, probabilities = strings(output["labels"]), output["probabilities"].tolist()
    scores = {"scores": dict(zip(labels, probabilities, strict=True))}
    if "logits" in output:
        scores["logits"] = output["logits"].tolist()
    if "predicted" in output:
        return {"labels": [label for label, is_in in zip(labels, output["predicted"], strict=True) if is_in], **scores}
    label = labels[int(np.argmax(probabilities))]
    if "answered" in output and not output["answered"]:
        label = None
    return {"label": label, "score": max(probabilities), **scores}


def entities(output, row, n_best):
    text = row["text"]
    characters = character_offsets(text)
    count = int(output["entity_count"])
    starts, ends = (characters[output[name][:count]].tolist() for name in ("entity_starts", "entity_ends"))
    types, scores = strings(output["entity_types"][:count]), output["entity_scores"][:count].tolist()
    found = [
        {"text": text[start:end], "label": label, "start": start, "end": end, "score": score}
        for start, end, label, score in zip(starts, ends, types, scores, strict=True)
    ]
    return {"entities": found}


def replaced(output, row, n_best):
    text, count = row["text"], int(output["token_count"])
    starts, ends = (character_offsets(text)[output[name][:count]].tolist() for name in ("starts", "ends"))
    flags, scores = (output[name][:count].tolist() for name in ("replaced", "scores"))
    tokens = [
        {"text": text[start:end], "replaced": flag, "start": start, "end": end, "score": score}
        for start, end, flag, score in zip(starts, ends, flags, scores, strict=True)
    ]
    return {"tokens": tokens}


def span(output, row, n_best):
    context = row["context"]
    characters = character_offsets(context)

    def found(start, end, **score):
        start, end = (int(characters[place]) if place >= 0 else -1 for place in (start, end))
        return {"answer": context[start:end], **score, "start": start, "end": end}

    *scores, null_score = _probabilities(output).tolist()
    best = found(output["start"], output["end"], score=scores[0] if output["start"] >= 0 else null_score)
    if "null_score" in output:
        best["null_score"] = null_score
    if n_best:
        spans = zip(output["starts"], output["ends"], scores, strict=True)
        best["answers"] = [found(start, end, score=score) for start, end, score in spans if start >= 0][:n_best]
    return best


def _probabilities(output):
    """Returns the probabilities of the spans and of no answer, which comes last, as in Google's n-best list."""
    scores = output.get("scores", output.get("score"))
    scores = np.append(scores, output.get("null_score", -np.inf)).astype("float64")
    powers = np.where(scores > _NONE, np.exp(scores - scores.max()), 0.0)
    best = powers[0 if output["start"] >= 0 else -1]
    if best:
        return powers * (output["probability"] / best)
    total = powers.sum()
    if not total:  # A context without a token, and no score of no answer.
        return powers
    return powers / total


def fills(output, row, n_best):
    count = int(output["mask_count"])
    rows = zip(output["tokens"][:count], output["probabilities"][:count], strict=True)  # REST: [] for no rows.
    best = [zip(strings(words[:n_best]), scores[:n_best].tolist(), strict=True) for words, scores in rows]
    return {"fills": [[{"token": token, "score": score} for token, score in pairs] for pairs in best]}


def choice(output, row, n_best):
    chosen = int(output["choice"])
    return {"choice": None if chosen < 0 else chosen, "scores": output["probabilities"].tolist()}


def embedding(output, row, n_best):
    return {"embedding": output["embedding"]}


def plain(output, row, n_best):
    """Numbers and strings by the names of the outputs."""
    return {name: _decoded(np.asarray(value).tolist()) for name, value in output.items()}


def _decoded(value):
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    return value.decode() if isinstance(value, bytes) else value


def character_offsets(text):
    """Returns the character offset of each byte offset of a text, including that of its end."""
    content = np.frombuffer(text.encode(errors="surrogatepass"), np.uint8)
    return np.cumsum(np.append(0, content & 0xC0 != 0x80))  # Continuation bytes of UTF-8 start with the bits 10.


def strings(values):
    """Decodes an array of strings; those of a client are decoded already."""
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values]


# The names of all outputs of the signatures of built-in heads.
BUILT_IN_OUTPUTS = frozenset(
    {
        *("label", "labels", "answered", "probabilities", "predicted", "logits", "value", "embedding", "choice"),
        *("entities", "entity_types", "entity_scores", "entity_starts", "entity_ends", "entity_count"),
        *("tokens", "tags", "scores", "starts", "ends", "token_count", "replaced", "mask_count"),
        *("answer", "answers", "probability", "score", "start", "end", "null_score"),
    }
)
# The outputs that tell what a signature answers, and what converts its answers.
_BY_OUTPUTS = [
    ({"labels", "probabilities"}, classes),
    ({"entities"}, entities),
    ({"replaced"}, replaced),
    ({"answer"}, span),
    ({"mask_count"}, fills),
    ({"choice"}, choice),
    ({"embedding"}, embedding),
]
