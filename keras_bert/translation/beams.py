"""Beam search and greedy search (Vaswani et al., 2017, section 6.1)."""

import dataclasses

from keras import ops

from keras_bert.checks import check_choice, check_count, check_not_negative
from keras_bert.translation.decoding import FORBIDDEN, Constraints


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
        return (length if self.normalization == "length" else (5.0 + length) / 6.0) ** self.length_penalty


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
    size, batch = beam.size, ops.shape(source_ids)[0]
    allowed = Constraints(decoder, batch, max_length, prefix, forbidden)
    memory = decoder.encode(source_ids, source_mask)
    columns = ops.arange(allowed.length, dtype="int32")

    def body(step, ids, scores, parents, caches, ended, running):
        last = ops.where(step > 0, ops.sum(ops.where(columns == step - 1, ids, 0), axis=-1), start_id)
        logits, caches = decoder.logits(last, step, _follow(caches, parents), memory)
        best, parents, tokens = _candidates(logits, scores, allowed, step, 2 * size)
        ids = ops.where(columns == step, tokens[..., None], _rows(ids, parents))
        ends = ops.logical_or(tokens == end_id, (step + 1 == allowed.limits)[:, None])
        normalizer = beam.normalizer(step + 1)
        ended = _keep(ended, ids, best, normalizer, ops.logical_and(ends, running[:, None]))
        # The best of the others run on.
        scores, chosen = ops.top_k(ops.where(ends, best + FORBIDDEN, best), size)
        ids, parents = _rows(ids, chosen), ops.take_along_axis(parents, chosen, axis=1)
        better = ops.logical_and(scores[:, 0] / normalizer > ended[1][:, -1], step + 1 < allowed.limits)
        return step + 1, ids, scores, parents, caches, ended, ops.logical_and(running, better)

    def goes_on(step, ids, scores, parents, caches, ended, running):
        return ops.logical_and(step < allowed.length, ops.any(running))

    ids = ops.full((batch, size, allowed.length), -1, "int32")
    scores = ops.where(ops.arange(size) == 0, 0.0, FORBIDDEN) + ops.zeros((batch, size))
    start = 0, ids, scores, ops.zeros((batch, size), "int32"), decoder.caches(batch * size, allowed.length)
    start = *start, (ids, ops.full((batch, size), FORBIDDEN)), allowed.limits > 0
    *_, (ids, scores), _ = ops.while_loop(goes_on, body, start)
    return {"ids": ops.where((scores > FORBIDDEN)[..., None], ids, -1), "scores": scores}


def _keep(ended, ids, scores, normalizer, ends):
    """Returns the ids and scores of the best beams that ended, those of now among the best ones of each source."""
    size = ended[1].shape[1]
    kept = ops.logical_and(ends, ops.logical_and(ops.arange(2 * size) < size, scores > FORBIDDEN / 2))
    candidates = ops.concatenate([ended[1], ops.where(kept, scores / normalizer, FORBIDDEN)], axis=1)
    best, chosen = ops.top_k(candidates, size)
    return _rows(ops.concatenate([ended[0], ids], axis=1), chosen), best


def _follow(caches, parents):
    """Returns the caches of the parents, `(batch, rows)`, of each row."""
    batch, rows = ops.shape(parents)
    index = ops.reshape(parents + rows * ops.arange(batch, dtype="int32")[:, None], (batch * rows,))
    return [tuple(ops.take(part, index, axis=0) for part in cache) for cache in caches]


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
    best, tokens = (ops.reshape(values, (batch, size, most)) for values in (best, tokens))
    highest = best[..., :1]
    normalizer = highest + ops.log(ops.sum(ops.exp(logits - highest), axis=-1, keepdims=True))
    best = ops.where(allowed.is_forbidden(tokens), FORBIDDEN, best)
    forced = allowed.forced(step)
    if forced is not None:
        tokens = ops.where(forced >= 0, forced, tokens)
        forced_logits = ops.take_along_axis(logits, tokens[..., :1], axis=2)
        forced_logits = ops.where(ops.arange(most) == 0, forced_logits, FORBIDDEN)
        best = ops.where(forced >= 0, forced_logits, best)
    totals = ops.reshape(scores[..., None] + best - normalizer, (batch, size * most))
    best, places = ops.top_k(totals, count)
    tokens = ops.take_along_axis(ops.reshape(tokens, (batch, size * most)), places, axis=1)
    return best, places // most, tokens
