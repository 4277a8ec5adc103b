"""Masking, compared with a loop over the words in plain Python, and statistics of many tokens."""

import numpy as np
import pytest
from scipy import stats

from keras_bert.pretraining.masking import Masker, Masking
from tests.pretraining import numbered
from tests.pretraining.numbered import CLS, FIRST, MASK, PAD, SEP, UNK

PIECES = [*numbered.SPECIAL, "a", "b", "c", "d", "##e", "##f", "##g", "[unused1]", "<S>", "["]
ORDINARY = [*range(FIRST, FIRST + 7), FIRST + 9]


def words_of(ids, is_whole):
    """Returns the first position and the end of each word of a row; without `is_whole`, each token is a word."""
    words = []
    for place, piece in enumerate(ids):
        if piece not in ORDINARY:
            continue
        follows = bool(words) and words[-1][1] == place
        if is_whole and follows and PIECES[piece].startswith("##"):
            first, _ = words.pop()
            words.append((first, place + 1))
        else:
            words.append((place, place + 1))
    return words


def ngram_size(noise, place, masking):
    """Returns the number of words to mask from a place: 1, 2, 3, ... have odds of 1 : 1/2 : 1/3 : ..."""
    if masking.max_ngram == 1:
        return 1
    harmonic = np.cumsum([1 / n for n in range(1, masking.max_ngram + 1)])
    limits = np.float32(harmonic[:-1] / harmonic[-1])
    return 1 + sum(noise["ngram"][place] >= limits)


def choose(ids, noise, masking):
    """Returns the positions of a row to predict, sorted."""
    words = words_of(ids, is_whole=masking.whole_word or masking.max_ngram > 1)
    tokens = (ids != PAD).sum()
    wanted = max(1, round(tokens * masking.masked_lm_prob))
    budget = min(masking.predictions(len(ids)), wanted)
    end_of_word = dict(words)
    chosen = set()
    for first, end in sorted(words, key=lambda word: noise["order"][word[0]]):
        for _ in range(ngram_size(noise, first, masking) - 1):
            end = end_of_word.get(end, end)
        run = set(range(first, end))
        if len(run) <= budget - len(chosen) and not run & chosen:
            chosen |= run
    return sorted(chosen)


def mask(ids, positions, noise, masking):
    """Returns the ids of a row with tokens replaced at the positions."""
    masked = ids.copy()
    for place, kind, piece in zip(positions, noise["kind"], noise["piece"], strict=False):
        if kind < np.float32(masking.mask_share):
            masked[place] = MASK
        elif kind < np.float32(masking.mask_share + masking.random_share):
            masked[place] = ORDINARY[int(piece * len(ORDINARY))]
    return masked


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
    """Returns the random numbers of rows."""
    shapes = masker.noise_shapes(count, length)
    return {name: rng.random(shape, dtype=np.float32) for name, shape in shapes.items()}


def padded(values, length):
    return [*values, *[0] * (length - len(values))]


SETTINGS = [
    Masking(masked_lm_prob=0.5, mask_share=0.2, random_share=0.7),
    Masking(max_predictions=2),
    Masking(whole_word=True, masked_lm_prob=0.9, max_predictions=5),
    Masking(max_ngram=3, masked_lm_prob=0.3),
    Masking(max_ngram=5, masked_lm_prob=0.7, whole_word=True),
]


@pytest.mark.parametrize("masking", SETTINGS)
def test_masks_equal_reference_loop(masking):
    rng = np.random.default_rng(0)
    masker = Masker(PIECES, masking)
    ids = rows(rng, 60, 24)
    noise = draw(rng, masker, 60, 24)
    predictions = masking.predictions(24)

    masked = masker(ids, noise)

    assert {value.shape for value in masked.values()} == {(60, 24), (60, predictions)}
    dtypes = {name: str(value.dtype) for name, value in masked.items()}
    assert dtypes == {"token_ids": "int32", "positions": "int32", "labels": "int32", "weights": "float32"}
    for row in range(60):
        noise_of_row = {name: value[row] for name, value in noise.items()}
        positions = choose(ids[row], noise_of_row, masking)
        expected = mask(ids[row], positions, noise_of_row, masking)
        np.testing.assert_array_equal(masked["token_ids"][row], expected)
        np.testing.assert_array_equal(masked["positions"][row], padded(positions, predictions))
        np.testing.assert_array_equal(masked["labels"][row], padded(ids[row, positions], predictions))
        np.testing.assert_array_equal(masked["weights"][row], padded([1] * len(positions), predictions))


