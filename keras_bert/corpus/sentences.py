"""Paragraphs to sentences by rule, for text that comes without one sentence a line."""

import re

# A full stop with what closes behind it, and white space; or one of the Chinese and Japanese ones.
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*\s+|[。！？]+[」』”’）]*\s*")
_OPENING = "\"'“‘«([¿¡—-"
_LAST_WORD = re.compile(r"[^\s(\[\"'“‘]*$")
# After these a full stop ends no sentence.
_ABBREVIATIONS = """
    mr mrs ms messrs dr prof st rev hon gen col maj capt lt sgt gov sen rep pres mt ft vs cf viz e.g i.e al fig eq sec
    vol vols chap ch pp p no nos art ed eds jan feb mar apr jun jul aug sep sept oct nov dec
"""
_ABBREVIATIONS = frozenset(_ABBREVIATIONS.split())


def split_sentences(paragraph):
    """The sentences of a paragraph, without the white space around them.

    A sentence ends at `.`, `!`, `?` or `…` before white space and anything but a lower-case letter, unless the word is
    an initial or one of a few abbreviations.
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
