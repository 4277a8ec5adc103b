"""Tests of the command-line program."""

import numpy as np
import pytest

import keras_bert
from tests.pipelines.programs import call, mistake, read_jsonl

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
TEXTS = ["a b c", "", "d e f g h a b c d e", "b"]


@pytest.fixture
def extract(build, pieces, tmp_path):
    keras_bert.save(build("encoder"), tmp_path / "model", pieces)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")

    def extracted(how, output, *arguments):
        files = [f"--input={tmp_path}/texts.txt", f"--output={tmp_path / output}"]
        flags = [f"--model={tmp_path}/model", "--batch_size=2", *files, *arguments]
        return how("pipelines.extract_features", *flags)

    return extracted


def states_and_lengths(pieces, tmp_path, length):
    """Returns the hidden states of all texts, and their numbers of tokens."""
    encoder = keras_bert.load(tmp_path / "model", hidden_states=True).encoder
    inputs = keras_bert.TextPreprocessor(pieces, length)(TEXTS)
    states = [state.numpy() for state in encoder(inputs)["hidden_states"]]
    return states, inputs["padding_mask"].numpy().sum(1)


def vectors(tmp_path):
    """Returns the vectors that a command has written."""
    return np.load(tmp_path / "vectors.npz")["vectors"]


def test_mean_pooling_of_two_layers(extract, pieces, tmp_path, caplog):
    extract(call, "vectors.npz", "--layers=0,-1", "--sequence_length=8")
    told = "1 of 4 texts was longer than the 8 tokens that the model reads"
    assert told in caplog.text
    states, lengths = states_and_lengths(pieces, tmp_path, 8)
    both = np.concatenate([states[0], states[-1]], -1)
    expected = [both[row, :length].mean(0) for row, length in enumerate(lengths)]
    np.testing.assert_allclose(vectors(tmp_path), expected, atol=1e-5)


def test_jsonl_output(extract, pieces, tmp_path):
    extract(call, "vectors.jsonl", "--pooling=cls", "--normalize")
    lines = read_jsonl(tmp_path / "vectors.jsonl")
    assert [line["text"] for line in lines] == TEXTS
    states, _ = states_and_lengths(pieces, tmp_path, 40)
    first = states[-1][:, 0]
    expected = first / np.linalg.norm(first, axis=-1, keepdims=True)
    np.testing.assert_allclose([line["embedding"] for line in lines], expected, atol=1e-5)


def test_layers_that_the_model_lacks(extract):
    message = extract(mistake, "vectors.npz", "--layers=5")
    assert message.startswith("--layers must be from -2 to 1. Received: [5]")


@pytest.fixture
def projection(extract, build, pieces, tmp_path):
    """A sentence encoder with prompts, in place of the encoder of `extract`."""
    options = {"prompts": {"q": "q e: ", "p": "p "}, "default_prompt_name": "q"}
    keras_bert.save(build("projection"), tmp_path / "model", pieces, overwrite=True, **options)
    return keras_bert.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [([], "q e: "), (["--prompt_name=p"], "p "), (["--prompt="], "")],
)
def test_a_sentence_encoder_with_prompts(extract, projection, tmp_path, arguments, prompt):
    """A shell equals `encode`; the default prompt applies unless another is given."""
    extract(call, "vectors.npz", *arguments)
    expected = projection.encode(TEXTS, prompt=prompt)
    np.testing.assert_allclose(vectors(tmp_path), expected, atol=1e-5)


@pytest.mark.usefixtures("projection")
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--pooling=max", "--layers, --pooling and --normalize are for models without a projection"),
        ("--prompt_name=x", "--prompt_name must be the name of a prompt: q, p."),
    ],
)
def test_mistakes_of_a_sentence_encoder(extract, argument, message):
    assert extract(mistake, "vectors.npz", argument).startswith(message)
