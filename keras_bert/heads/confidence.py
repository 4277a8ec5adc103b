"""How sure the answers of a model are: the temperature of its probabilities, and when it gives no label."""

import dataclasses

from keras_bert.checks import is_finite

# What a `Confidence` may have where each text has one answer, and where it has several: tags, labels.
OF_ONE_ANSWER = ("temperature", "threshold", "precision", "answers")
OF_SEVERAL = ("temperature",)
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
        if not _are_valid(values, names):
            raise ValueError(
                f"`confidence` must be a dict of {', '.join(names)}: finite numbers, the temperature above 0, the "
                f"threshold a probability, or {NEVER:g} for no answer. Received: confidence={values!r:.200}"
            )
        return cls(**values)

    def scaled(self, logits):
        """Returns logits divided by the temperature; with the default they stay as they are."""
        if self.temperature == 1:
            return logits
        return logits / self.temperature

    def to_json(self):
        """Returns what a checkpoint keeps, a dict; it has no defaults."""
        values = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                values[field.name] = value
        return values


def _are_valid(values, names):
    """Returns whether values are a dict of arguments of `Confidence`, which `names` lists."""
    if not isinstance(values, dict) or not set(values) <= set(names):
        return False
    if not all(value is None or is_finite(value) for value in values.values()):
        return False
    temperature = values.get("temperature", 1.0)
    if temperature is None or temperature <= 0:
        return False
    threshold = values.get("threshold")
    return threshold is None or 0 <= threshold <= 1 or threshold == NEVER


def checked_confidence(values, fields=OF_ONE_ANSWER):
    """Returns the confidence of a model as a dict, or `None`; `fields` are those that its answers may have."""
    if values is None:
        return None
    if not fields:
        raise ValueError(
            "`confidence` must be None for a model whose answers have no probabilities of classes. "
            f"Received: confidence={values!r}"
        )
    confidence = Confidence.of(values).to_json()
    for name, value in confidence.items():
        if name not in fields:
            raise ValueError(
                f"`confidence` must have {' and '.join(fields)} alone for a model with several answers to a text: tags "
                f"have no threshold, and labels have `thresholds`. Received: {name}={value!r}"
            )
    return confidence or None  # All of it may be the default.
