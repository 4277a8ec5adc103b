import numpy as np
import pytest

TEXTS = ["A charming film.", "Dull."]


def test_texts_for_a_model_on_ids(build):
    model = build("classification")
    for method in ("fit", "evaluate", "predict"):
        for texts in (
            TEXTS,
            np.array(TEXTS),
            (TEXTS, TEXTS),
            {"text": np.array(TEXTS, object)},
            [{"text": TEXTS[0]}],
            [TEXTS],
        ):
            message = f"^`{method}` of a model on token ids takes no texts. .* Received: 'A charming film.'$"
            with pytest.raises(ValueError, match=message):
                getattr(model, method)(texts)
