"""Names of models in reports."""

import pathlib
import re


def short_name(model):
    """Returns the last part of a model's name or path; of `NAME/model`, as a run has it, and of `NAME/4`, both."""
    parts = pathlib.PurePath(model).parts
    return "/".join(parts[-2:] if parts[-1] == "model" or parts[-1].isdigit() else parts[-1:])


def is_hub_name(name):
    """Whether a model that was loaded by this name came from the Hugging Face hub, judging by the name."""
    is_name = re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", str(name)) is not None
    return is_name and not pathlib.Path(name).exists()


def base_name(name):
    """Returns a name of the hub unchanged, and the last part of a path; of `NAME/model`, as a run has it, both."""
    return str(name) if is_hub_name(name) else short_name(name)
