"""Fine-tunes a tagger of named entities or other tags of words, and keeps the best model on dev.

    python -m pipelines.run_tagging --train_file=eng.train --dev_file=eng.testa --predict_file=eng.testb \\
        --model=google-bert/bert-base-cased --output_dir=runs/ner --seed=1,2,3,4,5
    python -m pipelines.run_tagging --train_file=train.jsonl --dev_file=dev.jsonl --model=google-bert/bert-base-cased \\
        --output_dir=runs/entities

A file has one word per line with its tag in the last column (CoNLL), or is JSONL with `tokens` and `tags`, or with
`text` and spans, as doccano, Label Studio, Prodigy and spaCy write it. Tags are IOB1, IOB2, IOBES, BILOU, types without
prefixes or plain tags, such as parts of speech; the scheme is recognized. Sentences longer than `--sequence_length` are
read in windows that overlap by half; with `--document_context`, windows run over whole documents, as in the paper.
Flags with several values form a grid; the same command resumes interrupted runs and keeps finished ones. `--output_dir`
contains `flags.txt`, `runs/`, the predictions of the best run in the form of the files, `dev_predictions` and
`predictions`, `results.json`, `results.md` with the paper's scores for CoNLL-2003, `report.html`, the best model in
`model/` and its export, from text to entities, in `saved_model/1/`.
"""

import functools

from absl import flags

import keras_bert
from keras_bert.tasks.tagging import data
from keras_bert.tasks.tagging.schemes import SCHEMES

from . import command, common_flags

# As in `layers.recurrent`, which needs TensorFlow.
FEATURES = ("embeddings", "second_to_last", "last", "sum_last_four", "concat_last_four", "sum_all")

command.section("data")
_TRAIN = flags.DEFINE_string("train_file", None, "Training data: CoNLL or JSONL.", required=True)
_DEV = flags.DEFINE_string("dev_file", None, "File to select the best run on.", required=True)
_PREDICT = flags.DEFINE_string("predict_file", None, "File to predict; scored if it has tags.")
_WORD = flags.DEFINE_string("word_column", None, "Column of the words, a number or name, or key of words or text.")
_TAG = flags.DEFINE_string("tag_column", None, "Column of the tags, a number or name, or key of tags or spans.")
_SEPARATOR = flags.DEFINE_string("separator", None, "Separator of columns: tab, space, comma; default: recognized.")
_SCHEME = flags.DEFINE_enum("scheme", None, SCHEMES, "Scheme of the tags; default: recognized.")
flags.DEFINE_integer("sequence_length", 128, "Maximum number of tokens of a window.", 4)
flags.DEFINE_bool("document_context", False, "Windows run over documents, instead of sentences.")
flags.DEFINE_bool("first_token_only", False, "Trains only the first token of a word, as in the paper.")
_FLAGS = common_flags.finetuning("5e-5; 1e-3 with --feature_based", epochs="3; 20 with --feature_based")
command.section("feature-based")
_FEATURES = flags.DEFINE_list("feature_based", None, f"Trains only a BiLSTM, on features: {', '.join(FEATURES)}.")
_DTYPE = flags.DEFINE_enum("feature_dtype", None, ["float16", "float32"], "Type of stored features; default: float16.")


def check():
    """Finds mistakes in flags and files."""
    common_flags.choices(_FLAGS, [], None, None)
    common_flags.check_model(_FLAGS.model.value, "google-bert/bert-base-cased")
    common_flags.check_lora(_FLAGS, [_FLAGS.model.value])
    common_flags.check_pack(_FLAGS)
    _check_features()
    _read()


def main():
    from keras_bert.tasks.tagging.feature_task import BiLSTMSettings, FeatureTaggingTask
    from keras_bert.tasks.tagging.task import TaggingSettings, TaggingTask, predictions_name

    output, strategy = common_flags.begin(_FLAGS)
    model = _FLAGS.model.value
    arguments = *_read(), model, keras_bert.load(model), common_flags.instance(TaggingSettings)
    if _FEATURES.value:
        bilstm = BiLSTMSettings(_DTYPE.value or "float16")
        task = FeatureTaggingTask(*arguments, folder=output / "features", load=keras_bert.load, bilstm=bilstm)
        choices = {"features": _FEATURES.value, **common_flags.choices(_FLAGS, [1e-3], 32, 20)}
    else:
        task = TaggingTask(*arguments)
        choices = common_flags.choices(_FLAGS, [5e-5], 32, 3)
    predictions = _PREDICT.value and predictions_name(_PREDICT.value, "test")
    common_flags.finetune(_FLAGS, task, choices, strategy, '"A text with names."', predictions)


def _check_features():
    for name in _FEATURES.value or ():
        if name not in FEATURES:
            raise ValueError(f"--feature_based must be one or more of {', '.join(FEATURES)}. Received: {name}")
    if len(set(_FEATURES.value or ())) < len(_FEATURES.value or ()):
        raise ValueError(f"--feature_based contains duplicates. Received: {','.join(_FEATURES.value)}")
    if _DTYPE.value and not _FEATURES.value:
        raise ValueError("--feature_dtype is only for --feature_based. Received: no --feature_based")
    for name in ("freeze_layers", "layer_decay", "lora_rank"):
        if _FEATURES.value and flags.FLAGS[name].value is not None:
            raise ValueError(f"--{name} is only for fine-tuning: with --feature_based, no layer of BERT is trained")


@functools.cache
def _read():
    """Returns the training data, dev and the data to predict, `None` without."""
    options = {"word_column": _WORD.value, "tag_column": _TAG.value, "separator": _SEPARATOR.value}
    options["scheme"] = _SCHEME.value
    train = data.read(_TRAIN.value, **options)
    dev = data.read(_DEV.value, **options, like=train)
    test = data.read(_PREDICT.value, **options, like=train, labeled=False) if _PREDICT.value else None
    data.check(train, dev, test, flags.FLAGS["document_context"].value)
    return train, dev, test


if __name__ == "__main__":
    command.run(main, check=check, resumes=True)
