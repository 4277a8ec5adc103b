"""A folder of sentence-transformers: `modules.json`, the pooling, the longest sequence."""

import json

from keras_bert.checkpoints.huggingface import read_json

MODULES, LENGTH = "modules.json", "sentence_bert_config.json"
_SETTINGS = "config_sentence_transformers.json"
_MODES = {"mean_tokens": "mean", "max_tokens": "max", "cls_token": "cls"}
_PREFIX = "sentence_transformers.models."


def folder_of_weights(directory):
    """The folder that holds the Transformer: in old ones a folder of its own."""
    modules = _modules(directory)
    return directory / modules[0].get("path", "") if modules else directory


def read(directory, source):
    """Puts pooling, normalization, casing and the longest sequence into the source."""
    modules = _modules(directory)
    if not modules:
        return
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ValueError(
            f"{directory / MODULES}: expected the modules Transformer, Pooling and perhaps Normalize. "
            f"Received: {', '.join(kinds)}; load(..., head='encoder') gives the encoder without them"
        )
    settings = _read_if_there(directory / _SETTINGS)
    if settings.get("default_prompt_name"):
        raise ValueError(
            f"{directory / _SETTINGS}: prompts before each text are not supported. Received: default_prompt_name="
            f"{settings['default_prompt_name']!r}; load(..., head='encoder') gives the encoder without pooling"
        )
    source.head = "embedding"
    source.pooling = _mode(directory / modules[1]["path"] / "config.json")
    source.normalize = len(kinds) == 3
    sizes = _read_if_there(folder_of_weights(directory) / LENGTH)
    tokenizer = _read_if_there(folder_of_weights(directory) / "tokenizer_config.json")
    longest = sizes.get("max_seq_length") or tokenizer.get("model_max_length") or source.sequence_length
    if longest is not None:
        source.sequence_length = int(min(longest, source.config.max_position_embeddings))
    if sizes.get("do_lower_case") and not source.lowercase and source.vocabulary is not None:
        raise ValueError(
            f"{directory / LENGTH}: `do_lower_case` lowers texts before a cased tokenizer, which is not supported. "
            "Expected false; load(..., head='encoder') ignores it"
        )


def _modules(directory):
    path = directory / MODULES
    if not path.is_file():
        return []
    try:
        modules = json.loads(path.read_text(encoding="utf-8"))
        return sorted(modules, key=lambda module: module["idx"])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: not a list of modules: {error}") from None


def _mode(path):
    values = read_json(path)
    modes = [name.removeprefix("pooling_mode_") for name, value in values.items() if value is True]
    modes = [name for name in modes if name != "include_prompt"]
    mode = values.get("pooling_mode") or (_MODES.get(modes[0]) if len(modes) == 1 else None)
    if mode not in _MODES.values():
        raise ValueError(
            f"{path}: the pooling must be one of {', '.join(_MODES.values())}. Received: {mode or modes}; "
            "load(..., head='encoder') gives the encoder without it"
        )
    return mode


def _read_if_there(path):
    return read_json(path) if path.is_file() else {}


def write(description, sequence_length, directory):
    """Writes what makes a directory one of sentence-transformers."""
    pooling = description.layers["sentence_pooling"]
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), *([("Normalize", "2_Normalize")] * pooling.normalize)]
    entries = [
        {"idx": index, "name": str(index), "path": path, "type": _PREFIX + kind}
        for index, (kind, path) in enumerate(modules)
    ]
    modes = {f"pooling_mode_{name}": mode == pooling.pooling for name, mode in _MODES.items()}
    (directory / "1_Pooling").mkdir()
    _write(directory / MODULES, entries)
    _write(
        directory / "1_Pooling" / "config.json", {"word_embedding_dimension": description.config.hidden_size, **modes}
    )
    longest = sequence_length or description.config.max_position_embeddings
    _write(directory / _SETTINGS, {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"})
    _write(directory / LENGTH, {"max_seq_length": longest, "do_lower_case": False})


def _write(path, values):
    path.write_text(json.dumps(values, indent=2) + "\n")
