"""Three texts in two packed rows, for tests of models on such rows."""

import numpy as np

# The texts of `batch`, of lengths 12, 7 and 3: the second and the third share a row.
PLACES = [(0, 0), (1, 0), (1, 7)]
LENGTHS = [12, 7, 3]
TEXT_STARTS = np.array([[0, 0], [0, 7]], "int32")
TEXTS = [0, 2, 3]  # The rows of the outputs of texts; the first packed row has one text.


def pack(batch):
    """Returns two rows of 12 tokens, which have two texts at most."""
    packed = {}
    for name in ("token_ids", "segment_ids", "text_numbers", "position_ids"):
        packed[name] = np.zeros((2, 12), "int32")
    for text, (row, start) in enumerate(PLACES):
        length = LENGTHS[text]
        columns = slice(start, start + length)
        for name in ("token_ids", "segment_ids"):
            packed[name][row, columns] = batch[name][text, :length]
        packed["text_numbers"][row, columns] = 1 if start == 0 else 2
        packed["position_ids"][row, columns] = np.arange(length)
    packed["text_starts"] = TEXT_STARTS
    return packed
