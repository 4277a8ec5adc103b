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


@pytest.mark.tensorflow
def test_tensorflow_out_of_memory_is_explained():
    config = keras_bert.BertConfig(
        vocab_size=5,
        hidden_size=2,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=2,
        max_position_embeddings=1 << 21,
    )
    encoder = keras_bert.build_encoder(config)
    inputs = {name: np.ones((1, 1 << 21), "int32") for name in encoder.input}
    with (
        pytest.raises(MemoryError, match="a batch of 1 sequences of length 2097152.* remat=True"),
        keras_bert.explain_out_of_memory(batch_size=1, length=1 << 21),
    ):
        encoder.predict(inputs, verbose=0)  # 16 TB of attention scores


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError), keras_bert.explain_out_of_memory(batch_size=1, length=1):
        _ = 1 / 0
