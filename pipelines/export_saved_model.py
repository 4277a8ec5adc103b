"""Exports a SavedModel that takes raw text, for TensorFlow Serving; or token ids, for ONNX Runtime or LiteRT.

    python -m pipelines.export_saved_model --model=runs/mrpc/model --output_dir=saved_models/mrpc
    python -m pipelines.verify_saved_model saved_models/mrpc/1
    python -m pipelines.export_saved_model --model=runs/mrpc/model --output_dir=exported/mrpc --format=onnx

`--model` is an argument for `keras_bert.load`; its head determines the signatures, see `keras_bert.export`. Unless
`--output_dir` ends with a version number, the next free version is used. Takes about twenty seconds for BASE.

`--precision=int8` writes a quarter of the size for x86 processors; with VNNI (Intel since 2019, AMD since 2022) it is
three times as fast as float32. `--calibration` makes it more exact and each answer independent of the other texts of
its request: a file with one text per line, like those to be served, its pair or context after a tab; the first 1,024
are used. Compare the scores: `verify_saved_model --reference --labelled`.

`--format=onnx` and `--format=litert` write `model.onnx` or `model.tflite`, and the tokenizer's files, to
`--output_dir`, after that runtime has computed the answers of the model, see `keras_bert.export_onnx`.
"""

import pathlib

from absl import flags

import keras_bert

from . import command, common_flags, wings

command.section("model")
_MODEL = flags.DEFINE_string("model", None, "Directory or name of the model.", required=True)
_LENGTH = flags.DEFINE_integer(
    "sequence_length", None, "Maximum number of tokens; default: as in training, or the model's maximum."
)
_PAIR = flags.DEFINE_bool("pair", None, "Whether a classifier takes two texts; default: as in training.")
_PRECISIONS = {
    "saved_model": ["float32", "mixed_bfloat16", "bfloat16", "int8"],
    "onnx": ["float32", "int8"],
    "litert": ["float32", "float16", "int8"],
}
_PRECISION = flags.DEFINE_enum(
    "precision",
    "float32",
    sorted(set().union(*_PRECISIONS.values())),
    "Precision; bfloat16, float16 (LiteRT) and int8 include the weights, int8 SavedModels are for x86.",
)
_CALIBRATION = flags.DEFINE_string(
    "calibration", None, "int8: file of a few hundred texts, to find the ranges of activations in advance."
)
command.section("signature")
_THRESHOLDS = flags.DEFINE_list(
    "thresholds", None, "Several labels per text: lowest probability of a predicted label, one or one for each label."
)
_STRIDE = flags.DEFINE_integer("doc_stride", None, "Tagging, question answering: tokens from window to window.", 1)
_TOP = flags.DEFINE_integer("n_best", None, "Number of answers (question answering) or of tokens (masks).", 1)
_ANSWER = flags.DEFINE_integer("max_answer_length", None, "Question answering: maximum tokens of an answer.", 1)
_NULL = flags.DEFINE_float(
    "null_threshold", None, "Question answering: score margin by which no answer must beat the best."
)
_HYPOTHESIS = flags.DEFINE_string(
    "hypothesis",
    None,
    'Entailment, sentence encoders: adds zero-shot classification with this hypothesis, "This text is about {}."',
)
_POOLING = flags.DEFINE_enum("pooling", None, ["mean", "max", "cls", "pooled"], "Encoder: pooling of the vectors.")
_LAYERS = flags.DEFINE_list("layers", None, "Encoder: layers to concatenate, such as -4,-3,-2,-1.")
_NORMALIZE = flags.DEFINE_bool("normalize", None, "Encoder: whether to scale vectors to length 1.")
command.section("output")
_FORMAT = flags.DEFINE_enum("format", "saved_model", list(_PRECISIONS), "Format; ONNX and LiteRT take token ids.")
_LENGTHS = flags.DEFINE_list("lengths", None, "LiteRT: the only lengths of sequences, such as 64,128; default: any.")
_OUTPUT = flags.DEFINE_string("output_dir", None, "Folder of the model or, SavedModel, of a version.", required=True)
command.renamed(output="output_dir", stride="doc_stride", top="n_best")
_MOST_CALIBRATED = 1024
_OPTIONS = {  # Flags of the options of `keras_bert.export`.
    "thresholds": _THRESHOLDS,
    "zero_shot": _HYPOTHESIS,
    "stride": _STRIDE,
    "top": _TOP,
    "max_answer_length": _ANSWER,
    "null_threshold": _NULL,
    "pooling": _POOLING,
    "layers": _LAYERS,
    "normalize": _NORMALIZE,
}
_FACTS = ("labels", "task", "null_threshold", "thresholds", "prompts", "default_prompt_name", "similarity_function")


def main():
    if _FORMAT.value == "saved_model":
        _export_saved_model()
    else:
        _export_on_ids()


