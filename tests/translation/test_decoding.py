"""Beam search, against transformers' outputs and a slow search in NumPy that computes every prefix anew."""

import functools

import keras
import numpy as np
import pytest
import scipy.special

from keras_bert.translation import marian
from keras_bert.translation.config import TransformerConfig
from keras_bert.translation.decoding import Beam, Sampling, beam_search, sample
from keras_bert.translation.model import Decoder, build_transformer
from tests.translation.conftest import build


def compiled(function):
    """Compiles a function of arrays on JAX, which otherwise compiles each of its operations."""
    if keras.backend.backend() != "jax":
        return function
    import jax

    return jax.jit(function)


@pytest.mark.parametrize("name", ["relu", "swish"])
def test_marian(golden, name):
    """Logits of transformers; for one model also beam search."""
    folder = golden / "marian" / name
    found = dict(np.load(folder / "golden.npz"))
    model = marian.read(folder)
    inputs = {key: found[key] for key in ("source_ids", "source_mask", "target_ids")}
    inputs["target_mask"] = np.ones_like(found["target_ids"])
    outputs = model(inputs)
    np.testing.assert_allclose(outputs["logits"], found["logits"], atol=2e-5 * np.abs(found["logits"]).max())
    if name == "swish":
        return
    ids = inputs["source_ids"].astype("int32")
    mask = inputs["source_mask"].astype("int32")
    search = functools.partial(beam_search, Decoder(model), max_length=16, start_id=60, end_id=0, forbidden=[60])
    answer = compiled(functools.partial(search, beam=Beam(4, 0.0)))(ids, mask)
    best = np.array(answer["ids"])[:, 0]
    expected = found["beam4"][:, 1:]
    np.testing.assert_array_equal(np.where(best < 0, 60, best)[:, : expected.shape[1]], expected)
    np.testing.assert_allclose(np.array(answer["scores"])[:, 0], found["beam4_scores"], atol=1e-4)


START = 1
END = 2
ENDS = {"start_id": START, "end_id": END}


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    return build(TransformerConfig(11, 16, 1, 2, 2, 32, dropout=0.0), 0.3)


@pytest.fixture(scope="module")
def decoder(model):
    return Decoder(model)


@pytest.fixture(scope="module")
def sources():
    """Three sources, the second one padded."""
    ids = np.random.default_rng(0).integers(3, 11, (3, 6))
    mask = np.ones((3, 6), "int32")
    mask[1, 4:] = 0
    return ids.astype("int32") * mask, mask


def slow_logs(model, source, mask, starts):
    """Returns the log probabilities of the next token after lists of ids, by the whole model, in float64."""
    # Of one shape for all, so that the model is compiled once.
    target_ids = np.zeros((4, 9), "int32")
    target_mask = np.zeros((4, 9), "int32")
    last = [len(ids) for ids in starts]
    for row, ids in enumerate(starts):
        target_ids[row, : len(ids) + 1] = [START, *ids]
        target_mask[row, : len(ids) + 1] = 1
    inputs = {
        "source_ids": np.repeat(source[None], 4, axis=0),
        "source_mask": np.repeat(mask[None], 4, axis=0),
        "target_ids": target_ids,
        "target_mask": target_mask,
    }
    logits = model.predict_on_batch(inputs)["logits"][np.arange(len(starts)), last].astype("float64")
    return logits - scipy.special.logsumexp(logits, axis=-1, keepdims=True)


def slow_beam(model, source, mask, beam, max_length, prefix=(), forbidden=()):
    """Returns the kept (score, ids) of one source, the best first."""
    running = [(0.0, [])]
    ended = []
    for step in range(max_length):
        candidates = []
        logs = slow_logs(model, source, mask, [ids for _, ids in running])
        for (score, ids), row in zip(running, logs, strict=True):
            allowed = [token for token in range(11) if token not in forbidden]
            if step < len(prefix):
                allowed = [prefix[step]]
            candidates += [(score + row[token], [*ids, token]) for token in allowed]
        candidates = sorted(candidates, key=score_of)[: 2 * beam.size]
        length = 1 + step
        if beam.normalization == "paper":
            length = (6 + step) / 6
        penalty = length**beam.length_penalty

        running = []
        for place, (score, ids) in enumerate(candidates):
            if ids[-1] != END and step + 1 < max_length:
                running.append((score, ids))
            elif place < beam.size:
                ended.append((score / penalty, ids))
        running = running[: beam.size]
        ended = sorted(ended, key=score_of)[: beam.size]
        if not running:
            break
        is_full = len(ended) == beam.size
        if is_full and running[0][0] / penalty <= ended[-1][0]:
            break
    return ended


