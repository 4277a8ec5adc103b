"""The texts that ranges for int8 are found with: those of a user, as inputs of a signature, and passages."""

import contextlib

import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.exporting import int8_ranges  # noqa: E402
from keras_bert.exporting.int8_ranges import calibrated, probed  # noqa: E402

TEXT = tf.TensorSpec([None], tf.string, "text")
CHOICES = tf.TensorSpec([None, None], tf.string, "choices")


class Signature:
    """A signature that keeps the inputs of its calls."""

    def __init__(self, *specs):
        self.input_signature = specs
        self.calls = []

    def python_function(self, *inputs):
        self.calls.append([values.numpy().tolist() for values in inputs])


@pytest.fixture
def without_model(monkeypatch):
    """Observes no layers, so that no model is needed."""
    monkeypatch.setattr(int8_ranges, "observed", lambda model: contextlib.nullcontext({"layer": 1}))


def test_texts_are_computed_eight_at_a_time(without_model):
    signature = Signature(TEXT)
    texts = [f"text {number}" for number in range(10)]
    limits = calibrated(None, signature, texts)
    assert limits == {"layer": 1}
    (first,), (last,) = signature.calls
    assert len(first) == 8
    assert last == [b"text 8", b"text 9"]


def test_short_lists_of_choices_are_padded(without_model):
    signature = Signature(TEXT, CHOICES)
    calibrated(None, signature, [("a", ["b", "c"]), ("d", ["e"])])
    assert signature.calls == [[[b"a", b"d"], [[b"b", b"c"], [b"e", b""]]]]


def test_probe_and_passages_fill_every_input(without_model):
    signature = Signature(TEXT, CHOICES)
    probed(None, signature)
    assert len(signature.calls) > 1  # The probe, and passages.
    for texts, choices in signature.calls:
        assert len(texts) == len(choices) > 0
    _, (texts, _), *_ = signature.calls
    assert all(text.endswith(b" [MASK].") for text in texts)


def test_no_texts_are_refused():
    with pytest.raises(ValueError, match="`calibration` must be a list of texts. Received: no texts"):
        calibrated(None, Signature(TEXT), [])


@pytest.mark.parametrize(
    ("specs", "wrong"),
    [
        ([TEXT], ("a", "b")),
        ([TEXT], 3),
        ([TEXT], b"a"),
        ([TEXT, CHOICES], "a"),
        ([TEXT, CHOICES], ("a", "b")),
        ([TEXT, CHOICES], ("a", ["b", None])),
    ],
)
def test_a_row_of_other_inputs_is_refused(specs, wrong):
    right = ("a", ["b"])[: len(specs)]
    with pytest.raises(ValueError, match="`calibration` .* at index 1"):
        calibrated(None, Signature(*specs), [right, wrong])