@pytest.mark.parametrize("masking", [Masking(), Masking(whole_word=True), Masking(max_ngram=3)])
def test_nothing_to_predict(masking):
    ids = np.int32([[CLS, UNK, SEP, UNK, SEP, PAD, PAD, PAD], [CLS, FIRST, SEP, UNK, SEP, PAD, PAD, PAD]])
    masker = Masker(PIECES, masking)
    found = masker(ids, draw(np.random.default_rng(0), masker, 2, 8))
    np.testing.assert_array_equal(found["token_ids"][0], ids[0])
    np.testing.assert_array_equal(found["weights"], [[0, 0], [1, 0]])
    assert found["positions"][1, 0] == 1


@pytest.fixture(scope="module")
def predicted(passes):
    """Of all predictions of many examples: the tokens now, and the labels."""
    _, examples = passes
    is_real = examples["masked_lm_weights"] > 0
    now = np.take_along_axis(examples["input_ids"], examples["masked_lm_positions"], 1)
    return now[is_real], examples["masked_lm_ids"][is_real]


def test_number_of_predictions_of_many_examples(passes):
    manifest, examples = passes
    lengths = examples["input_mask"].sum(1)
    assert lengths.sum() == manifest["tokens"] > 250_000
    counts = (examples["masked_lm_weights"] > 0).sum(1)
    expected = [min(10, max(1, round(0.15 * length))) for length in lengths.tolist()]
    np.testing.assert_array_equal(counts, expected)
    assert manifest["predictions"] == counts.sum()
    assert manifest["predicted_share"] == counts.sum() / lengths.sum()


def test_shares_of_masked_random_and_kept_tokens(passes, predicted):
    manifest, _ = passes
    now, labels = predicted
    assert labels.min() >= FIRST
    ordinary = len(numbered.small().pieces) - FIRST
    is_mask = now == MASK
    is_kept = now == labels
    is_drawn = ~is_mask & ~is_kept
    assert manifest["mask_share"] == is_mask.mean()
    assert manifest["kept_share"] == is_kept.mean()
    # A random token is the same one once in `ordinary` times.
    for found, expected in ((is_mask, 0.8), (is_drawn, 0.1 * (1 - 1 / ordinary)), (is_kept, 0.1)):
        deviation = np.sqrt(expected * (1 - expected) / len(labels))
        assert abs(found.mean() - expected) < 4 * deviation


def test_random_tokens_are_uniform_and_never_special(predicted):
    now, labels = predicted
    drawn = now[(now != MASK) & (now != labels)]
    assert drawn.min() >= FIRST
    edges = np.linspace(FIRST, len(numbered.small().pieces), 101)
    widths = np.diff(np.ceil(edges))
    found, _ = np.histogram(drawn, edges)
    assert stats.chisquare(found, len(drawn) * widths / widths.sum()).pvalue > 1e-4


def test_predicted_positions_are_uniform(passes):
    """Only masked positions differ: without the masks, the text is the corpus."""
    _, examples = passes
    lengths = examples["input_mask"].sum(1)
    is_ordinary = numbered.unmasked(examples) >= FIRST
    np.testing.assert_array_equal(is_ordinary.sum(1) + 3, lengths)
    is_full = examples["input_mask"].all(1)
    is_real = examples["masked_lm_weights"][is_full] > 0
    places = np.cumsum(is_ordinary[is_full], axis=1) - 1  # Among the 61 ordinary pieces of a full row.
    predicted_places = np.take_along_axis(places, examples["masked_lm_positions"][is_full], 1)[is_real]
    assert stats.chisquare(np.bincount(predicted_places, minlength=61)).pvalue > 1e-4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"masked_lm_prob": 0}, "`masked_lm_prob` must be between 0 and 1. Received: masked_lm_prob=0"),
        ({"max_predictions": 0}, "max_predictions=0"),
        ({"max_ngram": 0}, "max_ngram=0"),
        ({"mask_share": -0.1}, "mask_share=-0.1"),
        ({"random_share": 0.3}, "mask_share=0.8, random_share=0.3"),
    ],
)
def test_invalid_settings(options, message):
    with pytest.raises(ValueError, match=message):
        Masking(**options)


def test_shares_may_add_up_to_1_up_to_rounding():
    assert Masking(mask_share=0.7, random_share=0.3).random_share == 0.3


def test_a_vocabulary_without_a_mask():
    with pytest.raises(ValueError, match=r"\[MASK\]"):
        Masker(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"])


def test_number_of_predictions_defaults_to_the_share_rounded_up():
    assert [Masking().predictions(length) for length in (128, 512, 8, 20)] == [20, 77, 2, 3]
