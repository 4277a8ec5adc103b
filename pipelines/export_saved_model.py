"""Exports a SavedModel that takes raw text, for TensorFlow Serving; or token ids, for ONNX Runtime or LiteRT.

    python -m pipelines.export_saved_model --model=runs/mrpc/model --output_dir=saved_models/mrpc
    python -m pipelines.verify_saved_model saved_models/mrpc/1
    python -m pipelines.export_saved_model --model=runs/mrpc/model --output_dir=exported/mrpc --format=onnx

`--model` is an argument for `keras_bert.load`; its head determines the signatures, see `keras_bert.export`. Unless
`--output_dir` ends with a version number, the next free version is used. Takes about twenty seconds for BASE.

`--precision=int8` writes a quarter of the size for x86 processors; with VNNI (Intel since 2019, AMD since 2022) it is
three times as fast as float32. `--calibration` makes it more exact and each answer independent of the other texts of
its request: a file with one text per line, like those to be served, its pair or context after a tab; the first 1,024
are used. Compare the scores: `verify_saved_model --reference --labeled`.

`--format=onnx` and `--format=litert` write `model.onnx` or `model.tflite`, and the tokenizer's files, to
`--output_dir`, after that runtime has computed the answers of the model, see `keras_bert.export_onnx`.
"""

import pathlib

import keras_bert
from keras_bert.data.text_files import read_lines
from keras_bert.heads.long_texts import check_long_texts
from keras_bert.metadata import answer_length
from keras_bert.text.long_texts import READING

from . import command, common_flags
from .arguments import flag

_PRECISIONS = {
    "saved_model": ["float32", "mixed_bfloat16", "bfloat16", "int8"],
    "onnx": ["float32", "int8"],
    "litert": ["float32", "float16", "int8"],
}
_MOST_CALIBRATED = 1024
_VECTORS = ("pooling", "layers", "normalize")
_OPTIONS = ("thresholds", "doc_stride", "n_best", "max_answer_length", "null_threshold", "hypothesis", *_VECTORS)
_OF_PREPROCESSOR = ("lowercase", "sequence_length")  # Settings of a checkpoint that the preprocessor has.


class Arguments(common_flags.LongTextFlags):
    model: str = flag(None, "Directory or name of the model.", required=True, section="model")
    sequence_length: int = flag(None, "Maximum number of tokens; default: as in training, or the model's maximum.")
    pair: bool = flag(None, "Whether a classifier takes two texts; default: as in training.")
    precision: str = flag(
        "float32",
        "Precision; bfloat16, float16 (LiteRT) and int8 include the weights, int8 SavedModels are for x86.",
        values=sorted(set().union(*_PRECISIONS.values())),
    )
    calibration: str = flag(
        None,
        "int8: file of a few hundred texts, to find the ranges of activations in advance.",
        is_file=True,
        needs="precision=int8",
    )
    thresholds: list[float] = flag(
        None,
        "Several labels per text: lowest probability of a predicted label, one or one for each label.",
        section="signature",
    )
    doc_stride: int = flag(None, "Tagging, question answering: tokens from window to window.", least=1)
    n_best: int = flag(None, "Number of answers (question answering) or of tokens (masks).", least=1)
    max_answer_length: int = flag(None, "Question answering: maximum tokens of an answer.", least=1)
    null_threshold: float = flag(None, "Question answering: score margin by which no answer must beat the best.")
    hypothesis: str = flag(
        None,
        'Entailment, sentence encoders: adds zero-shot classification with this hypothesis, "This text is about {}."',
    )
    explain: bool = flag(
        False, "SavedModel: adds the signature explain, the scores of words.", needs="format=saved_model"
    )
    pooling: str = flag(None, "Encoder: pooling of the vectors.", values=["mean", "max", "cls", "pooled"])
    layers: list[int] = flag(None, "Encoder: layers to concatenate, such as -4,-3,-2,-1.")
    normalize: bool = flag(None, "Encoder: whether to scale vectors to length 1.")
    format: str = flag(
        "saved_model", "Format; ONNX and LiteRT take token ids.", values=list(_PRECISIONS), section="output"
    )
    lengths: list[int] = flag(
        None, "LiteRT: the only lengths of sequences, such as 64,128; default: any.", needs="format=litert"
    )
    output_dir: str = flag(None, "Folder of the model or, SavedModel, of a version.", required=True)

    overwrite: bool = flag(False, "SavedModel: whether one of another model is replaced.", needs="format=saved_model")

    @property
    def options(self):
        """The given options as arguments of `export`."""
        options = self.values(*_OPTIONS)
        if "hypothesis" in options:
            options["zero_shot"] = keras_bert.ZeroShot(options.pop("hypothesis"))
        return options


def _parameter(name):
    """Returns the parameter of `export` that a flag sets."""
    return "zero_shot" if name == "hypothesis" else name


