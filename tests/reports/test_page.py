"""Texts, numbers and headlines of reports."""

import base64
import json
import re

import numpy as np
import pytest

from keras_bert.reports import page
from keras_bert.reports.page import Headline


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        ({}, "none"),
        ((), "none"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        ({"x": 96, "y": [1, 2]}, "x: 96, y: 1; 2"),
    ],
)
def test_settings_are_shown_without_the_notation_of_python(value, text):
    assert page.readable(value) == text


def test_a_text_is_cut_to_its_length():
    assert page.cut("abcd", 4) == "abcd"
    assert page.cut("abcde", 4) == "abc…"
    assert page.cut("ab cde", 4) == "ab…"  # No space before the ellipsis.


def test_texts_are_escaped_and_html_is_not():
    html = page.words(page.bold("<i>"), "a & b", "c\x00")
    assert str(html) == "<b><bdi>&lt;i&gt;</bdi></b> a &amp; b c\ufffd"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("google-bert/bert-base-uncased", "bert-base-uncased"),
        ("runs/mnli/model", "mnli/model"),
        ("bert/", "bert"),
        ("https://tfhub.dev/tensorflow/bert_en/4", "bert_en/4"),
    ],
)
def test_short_names_of_models(model, name):
    assert page.short_name(model) == name


def test_a_name_of_the_hub_stays_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert page.base_name("google-bert/bert-base-uncased") == "google-bert/bert-base-uncased"
    (tmp_path / "runs" / "model").mkdir(parents=True)
    assert page.base_name("runs/model") == "runs/model"
    (tmp_path / "runs" / "tags").mkdir()
    assert page.base_name("runs/tags") == "tags"  # A folder that is here, not a name of the hub.


@pytest.mark.parametrize(
    ("score", "reference", "rows", "sentence", "widths"),
    [
        # Wilson's interval as scipy.stats.binomtest(8, 10).proportion_ci(method="wilson") gives it: 0.490, 0.943.
        (0.8, None, 10, "80.0% accuracy (95% interval 49 to 94%, of 10 rows).", []),
        (0.8, None, 5000, "80.0% accuracy.", []),
        (0.7395, 0.5, None, "74.0% accuracy, 24.0 points above the baseline (always <b>: 50.0%).", [0.7395, 0.5]),
        (-0.12, 0.0, None, "-12.0% accuracy, 12.0 points below the baseline (always <b>: 0.0%).", [0, 0]),
        (0.50049, 0.5, None, "50.0% accuracy, no better than the baseline (always <b>: 50.0%).", [0.50049, 0.5]),
        (0.5, None, None, "50.0% accuracy.", []),
    ],
)
def test_headline(score, reference, rows, sentence, widths):
    headline = Headline("accuracy", score, "always <b>", reference, rows)
    assert headline.text == sentence
    assert [width for _, _, width in headline.bars] == widths


def test_attention_is_in_the_page_in_steps_of_a_byte():
    attention = np.array([[[[0.0, 1.0], [0.4, 0.6]]]])
    html = str(page.attention_page("Text", ["<a>", "b"], attention))
    (values,) = re.findall(r'"values": ?"([^"]+)"', html)
    assert list(base64.b64decode(json.loads(f'"{values}"'))) == [0, 255, 102, 153]
    assert "<a>" not in html
    assert "1 layers with 1 heads each, 2 tokens" in html


def test_attention_of_too_many_tokens_is_refused():
    tokens = ["a"] * (page.LONGEST + 1)
    with pytest.raises(ValueError, match="257 tokens"):
        page.attention_page("Text", tokens, np.zeros([1, 1, 257, 257]))
