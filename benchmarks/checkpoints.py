"""What `load` does with the checkpoints of the hub that people use most: the tables of docs/guides/checkpoints.md.

    python -m benchmarks.checkpoints

Writes a small folder with the settings of each one (config.json, tokenizer, container and names of the tensors), opens
it, and writes what happened into the page. transformers makes the weights, which are random. Takes a minute. Peers:
`make peers`.
"""

import json
import logging
import os
import pathlib
import re
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import safetensors.torch
import sentencepiece
import tokenizers
import torch
import transformers

import keras_bert
from benchmarks.checkpoint_settings import FAMILIES

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "guides" / "checkpoints.md"
_START = "<!-- tables of benchmarks/checkpoints.py -->\n"
_END = "<!-- end of the tables -->\n"
# What is tried in turn.
_OPTIONS = ((None, ""), ("head", "encoder"), ("tokenizer", "words"), ("tokenizer", None))
_SIZES = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
_OF_THE_CLASS = ("num_labels", "embedding_size", "pad_token_id")
_PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[mail]", *map(chr, range(97, 123)), "##a", "##b"]
_TEXTS = [
    "the ship left",
    "the ship looked back",
    "a captain left",
    "a captain looked back",
    "no town left",
    "no town looked back",
]
_ROBERTAS = ("<s>", "<pad>", "</s>")
_POOLING = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
_TANH = "torch.nn.modules.activation.Tanh"
_DENSE = {"in_features": 32, "out_features": 16, "bias": True, "activation_function": _TANH}


def write(settings, folder):
    """Writes a folder with the settings of a checkpoint."""
    model = getattr(transformers, settings.model)
    own = {key: value for key, value in settings.config.items() if key in _OF_THE_CLASS}
    if settings.tokenizer == "bpe":  # Which has a piece for each byte.
        own["vocab_size"] = 300
    model(model.config_class(**_SIZES | own)).save_pretrained(folder)
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **settings.config}
    _write_json(path, {key: value for key, value in config.items() if value is not None})
    _write_weights(settings, folder)
    _write_tokenizer(settings, folder)
    if settings.modules:
        _write_modules(settings.modules, folder)


def _write_weights(settings, folder):
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    tensors |= {name: torch.zeros(shape) for name, shape in settings.tensors.items()}
    if settings.old:
        names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        pattern = re.compile("|".join(names))
        tensors = {pattern.sub(lambda match: names[match[0]], name): tensor for name, tensor in tensors.items()}
    if settings.weights == "bin":
        path.unlink()
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        safetensors.torch.save_file(tensors, path)


def _write_tokenizer(settings, folder):
    tokens = {"tokenizer_class": settings.tokenizer, "do_lower_case": not settings.cased, **settings.tokens}
    if settings.tokenizer == "unigram":
        name = re.sub("Model|For.*", "", settings.model)
        tokens = {"tokenizer_class": f"{'XLMRoberta' if name == 'Bert' else name}Tokenizer"}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(_TEXTS * 9), model_prefix=str(folder / "sentencepiece.bpe"), vocab_size=20
        )
    elif settings.tokenizer == "bpe":
        tokens = {"tokenizer_class": re.sub("Model|For.*", "", settings.model) + "Tokenizer"}
        tokenizer = tokenizers.ByteLevelBPETokenizer()
        special = [*_ROBERTAS, "<unk>", "<mask>"]
        tokenizer.train_from_iterator(_TEXTS, vocab_size=300, show_progress=False, special_tokens=special)
        tokenizer.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
        tokenizer.save(str(folder / "tokenizer.json"))
    else:
        further = [*_ROBERTAS, "<mask>"] if settings.tokenizer == "MPNetTokenizer" else []
        (folder / "vocab.txt").write_text("\n".join([*further, *_PIECES]))
    _write_json(folder / "tokenizer_config.json", tokens)


def _write_modules(modules, folder):
    entries = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    for index, kind in enumerate(modules, 1):
        path = f"{index}_{kind}"
        entries.append({"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"})
        if kind != "Normalize":
            (folder / path).mkdir()
            _write_json(folder / path / "config.json", _DENSE if kind == "Dense" else _POOLING)
        if kind == "Dense":
            tensors = {"linear.weight": torch.ones(16, 32), "linear.bias": torch.ones(16)}
            safetensors.torch.save_file(tensors, folder / path / "model.safetensors")
    _write_json(folder / "modules.json", entries)
    _write_json(folder / "sentence_bert_config.json", {"max_seq_length": 32, "do_lower_case": False})


def _write_json(path, values):
    path.write_text(json.dumps(values))


def outcome(folder):
    """Returns what `load` does with a folder: the head, the first of the options that opens it, or why none does."""
    reasons = []
    for name, value in _OPTIONS:
        try:
            bert = keras_bert.load(folder, **({name: value} if name else {}))
            bert.model()
            if value is not None:
                bert.preprocessor(16)(["the ship"])
        except (ValueError, OSError) as error:
            reasons.append(str(error).rpartition("Received: ")[2])
            continue
        option = "" if name is None else f", `{name}={value!r}`".replace("'", '"')
        return bert.head.replace("_", " ") + option
    return f"no: `{reasons[0]}`"


def tables():
    """Returns the tables of all families."""
    lines = [""]
    for family, rows in FAMILIES.items():
        has_others = any(settings.instead for settings in rows)
        lines += [f"### {family}", ""]
        if has_others:
            lines += ["| checkpoint | opens as | in its place |", "|---|---|---|"]
        else:
            lines += ["| checkpoint | opens as |", "|---|---|"]
        for settings in rows:
            with tempfile.TemporaryDirectory() as folder:
                write(settings, pathlib.Path(folder))
                result = outcome(pathlib.Path(folder))
            if settings.instead:
                reason, _, other = settings.instead.partition("; ")
                result += f": {reason} | {other}"
            lines.append(f"| {settings.name} | {result} |")
            print(lines[-1], flush=True)
        lines.append("")
    return "\n".join(lines)


def main():
    logging.disable()
    transformers.logging.set_verbosity_error()
    before, _, rest = PAGE.read_text().partition(_START)
    PAGE.write_text(before + _START + tables() + _END + rest.partition(_END)[2])


if __name__ == "__main__":
    main()
