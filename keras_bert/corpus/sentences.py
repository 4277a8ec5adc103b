"""Rule-based sentence splitting, for text that does not have one sentence per line."""

import re

# End punctuation with closing quotes or brackets and white space, or Chinese and Japanese end punctuation.
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*\s+|[。！？]+[」』”’）]*\s*")
_OPENING = "\"'“‘«([¿¡—-"
_LAST_WORD = re.compile(r"[^\s(\[\"'“‘]*$")
# A full stop after these does not end a sentence.
_WORDS = """
    mr mrs ms messrs dr prof st rev hon gen col maj capt lt sgt gov sen rep pres mt ft vs cf viz e.g i.e al fig eq sec
    vol vols chap ch pp p no nos art ed eds jan feb mar apr jun jul aug sep sept oct nov dec
"""
_ABBREVIATIONS = frozenset(_WORDS.split())


def split_sentences(paragraph):
    """Yields the sentences of a paragraph, stripped of white space.

    A sentence ends at `.`, `!`, `?` or `…` followed by white space, unless the next letter is lower-case, or the full
    stop follows an initial or one of a few abbreviations.
    """
    begin = 0
    for match in _END.finditer(paragraph):
        if _ends(paragraph, match):
            yield paragraph[begin : match.end()].strip()
            begin = match.end()
    if rest := paragraph[begin:].strip():
        yield rest


def _ends(paragraph, match):
    mark = match.group()[0]
    if mark in "。！？":
        return True
    following = paragraph[match.end() : match.end() + 3].lstrip(_OPENING)[:1]
    if following.islower():
        return False
    if mark != "." or match.group().startswith(".."):
        return True
    word = _LAST_WORD.search(paragraph, max(0, match.start() - 20), match.start()).group()
    initial = len(word) == 1 and word.isalpha() and word != "I"
    number = word.lower() in ("no", "nos", "p", "pp", "art", "fig") and not following.isdigit()
    return not initial and (number or word.lower() not in _ABBREVIATIONS)
