"""Settings of the tasks on texts, or pairs of them, with labels."""

import dataclasses
import math

from keras_bert.settings import AnswerSettings, CalibrationSettings, WindowSettings, setting


@dataclasses.dataclass(frozen=True)
class RegressionSettings(WindowSettings):
    """Settings of texts with numbers."""

    sequence_length: int = setting(
        128,
        "Maximum number of tokens of a sequence.",
        section="data",
        least=3,
    )
    language_model_weight: float = setting(
        0.0,
        "Weight of a language model loss on the texts, for left-to-right models; GPT: 0.5.",
        section="training",
        least=0,
    )


@dataclasses.dataclass(frozen=True)
class ClassificationSettings(AnswerSettings, RegressionSettings):
    """Settings of texts with classes. In Python, `class_weight` may be a dict of weights by class, 1 for others."""

    class_weight: str = setting(
        None,
        "Weights the loss so that all classes count equally.",
        values=["balanced"],
        section="training",
    )


@dataclasses.dataclass(frozen=True)
class MultiLabelSettings(CalibrationSettings, WindowSettings):
    """Settings of texts with several labels; `threshold` may be a number, see `choose_thresholds`."""

    sequence_length: int = setting(
        128,
        "Maximum number of tokens of a sequence.",
        section="data",
        least=3,
    )
    class_weight: str = setting(
        None,
        "Weights the loss so that all classes count equally.",
        values=["balanced"],
        section="training",
    )
    threshold: str = setting(
        "0.5",
        "multi_label: probability from which labels are predicted; shared or per_label: chosen on dev.",
        section="training",
    )


def parse_threshold(value):
    """Reads the flag `--threshold`: "shared", "per_label", or a number between 0 and 1."""
    if value in ("shared", "per_label"):
        return value
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number < 1:
        raise ValueError(
            f"`threshold` must be shared, per_label, or a number between 0 and 1. Received: threshold={value}"
        )
    return number
