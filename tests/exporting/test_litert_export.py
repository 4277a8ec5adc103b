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


@pytest.fixture
def preprocessor(pieces):
    return keras_bert.TextPreprocessor(pieces, 12)


def check(model, head, path, lengths=None, precision="float32", tolerance=1e-5):
    """Compares the interpreter's outputs with those of the Keras model, for several sizes."""
    path.write_bytes(build_litert(model, precision, lengths))
    for name, length in signature_names(lengths).items():
        run = litert_runner(path, name)
        shapes = [(1, length), (3, length)]
        if length is None:
            shapes = [(1, 1), (3, 17)]
        for shape in shapes:
            batch = batch_of(head, *shape)
            outputs = run(batch)
            expected = model(batch)
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
        ("pretraining", {}, "float32"),
        ("projection", {}, "float32"),
        ("multiple_choice", {}, "float32"),
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


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "lengths", "most"), [("float16", None, 2e-2), ("int8", [4, 8], 0.3)])
def test_files_in_other_precisions(model_of, preprocessor, tmp_path, precision, lengths, most):
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "model.tflite").touch()  # Replaced.
    model = model_of("classification")
    report = keras_bert.export_litert(model, preprocessor, folder, precision=precision, lengths=lengths)
    assert report.difference < most
    assert list(report.latencies) == (lengths or [40])
    assert f"{folder}/model.tflite: 0." in str(report)


@pytest.mark.parametrize("lengths", [[], [8, 8], [0], ["8"], [41]])
def test_lengths_that_no_signature_can_have(model_of, preprocessor, tmp_path, lengths):
    with pytest.raises(ValueError, match="`lengths` must be a list of different lengths of at most 40 tokens"):
        keras_bert.export_litert(model_of("encoder"), preprocessor, tmp_path / "new", lengths=lengths)
