"""The steps of normalizers and pre-tokenizers other than BERT's, as `tokenizer.json` describes them. No TensorFlow.

Each step of these types is reproduced exactly; `Vocabulary` refuses all others. Those of a Unigram vocabulary are
SentencePiece's, whose op does them.
"""

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
BEHAVIORS = ("Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext")
# Types of steps, with the names of their settings. `graph_steps` has a case for each, and a stage for one that is not
# of each character alone. WordPiece takes them, too; docs/guides/checkpoints.md lists them.
_NORMALIZERS = {
    "NFC": (),
    "NFD": (),
    "NFKC": (),
    "NFKD": (),
    "Lowercase": (),
    "StripAccents": (),
    "BertNormalizer": ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"),
    "Replace": ("pattern", "content"),
}
_PRE_TOKENIZERS = {
    "BertPreTokenizer": (),
    "Whitespace": (),
    "WhitespaceSplit": (),
    "Punctuation": ("behavior",),
    "Digits": ("individual_digits",),
}
# SentencePiece's steps.
_SPLIT = {"type": "WhitespaceSplit"}
_METASPACE = {  # With the values of settings that are missing; older files have the last two.
    "type": "Metaspace",
    "replacement": "▁",
    "prepend_scheme": "always",
    "split": True,
    "add_prefix_space": True,
    "str_rep": "▁",
}
_STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}
# A Chinese character: the ranges of Hugging Face's library, which lack U+2B820 to U+2B91F of Google's program.
CHINESE = (
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b81f"
    "\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f])"
)
# White space in Unicode: characters, and a class of regular expressions without brackets.
WIDE_SPACES = "\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
WHITE_CHARACTERS = "\t\n\v\f\r \x85\xa0" + WIDE_SPACES
WHITE_SPACE = "".join(rf"\x{{{ord(character):x}}}" for character in WHITE_CHARACTERS)
_RESERVED = "\0\1\ufdd0"  # The tokenizer replaces the first two by the third.


def normalizer_steps(values):
    """Returns the steps of a normalizer, its dict in `tokenizer.json`, as a flat list of dicts."""
    steps = _supported_steps("normalizer", values, "normalizers", _NORMALIZERS)
    for step in steps:
        if step["type"] == "Replace" and not _is_replacement(step.get("pattern"), step.get("content")):
            raise ValueError(
                "`normalizer` has a step Replace that is not supported. Expected strings without NUL, as "
                f"`pattern` a String. Received: {step}"
            )
    return steps


def _is_replacement(pattern, content):
    """Returns whether a pattern is a string, and its replacement too, without the characters of the tokenizer."""
    if not isinstance(pattern, dict) or not isinstance(content, str):
        return False
    string = pattern.get("String")
    if not isinstance(string, str) or not string:
        return False
    return set(_RESERVED).isdisjoint(string + content)


def pre_tokenizer_steps(values):
    """Returns the steps of a pre-tokenizer, its dict in `tokenizer.json`, as a flat list of dicts."""
    steps = _supported_steps("pre_tokenizer", values, "pretokenizers", _PRE_TOKENIZERS)
    for step in steps:
        if step["type"] == "Punctuation" and step.get("behavior", "Isolated") not in BEHAVIORS:
            raise ValueError(
                f"`pre_tokenizer` has a step Punctuation whose `behavior` is none of {', '.join(BEHAVIORS)}. "
                f"Received: {step}"
            )
    return steps


def _supported_steps(name, values, key, types):
    """Returns the steps of a sequence as a flat list; raises for one of another type, or with other settings."""
    if _is_sequence(values, key):
        steps = []
        for part in values[key]:
            steps.extend(_supported_steps(name, part, key, types))
        return steps
    if not _is_supported(values, types):
        raise ValueError(
            f"`{name}` has a step that is not supported. Expected {', '.join(types)}, or a Sequence of them. "
            f"Received: {values!r:.200}"
        )
    return [values]


def _is_supported(step, types):
    """Returns whether a step is of one of the types, with no other settings than that has."""
    if not isinstance(step, dict):
        return False
    name = step.get("type")
    if not isinstance(name, str) or name not in types:
        return False
    return set(step) <= {"type", *types[name]}


def unigram_steps(normalizer, pre_tokenizer):
    """Returns what a Unigram tokenizer does before its pieces: steps of a normalizer, and SentencePiece's table.

    White space at the ends and repeated spaces are removed, and a "▁" precedes each word, as in SentencePiece. Its
    vocabularies are converted in two ways: either the pre-tokenizer splits at white space (WhitespaceSplit), or the
    normalizer strips it and joins spaces (Strip and Replace); Metaspace writes the "▁" in both. All that stands after
    the table is left to SentencePiece's op, and must be what it does; steps before it are done by `graph_steps`, and
    must be those that `normalizer_steps` supports.
    """
    steps = flat_steps(normalizer, "normalizers")
    word_steps = flat_steps(pre_tokenizer, "pretokenizers")
    before, table, after = _around_table(steps)
    if not _are_those_of_sentencepiece(after, word_steps):
        raise ValueError(
            "the normalizer or the pre-tokenizer of a Unigram vocabulary is not supported. Expected those of "
            "SentencePiece: Precompiled, and Metaspace after WhitespaceSplit or after Strip and Replace of spaces. "
            f"Received: {[step.get('type') for step in (*steps, *word_steps)]}"
        )
    return normalizer_steps({"type": "Sequence", "normalizers": before}), table


def _around_table(steps):
    """Returns the steps before SentencePiece's table of characters, the table, and the steps after it.

    Without a table, which is then "", characters are unchanged, and all steps come before it.
    """
    for place, step in enumerate(steps):
        if step.get("type") == "Precompiled":
            table = step.get("precompiled_charsmap") or ""
            return steps[:place], table, steps[place + 1 :]
    return steps, "", []


def _are_those_of_sentencepiece(after_table, word_steps):
    """Returns whether words are split at spaces, with a "▁" before each; `after_table` are steps of the normalizer."""
    if not word_steps or not _is_metaspace(word_steps[-1]):
        return False
    replacements = [step for step in after_table if step != _STRIP]
    if not all(_joins_spaces(step) for step in replacements):
        return False
    if len(word_steps) == 1:  # Then the normalizer has to join spaces.
        return bool(replacements)
    return word_steps[:-1] == [_SPLIT]


def _is_metaspace(step):
    """Returns whether a step puts a "▁" in the place of each space, and before each text."""
    completed = _METASPACE | step
    return step.get("type") == "Metaspace" and completed == _METASPACE


def _joins_spaces(step):
    """Returns whether a step replaces repeated spaces by a single one."""
    is_of_spaces = step.get("type") == "Replace" and step.get("pattern") == {"Regex": " {2,}"}
    return is_of_spaces and step.get("content") in (" ", "▁")


def changes_case(values):
    """Returns whether a normalizer changes texts to lower case."""
    steps = flat_steps(values, "normalizers")
    return any(step.get("type") == "Lowercase" or step.get("lowercase") for step in steps)


def flat_steps(values, key):
    """Returns the steps of a sequence as a flat list of dicts; `None` and whatever else is no step has none."""
    if _is_sequence(values, key):
        steps = []
        for part in values[key]:
            steps.extend(flat_steps(part, key))
        return steps
    if isinstance(values, dict):
        return [values]
    return []


def _is_sequence(values, key):
    """Returns whether a step is a sequence of others, a list with this key."""
    return isinstance(values, dict) and values.get("type") == "Sequence" and isinstance(values.get(key), list)
