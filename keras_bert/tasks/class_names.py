"""Names of classes: those of labels in files, their ids, names that look alike, and how often each occurs."""

import collections
import math
import re
import unicodedata

import numpy as np

from keras_bert.checks import similar
from keras_bert.data.in_memory import as_list

_INVISIBLE = ("Cc", "Cf", "Zs", "Zl", "Zp")  # Categories of Unicode.
_DECIMAL = re.compile(r"\+?(-?)0*([0-9]*?)(?:\.([0-9]*?)0*)?(?<=[0-9])")
# By code: what word processors write for - and ', and the selectors of emoji and text, which are left out.
_SIGNS: dict = dict.fromkeys((0x2010, 0x2011, 0x2013, 0x2014, 0x2212), "-")
_SIGNS |= dict.fromkeys((0x2018, 0x2019), "'")
_SIGNS |= dict.fromkeys((0xFE0E, 0xFE0F))
MANY = 10  # So many classes may be something else, such as numbers.
REGRESSION = "Numbers that measure something are predicted by `task=regression`."


def class_name(label):
    """Returns the class name of a label given as a string, number or bool."""
    if isinstance(label, str):
        return label.strip()
    if isinstance(label, bool | np.bool_):
        return "true" if label else "false"
    if isinstance(label, float | np.floating) and label.is_integer():
        label = int(label)
    return str(label).strip()


def class_numbers(labels):
    """Returns the ids of classes by name; `None` for `None`."""
    if labels is None:
        return None
    names = list(map(class_name, labels))
    numbers = {name: number for number, name in enumerate(names)}
    if len(numbers) < len(names):
        raise ValueError(f"`labels` must be unique. Received: {names}")
    return numbers


def class_ids(place, label, numbers):
    """Returns the id of a label by name, or the sorted ids of a tuple of labels."""
    if isinstance(label, tuple):
        return tuple(sorted(class_ids(place, name, numbers) for name in label))
    if label not in numbers:
        raise _unknown_label(place, label, list(numbers))
    return numbers[label]


def _unknown_label(place, label, known):
    """Returns an error for a label that is none of the known names, with the name that it may be."""
    for name in known:
        if appearance(name) == appearance(label):
            first, second = spelled([label, name])
            return ValueError(f"{place}: unknown label {first}, which looks like {second}. Use one spelling per class")
    hint = ""
    if are_numbers([label, *known]):
        if len(known) >= MANY or "." in label:
            hint = f" {REGRESSION}"
    else:
        similar_name = similar(label, known)
        if similar_name:
            hint = f" Did you mean {similar_name!r}?"
    expected = some(list(map(repr, known)))
    return ValueError(f"{place}: unknown label {label!r}.{hint} Expected one of: {expected}")


def are_numbers(names):
    """Returns whether all names of classes are decimal numbers."""
    return all(_DECIMAL.fullmatch(name) for name in names)


def discover_labels(labels, fewest=2, place="`labels`"):
    """Returns the unique labels, at least `fewest`, sorted numerically if all are integers, otherwise as strings.

    Messages say that the labels are those of `place`.
    """
    names = set(map(class_name, labels))
    if len(names) < fewest:
        expected = "two classes" if fewest > 1 else "one class"
        raise ValueError(f"{place} must have at least {expected}. Received: {sorted(names)}")
    _check_spelling_of_numbers(names, place)
    if all(re.fullmatch(r"-?[0-9]+", name) for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def _check_spelling_of_numbers(names, place):
    """Raises an error for a whole number that is also written with decimals: `1` and `1.0`."""
    for name in sorted(names):
        whole, _, _ = name.partition(".")
        if whole in names and re.fullmatch(r"-?[0-9]+\.0+", name):
            raise ValueError(f"{place} has the number {whole} also as {name}. Use one spelling per class")


def alike(names):
    """Returns lists of names that look alike to a person, such as "1" and "01" or "x" with and without a space."""
    groups = collections.defaultdict(list)
    for name in names:
        groups[appearance(name)].append(name)
    return [group for group in groups.values() if len(group) > 1]


def appearance(name):
    """Returns what a person sees of a name: no case, no white space, no invisible signs, no zeros around a number."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    text = unicodedata.normalize("NFKC", folded).translate(_SIGNS)
    visible = "".join(sign for sign in text if unicodedata.category(sign) not in _INVISIBLE)
    number = _DECIMAL.fullmatch(visible)
    if number is None:
        return visible
    sign, whole, decimals = number.groups()
    return f"{sign}{whole or 0}.{decimals or ''}"


def spelled(names):
    """Returns names in quotes; with the codes of their signs, if the names are hard to tell apart otherwise."""
    different = {unicodedata.normalize("NFC", name).translate(_SIGNS) for name in names}
    quote = repr if len(different) == len(names) else ascii
    return list(map(quote, names))


def balance(labels, names=None, total=None):
    """Summarizes labels: count and share of the largest classes (of `names`), or the range of floats.

    Shares are of `total`, by default the number of labels.
    """
    labels = as_list(labels)
    if not labels:
        return "no labels"
    if all(isinstance(label, float) for label in labels):
        mean = math.fsum(labels) / len(labels)
        return f"{len(labels):,} numbers from {min(labels):g} to {max(labels):g}, mean {mean:.4g}"
    names = as_list(names) if names is not None else []
    # Classes without rows are listed, too.
    counts = collections.Counter(dict.fromkeys(map(str, names), 0))
    counts.update(str(names[label]) if names else str(label) for label in labels)
    shares = []
    for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        shares.append(f"{name}: {count:,} ({count / (total or len(labels)):.1%})")
    return some(shares, most=10)


def some(texts, most=5):
    """Lists the first texts in one line, and the number of the others."""
    shown = list(texts[:most])
    if len(texts) > most:
        shown.append(f"and {len(texts) - most:,} more")
    return ", ".join(shown)
