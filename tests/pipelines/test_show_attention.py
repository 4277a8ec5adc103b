"""Tests of the command-line program."""

import base64
import json
import re

import numpy as np
import pytest

import keras_bert
from tests.pipelines.programs import call, mistake

pytest.importorskip("tensorflow")

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
PROGRAM = "pipelines.show_attention"


DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


@pytest.fixture
def flags(build, pieces, tmp_path):
    """Flags with a saved classifier, and the page to write."""
    keras_bert.save(build("classification"), tmp_path / "model", pieces)
    return [f"--model={tmp_path}/model", f"--output={tmp_path}/page.html"]


def test_the_page_has_the_attention_of_a_pair_and_no_foreign_links(flags, tmp_path):
    printed = call(PROGRAM, *flags, "a b", "c </script>")
    assert printed.endswith("1 layers, 4 heads, 10 tokens\n")
    page = (tmp_path / "page.html").read_text()
    data = json.loads(DATA.search(page)[1])
    tokens, attention = keras_bert.load(tmp_path / "model").attention(("a b", "c </script>"))
    assert data["tokens"] == tokens
    assert data["layers"] == 1
    assert data["heads"] == 4
    values = np.frombuffer(base64.b64decode(data["values"]), np.uint8)
    np.testing.assert_allclose(values.reshape(attention.shape) / 255, attention, atol=0.002)
    assert "//" not in re.sub(r"  // .*", "", page)
    assert "default-src 'none'" in page


def test_no_text(flags):
    message = mistake(PROGRAM, *flags)
    assert message.startswith("expected a text, or a text and its pair, as arguments. Received: 0")
