"""Batches of token ids with padding, for models of every head."""

import numpy as np


def batch_of(head, rows, length):
    """Returns random inputs; the first row has no real token but [CLS], in multiple choice a choice is absent."""
    rng = np.random.default_rng(rows * length)
    batch = {
        "token_ids": rng.integers(5, 50, (rows, length)),
        "segment_ids": rng.integers(0, 2, (rows, length)),
        "padding_mask": np.arange(length) < np.maximum(1, rng.integers(0, length + 1, (rows, 1))),
    }
    batch["padding_mask"][0, 1:] = 0
    if head == "multiple_choice":
        batch = {name: np.stack([value, value[::-1]], 1) for name, value in batch.items()}
        batch["padding_mask"][-1, 0] = 0
    if head in ("pretraining", "mlm", "untied"):
        batch["mask_positions"] = rng.integers(0, length, (rows, 2))
    return {name: value.astype("int32") for name, value in batch.items()}
