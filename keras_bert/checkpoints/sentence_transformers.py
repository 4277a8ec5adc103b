"""The format of sentence-transformers: `modules.json`, pooling, maximum sequence length."""

import json

from keras_bert.checkpoints.huggingface import read_json, read_json_if_exists
from keras_bert.files import write_json

MODULES = "modules.json"
_LENGTH, _SETTINGS = "sentence_bert_config.json", "config_sentence_transformers.json"
_MODES = {"mean_tokens": "mean", "max_tokens": "max", "cls_token": "cls"}
_PREFIX = "sentence_transformers.models."


def transformer_folder(directory):
    """Returns the folder of the Transformer, which old versions wrote to a subfolder."""
    modules = _modules(directory)
    return directory / modules[0].get("path", "") if modules else directory


def read(directory, checkpoint):
    """Returns the metadata with pooling, normalization and maximum sequence length, if the directory has modules."""
    metadata, modules = checkpoint.metadata, _modules(directory)
    if not modules:
        return metadata
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ValueError(
            f"{directory / MODULES}: expected the modules Transformer, Pooling and optionally Normalize. "
            f"Received: {', '.join(kinds)}; load(..., head='encoder') loads the encoder without them"
        )
    settings = read_json_if_exists(directory / _SETTINGS)
    if settings.get("default_prompt_name"):
        raise ValueError(
            f"{directory / _SETTINGS}: prompts before each text are not supported. Received: default_prompt_name="
            f"{settings['default_prompt_name']!r}; load(..., head='encoder') loads the encoder without pooling"
        )
    folder = transformer_folder(directory)
    sizes, tokenizer = (read_json_if_exists(folder / name) for name in (_LENGTH, "tokenizer_config.json"))
    longest = sizes.get("max_seq_length") or tokenizer.get("model_max_length") or metadata.sequence_length
    if longest is not None:
        longest = int(min(longest, checkpoint.config.max_position_embeddings))
    if sizes.get("do_lower_case") and not metadata.lowercase and metadata.vocabulary is not None:
        raise ValueError(
            f"{directory / _LENGTH}: `do_lower_case` with a cased tokenizer is not supported. "
            "Expected false; load(..., head='encoder') ignores it"
        )
    return metadata.replace(
        head="embedding",
        pooling=_pooling(directory / modules[1]["path"] / "config.json"),
        normalize=len(kinds) == 3,
        sequence_length=longest,
    )


def _modules(directory):
    path = directory / MODULES
    if not path.is_file():
        return []
    try:
        return sorted(json.loads(path.read_text(encoding="utf-8")), key=lambda module: module["idx"])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: not a list of modules: {error}") from None


def _pooling(path):
    values = read_json(path)
    modes = [name.removeprefix("pooling_mode_") for name, value in values.items() if value is True]
    modes = [name for name in modes if name != "include_prompt"]
    mode = values.get("pooling_mode") or (_MODES.get(modes[0]) if len(modes) == 1 else None)
    if mode not in _MODES.values():
        raise ValueError(
            f"{path}: the pooling must be one of {', '.join(_MODES.values())}. Received: {mode or modes}; "
            "load(..., head='encoder') loads the encoder without it"
        )
    return mode


def write(description, sequence_length, directory):
    """Writes the files that sentence-transformers reads in addition to those of transformers."""
    config, pooling = description.config, description.layers["sentence_pooling"]
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), *([("Normalize", "2_Normalize")] * pooling.normalize)]
    entries = [
        {"idx": index, "name": str(index), "path": path, "type": _PREFIX + kind}
        for index, (kind, path) in enumerate(modules)
    ]
    modes = {f"pooling_mode_{name}": mode == pooling.pooling for name, mode in _MODES.items()}
    longest = sequence_length or config.max_position_embeddings
    write_json(directory / MODULES, entries)
    write_json(directory / "1_Pooling" / "config.json", {"word_embedding_dimension": config.hidden_size, **modes})
    write_json(directory / _SETTINGS, {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"})
    write_json(directory / _LENGTH, {"max_seq_length": longest, "do_lower_case": False})
