"""LiteRT files, computed by LiteRT's interpreter, which has no operations of TensorFlow."""

import pytest

import keras_bert
from tests.conftest import HEADS, relative, to_numpy
from tests.exporting.token_ids import batch_of

pytest.importorskip("ai_edge_litert.interpreter", reason="`make convert` installs ai-edge-litert")
from keras_bert.exporting.litert_export import build_litert, litert_runner, signature_names

pytestmark = [
    pytest.mark.tensorflow,
    # Converters raise deprecation warnings about their own calls.
    pytest.mark.filterwarnings("ignore"),
]


def check(model, head, path, lengths=None, precision="float32", tolerance=1e-5):
    """Compares the interpreter's outputs with those of the Keras model, for several sizes."""
    path.write_bytes(build_litert(model, precision, lengths))
    for name, length in signature_names(lengths).items():
        run = litert_runner(path, name)
        for shape in [(1, length), (3, length)] if length else [(1, 1), (3, 17)]:
            batch = batch_of(head, *shape)
            outputs, expected = run(batch), model(batch)
            assert outputs.keys() == expected.keys()
            for key, value in expected.items():
                assert relative(outputs[key], to_numpy(value)) < tolerance, f"{key} {name} {shape}"


def test_one_signature_for_each_length(config, tmp_path):
    """In int8: the smallest file, in the shape of most use on devices."""
    model = HEADS["token_classification"].build(keras_bert.build_encoder(config))
    check(model, "token_classification", tmp_path / "model.tflite", [8, 16], "int8", tolerance=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "options", "precision"),
    [
        *((head, {}, "float32") for head in ("pretraining", "projection", "multiple_choice")),
        ("question_answering", {"positions": "none"}, "float16"),
        ("classification", {"causal": True, "positions": "sinusoid"}, "float32"),
        ("question_answering", {"positions": "relative"}, "float32"),
    ],
)
def test_heads(config, tmp_path, head, options, precision):
    model = HEADS[head].build(keras_bert.build_encoder(config, **options))
    tolerance = 1e-5 if precision == "float32" else 1e-2
    check(model, head, tmp_path / "model.tflite", None, precision, tolerance)


@pytest.mark.slow
def test_minilm(minilm, tmp_path):
    """22.7 million weights take a byte each, for both signatures together."""
    bert = keras_bert.load(minilm)
    (tmp_path / "model.tflite").write_bytes(build_litert(bert.model(), "int8", [16, 32]))
    batch = {name: to_numpy(ids).astype("int32") for name, ids in bert.preprocessor(32)(["A house."]).items()}
    vector = litert_runner(tmp_path / "model.tflite", "tokens_32")(batch)["embedding"][0]
    assert vector @ to_numpy(bert.model()(batch)["embedding"])[0] > 0.98
    assert 22e6 < (tmp_path / "model.tflite").stat().st_size < 26e6
