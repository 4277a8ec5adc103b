"""The question answering signature: numbers that it cannot have. Its answers are in tests/exporting."""

import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

import keras_bert  # noqa: E402
from keras_bert.heads.question_answering_signatures import answerer  # noqa: E402


@pytest.mark.parametrize("name", ["doc_stride", "max_question_length", "max_answer_length", "n_best"])
def test_numbers_are_counts(pieces, name):
    preprocessor = keras_bert.TextPreprocessor(pieces, 12)
    with pytest.raises(ValueError, match=f"`{name}` must be a positive integer"):
        answerer(None, preprocessor, **{name: 0})


def test_a_token_of_the_context_must_fit(pieces):
    """Beside [CLS] and two [SEP]."""
    assert list(answerer(None, keras_bert.TextPreprocessor(pieces, 4))) == ["serving_default"]
    with pytest.raises(ValueError, match="`sequence_length` must be at least 4"):
        answerer(None, keras_bert.TextPreprocessor(pieces, 3))
