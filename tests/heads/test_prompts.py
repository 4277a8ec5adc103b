import types

import pytest

from keras_bert.heads.prompts import PASSAGE, QUERY, check_prompts, chosen_prompt, prompt_for

PROMPTS = {"query": "query: ", "passage": "passage: "}


def test_a_text_or_a_name_or_the_default():
    assert chosen_prompt(PROMPTS, "query") == "query: "
    assert chosen_prompt(PROMPTS, "query", prompt="") == ""
    assert chosen_prompt(PROMPTS, "query", prompt_name="passage") == "passage: "
    assert chosen_prompt(None, None) == ""


def test_the_first_name_that_there_is():
    bert = types.SimpleNamespace(prompts=PROMPTS, default_prompt_name=None)
    assert prompt_for(bert, *PASSAGE) == "passage: "
    assert prompt_for(bert, "document") == ""
    assert prompt_for(types.SimpleNamespace(prompts=PROMPTS, default_prompt_name="passage"), "document") == "passage: "
    assert prompt_for(types.SimpleNamespace(prompts=None, default_prompt_name=None), *QUERY) == ""


@pytest.mark.parametrize("prompts", [["a"], "a", {"": "a"}, {"a": None}, {1: "a"}])
def test_other_prompts_are_refused(prompts):
    with pytest.raises(ValueError, match="`prompts` must be a dict of texts by name, or `None`"):
        check_prompts(prompts, None)


def test_names_that_no_prompt_has():
    check_prompts(PROMPTS, "query")
    with pytest.raises(ValueError, match="`default_prompt_name` must be the name of a prompt: query, passage"):
        check_prompts(PROMPTS, "document")
    with pytest.raises(ValueError, match="`prompt_name` must be the name of a prompt: none"):
        chosen_prompt(None, None, prompt_name="query")
    with pytest.raises(ValueError, match="pass `prompt`, a text, or `prompt_name`, not both"):
        chosen_prompt(PROMPTS, None, prompt="a", prompt_name="query")
