"""Splits of rows: a share of them that is drawn at random, to select the best run on."""

import numpy as np

from keras_bert.checks import is_number


def split_numbers(count, share, seed):
    """Returns the numbers of the rows to train on, and those of a share of all `count` rows, drawn at random.

    Args:
        count: int, number of rows.
        share: float between 0 and 1.
        seed: int, seed of the draw.

    Returns:
        Two lists in ascending order.
    """
    drawn = round(share * count) if isinstance(share, float) and 0 < share < 1 else 0
    if not 0 < drawn < count:
        example = f"{share / 100:g}" if is_number(share) and 1 < share < 100 else "0.1"
        wanted = f"a fraction below 1, such as {example}, which is at least one of the rows and not all"
        raise ValueError(f"`validation_split` must be {wanted}. Received: {share!r} of {count} rows")
    order = np.random.default_rng(seed).permutation(count)
    held_out = sorted(order[:drawn].tolist())
    train = sorted(order[drawn:].tolist())
    return train, held_out