def score_of(candidate):
    """The key to sort candidates, the best first."""
    return -candidate[0]


def texts(ids):
    """Returns lists of generated ids."""
    generated = []
    for beams in keras.ops.convert_to_numpy(ids):
        generated.append([row[row >= 0].tolist() for row in beams])
    return generated


@pytest.mark.parametrize(
    ("beam", "limits", "options"),
    [
        (Beam(3, 0.8), 5, {}),
        (Beam(4, 1.0, normalization="length"), np.array([5, 3, 1]), {}),
        (Beam(1, 0.0), 4, {"forbidden": (END, 4)}),
        # The second source has no prefix; that of the third one ends the target.
        (Beam(2, 0.6), 4, {"prefix": np.array([[5, 7], [-1, -1], [9, END]], "int32"), "forbidden": (5,)}),
        # As long as the targets may be: there is only one target, however many beams.
        (Beam(4, 1.0, normalization="length"), 3, {"prefix": np.array([[4, 5, 4], [5, 6, 7], [9, 9, 9]], "int32")}),
    ],
)
def test_slow_search(model, decoder, sources, beam, limits, options):
    def search(ids, mask):
        return beam_search(decoder, ids, mask, limits, **ENDS, beam=beam, **options)

    if isinstance(limits, int):  # Lengths in a tensor are unknown to JAX's compiler.
        search = compiled(search)
    answer = search(*sources)
    scores = keras.ops.convert_to_numpy(answer["scores"])
    limits_of_rows = np.broadcast_to(limits, 3)
    prefixes = options.get("prefix", np.full((3, 0), -1))
    for row, found in enumerate(texts(answer["ids"])):
        prefix = prefixes[row][prefixes[row] >= 0].tolist()
        one = (sources[0][row], sources[1][row])
        expected = slow_beam(model, *one, beam, limits_of_rows[row], prefix, options.get("forbidden", ()))
        assert found[: len(expected)] == [ids for _, ids in expected]
        np.testing.assert_allclose(scores[row][: len(expected)], [score for score, _ in expected], atol=1e-4)
        assert all(ids == [] for ids in found[len(expected) :])


def test_sampling(model, decoder, sources):
    """Samples have the probabilities of the model; their scores are those of the whole model."""
    source, mask = sources[0][:1], sources[1][:1]

    def draw(length=1, **settings):
        answer = sample(decoder, source, mask, length, **ENDS, sampling=Sampling(**settings), forbidden=(0,))
        return texts(answer["ids"])[0], keras.ops.convert_to_numpy(answer["scores"])[0]

    logs = slow_logs(model, source[0], mask[0], [[]])[0]
    probabilities = np.exp(logs) * (np.arange(11) != 0)
    probabilities /= probabilities.sum()
    for settings, chosen in (
        ({"temperature": 1.0}, np.ones(11, bool)),
        ({"temperature": 1e9}, np.ones(11, bool)),
        ({"temperature": 0.5, "top_k": 4}, probabilities >= np.sort(probabilities)[-4]),
        ({"top_p": 0.7}, probabilities >= _smallest_of(probabilities, 0.7)),
    ):
        chosen = chosen & (probabilities > 0)
        expected = np.where(chosen, probabilities ** (1 / settings.get("temperature", 1.0)), 0)
        expected /= expected.sum()
        drawn = np.bincount(np.ravel(draw(samples=4000, **settings)[0]), minlength=11)
        assert (drawn[expected == 0] == 0).all()
        error = np.sqrt(4000 * expected * (1 - expected)) + 1e-9
        assert np.abs((drawn - 4000 * expected) / error).max() < 4.5
    found, scores = draw(2, samples=5, seed=3)
    again, _ = draw(2, samples=5, seed=3)
    other, _ = draw(2, samples=5, seed=4)
    assert found == again
    assert found != other
    for ids, score in zip(found, scores, strict=True):
        total = 0.0
        for end, token in enumerate(ids):
            (logs,) = slow_logs(model, source[0], mask[0], [ids[:end]])
            total += logs[token]
        np.testing.assert_allclose(score, total, atol=1e-4)


