import re

import numpy as np
import pytest

TEXTS = ["A charming film.", "Dull."]


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
@pytest.mark.parametrize("texts", [TEXTS, np.array(TEXTS), (TEXTS, TEXTS), {"text": np.array(TEXTS, object)}])
def test_texts_for_a_model_on_ids(build, method, texts):
    with pytest.raises(ValueError, match=re.escape(f"`{method}` of a model on token ids takes no texts. ")) as error:
        getattr(build("classification"), method)(texts)
    assert str(error.value).endswith("Received: 'A charming film.'")
    assert "Dull" not in str(error.value)
