"""Hugging Face directories: `config.json`, `model.safetensors` (sharded too); for the tokenizer see `tokenizer`."""

import json
import re
import shutil

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from keras_bert.checkpoints.layout import HEAD_TENSORS, Source, Tensor, tensors_of
from keras_bert.config import BertConfig

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"

# The head of each architecture; those that share a head are told apart by the tensors that are there.
_HEADS = {
    "BertModel": "encoder",
    "BertForPreTraining": "pretraining",
    "BertForMaskedLM": "pretraining",
    "BertLMHeadModel": "pretraining",
    "BertForNextSentencePrediction": "next_sentence",
    "BertForSequenceClassification": "classification",
    "BertForTokenClassification": "token_classification",
    "BertForQuestionAnswering": "question_answering",
    "BertForMultipleChoice": "multiple_choice",
}
_ARCHITECTURES = {head: name for name, head in reversed(_HEADS.items())}
_PROBLEMS = ("regression", "single_label_classification", "multi_label_classification")
_MULTI_LABEL = _PROBLEMS[2]


def read_config(directory):
    """The source of a directory without its tensors: config, head, labels and what only this package writes."""
    path = directory / CONFIG
    values = read_json(path)
    ours = values.get("keras_bert", {})
    causal = values.pop("is_decoder", False)
    try:
        config = BertConfig.from_dict(values, "huggingface")
        problem = _problem(values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    architectures = values.get("architectures") or [None]
    return Source(
        name=str(directory),
        config=config,
        tensors={},
        head=ours.get("head") or _HEADS.get(architectures[0]),
        labels=_labels(path, values),
        multi_label=problem == _MULTI_LABEL,
        task=ours.get("task"),
        pair=ours.get("pair"),
        sequence_length=ours.get("sequence_length"),
        null_threshold=ours.get("null_threshold"),
        causal=bool(causal),
        positions=ours.get("positions", "learned"),
        tied=values.get("tie_word_embeddings") is not False,
    )


def is_ours(directory):
    """Whether this package wrote a directory."""
    return "keras_bert" in read_json(directory / CONFIG)


def has_weights(directory):
    """Whether there are weights of Hugging Face's."""
    return any((directory / name).is_file() for name in (WEIGHTS, INDEX, "pytorch_model.bin"))


def _problem(values):
    """What `problem_type` says, if it is what is computed here."""
    problem, classes = values.get("problem_type"), len(values.get("id2label") or {}) or values.get("num_labels", 2)
    if problem not in (None, *_PROBLEMS):
        raise ValueError(f"`problem_type` must be one of {', '.join(_PROBLEMS)}. Received: problem_type={problem!r}")
    if (problem == "regression" and classes != 1) or (problem == "single_label_classification" and classes == 1):
        raise ValueError(
            "`problem_type` must fit the number of labels: regression has one number, classification two classes at "
            f"least. Received: problem_type={problem!r} with {classes} label(s)"
        )
    return problem


def check_head(directory, source):
    """Raises where a head is there, but the config does not tell which."""
    if source.head is not None:
        return
    names = {tensor.name for name, tensor in source.tensors.items() if name in HEAD_TENSORS}
    if names:
        architectures = read_json(directory / CONFIG).get("architectures")
        raise ValueError(
            f"{directory / CONFIG}: `architectures` does not tell what head {sorted(names)[0]} is of. Expected one of "
            f"{', '.join(_HEADS)}. Received: architectures={architectures}; load(..., head='encoder') leaves the head "
            f"out, another of {', '.join(_ARCHITECTURES)} names it"
        )


def read_weights(directory, tied=True):
    """The tensors of a directory under our names; `tied` tells whether the masked-LM head has the token table."""
    files = _weight_files(directory)
    found = {}
    for path in files:
        try:
            file = safetensors.safe_open(path, framework="numpy")
            names = list(file.keys())
        except (safetensors.SafetensorError, OSError) as error:
            raise ValueError(f"{path}: not a readable safetensors file, it may be cut short: {error}") from None
        for name in names:
            shape = tuple(file.get_slice(name).get_shape())
            found[_canonical(name)] = Tensor(name, shape, lambda file=file, name=name: file.get_tensor(name))
    return _drop_copies(directory, found, tied)


def write_config(description, directory, labels, pad_id, **ours):
    """Writes `config.json` in Hugging Face's words; what it has no place for, `ours` too, stands under `keras_bert`."""
    head = description.head
    architecture = _ARCHITECTURES.get(head, "BertModel")
    if head == "pretraining" and not description.next_sentence:
        architecture = "BertLMHeadModel" if description.causal else "BertForMaskedLM"
    ours = {"head": head, **ours}
    if description.positions != "learned":
        ours["positions"] = description.positions
    values = {
        "architectures": [architecture],
        **description.config.to_huggingface(),
        "is_decoder": description.causal,
        "pad_token_id": pad_id,
        "tie_word_embeddings": description.tied,
        "dtype": "float32",
        "keras_bert": {key: value for key, value in ours.items() if value is not None},
    }
    if description.multi_label:
        values["problem_type"] = _MULTI_LABEL
    if description.num_classes is not None:
        names = labels or [f"LABEL_{index}" for index in range(description.num_classes)]
        values["id2label"] = {str(index): name for index, name in enumerate(names)}
        values["label2id"] = {name: index for index, name in enumerate(names)}
    (directory / CONFIG).write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_weights(description, directory, dtype):
    """Writes `model.safetensors` under the names of transformers."""
    prefix = "" if description.head == "encoder" else "bert."
    tensors = {
        name if name.startswith(("cls.", "classifier.", "qa_outputs.")) else prefix + name: array
        for name, array in tensors_of(description).items()
    }
    if not description.tied:  # transformers then reads a bias of the kernel's own.
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].copy()
    if dtype != "float32":
        largest = max(float(np.abs(array).max()) for array in tensors.values())
        if not largest <= float(ml_dtypes.finfo(dtype).max):
            raise ValueError(
                f"`weights_dtype`={dtype!r} does not hold the largest weight, {largest}. Expected 'float32'"
            )
        tensors = {name: array.astype(dtype) for name, array in tensors.items()}
    safetensors.numpy.save_file(tensors, directory / WEIGHTS, metadata={"format": "pt"})
    shutil.copymode(directory / CONFIG, directory / WEIGHTS)  # The library lets its owner alone read the file.


