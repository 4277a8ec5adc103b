"""Other models than BERT behind the commands of the core. Their packages may be missing: each can be deleted."""

import contextlib
import inspect

import keras_bert
from keras_bert.heads.answers import of_outputs

try:
    from keras_bert.baselines.config import explain_names, named_baseline
except ModuleNotFoundError:

    def explain_names(name):
        return ""

    def named_baseline(name, vocab_size):
        return None


def load(path_or_name, **options):
    """Loads a checkpoint of any model: as `keras_bert.load`, or by the function that its error names."""
    from keras_bert.checkpoints.other_models import OtherModelError

    try:
        return keras_bert.load(path_or_name, **options)
    except OtherModelError as error:
        load_other = _load_of(error)
    options = {name: value for name, value in options.items() if value}
    if unknown := options.keys() - inspect.signature(load_other).parameters:
        raise ValueError(f"{path_or_name} is not a BERT and does not take {', '.join(sorted(unknown))}")
    return load_other(path_or_name, **options)


def _load_of(error):
    try:
        if error.module == "keras_bert.baselines":
            from keras_bert.baselines.loaded import load
        else:
            from keras_bert.translation.loaded import load
    except ModuleNotFoundError:
        raise error from None
    return load


def answer_of(outputs):
    """Returns what converts the outputs of a server, by their names, to answers, see `Head.answer`."""
    if "translations" in outputs:
        with contextlib.suppress(ModuleNotFoundError):
            from keras_bert.translation.answer import answer

            return answer
    return of_outputs(outputs)


def is_new(model):
    """Returns whether a model is the name of a new one to compare BERT with, such as "bilstm_H-256"."""
    return named_baseline(model, 1) is not None


def language_model(name):
    """Returns the language model of both directions that a size such as "bilm_H-256" names, or `None`."""
    baseline = named_baseline(name, 1)
    if baseline is None:
        return None
    if baseline.kind != "bilm":
        raise ValueError(f"--config={name}: only a bilm is pre-trained; train others by run_glue or run_squad")
    from keras_bert.baselines.models import NewLanguageModel

    return NewLanguageModel(name)
