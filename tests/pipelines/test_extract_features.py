"""Tests of the command-line program."""

import json

import numpy as np
import pytest

import keras_bert
from tests.pipelines.programs import call, mistake

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
TEXTS = ["a b c", "", "d e f g h a b c d e", "b"]


@pytest.fixture
def extract(build, pieces, tmp_path):
    keras_bert.save(build("encoder"), tmp_path / "model", pieces)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")

    def extracted(how, output, *arguments):
        flags = [f"--model={tmp_path}/model", f"--input={tmp_path}/texts.txt", "--batch_size=2", *arguments]
        return how("pipelines.extract_features", f"--output={tmp_path / output}", *flags)

    return extracted


def states(pieces, tmp_path, length):
    """Returns the hidden states of all texts, and the padding masks."""
    encoder = keras_bert.load(tmp_path / "model", hidden_states=True).encoder
    inputs = keras_bert.TextPreprocessor(pieces, length)(TEXTS)
    return [state.numpy() for state in encoder(inputs)["hidden_states"]], inputs["padding_mask"].numpy()


def test_mean_pooling_of_two_layers(extract, pieces, tmp_path, caplog):
    extract(call, "vectors.npz", "--layers=0,-1", "--sequence_length=8")
    assert (
        "1 of 4 texts was longer than the 8 tokens that the model reads; the rest of each was left out" in caplog.text
    )
    found, mask = states(pieces, tmp_path, 8)
    both = np.concatenate([found[0], found[-1]], -1)
    expected = [both[row, : mask[row].sum()].mean(0) for row in range(len(TEXTS))]
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npz")["vectors"], expected, atol=1e-5)


def test_jsonl_output(extract, pieces, tmp_path):
    extract(call, "vectors.jsonl", "--pooling=cls", "--normalize")
    lines = [json.loads(line) for line in (tmp_path / "vectors.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == TEXTS
    first = states(pieces, tmp_path, 40)[0][-1][:, 0]
    expected = first / np.linalg.norm(first, axis=-1, keepdims=True)
    np.testing.assert_allclose([line["embedding"] for line in lines], expected, atol=1e-5)


def test_layers_that_the_model_lacks(extract):
    assert extract(mistake, "vectors.npz", "--layers=5").startswith("--layers must be from -2 to 1. Received: [5]")


def test_a_sentence_encoder_with_a_projection_and_prompts(extract, build, pieces, tmp_path):
    """A shell equals `encode`; the default prompt applies unless another is given."""
    model = build("projection")
    keras_bert.save(
        model, tmp_path / "model", pieces, prompts={"q": "q e: ", "p": "p "}, default_prompt_name="q", overwrite=True
    )
    bert = keras_bert.load(tmp_path / "model")
    for arguments, prompt in (([], "q e: "), (["--prompt_name=p"], "p "), (["--prompt="], "")):
        extract(call, "vectors.npz", *arguments)
        expected = bert.encode(TEXTS, prompt=prompt)
        np.testing.assert_allclose(np.load(tmp_path / "vectors.npz")["vectors"], expected, atol=1e-5)
    for arguments, message in (
        (["--pooling=max"], "--layers, --pooling and --normalize are for models without a projection after pooling."),
        (["--prompt_name=x"], "--prompt_name must be the name of a prompt: q, p. Received: prompt_name='x'"),
    ):
        assert extract(mistake, "vectors.npz", *arguments).startswith(message)