def _smallest_of(probabilities, total):
    """Returns the smallest probability of the fewest tokens that have a total."""
    ordered = np.sort(probabilities)[::-1]
    return ordered[np.searchsorted(np.cumsum(ordered), total)] - 1e-9


def test_greedy_ways(decoder, sources):
    """One beam, a temperature of 0 and the likeliest token alone; two targets with a prefix, one without."""
    prefix = np.array([[4], [5], [-1]], "int32")
    wanted = beam_search(decoder, *sources, 4, **ENDS, beam=Beam(1, 0.0), prefix=prefix)
    for sampling in (Sampling(temperature=0), Sampling(top_k=1, samples=2)):
        found = sample(decoder, *sources, 4, **ENDS, sampling=sampling, prefix=prefix)
        assert texts(found["ids"]) == [beams * sampling.samples for beams in texts(wanted["ids"])]
        scores = np.broadcast_to(wanted["scores"], found["scores"].shape)
        np.testing.assert_allclose(found["scores"], scores, atol=1e-4)


@pytest.mark.tensorflow
@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_one_trace_and_xla(sources, xla):
    """One trace serves all batches and lengths; XLA gives the same."""
    import tensorflow as tf

    decoder = Decoder(build_transformer(TransformerConfig(11, 16, 1, 1, 2, 32)))
    spec = tf.TensorSpec([None, None], tf.int32)

    def search(ids, mask):
        return beam_search(decoder, ids, mask, 6, **ENDS, beam=Beam(3))

    if xla:
        found = tf.function(search, jit_compile=True, autograph=False)(*sources)
        expected = search(*sources)
        assert texts(found["ids"]) == texts(expected["ids"])
        np.testing.assert_allclose(found["scores"], expected["scores"], atol=1e-5)
        return
    traced = tf.function(search, input_signature=[spec, spec], autograph=False)
    for ids, mask in (sources, (sources[0][1:, :4], sources[1][1:, :4]), (sources[0][:0], sources[1][:0])):
        found = traced(ids, mask)
        assert found["ids"].shape == (len(ids), 3, 6)
    assert traced.experimental_get_tracing_count() == 1


def test_bad_settings():
    beams = ({"size": 0}, {"size": 2, "length_penalty": -1.0}, {"size": 2, "normalization": "lenght"})
    samplings = ({"temperature": -1.0}, {"top_k": 0}, {"top_p": 0.0}, {"samples": True})
    for kind, settings in [*((Beam, one) for one in beams), *((Sampling, one) for one in samplings)]:
        with pytest.raises(ValueError, match=f"{list(settings)[-1]}` must be"):
            kind(**settings)


def test_bad_limits(decoder, sources):
    with pytest.raises(ValueError, match="at most the number of positions of the model, 512. Received: max_length=513"):
        beam_search(decoder, *sources, 513, **ENDS, beam=Beam(1))
    with pytest.raises(ValueError, match="must be an int or a tensor of ints. Received: max_length=4.0"):
        beam_search(decoder, *sources, 4.0, **ENDS, beam=Beam(1))
    settings = {**ENDS, "forbidden": (END,)}  # Longer limits are those of the positions.
    short = Decoder(build_transformer(TransformerConfig(11, 16, 1, 1, 2, 32, max_position_embeddings=3)))
    cut = [part[:, :3] for part in sources]
    for limits, lengths in ((np.array([0, 9, -1]), [0, 3, 0]), (np.array(2), [2, 2, 2])):
        for search, options in ((beam_search, {"beam": Beam(2)}), (sample, {"sampling": Sampling()})):
            found = search(short, *cut, limits, **settings, **options)
            assert [len(beams[0]) for beams in texts(found["ids"])] == lengths
    with pytest.raises(ValueError, match="`forbidden` must leave at least one of 11 ids"):
        sample(decoder, *sources, 3, **ENDS, sampling=Sampling(), forbidden=range(11))
    empty = beam_search(decoder, sources[0][:0], sources[1][:0], np.zeros(0, "int32"), **ENDS, beam=Beam(2))
    assert empty["ids"].shape == (0, 2, 0)
