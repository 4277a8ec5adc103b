"""Which numbers of a run are losses: those of the names of its `Loss` objects, which results of runs keep.

Without TensorFlow, since reports of earlier runs need it, too.
"""

# Names of other numbers in the lines of `metrics.jsonl`.
NOT_LOSSES = ("step", "kind", "time", "stop", "skipped", "learning_rate", "gradient_norm", "regularization")
LOSS = "loss"  # The sum of the losses, as Keras calls it, unless a loss has this name.


def names_of(result, numbers):
    """Returns the names of the losses of a run, given its result, a dict, and numbers of it by name.

    Results of earlier versions do not have the names: all losses were called `loss` or `..._loss`.
    """
    if "losses" in result:
        return list(result["losses"])
    return [name for name in numbers if name == LOSS or name.endswith("_loss")]


def total(numbers, losses):
    """Returns the sum of the losses of these names among numbers by name; 0 without any."""
    return sum(numbers[name] for name in losses if name in numbers)


def with_total(numbers, losses):
    """Returns numbers by name with `loss`, the sum of the losses, which Keras callbacks read; unchanged without any."""
    if LOSS in numbers or not any(name in numbers for name in losses):
        return numbers
    return {LOSS: total(numbers, losses), **numbers}
