"""Pairs of rows of equal and of different classes, drawn within a budget and without a table of all pairs."""

import dataclasses
import itertools
import random

import numpy as np

PAIRS_OF_A_ROW, MOST_PAIRS = 20, 20_000  # The budget: pairs for each row, and of all rows.
_MOST_UNEQUAL = 3  # Dissimilar pairs for each similar one.
_TRIES = 20  # For each dissimilar pair of sets of labels.


@dataclasses.dataclass(frozen=True)
class LabelPairs:
    """Pairs of rows, each pair once: arrays of equal length.

    Attributes:
        first, second: the numbers of the rows, the smaller one first.
        similar: bool, whether they have a label in common.
    """

    first: np.ndarray
    second: np.ndarray
    similar: np.ndarray

    def __len__(self):
        return len(self.first)


def budget(rows):
    """Returns the largest number of pairs of a number of rows."""
    return min(PAIRS_OF_A_ROW * rows, MOST_PAIRS)


def draw_pairs(labels, seed, most=None):
    """Draws pairs of rows with a label in common, and pairs without one, half of each where there are enough.

    Classes count alike, whatever their numbers of rows: each has equally many of the similar pairs, and takes part in
    equally many of the dissimilar ones, as far as its rows make that many different pairs. No pair is drawn twice.
    Memory and time grow with the rows and the pairs drawn, not with their product.

    Args:
        labels: list with the class of each row, or with its classes, a tuple. Rows without a class are in no similar
            pair.
        seed: int, seed of the draw.
        most: int, the largest number of pairs. Defaults to 20 for each row, 20,000 in all.

    Returns:
        `LabelPairs`.
    """
    most = budget(len(labels)) if most is None else most
    sets = [label if isinstance(label, tuple) else (label,) for label in labels]
    members = {}
    for row, own in enumerate(sets):
        for label in own:
            members.setdefault(label, []).append(row)
    generator = random.Random(seed)
    classes = [members[label] for label in sorted(members)]
    generator.shuffle(classes)
    similar = _similar_pairs(classes, most // 2, generator)
    half = min(most - len(similar), max(most // 2, 1), _MOST_UNEQUAL * max(len(similar), len(labels)))
    if all(len(own) == 1 for own in sets):
        others = _pairs_between(classes, half, generator)
    else:
        others = _disjoint_pairs(classes, sets, half, generator)
    pairs = np.array([*similar, *others], "int64").reshape(-1, 2)
    return LabelPairs(pairs[:, 0], pairs[:, 1], np.arange(len(pairs)) < len(similar))


def _similar_pairs(classes, most, generator):
    """Returns pairs within classes, lists of rows, as a list of tuples; a pair of two classes is there once."""
    sizes = [len(rows) * (len(rows) - 1) // 2 for rows in classes]
    drawn = {}
    for rows, count, size in zip(classes, even_shares(sizes, most), sizes, strict=True):
        for rank in generator.sample(range(size), count):
            first, second = _unranked(rank)
            drawn[rows[first], rows[second]] = True
    return list(drawn)


def _unranked(rank):
    """Returns the pair of numbers, the smaller one first, that has a rank: (0, 1), (0, 2), (1, 2), (0, 3), ..."""
    second = int((1 + (1 + 8 * rank) ** 0.5) / 2)
    while second * (second - 1) // 2 > rank:
        second -= 1
    while second * (second + 1) // 2 <= rank:
        second += 1
    return rank - second * (second - 1) // 2, second


def _pairs_between(classes, most, generator):
    """Returns pairs of rows of two classes, lists of rows without a common one, as a list of tuples."""
    between = list(itertools.islice(_class_pairs(len(classes)), most))
    sizes = [len(classes[one]) * len(classes[other]) for one, other in between]
    pairs = []
    for (one, other), count, size in zip(between, even_shares(sizes, most), sizes, strict=True):
        for rank in generator.sample(range(size), count):
            first = classes[one][rank % len(classes[one])]
            second = classes[other][rank // len(classes[one])]
            pairs.append((min(first, second), max(first, second)))
    return pairs


def _class_pairs(count):
    """Yields all pairs of classes, of which any first ones have each class about equally often."""
    for distance in range(1, count // 2 + 1):
        is_half = 2 * distance == count  # Where each pair would come twice.
        for one in range(count // 2 if is_half else count):
            yield one, (one + distance) % count


def _disjoint_pairs(classes, sets, most, generator):
    """Returns pairs of rows with labels, but none in common, as a list of tuples: drawn from two classes at a time."""
    drawn = {}
    if len(classes) < 2:
        return []
    for _ in range(_TRIES * most):
        if len(drawn) == most:
            break
        one, other = generator.sample(range(len(classes)), 2)
        first, second = generator.choice(classes[one]), generator.choice(classes[other])
        if not set(sets[first]) & set(sets[second]):
            drawn[min(first, second), max(first, second)] = True
    return list(drawn)


def even_shares(sizes, total):
    """Returns how many of each of several lists to take, given their sizes: equally many, as far as they have them.

    Of what does not divide evenly, the first ones have one more.
    """
    shares = [0] * len(sizes)
    open_places = [place for place, size in enumerate(sizes) if size]
    left = min(total, sum(sizes))
    while left:
        each = max(left // len(open_places), 1)
        for place in open_places:
            more = min(each, sizes[place] - shares[place], left)
            shares[place] += more
            left -= more
        open_places = [place for place in open_places if shares[place] < sizes[place]]
    return shares
