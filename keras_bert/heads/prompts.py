"""Prompts of sentence encoders, texts before the texts to embed: their checks, and which of them a call takes."""

# What queries and passages are called in prompts, as in sentence-transformers, the first one that there is.
QUERY = ("query",)
PASSAGE = ("document", "passage", "corpus")


def check_prompts(prompts, default_prompt_name):
    """Raises unless `prompts` is a dict of strings by name, or `None`, that has the default prompt if there is one."""
    if prompts is not None and not _are_texts_by_name(prompts):
        raise ValueError(f"`prompts` must be a dict of texts by name, or `None`. Received: prompts={prompts!r:.200}")
    if default_prompt_name is not None:
        _check_name("default_prompt_name", default_prompt_name, prompts)


def _are_texts_by_name(prompts):
    if not isinstance(prompts, dict):
        return False
    return all(isinstance(name, str) and name and isinstance(text, str) for name, text in prompts.items())


def chosen_prompt(prompts, default_prompt_name, prompt=None, prompt_name=None):
    """Returns the text to put before each text: `prompt`, or else the named prompt, or else the default one, or ""."""
    if prompt is not None and prompt_name is not None:
        raise ValueError(
            "pass `prompt`, a text, or `prompt_name`, not both. "
            f"Received: prompt={prompt!r}, prompt_name={prompt_name!r}"
        )
    if prompt is not None:
        if not isinstance(prompt, str):
            raise ValueError(f"`prompt` must be a string. Received: prompt={prompt!r}")
        return prompt
    if prompt_name is not None:
        _check_name("prompt_name", prompt_name, prompts)
        return prompts[prompt_name]
    if default_prompt_name is None:
        return ""
    return prompts[default_prompt_name]


def prompt_for(bert, *names):
    """Returns the first of some named prompts that a loaded checkpoint has, or else its default prompt, or ""."""
    known = bert.prompts or {}
    for name in names:
        if name in known:
            return known[name]
    return chosen_prompt(known, bert.default_prompt_name)


def _check_name(argument, name, prompts):
    """Raises unless an argument is the name of a prompt."""
    if name not in (prompts or {}):
        known = ", ".join(prompts or {}) or "none"
        raise ValueError(f"`{argument}` must be the name of a prompt: {known}. Received: {argument}={name!r}")
