import keras
import numpy as np
import pytest

import keras_bert


def test_a_memory_error_is_explained():
    with (
        pytest.raises(
            MemoryError, match="out of memory at a batch of 32 sequences of length 512. Lower the batch size"
        ),
        keras_bert.explain_out_of_memory(batch_size=32, length=512),
    ):
        np.empty((1 << 20, 1 << 30))


@pytest.mark.slow  # TensorFlow tries for ten seconds.
def test_an_error_of_the_backend_is_explained():
    with (
        pytest.raises(MemoryError, match="a batch of 1 sequences of length 16777216.* remat=True"),
        keras_bert.explain_out_of_memory(batch_size=1, length=1 << 24),
    ):
        keras.ops.ones((1 << 24, 1 << 24)) + 1  # 1 PB of attention scores, more than there are addresses


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError), keras_bert.explain_out_of_memory(batch_size=1, length=1):
        _ = 1 / 0
