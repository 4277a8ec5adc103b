"""Decoding with a `Decoder`: beam search, and sampling. The loops run in one graph for any batch and source length."""

import dataclasses
import numbers

import keras
from keras import ops

from keras_bert.checks import check_choice, check_count, check_not_negative, is_number
from keras_bert.layers.dropout import GivenSeed
from keras_bert.layers.masks import FORBIDDEN


class Constraints:
    """What targets may be: their maximum lengths, the tokens with which they begin, and ids that never occur.

    `max_length` is the maximum number of target tokens, with the end token; or a tensor of one for each source, which
    the number of positions of the model limits. `prefix` is int32 `(batch, prefix length)`, -1 after shorter ones, or
    `None`. The attribute `limits`, `(batch,)`, has the maximum lengths, `length` is the largest of them.
    """

    def __init__(self, decoder, batch, max_length, prefix, forbidden):
        config = decoder.config
        self.forbidden = sorted(set(forbidden))
        if config.vocab_size <= len(self.forbidden):
            raise ValueError(f"`forbidden` must leave at least one of {config.vocab_size} ids")
        if isinstance(max_length, float):
            raise ValueError(f"`max_length` must be an int or a tensor of ints. Received: max_length={max_length}")
        if not isinstance(max_length, numbers.Integral):
            limits = ops.clip(ops.cast(max_length, "int32"), 0, config.max_position_embeddings)
            self.limits = ops.broadcast_to(limits, (batch,))
            self.length = ops.max(self.limits, initial=0)
        elif 0 <= max_length <= config.max_position_embeddings:
            self.length = int(max_length)
            self.limits = ops.full((batch,), self.length, "int32")
        else:
            raise ValueError(
                "`max_length` must be at most the number of positions of the model, "
                f"{config.max_position_embeddings}. Received: max_length={max_length}"
            )
        if prefix is not None:
            padding = [(0, 0), (0, self.length)]
            prefix = ops.pad(prefix[:, : self.length], padding, constant_values=-1)[:, : self.length]
        self._prefix = prefix

    def forced(self, step):
        """Returns the tokens of the prefix at a step, `(batch, 1, 1)`, -1 after its end; `None` without a prefix."""
        if self._prefix is None:
            return None
        return ops.take(self._prefix, step, axis=1)[:, None, None]

    def is_forbidden(self, ids):
        """Returns whether ids are among the forbidden ones."""
        return ops.any(ids[..., None] == ops.convert_to_tensor(self.forbidden, "int32"), axis=-1)


@dataclasses.dataclass(frozen=True)
class Beam:
    """Settings of beam search.

    Args:
        size: int, number of beams. Defaults to 4.
        length_penalty: float, alpha of the penalty: scores are divided by `((5 + length) / 6) ** alpha`, the paper's
            penalty, or by `length ** alpha` with `normalization="length"`. Defaults to 0.6.
        normalization: str, "paper" or "length". Defaults to "paper".
    """

    size: int = 4
    length_penalty: float = 0.6
    _: dataclasses.KW_ONLY
    normalization: str = "paper"

    def __post_init__(self):
        check_count("beam_size", self.size)
        check_not_negative("length_penalty", self.length_penalty)
        check_choice("normalization", self.normalization, ("paper", "length"))

    def normalizer(self, length):
        """Returns the divisor of the score of a sequence of `length` tokens."""
        length = ops.cast(length, "float32")
        if self.normalization == "length":
            return length**self.length_penalty
        return ((5.0 + length) / 6.0) ** self.length_penalty


