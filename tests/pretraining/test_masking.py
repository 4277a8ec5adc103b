"""Masking, compared with a loop over the words in plain Python, and statistics of many tokens."""

import numpy as np
import pytest
from scipy import stats

from keras_bert.pretraining.masking import Masker, Masking
from tests.pretraining import numbered
from tests.pretraining.numbered import CLS, FIRST, MASK, PAD, SEP, UNK

PIECES = [*numbered.SPECIAL, "a", "b", "c", "d", "##e", "##f", "##g", "[unused1]", "<S>", "["]
ORDINARY = [*range(FIRST, FIRST + 7), FIRST + 9]


def reference(ids, noise, masking):
    """Returns masked ids and positions of one row. N-grams of 1, 2, 3, ... words have odds of 1 : 1/2 : 1/3 : ..."""
    whole = masking.whole_word or masking.max_ngram > 1
    real = [place for place, piece in enumerate(ids) if piece in ORDINARY]
    budget = min(masking.predictions(len(ids)), max(1, round((ids != PAD).sum() * masking.masked_lm_prob)))
    words = []  # (first position, last position + 1)
    for place in real:
        is_continuation = whole and PIECES[ids[place]].startswith("##") and words and words[-1][1] == place
        words[-1:] = [(words[-1][0], place + 1)] if is_continuation else [*words[-1:], (place, place + 1)]
    ends, followers = dict(words), dict(words)
    chosen = set()
    harmonic = np.cumsum([1 / n for n in range(1, masking.max_ngram + 1)])
    for first, _ in sorted(words, key=lambda word: noise["order"][word[0]]):
        wanted = 1
        if masking.max_ngram > 1:
            wanted += sum(noise["ngram"][first] >= np.float32(harmonic[:-1] / harmonic[-1]))
        end = ends[first]
        for _ in range(wanted - 1):
            end = followers.get(end, end)
        run = set(range(first, end))
        if len(run) <= budget - len(chosen) and not run & chosen:
            chosen |= run
    masked, positions = ids.copy(), sorted(chosen)
    for kind, piece, place in zip(noise["kind"], noise["piece"], positions, strict=False):
        if kind < np.float32(masking.mask_share):
            masked[place] = MASK
        elif kind < np.float32(masking.mask_share + masking.random_share):
            masked[place] = ORDINARY[int(piece * len(ORDINARY))]
    return masked, positions


def rows(rng, count, length):
    """Returns random rows of two texts and padding, including special tokens."""
    ids = np.full((count, length), PAD, np.int32)
    for row in ids:
        size = rng.integers(3, length + 1)
        row[:size] = rng.choice([*ORDINARY, *ORDINARY, UNK, FIRST + 7, FIRST + 8], size)
        row[0] = CLS
        row[[rng.integers(1, size), size - 1]] = SEP
    return ids


def draw(rng, masker, count, length):
    return {name: rng.random(shape, dtype=np.float32) for name, shape in masker.noise_shapes(count, length).items()}


SETTINGS = [
    Masking(masked_lm_prob=0.5, mask_share=0.2, random_share=0.7),
    Masking(max_predictions=2),
    Masking(whole_word=True, masked_lm_prob=0.9, max_predictions=5),
    Masking(max_ngram=3, masked_lm_prob=0.3),
    Masking(max_ngram=5, masked_lm_prob=0.7, whole_word=True),
]


@pytest.mark.parametrize("masking", SETTINGS)
def test_masks_equal_reference_loop(masking):
    rng, masker = np.random.default_rng(0), Masker(PIECES, masking)
    ids = rows(rng, 60, 24)
    noise = draw(rng, masker, 60, 24)
    masked = masker(ids, noise)
    predictions = masking.predictions(24)
    assert {value.shape for value in masked.values()} == {(60, 24), (60, predictions)}
    kinds = {name: str(value.dtype) for name, value in masked.items()}
    assert kinds == {**dict.fromkeys(["token_ids", "positions", "labels"], "int32"), "weights": "float32"}
    for row in range(60):
        found = {name: value[row] for name, value in masked.items()}
        expected, positions = reference(ids[row], {name: value[row] for name, value in noise.items()}, masking)
        count = len(positions)
        np.testing.assert_array_equal(found["token_ids"], expected)
        np.testing.assert_array_equal(found["positions"], positions + [0] * (predictions - count))
        np.testing.assert_array_equal(found["labels"], [*ids[row, positions], *[0] * (predictions - count)])
        np.testing.assert_array_equal(found["weights"], [1] * count + [0] * (predictions - count))


