"""The steps of normalizers and pre-tokenizers other than BERT's, as `tokenizer.json` describes them. No TensorFlow.

Each step of these types is reproduced exactly; `Vocabulary` refuses all others.
"""

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
BEHAVIORS = ("Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext")
# Types, with their settings if they have any.
_NORMALIZERS = {
    **dict.fromkeys((*FORMS, "Lowercase", "StripAccents")),
    "BertNormalizer": ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"),
    "Replace": ("pattern", "content"),
}
_PRE_TOKENIZERS = {
    **dict.fromkeys(("BertPreTokenizer", "Whitespace", "WhitespaceSplit")),
    "Punctuation": ("behavior",),
    "Digits": ("individual_digits",),
}
_RESERVED = "\0\1\ufdd0"  # The tokenizer replaces the first two by the third.


def normalizer_steps(values):
    """Returns the steps of a normalizer, its dict in `tokenizer.json`, as a flat list of dicts."""
    steps = _flat("normalizer", values, "normalizers", _NORMALIZERS)
    for step in steps:
        if step["type"] == "Replace" and not _is_replacement(**step):
            raise ValueError(
                "`normalizer` has a step Replace that is not supported. Expected strings without NUL, as "
                f"`pattern` a String. Received: {step}"
            )
    return steps


def _is_replacement(pattern=None, content=None, **others):
    string = pattern.get("String") if isinstance(pattern, dict) else None
    if not isinstance(string, str) or not isinstance(content, str) or not string:
        return False
    return set(_RESERVED).isdisjoint(string + content)


def pre_tokenizer_steps(values):
    """Returns the steps of a pre-tokenizer, its dict in `tokenizer.json`, as a flat list of dicts."""
    steps = _flat("pre_tokenizer", values, "pretokenizers", _PRE_TOKENIZERS)
    for step in steps:
        if step["type"] == "Punctuation" and step.get("behavior", "Isolated") not in BEHAVIORS:
            raise ValueError(
                f"`pre_tokenizer` has a step Punctuation whose `behavior` is none of {', '.join(BEHAVIORS)}. "
                f"Received: {step}"
            )
    return steps


def changes_case(values):
    """Returns whether a normalizer changes texts to lower case."""
    return any(step["type"] == "Lowercase" or step.get("lowercase") for step in normalizer_steps(values))


def _flat(name, values, key, types):
    if isinstance(values, dict) and values.get("type") == "Sequence" and isinstance(values.get(key), list):
        return [step for part in values[key] for step in _flat(name, part, key, types)]
    kind = values.get("type") if isinstance(values, dict) else None
    if not isinstance(kind, str) or kind not in types or not set(values) <= {"type", *(types[kind] or ())}:
        raise ValueError(
            f"`{name}` has a step that is not supported. Expected {', '.join(types)}, or a Sequence of them. "
            f"Received: {values!r:.200}"
        )
    return [values]
