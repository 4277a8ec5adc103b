"""What shapes answers besides the model: names of classes, thresholds, prompts (texts before the texts to embed)."""

import dataclasses
import numbers

import numpy as np

from keras_bert.checks import check_choice, check_count, is_finite

THRESHOLD = 0.5
# Which tokens are read of a text that is too long, see `text/views.py`.
HEAD, TAIL, HEAD_TAIL, WINDOWS, REFUSE = "head", "tail", "head_tail", "windows", "refuse"
LONG_TEXTS = (HEAD, TAIL, HEAD_TAIL, WINDOWS, REFUSE)
READING = ("long_texts", "overlap", "max_windows")  # The options of `TextPreprocessor` that tell it, and how.
CUTS = (HEAD, TAIL, HEAD_TAIL, REFUSE)  # Those that make one sequence of a text.
# What queries and passages are called in prompts, as in sentence-transformers, the first one that there is.
QUERY, PASSAGE = ("query",), ("document", "passage", "corpus")


# What a `Confidence` may have where each text has one answer, and where it has several: tags, labels.
OF_ONE_ANSWER, OF_SEVERAL = ("temperature", "threshold", "precision", "answers"), ("temperature",)
NEVER = 2.0  # A threshold that no probability reaches.


@dataclasses.dataclass(frozen=True)
class Confidence:
    """How sure the answers of a model are: what divides its logits, and when it gives no label.

    Args:
        temperature: float, the divisor of the logits in probabilities. Defaults to 1.
        threshold: float, the lowest probability at which a label or a choice is answered; with `NEVER`, 2, none is.
            Defaults to `None`: all are.
        precision: float, the share of right labels that the threshold was chosen for. Defaults to `None`.
        answers: float, the share of the texts that were answered where the threshold was chosen. Defaults to `None`.

    Example:
        bert.confidence = {"temperature": 1.4, "threshold": 0.8}
    """

    temperature: float = 1.0
    threshold: float | None = None
    precision: float | None = None
    answers: float | None = None

    @classmethod
    def of(cls, values):
        """Returns the `Confidence` of a dict of its arguments, as a checkpoint has it, or of `None`; checks them."""
        if values is None:
            return cls()
        names = [field.name for field in dataclasses.fields(cls)]
        valid = isinstance(values, dict) and set(values) <= set(names)
        valid = valid and all(value is None or is_finite(value) for value in values.values())
        if valid:
            threshold = values.get("threshold") or 0
            is_probability = 0 <= threshold <= 1
            valid = (is_probability or threshold == NEVER) and (values.get("temperature", 1.0) or 0) > 0
        if not valid:
            raise ValueError(
                f"`confidence` must be a dict of {', '.join(names)}: finite numbers, the temperature above 0, the "
                f"threshold a probability, or {NEVER:g} for no answer. Received: confidence={values!r:.200}"
            )
        return cls(**values)

    def scaled(self, logits):
        """Returns logits divided by the temperature; with the default they stay as they are."""
        return logits if self.temperature == 1 else logits / self.temperature

    def to_json(self):
        """Returns what a checkpoint keeps, a dict; it has no defaults."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value != getattr(type(self), name)}


def checked_confidence(values, fields=OF_ONE_ANSWER):
    """Returns the confidence of a model as a dict, or `None`; `fields` are those that its answers may have."""
    if values is None:
        return None
    if not fields:
        raise ValueError(
            "`confidence` must be None for a model whose answers have no probabilities of classes. "
            f"Received: confidence={values!r}"
        )
    found = Confidence.of(values).to_json()
    if others := [name for name in found if name not in fields]:
        raise ValueError(
            f"`confidence` must have {' and '.join(fields)} alone for a model with several answers to a text: tags "
            f"have no threshold, and labels have `thresholds`. Received: {others[0]}={found[others[0]]!r}"
        )
    return found or None


def check_long_texts(long_texts, head):
    """Raises unless `long_texts` is one of those of a head, or `None`."""
    if long_texts is None:
        return
    if not head.long_texts:
        raise ValueError(
            f"`long_texts` is for models that read a part of a long text; with head={head.name!r}, they read all of "
            f"it. Received: long_texts={long_texts!r}"
        )
    check_choice("long_texts", long_texts, head.long_texts)


def check_stored_reading(metadata, head):
    """Raises unless a model with a head can read long texts as its `Metadata` tell, whatever the texts."""
    check_long_texts(metadata.long_texts, head)
    for name, least in (("overlap", 0), ("max_windows", 1)):
        value = getattr(metadata, name)
        if value is None:
            continue
        if metadata.long_texts != WINDOWS:
            raise ValueError(
                f"`{name}` is an option of long_texts='windows'. "
                f"Received: long_texts={metadata.long_texts!r}, {name}={value!r}"
            )
        check_count(name, value, least)
    if None in (metadata.overlap, metadata.sequence_length):
        return
    room = metadata.sequence_length - 2  # Beside [CLS] and [SEP].
    if metadata.overlap >= room:
        raise ValueError(
            f"`overlap` must be less than the {room} tokens of a window. Received: overlap={metadata.overlap}, "
            f"sequence_length={metadata.sequence_length}"
        )


def checked_labels(labels, classes):
    """Returns the labels, `classes` different strings or numbers in the order of the logits, as strings; or `None`."""
    if labels is None:
        return None
    given = list(labels) if np.iterable(labels) and not isinstance(labels, str | bytes | dict) else []
    names = [label.decode() if isinstance(label, bytes) else str(label) for label in given]
    are_names = all(isinstance(label, str | bytes | numbers.Number | np.generic) for label in given)
    if not are_names or not len(names) == len(set(names)) == classes:
        raise ValueError(
            f"`labels` must be {classes} different names, in the order of the logits. Received: labels={labels!r:.200}"
        )
    return names


def placeholders(classes):
    """Returns the names of classes that have none, those of transformers."""
    return [f"LABEL_{index}" for index in range(classes)]


def cuts(thresholds):
    """Returns the logits that belong to thresholds, as float64."""
    thresholds = np.asarray(thresholds, "float64")
    return np.log(thresholds) - np.log1p(-thresholds)


def checked_thresholds(thresholds, classes):
    """Returns the thresholds of a model as a float or a list of floats, or `None`.

    `thresholds` is a number between 0 and 1 for all labels, a list or array of one for each, or `None`; `classes` is
    the number of classes of a multi-label model, `None` for other models.
    """
    if thresholds is None:
        return None
    is_number = isinstance(thresholds, numbers.Real)
    values = [thresholds] if is_number else list(thresholds) if np.iterable(thresholds) else [None]
    valid = all(isinstance(value, numbers.Real) and 0 < value < 1 for value in values)
    if classes is None or not valid or not (is_number or len(values) == classes):
        expected = f"a number between 0 and 1, or a list of {classes}, one for each label"
        expected = expected if classes else "None for a model that is not multi-label"
        raise ValueError(f"`thresholds` must be {expected}. Received: thresholds={thresholds!s:.200}")
    return float(thresholds) if is_number else [float(value) for value in values]


def checked_null_threshold(threshold):
    """Returns the threshold for no answer, a number or `None`, as a float."""
    if threshold is not None and not is_finite(threshold):
        raise ValueError(f"`null_threshold` must be a finite number or `None`. Received: null_threshold={threshold!r}")
    return None if threshold is None else float(threshold)


def check_prompts(prompts, default_prompt_name):
    """Raises unless `prompts` is a dict of strings by name, or `None`, that has the default prompt if there is one."""
    pairs = prompts.items() if isinstance(prompts, dict) else [] if prompts is None else [(None, None)]
    if not all(isinstance(name, str) and name and isinstance(text, str) for name, text in pairs):
        raise ValueError(f"`prompts` must be a dict of texts by name, or `None`. Received: prompts={prompts!r:.200}")
    if default_prompt_name is not None:
        _check_name("default_prompt_name", default_prompt_name, prompts)


def chosen_prompt(prompts, default_prompt_name, prompt=None, prompt_name=None):
    """Returns the text to put before each text: `prompt`, or else the named prompt, or else the default one, or ""."""
    if prompt is not None and prompt_name is not None:
        raise ValueError(
            "pass `prompt`, a text, or `prompt_name`, not both. "
            f"Received: prompt={prompt!r}, prompt_name={prompt_name!r}"
        )
    if prompt is not None:
        if not isinstance(prompt, str):
            raise ValueError(f"`prompt` must be a string. Received: prompt={prompt!r}")
        return prompt
    if prompt_name is not None:
        _check_name("prompt_name", prompt_name, prompts)
        return prompts[prompt_name]
    return "" if default_prompt_name is None else prompts[default_prompt_name]


def prompt_for(bert, *names):
    """Returns the first of some named prompts that a loaded checkpoint has, or else its default prompt, or ""."""
    known = bert.prompts or {}
    return chosen_prompt(known, next((name for name in names if name in known), bert.default_prompt_name))


def _check_name(argument, name, prompts):
    if name not in (prompts or {}):
        known = ", ".join(prompts or {}) or "none"
        raise ValueError(f"`{argument}` must be the name of a prompt: {known}. Received: {argument}={name!r}")