def test_nothing_to_predict():
    ids = np.int32([[CLS, UNK, SEP, UNK, SEP, PAD, PAD, PAD], [CLS, FIRST, SEP, UNK, SEP, PAD, PAD, PAD]])
    for masking in (Masking(), Masking(whole_word=True), Masking(max_ngram=3)):
        masker = Masker(PIECES, masking)
        found = masker(ids, draw(np.random.default_rng(0), masker, 2, 8))
        np.testing.assert_array_equal(found["token_ids"][0], ids[0])
        np.testing.assert_array_equal(found["weights"], [[0, 0], [1, 0]])
        assert found["positions"][1, 0] == 1


def test_statistics_of_many_examples(passes):
    """Shares of masked, random and kept tokens; random tokens and positions are uniform, and never special."""
    manifest, examples = passes
    source, positions = numbered.small(), examples["masked_lm_positions"]
    lengths, real = examples["input_mask"].sum(1), examples["masked_lm_weights"] > 0
    assert lengths.sum() == manifest["tokens"] > 250_000
    np.testing.assert_array_equal(real.sum(1), [min(10, max(1, round(0.15 * length))) for length in lengths.tolist()])
    now, labels = np.take_along_axis(examples["input_ids"], positions, 1)[real], examples["masked_lm_ids"][real]
    assert labels.min() >= FIRST
    count, ordinary = real.sum(), len(source.pieces) - FIRST
    drawn = (now != MASK) & (now != labels)
    for expected, found in {0.8: now == MASK, 0.1 * (1 - 1 / ordinary): drawn, 0.1: now == labels}.items():
        assert abs(found.mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / count)
    assert manifest["predictions"] == count
    assert manifest["predicted_share"] == count / lengths.sum()
    assert manifest["mask_share"] == (now == MASK).mean()
    assert manifest["kept_share"] == (now == labels).mean()

    assert now[drawn].min() >= FIRST
    edges = np.linspace(FIRST, len(source.pieces), 101)
    widths = np.diff(np.ceil(edges))
    found = np.histogram(now[drawn], edges)[0]
    assert stats.chisquare(found, drawn.sum() * widths / widths.sum()).pvalue > 1e-4

    # Only masked positions differ: without the masks, the text is the corpus.
    is_ordinary = numbered.unmasked(examples) >= FIRST
    np.testing.assert_array_equal(is_ordinary.sum(1) + 3, lengths)
    full = examples["input_mask"].all(1)
    place = np.cumsum(is_ordinary[full], axis=1) - 1  # Among the 61 ordinary pieces of a full row.
    places = np.take_along_axis(place, positions[full], 1)[real[full]]
    assert stats.chisquare(np.bincount(places, minlength=61)).pvalue > 1e-4


def test_invalid_settings():
    for options, message in (
        ({"masked_lm_prob": 0}, "`masked_lm_prob` must be between 0 and 1. Received: masked_lm_prob=0"),
        ({"max_predictions": 0}, "`max_predictions` must be at least 1. Received: max_predictions=0"),
        ({"max_ngram": 0}, "`max_ngram` must be at least 1. Received: max_ngram=0"),
        ({"mask_share": -0.1}, "`mask_share` and `random_share` must be .* Received: mask_share=-0.1"),
        ({"random_share": 0.3}, "`mask_share` and `random_share` must be .* Received: mask_share=0.8"),
    ):
        with pytest.raises(ValueError, match=message):
            Masking(**options)
    with pytest.raises(ValueError, match=r"the list of pieces: the vocabulary has no piece '\[MASK\]'"):
        Masker(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"])
    assert Masking(mask_share=0.7, random_share=0.3).random_share == 0.3  # Their sum is 1, up to rounding.
    assert [Masking().predictions(length) for length in (128, 512, 8, 20)] == [20, 77, 2, 3]
