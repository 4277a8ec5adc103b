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
        outputs_of_text = {name: values[index] for name, values in outputs.items()}
        fields = answer(outputs_of_text, row, n_best)
        if not isinstance(fields, dict):
            raise ValueError(f"`answer` of a head must return a dict, the fields by name. Received: {fields!r:.100}")
        if counts:
            counts_of_text = {name: int(values[index]) for name, values in counts.items()}
            fields = with_counts(fields, _in_characters(counts_of_text, row))
        answers.append(fields)
    return answers


def _in_characters(counts, row):
    """Returns what outputs tell about the tokens of a text, with the offsets of its strongest window in characters."""
    if STRONGEST_START not in counts:
        return counts
    if "choices" in row:
        text = row["text"]
    else:
        text = row[list(row)[-1]]  # Of a pair, the second one has windows.
    characters = character_offsets(text)
    converted = dict(counts)
    start = converted.pop(STRONGEST_START)
    end = converted.pop(STRONGEST_END)
    converted[STRONGEST] = {"start": int(characters[start]), "end": int(characters[end])}
    return converted


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
            for label, score in scores.items():
                columns[f"score_{label}"] = score
        else:
            columns[name] = value
    return columns


def of_outputs(names):
    """Returns what converts the outputs of a server, which does not tell the head, only the names of outputs."""
    names = set(names)
    for needed, convert in CONVERTERS:
        if needed <= names:
            return convert
    return plain


def add_outputs(names, convert):
    """Adds what converts the outputs of signatures that have these."""
    others = [known for known in CONVERTERS if known[0] != set(names)]
    CONVERTERS[:] = [(set(names), convert), *others]


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
    """A label or labels with the scores of all."""
    labels = strings(output["labels"])
    probabilities = output["probabilities"].tolist()
    scores = {"scores": dict(zip(labels, probabilities, strict=True))}
    if "logits" in output:
        scores["logits"] = output["logits"].tolist()
    if "predicted" in output:
        predicted = []
        for label, is_predicted in zip(labels, output["predicted"], strict=True):
            if is_predicted:
                predicted.append(label)
        return {"labels": predicted} | scores
    label = labels[int(np.argmax(probabilities))]
    if "answered" in output and not output["answered"]:
        label = None
    return {"label": label, "score": max(probabilities)} | scores


def entities(output, row, n_best):
    """The entities of a text."""
    text = row["text"]
    characters = character_offsets(text)
    count = int(output["entity_count"])
    starts = characters[output["entity_starts"][:count]].tolist()
    ends = characters[output["entity_ends"][:count]].tolist()
    types = strings(output["entity_types"][:count])
    scores = output["entity_scores"][:count].tolist()
    answers = []
    for start, end, label, score in zip(starts, ends, types, scores, strict=True):
        answers.append({"text": text[start:end], "label": label, "start": start, "end": end, "score": score})
    return {"entities": answers}


def replaced(output, row, n_best):
    """The tokens of a text, and whether each was replaced."""
    text = row["text"]
    characters = character_offsets(text)
    count = int(output["token_count"])
    starts = characters[output["starts"][:count]].tolist()
    ends = characters[output["ends"][:count]].tolist()
    flags = output["replaced"][:count].tolist()
    scores = output["scores"][:count].tolist()
    tokens = []
    for start, end, flag, score in zip(starts, ends, flags, scores, strict=True):
        tokens.append({"text": text[start:end], "replaced": flag, "start": start, "end": end, "score": score})
    return {"tokens": tokens}


def span(output, row, n_best):
    """The answer to a question, and with `n_best` a list of several."""
    context = row["context"]
    characters = character_offsets(context)

    def answer_at(start, end, score):
        if start < 0:  # No answer.
            return {"answer": "", "score": score, "start": -1, "end": -1}
        first = int(characters[start])
        last = int(characters[end])
        return {"answer": context[first:last], "score": score, "start": first, "end": last}

    *scores, null_score = _probabilities(output).tolist()
    best_score = scores[0] if output["start"] >= 0 else null_score
    best = answer_at(output["start"], output["end"], best_score)
    if "null_score" in output:
        best["null_score"] = null_score
    if n_best:
        answers = []
        for start, end, score in zip(output["starts"], output["ends"], scores, strict=True):
            if start >= 0:
                answers.append(answer_at(start, end, score))
        best["answers"] = answers[:n_best]
    return best


