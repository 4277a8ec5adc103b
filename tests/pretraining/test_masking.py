"""Masking, compared with a loop over the words in plain Python, and statistics of half a million tokens."""

import numpy as np
import pytest
from scipy import stats

from keras_bert.pretraining.masking import Masker, Masking
from tests.pretraining import numbered
from tests.pretraining.numbered import CLS, FIRST, MASK, PAD, SEP, UNK

pytestmark = pytest.mark.tensorflow
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
    Masking(),
    Masking(masked_lm_prob=0.5, mask_share=0.2, random_share=0.7),
    Masking(max_predictions=2),
    Masking(max_predictions=100, masked_lm_prob=0.99),
    Masking(whole_word=True, masked_lm_prob=0.3),
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


# Statistics.


def test_mask_random_and_kept_shares(half_million):
    manifest, examples = half_million
    lengths = examples["input_mask"].sum(1)
    assert lengths.sum() == manifest["tokens"] > 500_000
    real = examples["masked_lm_weights"] > 0
    np.testing.assert_array_equal(real.sum(1), [min(10, max(1, round(0.15 * length))) for length in lengths.tolist()])
    now = np.take_along_axis(examples["input_ids"], examples["masked_lm_positions"], 1)[real]
    labels, count = examples["masked_lm_ids"][real], real.sum()
    ordinary = len(numbered.small().pieces) - FIRST
    shares = {0.8: now == MASK, 0.1 * (1 - 1 / ordinary): (now != MASK) & (now != labels), 0.1: now == labels}
    for expected, found in shares.items():
        assert abs(found.mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / count)
    assert manifest["predictions"] == count
    assert manifest["predicted_share"] == count / lengths.sum()
    assert manifest["mask_share"] == (now == MASK).mean()
    assert manifest["kept_share"] == (now == labels).mean()


def test_random_tokens_are_uniform_and_never_special(half_million):
    examples = half_million[1]
    source, real = numbered.small(), examples["masked_lm_weights"] > 0
    now = np.take_along_axis(examples["input_ids"], examples["masked_lm_positions"], 1)[real]
    labels = examples["masked_lm_ids"][real]
    assert labels.min() >= FIRST
    drawn = now[(now != MASK) & (now != labels)]
    assert drawn.min() >= FIRST
    found = np.histogram(drawn, np.linspace(FIRST, len(source.pieces), 101))[0]
    widths = np.diff(np.ceil(np.linspace(FIRST, len(source.pieces), 101)))
    assert stats.chisquare(found, len(drawn) * widths / widths.sum()).pvalue > 1e-4
    assert set(now[now < FIRST]) == {MASK}


def test_positions_are_sorted_and_uniform(half_million):
    examples = half_million[1]
    real, positions = examples["masked_lm_weights"] > 0, examples["masked_lm_positions"]
    both = real[:, 1:] & real[:, :-1]
    assert (np.diff(positions)[both] > 0).all()
    # Only masked positions differ: without the masks, the text is the corpus.
    ids = numbered.unmasked(examples)
    ordinary = ids >= FIRST
    np.testing.assert_array_equal(ordinary.sum(1) + 3, examples["input_mask"].sum(1))
    full = examples["input_mask"].all(1)
    place = np.cumsum(ordinary[full], axis=1) - 1  # Among the 61 ordinary pieces of a full row.
    places = np.take_along_axis(place, positions[full], 1)[real[full]]
    assert stats.chisquare(np.bincount(places, minlength=61)).pvalue > 1e-4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"masked_lm_prob": 0}, "`masked_lm_prob` must be between 0 and 1. Received: masked_lm_prob=0"),
        ({"max_predictions": 0}, "`max_predictions` must be at least 1. Received: max_predictions=0"),
        ({"max_ngram": 0}, "`max_ngram` must be at least 1. Received: max_ngram=0"),
        ({"mask_share": -0.1}, "`mask_share` and `random_share` must be .* Received: mask_share=-0.1"),
        ({"random_share": 0.3}, "`mask_share` and `random_share` must be .* Received: mask_share=0.8"),
    ],
)
def test_invalid_settings(options, message):
    with pytest.raises(ValueError, match=message):
        Masking(**options)


def test_mask_token_and_share_limits():
    with pytest.raises(ValueError, match=r"the list of pieces: the vocabulary has no piece '\[MASK\]'"):
        Masker(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"])
    assert Masking(mask_share=0.7, random_share=0.3).random_share == 0.3  # Their sum is 1, up to rounding.
    assert [Masking().predictions(length) for length in (128, 512, 8, 20)] == [20, 77, 2, 3]
