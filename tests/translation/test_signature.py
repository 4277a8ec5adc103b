"""Translations of texts, by a model with random weights."""

import keras
import numpy as np
import pytest

from keras_bert.translation.config import TransformerConfig
from keras_bert.translation.decoding import Beam
from keras_bert.translation.model import Decoder, build_transformer
from keras_bert.translation.signature import Translator

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


@pytest.fixture(scope="module")
def model(reversible):
    keras.utils.set_random_seed(1)
    size = len(reversible.vocabulary)
    return build_transformer(TransformerConfig(size, 16, 1, 1, 2, 32, dropout=0.0, max_position_embeddings=7))


def test_translations(model, reversible):
    """An empty text has an empty translation, and one longer than the positions is cut off; none need be given."""
    translator = Translator(Decoder(model), reversible, Beam(3), n_best=2)
    found = translator(tf.constant(["a b", "", "a " * 60]))
    assert found["translations"].numpy()[1].tolist() == [b"", b""]
    assert found["truncated"].numpy().tolist() == [False, False, True]
    np.testing.assert_array_equal(found["translation"], found["translations"][:, 0])
    scores = found["scores"].numpy()
    assert (scores[:, 0] >= scores[:, 1]).all()
    assert (scores[1] == 0).all()
    assert translator(tf.constant([], tf.string))["translations"].shape == (0, 2)


def test_alignments(model, reversible):
    translator = Translator(Decoder(model), reversible)
    found = {name: value.numpy() for name, value in translator.align(tf.constant(["a b c", ""])).items()}
    starts = ["".join(map(bytes.decode, row)) for row in found["source_tokens"].tolist()]
    assert starts == ["▁##a▁##b▁##c[END]", "[END]"]
    is_written = found["target_tokens"] != b""
    assert is_written[0].any()
    assert not is_written[1].any()
    np.testing.assert_allclose(found["attention"].sum(-1), is_written, atol=1e-5)
    assert translator.align(tf.constant([], tf.string))["translation"].shape == (0,)


def test_mistakes(model, reversible):
    for n_best in (0, 5):
        message = f"at least 1 and at most the number of beams, 4.* n_best={n_best}"
        with pytest.raises(ValueError, match=message):
            Translator(Decoder(model), reversible, n_best=n_best)
    with pytest.raises(ValueError, match="the same number of tokens. Received: 9 and"):
        Translator(Decoder(build_transformer(TransformerConfig(9, 16, 1, 1, 2, 32))), reversible)
