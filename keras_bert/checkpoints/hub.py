"""The Hugging Face hub. Needs no Keras, so that commands find wrong names at once."""

import pathlib
from functools import partial

from keras_bert import other_models
from keras_bert.checkpoints import locations
from keras_bert.checkpoints.locations import CONFIG

_ANSWER_S = 10  # Seconds in which the hub must answer.


def download(name, revision, patterns, tried=(), check=None):
    """Returns the folder of a checkpoint; `patterns` is a function of its files that returns those to download, `tried`
    are other places of the name, `check` is called with a folder that has the config alone."""
    import huggingface_hub

    try:
        files = _listed(name, revision)
        fetch = partial(huggingface_hub.snapshot_download, name, revision=revision, local_files_only=files is None)
        if check is not None and CONFIG in (files or ()):
            check(pathlib.Path(fetch(allow_patterns=[CONFIG])))
        return pathlib.Path(fetch(allow_patterns=patterns(files or [])))
    except (other_models.OtherModelError, other_models.UnknownModelError):
        raise
    except Exception as error:  # The hub, the network and the name check raise different types.
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if isinstance(error, huggingface_hub.errors.LocalEntryNotFoundError):
            reason = f"no network, and not in its cache: {locations.OFFLINE}"
            reason += f"; there its name is google-bert/{name}" if name.startswith("bert-") and "/" not in name else ""
        places = [f"the path {path}" for path in locations.places(name)]
        raise ValueError(
            f"{name}: no such checkpoint{locations.hint(name)}. "
            f"Tried: {', '.join([*places, *tried])}, the Hugging Face hub ({reason})".replace("?.", "?")
        ) from None  # The hub's traceback is long, and says no more.


def _listed(name, revision):
    """Returns the files of a repository of the hub, `None` if it does not answer.

    A download would wait for minutes on a network that leads nowhere.
    """
    import huggingface_hub

    try:
        found = huggingface_hub.model_info(name, revision=revision, timeout=_ANSWER_S)
    except huggingface_hub.errors.HfHubHTTPError:
        return []
    except Exception:  # Those of the network and of names that no repository has.
        return None
    return [file.rfilename for file in found.siblings or ()]