def read_json(path):
    """A JSON object from a file; errors name the file."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not a JSON file: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path}: expected a JSON object. Received: {type(values).__name__}")
    return values


def _labels(path, values):
    """The labels of `id2label` in order; None where they are transformers' placeholders."""
    table = values.get("id2label")
    if not table:
        return None
    names = [table.get(str(index)) for index in range(len(table))]
    if None in names:
        raise ValueError(f"{path}: the keys of `id2label` must be 0 to {len(table) - 1}. Received: {', '.join(table)}")
    return None if names == [f"LABEL_{index}" for index in range(len(names))] else names


def _weight_files(directory):
    if (directory / WEIGHTS).is_file():
        return [directory / WEIGHTS]
    if (directory / INDEX).is_file():
        shards = sorted(set(read_json(directory / INDEX).get("weight_map", {}).values()))
        missing = [shard for shard in shards if not (directory / shard).is_file()]
        if missing or not shards:
            raise ValueError(f"{directory / INDEX}: missing shard(s): {', '.join(missing) or 'it names none'}")
        return [directory / shard for shard in shards]
    if (directory / "pytorch_model.bin").is_file():
        raise ValueError(
            f"{directory}: pytorch_model.bin is refused: it is a pickle, which can run code when it is opened. "
            f"Expected {WEIGHTS}; transformers writes it with model.save_pretrained()"
        )
    raise FileNotFoundError(f"{directory}: expected {WEIGHTS} or {INDEX} beside {CONFIG}; neither is there")


def _canonical(name):
    name = name.removeprefix("bert.")
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)


def _drop_copies(directory, tensors, tied):
    """Drops second copies of the tied table and of the bias, after a look that they are copies."""
    bias, copy = "cls.predictions.bias", "cls.predictions.decoder.bias"
    if copy in tensors:  # It is the one that transformers adds.
        if bias in tensors and tied:
            _check_equal(directory, tensors[copy], tensors[bias])
        tensors[bias] = tensors.pop(copy)
    table, copy = "embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
    if copy in tensors and tied:
        if table in tensors:
            _check_equal(directory, tensors[copy], tensors[table])
        tensors.setdefault(table, tensors.pop(copy))
        tensors.pop(copy, None)
    return tensors


def _check_equal(directory, copy, original):
    if not np.array_equal(copy.read(), original.read()):
        raise ValueError(
            f"{directory}: {copy.name} differs from {original.name}, but `tie_word_embeddings` of {CONFIG} says that "
            "they are one. Expected equal ones, or `tie_word_embeddings`: false"
        )
