"""Exports a SavedModel that takes raw text, for TensorFlow Serving.

    python -m pipelines.export_saved_model --model=runs/mrpc/model --output_dir=saved_models/mrpc
    python -m pipelines.verify_saved_model saved_models/mrpc/1

`--model` is an argument for `keras_bert.load`; its head determines the signatures, see `keras_bert.export`. Unless
`--output_dir` ends with a version number, the next free version is used. Takes about twenty seconds for BASE.
"""

import pathlib

from absl import flags

import keras_bert

from . import command, common_flags

command.section("model")
_MODEL = flags.DEFINE_string("model", None, "Directory or name of the model.", required=True)
_LENGTH = flags.DEFINE_integer(
    "sequence_length", None, "Maximum number of tokens; default: as in training, or the model's maximum."
)
_PAIR = flags.DEFINE_bool("pair", None, "Whether a classifier takes two texts; default: as in training.")
_PRECISIONS = ["float32", "mixed_bfloat16", "bfloat16"]
_PRECISION = flags.DEFINE_enum("precision", "float32", _PRECISIONS, "Precision; bfloat16 includes the weights.")
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
_POOLING = flags.DEFINE_enum("pooling", None, ["mean", "max", "cls", "pooled"], "Encoder: pooling of the vectors.")
_LAYERS = flags.DEFINE_list("layers", None, "Encoder: layers to concatenate, such as -4,-3,-2,-1.")
_NORMALIZE = flags.DEFINE_bool("normalize", None, "Encoder: whether to scale vectors to length 1.")
command.section("output")
_OUTPUT = flags.DEFINE_string("output_dir", None, "Folder of the model or of a version.", required=True)
command.renamed(output="output_dir", stride="doc_stride", top="n_best")
_OPTIONS = {
    "classification": (_THRESHOLDS,),
    "multiple_choice": (),
    "token_classification": (_STRIDE,),
    "bilstm_tagging": (_STRIDE,),
    "question_answering": (_STRIDE, _TOP, _ANSWER, _NULL),
    "pretraining": (_TOP,),
    "next_sentence": (),
    "encoder": (_POOLING, _LAYERS, _NORMALIZE),
    "embedding": (),
}


def main():
    layers = common_flags.numbers(_LAYERS, int)
    bert = keras_bert.load(_MODEL.value, dtype=_PRECISION.value, hidden_states=bool(layers))
    # These flags override the pooling settings of a sentence encoder's checkpoint.
    own = bert.head == "embedding" and (layers or _POOLING.value is not None or _NORMALIZE.value is not None)
    head = "encoder" if own else bert.head
    options = _options(head)
    if layers:
        options["layers"] = layers
    if own:
        options = {"pooling": bert.pooling, "normalize": bert.normalize, **options}
    if head == "question_answering":
        options.setdefault("null_threshold", bert.null_threshold)
    if bert.multi_label:
        given = common_flags.numbers(_THRESHOLDS, float)
        options["thresholds"] = bert.thresholds if given is None else given[0] if len(given) == 1 else given
    length = _LENGTH.value or bert.sequence_length or bert.config.max_position_embeddings
    model = bert.encoder if own else bert.model()
    regression = head == "classification" and model.output["logits"].shape[-1] == 1 and not bert.multi_label
    directory = _version(pathlib.Path(_OUTPUT.value))
    keras_bert.export(
        model,
        bert.preprocessor(length, padding="longest"),
        directory,
        labels=None if regression else bert.labels,
        pair=bool(bert.pair if _PAIR.value is None else _PAIR.value),
        **options,
    )
    print(f"wrote {directory}")
    print(f"next: {command.spelling('verify_saved_model')} {directory}")


def _options(head):
    """Returns the given options as arguments of `export`; raises an error if the head does not support one."""
    known = [flag.name for flag in _OPTIONS[head]]
    given = {flag.name: flag.value for of_head in _OPTIONS.values() for flag in of_head if flag.value is not None}
    for name in given:
        if name not in known:
            has = ", ".join(f"--{option}" for option in known) or "none"
            raise ValueError(f"--{name} is not an option for head={head!r}. Expected one of: {has}")
    keywords = {"doc_stride": "stride", "n_best": "top"}
    return {keywords.get(name, name): value for name, value in given.items()}


def _version(folder):
    """Returns the folder itself if it is a version, else the next free version in it."""
    if folder.name.isdecimal():
        return folder
    taken = [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]
    return folder / str(max(taken, default=0) + 1)


if __name__ == "__main__":
    command.run(main, check=lambda: common_flags.check_paths(_MODEL.value))
