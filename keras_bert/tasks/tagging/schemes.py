"""Tag schemes: recognition, violations, and conversion between the tags of a sentence and its entities.

words     Alex   Bell   met   Eve     Bell
entities  PER----------        PER     PER
iob1      I-PER  I-PER  O     I-PER   B-PER
iob2      B-PER  I-PER  O     B-PER   B-PER
iobes     B-PER  E-PER  O     S-PER   S-PER
bilou     B-PER  L-PER  O     U-PER   U-PER
bmes      B-PER  E-PER  O     S-PER   S-PER    (iobes with M for I)
io        PER    PER    O     PER     PER      (two adjacent entities of a type become one)
words     tags of words without entities, such as parts of speech
"""

import itertools
import re
from typing import NamedTuple

OUTSIDE = "O"
PLAIN = "words"
# The prefixes of an entity's only word, its first one, those between, and its last one.
_PREFIXES = {
    "iob1": "IIII",
    "iob2": "BBII",
    "iobes": "SBIE",
    "bilou": "UBIL",
    "bmes": "SBME",
    "io": ("", "", "", ""),
}
SCHEMES = (*_PREFIXES, PLAIN)
_TAG = re.compile(r"([BIELMSU])(?:-(.*))?", re.DOTALL)
_OTHER_STYLE = re.compile(r"([Bb])[\W_](.+)|(.+)[\W_]([Bb])")


class EntitySpan(NamedTuple):
    """An entity: its type, and its first word and its last word + 1 (in texts, characters)."""

    type: str
    start: int
    end: int


def entities(tags, scheme="iob2"):
    """Finds the entities in the tags of a sentence, as CoNLL's `conlleval` does.

    An entity starts at B, S and U, and at any other tag that follows "O", another type, or E, L, S and U. It ends
    before the next entity and before "O". In the scheme "io", tags are types.
    """
    return joined(_prefix_and_type(tag, scheme) for tag in tags)


def joined(tags):
    """Finds the entities in tags that are given as prefixes and types."""
    found = []
    previous_prefix = OUTSIDE
    previous_type = ""
    for word, (prefix, type_) in enumerate(tags):
        if prefix != OUTSIDE:
            is_inside = previous_prefix in "BIM" and prefix in "IMEL"
            if is_inside and type_ == previous_type:
                found[-1] = found[-1]._replace(end=word + 1)
            else:
                found.append(EntitySpan(type_, word, word + 1))
        previous_prefix = prefix
        previous_type = type_
    return found


def to_tags(spans, length, scheme="iob2"):
    """Returns the tags of a sentence with `length` words, given its entities in order."""
    only, first, inner, last = _PREFIXES[scheme]
    tags = [OUTSIDE] * length
    previous = None
    for entity in spans:
        size = entity.end - entity.start
        prefixes = [only]
        if size > 1:
            prefixes = [first, *[inner] * (size - 2), last]
        if scheme == "iob1" and previous is not None:
            if previous.end == entity.start and previous.type == entity.type:
                prefixes[0] = "B"
        tags[entity.start : entity.end] = [_tag(prefix, entity.type) for prefix in prefixes]
        previous = entity
    return tags


def _tag(prefix, type_):
    """Returns the tag of a prefix, which is "" in the scheme "io", and a type, "" if the only one has no name."""
    if prefix and type_:
        return f"{prefix}-{type_}"
    return prefix or type_


def recognize(sentences):
    """Returns the scheme of the tags of sentences, a list of lists.

    Of IOB1 and IOB2, returns the one that fewer tags violate. Tags without prefixes are "io" if some are "O".
    """
    tags = set(itertools.chain.from_iterable(sentences))
    types = tags - {OUTSIDE}
    prefixes = set()
    with_prefix_and_type = 0
    for tag in types:
        if _TAG.fullmatch(tag):
            prefixes.add(tag[0])
            with_prefix_and_type += "-" in tag
    # Parts of speech may be single letters.
    if not types <= set("BIELSU") and 2 * with_prefix_and_type < len(types):
        return "io" if OUTSIDE in tags else PLAIN
    for scheme, own in (("bilou", "LU"), ("bmes", "M"), ("iobes", "ES")):
        if not prefixes.isdisjoint(own):
            return scheme

    def count_violations(scheme):
        return sum(len(violations(sentence, scheme)) for sentence in sentences)

    return min("iob2", "iob1", key=count_violations)


def other_style(tags):
    """Returns two tags that seem to be B and I of a type in another style, such as `B_PER` or `PER-I`; else `None`."""
    for tag in sorted(tags):
        match = _OTHER_STYLE.fullmatch(tag)
        if not match:
            continue
        begin = match[1] or match[4]
        inner = "I" if begin == "B" else "i"
        other = f"{inner}{tag[1:]}" if match[1] else f"{tag[:-1]}{inner}"
        if other in tags:
            return tag, other
    return None


def violations(tags, scheme):
    """Returns the indices of the tags that the scheme does not allow where they are."""
    expected = to_tags(entities(tags, scheme), len(tags), scheme)
    return [word for word, tag in enumerate(tags) if tag != expected[word]]


def is_valid(tag, scheme):
    """Returns whether a tag can be read in a scheme, in some place."""
    return scheme in ("io", PLAIN) or tag == OUTSIDE or _TAG.fullmatch(tag) is not None


def labels(types):
    """Returns the labels of a model for types of entities: "O", and B and I of each."""
    labels = [OUTSIDE]
    for type_ in sorted(types):
        labels.extend([_tag("B", type_), _tag("I", type_)])
    return labels


def of_labels(labels):
    """Returns the scheme of the labels of a model for entities, which IOB1 and IOB2 share: IOB2 if B is among them."""
    scheme = recognize([[label] for label in labels])
    return "iob2" if scheme == PLAIN else scheme


def _prefix_and_type(tag, scheme):
    if tag == OUTSIDE:
        return OUTSIDE, ""
    if scheme == "io":
        return "I", tag
    match = _TAG.fullmatch(tag)
    if not match:
        return "I", tag
    return match.groups("")
