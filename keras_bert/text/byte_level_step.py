"""GPT-2's pre-tokenizer as `tokenizer.json` describes it: its words, and whether a text gets a space. No TensorFlow."""

from keras_bert.text.tokenizer_steps import flat_steps

STEP = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
PREFIX = "add_prefix_space"  # A setting of the step, also in `tokenizer_config.json`.


def adds_prefix_space(vocabulary):
    """Returns whether a text gets a space before it, unless it begins with one."""
    if vocabulary.pre_tokenizer is None:
        return False
    return byte_level_step(vocabulary.pre_tokenizer)[PREFIX]


def byte_level_step(pre_tokenizer):
    """Returns the step of a pre-tokenizer with all of its settings; raises for other steps than GPT-2's."""
    steps = flat_steps(pre_tokenizer, "pretokenizers")
    step = STEP | {PREFIX: True}  # The library's defaults, of settings that are missing.
    if steps:
        step.update(steps[0])
    is_known = len(steps) == 1 and step.keys() == STEP.keys() and step["type"] == STEP["type"]
    if not is_known or step["use_regex"] is not True or not isinstance(step[PREFIX], bool):
        raise ValueError(
            "`pre_tokenizer` must be GPT-2's for a vocabulary of byte-level BPE: ByteLevel with `use_regex`. "
            f"Received: {pre_tokenizer!r:.200}"
        )
    return step
