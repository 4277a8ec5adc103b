"""The steps of normalizers and pre-tokenizers other than BERT's, as `tokenizer.json` describes them. No TensorFlow.

Each step of these types is reproduced exactly; `Vocabulary` refuses all others. Those of a Unigram vocabulary are
SentencePiece's, whose op does them.
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
_STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}
# A Chinese character: the ranges of Hugging Face's library, which lack U+2B820 to U+2B91F of Google's program.
CHINESE = (
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b81f"
    "\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f])"
)
# White space in Unicode: characters, and a class of regular expressions without brackets.
WHITE_CHARACTERS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
WHITE_SPACE = "".join(rf"\x{{{ord(character):x}}}" for character in WHITE_CHARACTERS)
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


def unigram_steps(normalizer, pre_tokenizer):
    """Returns what a Unigram tokenizer does before its pieces: steps of a normalizer, and SentencePiece's table.

    White space at the ends and repeated spaces are removed, and a "▁" precedes each word: as in SentencePiece, by one
    of the two ways in which its vocabularies are converted. Without a table, characters are unchanged.
    """
    steps, words = parts(normalizer, "normalizers"), parts(pre_tokenizer, "pretokenizers")
    table = next((place for place, step in enumerate(steps) if step.get("type") == "Precompiled"), len(steps))
    is_metaspace = bool(words) and _is_metaspace(**words[-1])
    split = words[:-1] == [{"type": "WhitespaceSplit"}]
    rest = [step for step in steps[table + 1 :] if step != _STRIP]
    if not is_metaspace or len(words) - split != 1 or not (split or rest) or not _joins_spaces(rest):
        raise ValueError(
            "the normalizer or the pre-tokenizer of a Unigram vocabulary is not supported. Expected those of "
            "SentencePiece: Precompiled, and Metaspace after WhitespaceSplit or after Strip and Replace of spaces. "
            f"Received: {[step.get('type') for step in (*steps, *words)]}"
        )
    before = {"type": "Sequence", "normalizers": steps[:table]}
    return normalizer_steps(before), (steps[table].get("precompiled_charsmap") or "") if table < len(steps) else ""


def parts(values, key):
    """Returns the parts of a sequence as a flat list of dicts."""
    if isinstance(values, dict) and values.get("type") == "Sequence" and isinstance(values.get(key), list):
        return [step for part in values[key] for step in parts(part, key)]
    return [values] if isinstance(values, dict) else []


def _is_metaspace(type=None, replacement="▁", prepend_scheme="always", split=True, add_prefix_space=True, str_rep="▁"):
    always = prepend_scheme == "always" and split and add_prefix_space
    return type == "Metaspace" and replacement == str_rep == "▁" and always


def _joins_spaces(steps):
    return all(
        step.get("type") == "Replace"
        and step.get("pattern") == {"Regex": " {2,}"}
        and step.get("content") in (" ", "▁")
        for step in steps
    )


def changes_case(values):
    """Returns whether a normalizer changes texts to lower case."""
    return any(step.get("type") == "Lowercase" or step.get("lowercase") for step in parts(values, "normalizers"))


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