def check(arguments):
    precisions = _PRECISIONS[arguments.format]
    if arguments.precision not in precisions:
        expected = ", ".join(precisions)
        raise ValueError(f"--format={arguments.format} has --precision={expected}. Received: {arguments.precision}")
    is_saved_model = arguments.format == "saved_model"
    arguments.only(is_saved_model, "with --format=saved_model", "calibration", *_OPTIONS)


def main(arguments):
    if arguments.format == "saved_model":
        _export_saved_model(arguments)
    else:
        _export_on_ids(arguments)


def _export_on_ids(arguments):
    """Writes an ONNX or a LiteRT file."""
    from keras_bert.heads.registry import HEADS

    bert = common_flags.load_model(arguments.model, dtype="float32")
    if bert.head not in [head.name for head in HEADS]:
        received = f"--model={arguments.model}, {bert!r}"
        raise ValueError(f"--format={arguments.format} is for BERT models. Received: {received}")
    options = {}
    for name, value in bert.metadata.settings.items():
        if name not in _OF_PREPROCESSOR:
            options[name] = value
    options["precision"] = arguments.precision
    options["pair"] = bert.pair if arguments.pair is None else arguments.pair
    length = answer_length(bert, arguments.sequence_length)
    preprocessor = bert.preprocessor(length, **arguments.values(*READING))
    if arguments.format == "onnx":
        file = keras_bert.export_onnx(bert.model(), preprocessor, arguments.output_dir, **options)
    else:
        options["lengths"] = arguments.lengths
        file = keras_bert.export_litert(bert.model(), preprocessor, arguments.output_dir, **options)
    print(file)


def _export_saved_model(arguments):
    """Writes a SavedModel, and prints how to verify it."""
    from keras_bert.heads.registry import answering, describe

    is_int8 = arguments.precision == "int8"
    bert = common_flags.load_model(
        arguments.model,
        dtype="float32" if is_int8 else arguments.precision,
        hidden_states=bool(arguments.layers),
    )
    model = _model_to_export(arguments, bert)
    head = answering(describe(model).head)
    options = _export_options(arguments, bert, model, head)
    length = answer_length(bert, arguments.sequence_length)
    directory = _version(pathlib.Path(arguments.output_dir))
    has_choices = "choices" in head.inputs(bert)[0]
    keras_bert.export(
        model,
        bert.preprocessor(length, padding="longest", **arguments.values(*READING)),
        directory,
        precision="int8" if is_int8 else None,
        overwrite=arguments.overwrite,
        explain=arguments.explain,
        calibration=_calibration(arguments.calibration, has_choices),
        **options,
    )
    print(f"wrote {directory}")
    print(f"next: {command.spelling('verify_saved_model')} {directory}")


def _model_to_export(arguments, bert):
    """Returns the model, or its encoder alone if flags replace the pooling of a sentence encoder's checkpoint."""
    has_own_pooling = bool(arguments.options.keys() & _VECTORS)
    if has_own_pooling and bert.pooling is not None:
        return bert.encoder
    return bert.model()


def _export_options(arguments, bert, model, head):
    """Returns the arguments of `export` that the checkpoint decides, and those that flags decide instead."""
    from keras_bert.exporting.stored_options import stored_options

    given = _given_options(arguments, bert, head)
    check_long_texts(arguments.long_texts, head)
    arguments.only(head.takes_pair, "for classifiers and regression models", "pair")
    options = stored_options(bert, model) | given
    if arguments.pair is not None:
        options["pair"] = head.requires_pair or (head.takes_pair and arguments.pair)
    return options


def _given_options(arguments, bert, head):
    """Returns the arguments of `export` that flags decide, of those that the head supports."""
    supported = [name for name in _OPTIONS if _parameter(name) in head.text_options]
    for name in arguments.values(*_OPTIONS):
        if name not in supported:
            expected = ", ".join(f"--{other}" for other in supported) or "none"
            raise ValueError(f"--{name} is not an option for head={head.name!r}. Expected one of: {expected}")
    if head.name != bert.head and bert.projection:
        raise ValueError("--pooling, --layers and --normalize are for sentence encoders without a projection")
    options = arguments.options
    if bert.multi_label and arguments.thresholds is not None:
        is_shared = len(arguments.thresholds) == 1
        options["thresholds"] = arguments.thresholds[0] if is_shared else arguments.thresholds
    return options


def _calibration(path, has_choices):
    """Returns the rows of --calibration, tuples of the columns of a line; a text and the list of its choices."""
    if path is None:
        return None
    rows = []
    for _, line in read_lines(path):
        if not line.strip():
            continue
        text, *others = line.split("\t")
        rows.append((text, others) if has_choices else (text, *others))
    return rows[:_MOST_CALIBRATED]


def _version(folder):
    """Returns the folder itself if it is a version, else the next free version in it."""
    if folder.name.isdecimal():
        return folder
    taken = [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]
    newest = max(taken, default=0)
    return folder / str(newest + 1)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check)