def _probabilities(output):
    """Returns the probabilities of the spans and of no answer, which comes last, as in Google's n-best list."""
    span_scores = output["scores"] if "scores" in output else output.get("score")
    scores = np.append(span_scores, output.get("null_score", -np.inf)).astype("float64")
    powers = np.where(scores > _NONE, np.exp(scores - scores.max()), 0.0)
    power_of_answer = powers[0] if output["start"] >= 0 else powers[-1]
    if power_of_answer:
        return powers * (output["probability"] / power_of_answer)
    total = powers.sum()
    if not total:  # A context without a token, and no score of no answer.
        return powers
    return powers / total


def fills(output, row, n_best):
    """The tokens for each mask of a text, the most probable ones first."""
    count = int(output["mask_count"])
    # REST: [] for no masks.
    words_of_masks = output["tokens"][:count]
    probabilities_of_masks = output["probabilities"][:count]
    masks = []
    for words, probabilities in zip(words_of_masks, probabilities_of_masks, strict=True):
        tokens = strings(words[:n_best])
        scores = probabilities[:n_best].tolist()
        pairs = zip(tokens, scores, strict=True)
        masks.append([{"token": token, "score": score} for token, score in pairs])
    return {"fills": masks}


def choice(output, row, n_best):
    """The number of the choice, `None` for none, and the scores of all."""
    chosen = int(output["choice"])
    return {"choice": None if chosen < 0 else chosen, "scores": output["probabilities"].tolist()}


def embedding(output, row, n_best):
    return {"embedding": output["embedding"]}


def plain(output, row, n_best):
    """Numbers and strings by the names of the outputs."""
    fields = {}
    for name, value in output.items():
        fields[name] = without_bytes(np.asarray(value).tolist())
    return fields


def without_bytes(value):
    """Returns nested values with strings in place of bytes."""
    if isinstance(value, list):
        return [without_bytes(part) for part in value]
    if isinstance(value, bytes):
        return value.decode()
    return value


def character_offsets(text):
    """Returns the character offset of each byte offset of a text, including that of its end."""
    content = np.frombuffer(text.encode(errors="surrogatepass"), np.uint8)
    return np.cumsum(np.append(0, content & 0xC0 != 0x80))  # Continuation bytes of UTF-8 start with the bits 10.


def strings(values):
    """Decodes an array of strings; those of a client are decoded already."""
    decoded = []
    for value in values:
        decoded.append(value.decode() if isinstance(value, bytes) else str(value))
    return decoded


# The names of all outputs of the signatures of built-in heads.
_OF_CLASSES = ("label", "labels", "answered", "probabilities", "predicted", "logits")
_OF_TEXTS = ("value", "embedding", "choice")
_OF_WORDS = ("tokens", "tags", "scores", "starts", "ends", "token_count", "replaced", "mask_count")
_OF_ENTITIES = (
    "entities",
    "entity_types",
    "entity_scores",
    "entity_starts",
    "entity_ends",
    "entity_count",
)
_OF_SPANS = ("answer", "answers", "probability", "score", "start", "end", "null_score")
BUILT_IN_OUTPUTS = frozenset(_OF_CLASSES + _OF_TEXTS + _OF_WORDS + _OF_ENTITIES + _OF_SPANS)
# The outputs that tell what a signature answers, and what converts its answers.
CONVERTERS = [
    ({"labels", "probabilities"}, classes),
    ({"entities"}, entities),
    ({"replaced"}, replaced),
    ({"answer"}, span),
    ({"mask_count"}, fills),
    ({"choice"}, choice),
    ({"embedding"}, embedding),
]
