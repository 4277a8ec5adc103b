"""Default learning rates for the width of a model, and advice on runs whose loss hardly fell."""

import math

# Factors of the paper's rates, which are for a width of 768, by the largest width that they are for; for measurements
# see benchmarks/README.md.
_FACTORS = {256: 10, 512: 3}
_LEAST_FALL = 0.05  # Of the loss, from the first to the last tenth of its values.
_FEWEST = 10  # Values of the loss, below which nothing is said.


def for_width(rates, width):
    """Returns the learning rates for models of a width, higher ones for narrow models; unchanged ones for `None`."""
    factor = next((factor for widest, factor in _FACTORS.items() if width and width <= widest), 1)
    return [float(f"{factor * rate:.3g}") for rate in rates]


def advice(lines, rate, defaults):
    """Returns a sentence if the loss of a run hardly fell, or else `None`; `lines` are those of its `metrics.jsonl`."""
    losses = [sum(line[name] for name in line if name.endswith("loss")) for line in lines if line["kind"] == "train"]
    tenth = math.ceil(len(losses) / 10)
    first, last = (sum(part) / tenth for part in (losses[:tenth], losses[-tenth:])) if losses else (0, 0)
    if len(losses) < _FEWEST or not rate or not last > (1 - _LEAST_FALL) * first:
        return None
    usual = rate <= max(defaults) <= 10 * rate
    others = [f"{3 * rate:.1g}", f"{10 * rate:.1g}"] if usual else [f"{other:g}" for other in defaults]
    change = "hardly fell" if last < first else "did not fall"
    return (
        f"the loss {change}, from {first:.3g} to {last:.3g}. If the scores are low, try a learning_rate of "
        f"{' or '.join(others)}, or more epochs"
    )
