"""Integrated gradients equal those of captum on the same weights: `pip install torch captum transformers`."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")
torch = pytest.importorskip("torch")
captum = pytest.importorskip("captum")
transformers = pytest.importorskip("transformers")

import keras_bert  # noqa: E402

TEXT = "abc d e, f"
WORDS = [[1, 2, 3], [4], [5], [6], [7]]  # The positions of the pieces of each word.
REPLACEMENTS = {"[MASK]": 4, "[PAD]": 0}


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_layer_integrated_gradients(build, pieces, tmp_path, replacement):
    keras_bert.save(build("classification"), tmp_path, pieces)
    bert = keras_bert.load(tmp_path)
    found = bert.explain(TEXT, 1, method="integrated_gradients", replacement=replacement)
    model = transformers.BertForSequenceClassification.from_pretrained(tmp_path, attn_implementation="eager").eval()
    ids = torch.tensor(np.array(bert.preprocessor(40, padding="longest")([TEXT])["token_ids"]), dtype=torch.long)
    baseline = ids.clone()
    baseline[0, 1:-1] = REPLACEMENTS[replacement]

    def logits(token_ids):
        return model(input_ids=token_ids, attention_mask=torch.ones_like(token_ids)).logits

    method = captum.attr.LayerIntegratedGradients(logits, model.bert.embeddings.word_embeddings)
    parts = method.attribute(ids, baselines=baseline, target=1, n_steps=50, method="gausslegendre")
    tokens = parts.sum(-1)[0].detach().numpy()
    expected = np.array([tokens[positions].sum() for positions in WORDS])
    scores = [word["score"] for word in found["words"]]
    np.testing.assert_allclose(scores, expected, atol=1e-3 * np.abs(expected).max())