def beam_search(decoder, source_ids, source_mask, max_length, *, start_id, end_id, beam, prefix=None, forbidden=()):
    """Finds the best targets of each source.

    A beam that ends is kept with its normalized score; the search of a source stops when the best running beam,
    normalized by its present length, does not exceed the worst of `beam.size` kept ones, as in transformers, or at
    `max_length`, where all beams end.

    Args:
        decoder: a `Decoder`.
        source_ids: int32 `(batch, source length)`.
        source_mask: int32 `(batch, source length)`, 1 for real tokens.
        max_length: int, maximum number of target tokens, with the end token; or a tensor of one for each source.
        start_id: int, id of the start token.
        end_id: int, id of the end token.
        beam: a `Beam`.
        prefix: int32 `(batch, prefix length)`, tokens with which the targets begin, -1 after shorter ones. Defaults to
            `None`.
        forbidden: ids that are never generated.

    Returns:
        A dict, the best first: `ids` `(batch, beams, max_length)`, -1 after the end; `scores` `(batch, beams)`, the
        normalized sums of log probabilities. If there are fewer targets than beams, the others have no ids and a score
        of -1e9.
    """
    size = beam.size
    batch = ops.shape(source_ids)[0]
    allowed = Constraints(decoder, batch, max_length, prefix, forbidden)
    memory = decoder.encode(source_ids, source_mask)
    columns = ops.arange(allowed.length, dtype="int32")

    def body(step, ids, scores, parents, caches, ended, running):
        last = _last_tokens(ids, columns, step, start_id)
        logits, caches = decoder.logits(last, step, _follow(caches, parents), memory)
        best, parents, tokens = _candidates(logits, scores, allowed, step, 2 * size)
        ids = ops.where(columns == step, tokens[..., None], _rows(ids, parents))
        ends = ops.logical_or(tokens == end_id, (step + 1 == allowed.limits)[:, None])
        normalizer = beam.normalizer(step + 1)
        ended = _keep(ended, ids, best, normalizer, ops.logical_and(ends, running[:, None]))
        # The best of the others run on.
        scores, chosen = ops.top_k(ops.where(ends, best + FORBIDDEN, best), size)
        ids = _rows(ids, chosen)
        parents = ops.take_along_axis(parents, chosen, axis=1)
        worst_ended = ended[1][:, -1]
        is_better = scores[:, 0] / normalizer > worst_ended
        is_short = step + 1 < allowed.limits
        better = ops.logical_and(is_better, is_short)
        return step + 1, ids, scores, parents, caches, ended, ops.logical_and(running, better)

    def goes_on(step, ids, scores, parents, caches, ended, running):
        return ops.logical_and(step < allowed.length, ops.any(running))

    no_ids = ops.full((batch, size, allowed.length), -1, "int32")
    of_first_beam = ops.where(ops.arange(size) == 0, 0.0, FORBIDDEN)  # At the start, there is one.
    scores = of_first_beam + ops.zeros((batch, size))
    parents = ops.zeros((batch, size), "int32")
    caches = decoder.caches(batch * size, allowed.length)
    ended = (no_ids, ops.full((batch, size), FORBIDDEN))
    running = allowed.limits > 0
    start = (0, no_ids, scores, parents, caches, ended, running)
    *_, (ids, scores), _ = ops.while_loop(goes_on, body, start)
    return {"ids": ops.where((scores > FORBIDDEN)[..., None], ids, -1), "scores": scores}


def _last_tokens(ids, columns, step, start_id):
    """Returns the tokens before a step, the start token at the first one."""
    before = ops.sum(ops.where(columns == step - 1, ids, 0), axis=-1)
    return ops.where(step > 0, before, start_id)


def _keep(ended, ids, scores, normalizer, ends):
    """Returns the ids and scores of the best beams that ended, those of now among the best ones of each source."""
    ended_ids, ended_scores = ended
    size = ended_scores.shape[1]
    are_best = ops.arange(2 * size) < size
    are_real = scores > FORBIDDEN / 2
    kept = ops.logical_and(ends, ops.logical_and(are_best, are_real))
    candidates = ops.concatenate([ended_scores, ops.where(kept, scores / normalizer, FORBIDDEN)], axis=1)
    best, chosen = ops.top_k(candidates, size)
    return _rows(ops.concatenate([ended_ids, ids], axis=1), chosen), best


def _follow(caches, parents):
    """Returns the caches of the parents, `(batch, rows)`, of each row."""
    batch, rows = ops.shape(parents)
    first = rows * ops.arange(batch, dtype="int32")[:, None]
    index = ops.reshape(parents + first, (batch * rows,))
    followed = []
    for keys, values in caches:
        followed.append((ops.take(keys, index, axis=0), ops.take(values, index, axis=0)))
    return followed


def _rows(values, index):
    """Returns the rows of `(batch, rows, length)` values at `(batch, chosen)` indices."""
    return ops.take_along_axis(values, index[..., None], axis=1)


