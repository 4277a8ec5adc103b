"""Sampling of targets, with a temperature, of the likeliest tokens, or of a total probability."""

import dataclasses

import keras
from keras import ops

from keras_bert.checks import check_count, check_not_negative, is_number
from keras_bert.layers.dropout import GivenSeed
from keras_bert.translation.decoding import FORBIDDEN, Constraints


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
            least = ops.top_k(logs, min(self.top_k, logs.shape[-1]))[0][..., -1:]
            logs = ops.where(logs < least, FORBIDDEN, logs)
        if self.top_p < 1:
            ordered = ops.flip(ops.sort(ops.log_softmax(logs), axis=-1), axis=-1)
            before = ops.cumsum(ops.exp(ordered), axis=-1) - ops.exp(ordered)
            least = ops.min(ops.where(before < self.top_p, ordered, 0.0), axis=-1, keepdims=True)
            logs = ops.where(ops.log_softmax(logs) < least, FORBIDDEN, logs)
        # The maximum with Gumbel noise is a sample (Gumbel, 1954).
        seed = GivenSeed(ops.stack([ops.convert_to_tensor(self.seed % 2**32, "uint32"), ops.cast(step, "uint32")]))
        uniform = keras.random.uniform(ops.shape(logs), 1e-7, 1.0, seed=seed)
        return ops.cast(ops.argmax(logs - ops.log(-ops.log(uniform)), axis=-1), "int32")


def sample(decoder, source_ids, source_mask, max_length, *, start_id, end_id, sampling, prefix=None, forbidden=()):
    """Generates targets token by token.

    Args:
        sampling: a `Sampling`; `Sampling(temperature=0)` is greedy search.
        others: see `beam_search`.

    Returns:
        A dict: `ids` `(batch, samples, max_length)`, -1 after the end; `scores` `(batch, samples)`, the sums of log
        probabilities.
    """
    samples, batch = sampling.samples, ops.shape(source_ids)[0]
    allowed = Constraints(decoder, batch, max_length, prefix, forbidden)
    memory = decoder.encode(source_ids, source_mask)
    columns = ops.arange(allowed.length, dtype="int32")

    def body(step, ids, scores, caches, running):
        last = ops.where(step > 0, ops.sum(ops.where(columns == step - 1, ids, 0), axis=-1), start_id)
        logits, caches = decoder.logits(ops.maximum(last, 0), step, caches, memory)
        logs = ops.log_softmax(logits)
        wrong = allowed.is_forbidden(ops.arange(logs.shape[-1], dtype="int32"))
        tokens, forced = sampling.next(logs, ops.where(wrong, FORBIDDEN, 0.0), step), allowed.forced(step)
        if forced is not None:
            tokens = ops.where(forced[..., 0] >= 0, forced[..., 0], tokens)
        scores = scores + ops.where(running, ops.take_along_axis(logs, tokens[..., None], axis=2)[..., 0], 0.0)
        ids = ops.where(ops.logical_and(columns == step, running[..., None]), tokens[..., None], ids)
        goes = ops.logical_and(tokens != end_id, (step + 1 < allowed.limits)[:, None])
        return step + 1, ids, scores, caches, ops.logical_and(running, goes)

    def goes_on(step, ids, scores, caches, running):
        return ops.logical_and(step < allowed.length, ops.any(running))

    ids = ops.full((batch, samples, allowed.length), -1, "int32")
    running = ops.broadcast_to((allowed.limits > 0)[:, None], (batch, samples))
    start = (0, ids, ops.zeros((batch, samples)), decoder.caches(batch * samples, allowed.length))
    _, ids, scores, *_ = ops.while_loop(goes_on, body, (*start, running))
    return {"ids": ids, "scores": scores}
