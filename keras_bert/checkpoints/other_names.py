"""Names that other programs use, and what a `LoadedBert` has in their place."""

import functools

from keras_bert.checks import similar

_FIND = "`fit` finds the classes in its targets, and bert.classifier(num_classes) is a model with a new head"
_DATA = "The classes are those of the labels in the data"
# What to say about arguments of `load`, `fit` and `predict`, and about flags of commands.
LOAD = {
    "num_labels": _FIND,
    "num_classes": _FIND,
    "output_attentions": "`attention_scores=True` returns attention probabilities",
    "output_hidden_states": "`hidden_states=True` returns the outputs of all layers",
    "torch_dtype": "`dtype` is the precision, such as dtype='bfloat16'",
}
FIT = {name: "`bert.encoder` builds models to compile with your own" for name in ("optimizer", "loss", "metrics")}
FIT |= {name: "The classes are those of the targets" for name in ("num_labels", "num_classes", "labels")}
FIT |= {
    "remat": "It is one of keras_bert.load(name, remat=True)",
    "stride": "Texts are cut at `sequence_length`; for questions it is `doc_stride`; taggers split texts by themselves",
}
_CUT = "Texts are cut at `sequence_length`"
PREDICT = {
    "stride": _CUT,
    "doc_stride": _CUT,
    "top_k": "`n_best` is the number of answers, or of tokens for a [MASK]; `scores` has all labels of a classifier",
}
FLAGS = {"num_labels": _DATA, "num_classes": _DATA}
_SAME = dict.fromkeys(["num_epochs", "num_train_epochs"], "epochs") | {"lr": "learning_rate", "y": "targets"}
_SAME |= dict.fromkeys(["max_length", "max_len", "max_seq_length"], "sequence_length")
_SAME |= dict.fromkeys(["train_batch_size", "per_device_train_batch_size"], "batch_size")
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32"}
_PREDICT = "`predict` returns probabilities: `score` and `scores` of each answer"
ATTRIBUTES = {
    "from_pretrained": "keras_bert.load(path_or_name) opens a checkpoint",
    "save_pretrained": "`save(directory)` writes a folder for `from_pretrained`",
    "predict_proba": _PREDICT,
    "explain": f"{_PREDICT}, and `attention(text)` what each token attends to",
    "score": "`evaluate(texts, targets)` returns the scores, a dict",
    "transform": "`encode(texts)` returns vectors",
    "tokenizer": "`preprocessor(sequence_length).tokenizer` splits texts, `vocabulary` has the pieces",
    "num_labels": "`labels` has the names of the classes",
}


def hint(name, known, hints, shown="{!r}", otherwise=None):
    """Returns a sentence about an unknown name: that of `hints`, a known name of this meaning or spelling, or all."""
    if name in hints:
        return f"{hints[name]}."
    found = _SAME[name] if _SAME.get(name) in known else similar(name, known)
    everything = otherwise or f"Expected one of: {', '.join(dict.fromkeys(known)) or 'none'}."
    return f"Did you mean {shown.format(found)}?" if found else everything


class CalledFirst:
    """Decorates a method whose result has the attributes that people look for in the method."""

    def __init__(self, function):
        functools.update_wrapper(self, function)

    def __get__(self, instance, owner=None):
        return self if instance is None else _Bound(self.__wrapped__, instance)


class _Bound(functools.partial):
    def __getattr__(self, name):
        method = f"`bert.{self.func.__name__}`"
        raise AttributeError(
            f"{method} is a method, which returns a Keras model, and has no attribute {name!r}. Use `bert.fit`, "
            f"`bert.evaluate` and `bert.predict` on texts, or bert.{self.func.__name__}().{name} on token ids"
        )


def as_frame(answers, texts):
    """Returns the answers as a pandas data frame: with the index of a Series or frame, or else beside the texts."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "`as_frame` needs pandas, which is not installed. Install it with `pip install pandas`", name="pandas"
        ) from None
    if isinstance(texts, pandas.Series | pandas.DataFrame):
        return pandas.DataFrame(answers, texts.index)
    if not isinstance(texts, str | tuple | dict | list):  # Arrays, tensors, datasets.
        return pandas.DataFrame(answers)
    given, rows = ([texts], [answers]) if isinstance(answers, dict) else (texts, answers)
    return pandas.DataFrame([{**_columns(text), **row} for text, row in zip(given, rows, strict=True)])


def _columns(text):
    """Returns what was answered as columns: a text, a pair, words, or a dict."""
    if isinstance(text, dict):
        return text
    return {"text": text[0], "pair": text[1]} if isinstance(text, tuple) else {"text": text}