def _candidates(logits, scores, allowed, step, count):
    """Returns the best continuations of the beams of each source, `(batch, count)` each: scores, beams and tokens.

    The best ones of all beams are among the best ones of each beam, so that only these are normalized and compared.
    """
    batch, size, vocabulary = ops.shape(logits)
    most = min(count + len(allowed.forbidden), vocabulary)
    best, tokens = ops.top_k(ops.reshape(logits, (batch * size, vocabulary)), most)  # XLA sorts arrays of rank 3.
    best = ops.reshape(best, (batch, size, most))
    tokens = ops.reshape(tokens, (batch, size, most))
    highest = best[..., :1]
    total = ops.sum(ops.exp(logits - highest), axis=-1, keepdims=True)
    normalizer = highest + ops.log(total)
    best = ops.where(allowed.is_forbidden(tokens), FORBIDDEN, best)
    forced = allowed.forced(step)
    if forced is not None:
        tokens = ops.where(forced >= 0, forced, tokens)
        forced_logits = ops.take_along_axis(logits, tokens[..., :1], axis=2)
        forced_logits = ops.where(ops.arange(most) == 0, forced_logits, FORBIDDEN)
        best = ops.where(forced >= 0, forced_logits, best)
    totals = scores[..., None] + best - normalizer
    best_totals, places = ops.top_k(ops.reshape(totals, (batch, size * most)), count)
    beams = places // most
    tokens_of_all = ops.reshape(tokens, (batch, size * most))
    return best_totals, beams, ops.take_along_axis(tokens_of_all, places, axis=1)


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Settings of sampling; by default, from all tokens with their probabilities.

    Args:
        temperature: float, divides the logits; 0 takes the likeliest token. Defaults to 1.0.
        top_k: int, samples from the `top_k` likeliest tokens; `None` from all. Defaults to `None`.
        top_p: float, samples from the fewest tokens with this total probability. Defaults to 1.0.
        samples: int, number of targets for each source. Defaults to 1.
        seed: int, the same seed gives the same targets. Defaults to 0.
    """

    temperature: float = 1.0
    top_k: int | None = None
    _: dataclasses.KW_ONLY
    top_p: float = 1.0
    samples: int = 1
    seed: int = 0

    def __post_init__(self):
        check_count("samples", self.samples)
        if self.top_k is not None:
            check_count("top_k", self.top_k)
        check_not_negative("temperature", self.temperature)
        if not is_number(self.top_p) or not 0 < self.top_p <= 1:
            raise ValueError(f"`top_p` must be a number in (0, 1]. Received: top_p={self.top_p!r}")

    def next(self, logs, bias, step):
        """Returns the next tokens for log probabilities `(batch, samples, vocabulary)` and what is added to them."""
        if self.temperature == 0:
            return ops.cast(ops.argmax(logs + bias, axis=-1), "int32")
        logs = ops.log_softmax(logs / self.temperature + bias)
        if self.top_k is not None:
            highest, _ = ops.top_k(logs, min(self.top_k, logs.shape[-1]))
            least = highest[..., -1:]
            logs = ops.where(logs < least, FORBIDDEN, logs)
        if self.top_p < 1:
            ordered = ops.flip(ops.sort(ops.log_softmax(logs), axis=-1), axis=-1)
            before = ops.cumsum(ops.exp(ordered), axis=-1) - ops.exp(ordered)
            least = ops.min(ops.where(before < self.top_p, ordered, 0.0), axis=-1, keepdims=True)
            logs = ops.where(ops.log_softmax(logs) < least, FORBIDDEN, logs)
        # The maximum with Gumbel noise is a sample (Gumbel, 1954).
        first = ops.convert_to_tensor(self.seed % 2**32, "uint32")
        seed = GivenSeed(ops.stack([first, ops.cast(step, "uint32")]))
        uniform = keras.random.uniform(ops.shape(logs), 1e-7, 1.0, seed=seed)
        noise = -ops.log(-ops.log(uniform))
        return ops.cast(ops.argmax(logs + noise, axis=-1), "int32")


def sample(decoder, source_ids, source_mask, max_length, *, start_id, end_id, sampling, prefix=None, forbidden=()):
    """Generates targets token by token.

    Args:
        sampling: a `Sampling`; `Sampling(temperature=0)` is greedy search.
        others: see `beam_search`.

    Returns:
        A dict: `ids` `(batch, samples, max_length)`, -1 after the end; `scores` `(batch, samples)`, the sums of log
        probabilities.
    """
    samples = sampling.samples
    batch = ops.shape(source_ids)[0]
    allowed = Constraints(decoder, batch, max_length, prefix, forbidden)
    memory = decoder.encode(source_ids, source_mask)
    columns = ops.arange(allowed.length, dtype="int32")

    def body(step, ids, scores, caches, running):
        last = _last_tokens(ids, columns, step, start_id)
        logits, caches = decoder.logits(ops.maximum(last, 0), step, caches, memory)
        logs = ops.log_softmax(logits)
        wrong = allowed.is_forbidden(ops.arange(logs.shape[-1], dtype="int32"))
        tokens = sampling.next(logs, ops.where(wrong, FORBIDDEN, 0.0), step)
        forced = allowed.forced(step)
        if forced is not None:
            tokens = ops.where(forced[..., 0] >= 0, forced[..., 0], tokens)
        chosen = ops.take_along_axis(logs, tokens[..., None], axis=2)[..., 0]
        scores = scores + ops.where(running, chosen, 0.0)
        is_new = ops.logical_and(columns == step, running[..., None])
        ids = ops.where(is_new, tokens[..., None], ids)
        goes = ops.logical_and(tokens != end_id, (step + 1 < allowed.limits)[:, None])
        return step + 1, ids, scores, caches, ops.logical_and(running, goes)

    def goes_on(step, ids, scores, caches, running):
        return ops.logical_and(step < allowed.length, ops.any(running))

    ids = ops.full((batch, samples, allowed.length), -1, "int32")
    running = ops.broadcast_to((allowed.limits > 0)[:, None], (batch, samples))
    scores = ops.zeros((batch, samples))
    caches = decoder.caches(batch * samples, allowed.length)
    start = (0, ids, scores, caches, running)
    _, ids, scores, _, _ = ops.while_loop(goes_on, body, start)
    return {"ids": ids, "scores": scores}
