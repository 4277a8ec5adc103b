"""The forms of answers: which fields, and which values, make an answer one of a form."""

import pytest

from keras_bert.heads.answer_forms import are_scores, form_of

ENTITY = {"text": "a", "label": "PER", "start": 0, "end": 1, "score": 0.5}
SPAN = {"answer": "a", "start": 0, "end": 1}


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        ("class", {"label": "x", "score": 0.7, "scores": {"x": 0.7, "y": 0.3}}),
        ("class", {"label": None, "score": 0.7, "scores": {"x": 0.7, "y": 0.3}}),
        ("class", {"label": "x", "score": 0.7, "scores": {"x": 0.7, "y": 0.3}, "logits": [1.0, 0.0]}),
        ("classes", {"labels": ["x"], "scores": {"x": 0.7, "y": 0.3}}),
        ("classes", {"labels": [], "scores": {"x": 0.2}}),
        ("entities", {"entities": [ENTITY]}),
        ("entities", {"entities": []}),
        ("span", SPAN),
        ("span", SPAN | {"score": 1.0, "null_score": -2.0, "answers": [SPAN | {"score": 1.0}]}),
        ("fills", {"fills": [[{"token": "a", "score": 0.5}], []]}),
        ("choice", {"choice": 1, "scores": [0.25, 0.75]}),
        ("translation", {"translation": "a", "truncated": False}),
    ],
)
def test_answers_of_each_form(form, answer):
    assert form_of(answer) == form
    assert form_of(answer | {"tokens": 3, "tokens_read": 3}) == form


@pytest.mark.parametrize(
    "answer",
    [
        {"label": "x", "score": 0.3, "scores": {"x": 0.3, "y": 0.7}},  # Another one has a higher score.
        {"label": "z", "score": 0.7, "scores": {"x": 0.7}},
        {"label": "x", "score": 0.7, "scores": {"x": "much"}},
        {"label": "x", "score": 0.7, "scores": {"x": 0.7}, "why": "because"},
        {"labels": "x", "scores": {"x": 0.7}},
        {"labels": ["z"], "scores": {"x": 0.7}},
        {"entities": [{"text": "a"}]},
        {"entities": "none"},
        SPAN | {"answer": 7},
        SPAN | {"start": True},
        SPAN | {"answers": [SPAN]},  # These have scores.
        {"fills": [{"token": "a", "score": 0.5}]},
        {"choice": 1, "scores": {"a": 0.5}},
        {"translation": None},
        {},
    ],
)
def test_answers_of_other_heads_have_none(answer):
    assert form_of(answer) is None


def test_scores_are_numbers_by_name():
    assert are_scores({"x": 1, "y": 0.5})
    assert not are_scores({"x": True})
    assert not are_scores({})
    assert not are_scores([0.5])
