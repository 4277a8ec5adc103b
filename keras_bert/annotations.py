"""What type checkers are told: answers as typed dicts, options as typed keywords.

A checker does not know which head a checkpoint has: `Answer` has the keys of all heads of the package, of which an
answer has those of its head. Heads and tasks of others have answers and options of their own, which stay open: those of
`load(path, heads=[...])` and of `fit(..., task="name")`.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict

# A text, a pair, or a dict such as {"question": ..., "context": ...}.
Text = str | tuple[str, str] | Mapping[str, Any]
# A list, an array, a Series, a data frame, a dataset.
Texts = Iterable[Any]
TaskName = Literal[
    "classification", "multi_label", "regression", "questions", "multiple_choice", "tagging", "embedding"
]
StrategyName = Literal["auto", "one", "mirrored", "multi_worker", "tpu"]
Format = Literal["huggingface", "google", "keras", "peft"]
WeightsDtype = Literal["float32", "float16", "bfloat16"]
LongTexts = Literal["head", "tail", "head_tail", "windows", "refuse"]
ExplanationMethod = Literal["leave_one_out", "integrated_gradients"]
FitMethod = Literal["full", "probe", "contrastive", "auto"]


class Strategy(Protocol):
    """What is used of a `tf.distribute.Strategy`."""

    def scope(self) -> Any: ...


class Entity(TypedDict):
    text: str
    label: str
    start: int
    end: int
    score: float


class Span(TypedDict):
    answer: str
    score: float
    start: int
    end: int


class Fill(TypedDict):
    token: str
    score: float


class Answer(TypedDict):
    """The answer to a text, see `LoadedBert.predict`: of these keys, those of the model's head."""

    # Classification and regression.
    label: str
    score: float
    scores: Any  # A dict by label; of choices, a list.
    labels: list[str]
    logits: list[float]
    value: float
    # Token classification.
    entities: list[Entity]
    # Question answering.
    answer: str
    start: int
    end: int
    null_score: float
    answers: list[Span]
    # Pre-training, next sentence, multiple choice, embedding.
    fills: list[list[Fill]]
    probability: float
    choice: int | None
    embedding: Any  # A vector of NumPy.
    # All answers have both: how many tokens the text has (of replaced token detection the tokens), how many were read.
    tokens: Any
    tokens_read: int


class WordScore(TypedDict):
    text: str
    start: int
    end: int
    score: float
    input: str  # "text", "pair" or "choice".


class Explanation(TypedDict):
    """The scores of the words of a text, see `LoadedBert.explain`."""

    words: list[WordScore]
    target: Any  # The name or the number of the class or of the choice; `None` for a number.
    word: int | None  # Of tags: the place among `words` of the word that has the tag.
    value: float
    baseline: float
    difference: float
    delta: float
    method: str
    replacement: str
    tokens: int
    tokens_read: int


class Results(TypedDict):
    """What `fit` leaves in `LoadedBert.results`."""

    setting: dict[str, Any]
    scores: dict[str, float]
    evaluated_on: str  # "validation", "training data", or of what cross-validation.
    epoch: int
    history: list[dict[str, float]]
    runs: list[dict[str, Any]]


class LabelCheck(TypedDict, total=False):
    """A label that `LoadedBert.check_labels` ranks; of a tagger with `word` and `text`."""

    row: int
    word: int
    text: str
    label: Any
    predicted: Any
    loss: float
    same_text: list[int]


class PredictOptions(TypedDict, total=False):
    """Options of `LoadedBert.predict` for some heads, and those of `ZeroShot`."""

    logits: bool
    thresholds: float | Sequence[float]
    confidence: Mapping[str, Any] | None
    doc_stride: int
    max_question_length: int
    max_answer_length: int
    null_threshold: float
    pooling: Any
    layers: Any
    normalize: bool
    rows_together: int | None
    hypothesis: str
    multi_label: bool
    temperature: float


class TaskOptions(TypedDict, total=False):
    """Settings of the tasks of the package that are keywords of `fit` and `evaluate`."""

    long_texts: LongTexts | None
    overlap: int | None
    max_windows: int | None
    class_weight: Literal["balanced"] | Mapping[Any, float] | None
    threshold: float | Literal["shared", "per_label"]
    calibrate: bool
    answer_at_precision: float | None
    language_model_weight: float
    version_2: bool
    doc_stride: int
    max_question_length: int
    max_answer_length: int
    n_best: int
    first_label: Literal["0", "1"] | int | None
    scheme: Literal["iob1", "iob2", "iobes", "bilou", "bmes", "io", "words"] | None
    labels: Sequence[str] | None
    first_token_only: bool
    pooling: Literal["mean", "cls", "max"] | None
    normalize: bool | None
    projection: int | None
    loss: Literal["cosine", "in_batch", "triplet"] | None
    temperature: float
    margin: float
    distance: Literal["euclidean", "cosine"]
    prompts: Mapping[str, str] | None


class FitOptions(TaskOptions, total=False):
    """Options of `fit`: those of the tasks, fields of `Hyperparameters`, and those of a teacher."""

    warmup: float
    weight_decay: float
    epsilon: float
    layer_decay: float | None
    bias_correction: bool
    freeze_layers: int | None
    lora_rank: int | None
    lora_alpha: float | None
    group_by_length: bool
    pack: bool
    gradient_accumulation: int
    precision: str
    alpha: float


class ModelSettings(TypedDict, total=False):
    """Settings of `keras_bert.save` that are fields of `Metadata`."""

    pair: bool | None
    sequence_length: int | None
    long_texts: LongTexts | None
    overlap: int | None
    max_windows: int | None
    null_threshold: float | None
    thresholds: float | Sequence[float] | None
    confidence: Mapping[str, Any] | None
    task_settings: Mapping[str, Any] | None
    prompts: Mapping[str, str] | None
    default_prompt_name: str | None
    similarity_function: str
    model_type: str | None
    columns: Mapping[str, Any] | None


class SaveOptions(ModelSettings, total=False):
    """Options of `LoadedBert.save`."""

    lowercase: bool | None
    labels: Sequence[Any] | None
    task: str | None
    format: Format | None
    strip_accents: bool | None
    weights_dtype: WeightsDtype
    base: str | os.PathLike | None
    overwrite: bool


class HeadOptions(TypedDict, total=False):
    """Options of `keras_bert.export` that are those of a head."""

    thresholds: float | Sequence[float] | None
    confidence: Mapping[str, Any] | None
    logits: bool
    zero_shot: Any
    doc_stride: int
    max_question_length: int
    max_answer_length: int
    null_threshold: float | None
    pooling: Any
    layers: Any
    normalize: bool
    prompts: Mapping[str, str] | None
    default_prompt_name: str | None
    rows_together: int | None
    beam: Any
    n_best: int


class ExportOptions(HeadOptions, total=False):
    """Options of `LoadedBert.export`."""

    labels: Sequence[Any] | None
    pair: bool
    example: Mapping[str, Any] | None
    score_range: tuple[float, float] | None
    columns: Mapping[str, str] | None
    task: Mapping[str, Any] | None
    precision: Literal["int8"] | None
    calibration: Sequence[Any] | None
    overwrite: bool
    explain: bool
    add_signatures: Any


class EncoderOptions(TypedDict, total=False):
    """Options of `load` that are those of `build_encoder`, and `num_layers`."""

    causal: bool
    hidden_states: bool
    attention_scores: bool
    positions: str
    remat: bool
    name: str | None
    num_layers: int | None
