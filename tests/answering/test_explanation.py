"""Explanations as text and as HTML."""

import html.parser

from keras_bert.answering.explanation import Explanations, PrintedExplanation


def explanation(**changes):
    words = [
        {"text": "a", "start": 0, "end": 1, "score": 0.5, "input": "text"},
        {"text": "<b>", "start": 2, "end": 5, "score": -1.25, "input": "text"},
        {"text": "!", "start": 5, "end": 6, "score": 0.0, "input": "text"},
        {"text": "c", "start": 0, "end": 1, "score": 0.125, "input": "pair"},
    ]
    values = {"value": 1.0, "baseline": 2.0, "difference": -1.0, "delta": 0.0}
    facts = {"method": "leave_one_out", "replacement": "[MASK]", "tokens": 7, "tokens_read": 7}
    return PrintedExplanation({"words": words, "target": "good"} | values | facts | changes)


class Items(html.parser.HTMLParser):
    """Reads the words of a page: their attributes and the texts of the page."""

    def __init__(self, page):
        super().__init__()
        self.items = []
        self.texts = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if values.get("role") == "listitem":
            self.items.append(values)

    def handle_data(self, data):
        self.texts.append(data)


def test_line():
    line = str(explanation())
    assert line == "a +0.50  <b> -1.25  ! +0.00  c +0.12  | good 1.00; with [MASK] only 2.00"
    assert str(explanation(words=[])).startswith("(no words)  | good")
    assert "value 1.00" in str(explanation(target=None))
    assert "| <b>: good 1.00" in str(explanation(word=1))
    assert str(Explanations([explanation()] * 2)) == f"{line}\n{line}"


def test_a_long_word_is_cut():
    word = {"text": "x" * 10**6, "start": 0, "end": 10**6, "score": 1.0, "input": "text"}
    assert len(str(explanation(words=[word]))) < 120
    assert len(explanation(words=[word])._repr_html_()) < 4000


def test_html_is_readable_without_colours():
    """Numbers are in the accessible names, signs in the lines under words, and a legend tells them."""
    page = Items(explanation()._repr_html_())
    assert [item["aria-label"] for item in page.items] == ["a +0.50", "<b> -1.25", "! +0.00", "c +0.12"]
    assert [item["class"] for item in page.items] == ["kb-up", "kb-down", "kb-up", "kb-up"]
    assert [item["title"] for item in page.items] == ["+0.50", "-1.25", "+0.00", "+0.12"]
    assert all(item["tabindex"] == "0" for item in page.items)
    text = " ".join(page.texts)
    assert "dashed line, orange: the word lowers it" in text
    assert "good 1.00; with [MASK] only 2.00" in text
    assert "<b>" in text  # Escaped in the page.


def test_html_of_several():
    page = Explanations([explanation(), explanation(words=[])])._repr_html_()
    assert page.count("<style>") == page.count("Method: ") == 1
    assert "no words" in page
    assert Explanations()._repr_html_()