def _export_on_ids():
    """Writes an ONNX or a LiteRT file."""
    from keras_bert.exporting.head_signatures import HEAD_SIGNATURES

    to_onnx = _FORMAT.value == "onnx"
    write = keras_bert.export_onnx if to_onnx else keras_bert.export_litert
    bert = wings.load(_MODEL.value, dtype="float32")
    if bert.head not in (row.name for row in HEAD_SIGNATURES):
        raise ValueError(f"--format={_FORMAT.value} is for BERT models. Received: --model={_MODEL.value}, {bert!r}")
    options = {} if to_onnx else {"lengths": common_flags.numbers(_LENGTHS, int)}
    facts = {name: getattr(bert, name) for name in _FACTS}
    pair = bert.pair if _PAIR.value is None else _PAIR.value
    preprocessor = bert.preprocessor(_length(bert))
    print(write(bert.model(), preprocessor, _OUTPUT.value, precision=_PRECISION.value, pair=pair, **facts, **options))


def _length(bert):
    return _LENGTH.value or bert.sequence_length or bert.config.max_position_embeddings


def _export_saved_model():
    layers = common_flags.numbers(_LAYERS, int)
    int8 = _PRECISION.value == "int8"
    bert = wings.load(_MODEL.value, dtype="float32" if int8 else _PRECISION.value, hidden_states=bool(layers))
    # These flags override the pooling settings of a sentence encoder's checkpoint.
    own = bert.head == "embedding" and (layers or _POOLING.value is not None or _NORMALIZE.value is not None)
    head = "encoder" if own else bert.head
    options = _options(head)
    if layers:
        options["layers"] = layers
    if own and bert.projection:
        raise ValueError("--pooling, --layers and --normalize are for sentence encoders without a projection")
    if own:
        options = {"pooling": bert.pooling, "normalize": bert.normalize, **options}
    if head == "question_answering":
        options.setdefault("null_threshold", bert.null_threshold)
    if head == "embedding":
        options |= {"prompts": bert.prompts, "default_prompt_name": bert.default_prompt_name}
    if "zero_shot" in options:
        options["zero_shot"] = keras_bert.ZeroShot(options["zero_shot"])
    if bert.multi_label:
        given = common_flags.numbers(_THRESHOLDS, float)
        options["thresholds"] = bert.thresholds if given is None else given[0] if len(given) == 1 else given
    common_flags.only(head == "classification", "for classifiers and regression models", _PAIR.name)
    pair = bert.pair if _PAIR.value is None else _PAIR.value
    model = bert.encoder if own else bert.model()
    regression = head == "classification" and model.output["logits"].shape[-1] == 1 and not bert.multi_label
    directory = _version(pathlib.Path(_OUTPUT.value))
    keras_bert.export(
        model,
        bert.preprocessor(_length(bert), padding="longest"),
        directory,
        labels=None if regression else bert.labels,
        pair=head == "classification" and bool(pair),
        precision="int8" if int8 else None,
        calibration=_calibration(head),
        **options,
    )
    print(f"wrote {directory}")
    print(f"next: {command.spelling('verify_saved_model')} {directory}")


def _calibration(head):
    """Returns the rows of --calibration, tuples of the columns of a line; a text and the list of its choices."""
    if _CALIBRATION.value is None:
        return None
    lines = common_flags.text_lines(pathlib.Path(_CALIBRATION.value).read_bytes(), _CALIBRATION.value)
    rows = [tuple(line.split("\t")) for line in lines if line.strip()][:_MOST_CALIBRATED]
    return [(text, choices) for text, *choices in rows] if head == "multiple_choice" else rows


def check():
    common_flags.check_paths(_MODEL.value, calibration=_CALIBRATION.value)
    wanted, precisions = _FORMAT.value, _PRECISIONS[_FORMAT.value]
    if _PRECISION.value not in precisions:
        raise ValueError(f"--format={wanted} has --precision={', '.join(precisions)}. Received: {_PRECISION.value}")
    if _LENGTHS.value and wanted != "litert":
        raise ValueError(f"--lengths needs --format=litert. Received: --format={wanted}")
    given = [flag.name for flag in (_CALIBRATION, *_OPTIONS.values()) if flag.value is not None]
    if given and wanted != "saved_model":
        raise ValueError(f"--{given[0]} needs --format=saved_model. Received: --format={wanted}")
    if _CALIBRATION.value and _PRECISION.value != "int8":
        raise ValueError(f"--calibration needs --precision=int8. Received: --precision={_PRECISION.value}")


def _options(head):
    """Returns the given options as arguments of `export`; raises an error if the head does not support one."""
    from keras_bert.exporting.head_signatures import signatures_of

    known = signatures_of(head).options
    given = {option: flag for option, flag in _OPTIONS.items() if flag.value is not None}
    for option, flag in given.items():
        if option not in known:
            has = ", ".join(f"--{_OPTIONS[name].name}" for name in _OPTIONS if name in known) or "none"
            raise ValueError(f"--{flag.name} is not an option for head={head!r}. Expected one of: {has}")
    return {option: flag.value for option, flag in given.items()}


def _version(folder):
    """Returns the folder itself if it is a version, else the next free version in it."""
    if folder.name.isdecimal():
        return folder
    taken = [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]
    return folder / str(max(taken, default=0) + 1)


if __name__ == "__main__":
    command.run(main, check=check)
