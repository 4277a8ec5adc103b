"""Prompts of sentence encoders: which of them a call takes, and which are refused."""

import types

import pytest

from keras_bert.heads.prompts import PASSAGE, QUERY, check_prompts, chosen_prompt, prompt_for

PROMPTS = {"query": "query: ", "passage": "passage: "}


def loaded(prompts, default=None):
    """What a loaded checkpoint tells about its prompts."""
    return types.SimpleNamespace(prompts=prompts, default_prompt_name=default)


def test_a_text_or_a_name_or_the_default():
    assert chosen_prompt(PROMPTS, "query") == "query: "
    assert chosen_prompt(PROMPTS, "query", prompt="") == ""
    assert chosen_prompt(PROMPTS, "query", prompt_name="passage") == "passage: "
    assert chosen_prompt(None, None) == ""


def test_the_first_name_that_there_is():
    assert prompt_for(loaded(PROMPTS), *PASSAGE) == "passage: "
    assert prompt_for(loaded(PROMPTS), "document") == ""
    assert prompt_for(loaded(PROMPTS, "passage"), "document") == "passage: "
    assert prompt_for(loaded(None), *QUERY) == ""


@pytest.mark.parametrize("prompts", [["a"], "a", {"": "a"}, {"a": None}, {1: "a"}])
def test_other_prompts_are_refused(prompts):
    with pytest.raises(ValueError, match="`prompts` must be a dict of texts by name, or `None`"):
        check_prompts(prompts, None)


def test_names_that_no_prompt_has():
    check_prompts(PROMPTS, "query")
    with pytest.raises(ValueError, match="`default_prompt_name` must be the name of a prompt: query, passage"):
        check_prompts(PROMPTS, "document")
    with pytest.raises(ValueError, match="`prompt_name`"):
        chosen_prompt(None, None, prompt_name="query")


def test_a_text_and_a_name_together_are_refused():
    with pytest.raises(ValueError, match="pass `prompt`, a text, or `prompt_name`, not both"):
        chosen_prompt(PROMPTS, None, prompt="a", prompt_name="query")
