"""Says what to lower when memory ends."""

import contextlib


@contextlib.contextmanager
def explain_out_of_memory(batch_size=None, length=None, parameters=None):
    """Turns an out-of-memory error of any backend into a `MemoryError` of one line.

    Args:
        batch_size, length: the shape of a training or prediction batch.
        parameters: the number of weights that were being loaded.

    Example:
        with explain_out_of_memory(batch_size=32, length=512):
            model.fit(data)
    """
    try:
        yield
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        if parameters is not None:
            what = f"loading {parameters:,} parameters ({parameters * 4 / 1e9:.1f} GB in float32)"
            advice = 'Load with dtype="bfloat16", or free memory first'
        else:
            what = f"a batch of {batch_size} sequences of length {length}"
            advice = (
                "Lower the batch size (gradient accumulation keeps the effective one) or the length, or build the "
                "encoder with remat=True"
            )
        raise MemoryError(f"out of memory at {what}. {advice}") from error


def _is_out_of_memory(error):
    # TensorFlow raises ResourceExhaustedError, JAX a RuntimeError that begins so, NumPy and Python a MemoryError.
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "ResourceExhaustedError"
        or "RESOURCE_EXHAUSTED" in str(error)
    )
