"""The studies of the paper as data: their rows, the scores to compare and the published figures (BERT, section 5)."""

import dataclasses

from keras_bert.tasks import glue

# What rows are fine-tuned on.
_GLUE = [name for name in glue.TASKS if name not in ("ax", "mnli_mismatched")]
TASKS = (*_GLUE, "squad", "ner", "ner_features")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a pre-training differs in from that of the other rows. Rows with equal recipes share a pre-training."""

    next_sentence: bool = True  # Whether next sentence prediction is trained.
    causal: bool = False  # Whether a left-to-right language model is trained.
    positions: str = "learned"  # See `build_encoder`.
    mask_share: float = 0.8  # See `Masking`.
    random_share: float = 0.1
    size: str | None = None  # Name of a config.
    special_tokens: bool = True  # Whether the text contains [CLS] and [SEP].
    bilm: bool = False  # Whether ELMo's language model is trained, see `build_bilm`.

    @property
    def folder(self):
        """Returns a name made of the differences from the paper's recipe."""
        if self.bilm:
            return "bilm"
        differences = []
        if not self.next_sentence:
            differences.append("ltr" if self.causal else "no_nsp")
        if not self.special_tokens:
            differences.append("plain")
        if self.positions != "learned":
            differences.append(self.positions)
        if (self.mask_share, self.random_share) != (0.8, 0.1):
            same_share = round(1 - self.mask_share - self.random_share, 6)
            shares = (self.mask_share, same_share, self.random_share)
            differences.append("mask-" + "-".join(f"{100 * share:.0f}" for share in shares))
        if self.size:
            differences.append(self.size)
        return "_".join(differences) or "bert"


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a study."""

    key: str  # Name in flags and folders.
    title: str
    recipe: Recipe | None = Recipe()  # Of its pre-training; `None` for none.
    # Published dev scores in percent, by task; `perplexity` is that of the language model.
    published: dict = dataclasses.field(default_factory=dict)
    bilstm: bool = False  # Whether fine-tuning adds a BiLSTM, see `build_on_bilstm`.
    features: str | None = None  # Named entities are tagged on these features, see `build_bilstm_tagger`.
    share: float = 1.0  # Fraction of the pre-training steps after which the model is fine-tuned.
    # Whether tasks have GLUE's BiLSTM or BiDAF, with the states of the pre-trained model as features, if there is one.
    recurrent: bool = False

    @property
    def is_built(self):
        """Whether this package builds the row; others only have published scores."""
        return self.recurrent or self.recipe is not None


@dataclasses.dataclass(frozen=True)
class StudyDefinition:
    """A study: rows that are pre-trained, fine-tuned and compared with the first one."""

    title: str
    rows: tuple
    tasks: tuple  # Names at the paper's scale, in the order of the columns.
    small_tasks: tuple  # At the other scales.
    metrics: dict = dataclasses.field(default_factory=dict)  # By task, where they differ from those of the ablations.
    note: str = ""  # About the published scores.

    @property
    def recipes(self):
        """The different recipes, in the order of the rows, with the shares of the steps to keep models of."""
        recipes = {}
        for row in self.rows:
            if row.recipe is not None:
                recipes.setdefault(row.recipe, set()).add(row.share)
        return recipes


_NO_NSP = Recipe(next_sentence=False)
_LTR = Recipe(next_sentence=False, causal=True)
_GPT = dataclasses.replace(_LTR, special_tokens=False)


def _scores(names, *values):
    """Returns the scores of tasks, whose names are one text; those that are `None` are left out."""
    scores = dict(zip(names.split(), values, strict=True))
    return {name: value for name, value in scores.items() if value is not None}


def _table_5(*values):
    return _scores("mnli qnli mrpc sst2 squad", *values)


def _sized(layers, width, heads, *values):
    size = f"L-{layers}_H-{width}_A-{heads}"
    published = _scores("perplexity mnli mrpc sst2", *values)
    return Row(size, f"{layers} layers, width {width}, {heads} heads", Recipe(size=size), published)


def _small(layers, width):
    size = f"L-{layers}_H-{width}"
    return Row(size, f"{layers} layers, width {width}", Recipe(size=size))


# The ladder of the scales below the paper's: Google's miniatures.
_SMALL_SIZES = (_small(2, 128), _small(4, 128), _small(2, 256), _small(4, 256), _small(4, 512))


def _masked(mask, same, random, *values):
    recipe = Recipe(mask_share=mask / 100, random_share=random / 100)
    title = f"{mask} % [MASK], {same} % same, {random} % random"
    return Row(f"{mask}-{same}-{random}", title, recipe, _scores("mnli ner ner_features", *values))


def _on_features(features, title, score):
    return Row(features, title, published={"ner": score}, features=features)


def _after_steps():
    """Returns the rows of figure 5: two models, each after shares of the pre-training steps."""
    rows = []
    for percent in (100, 70, 40, 20, 10):
        steps = f"{percent} % of the steps"
        rows.append(Row(f"mlm_{percent}", f"Masked LM, {steps}", Recipe(), share=percent / 100))
        rows.append(Row(f"ltr_{percent}", f"Left to right, {steps}", _LTR, share=percent / 100))
    return tuple(rows)


def _table_1(*values):
    return _scores("mnli qqp qnli sst2 cola stsb mrpc rte squad", *values)


def _published(key, title, squad):
    return Row(key, title, None, {"squad": squad})


STUDIES = {
    "pretraining_tasks": StudyDefinition(
        "Pre-training tasks (table 5)",
        (
            Row("bert", "BERT", published=_table_5(84.4, 88.4, 86.7, 92.7, 88.5)),
            Row("no_nsp", "No NSP", _NO_NSP, _table_5(83.9, 84.9, 86.5, 92.6, 87.9)),
            Row("ltr", "LTR & No NSP", _LTR, _table_5(82.1, 84.3, 77.5, 92.1, 77.8)),
            Row("ltr_bilstm", "LTR & No NSP + BiLSTM", _LTR, _table_5(82.1, 84.1, 75.7, 91.6, 84.9), bilstm=True),
        ),
        ("mnli", "qnli", "mrpc", "sst2", "squad"),
        ("stsb", "mrpc", "sst2", "squad"),
    ),
    "model_size": StudyDefinition(
        "Model size (table 6)",
        (
            _sized(3, 768, 12, 5.84, 77.9, 79.8, 88.4),
            _sized(6, 768, 3, 5.24, 80.6, 82.2, 90.7),
            _sized(6, 768, 12, 4.68, 81.9, 84.8, 91.3),
            _sized(12, 768, 12, 3.99, 84.4, 86.7, 92.9),
            _sized(12, 1024, 16, 3.54, 85.7, 86.9, 93.3),
            _sized(24, 1024, 16, 3.23, 86.6, 87.8, 93.7),
        ),
        ("mnli", "mrpc", "sst2"),
        ("mrpc", "sst2"),
    ),
    "features": StudyDefinition(
        "Features for named entities (table 7)",
        (
            Row("fine_tuned", "Fine-tuned", published={"ner": 96.4}),
            _on_features("embeddings", "Embeddings", 91.0),
            _on_features("second_to_last", "Second-to-last hidden", 95.6),
            _on_features("last", "Last hidden", 94.9),
            _on_features("sum_last_four", "Weighted sum, last four", 95.9),
            _on_features("concat_last_four", "Concatenation, last four", 96.1),
            _on_features("sum_all", "Weighted sum, all layers", 95.5),
        ),
        ("ner",),
        ("ner",),
    ),
    "masking": StudyDefinition(
        "Masking (table 8)",
        (
            _masked(80, 10, 10, 84.2, 95.4, 94.9),
            _masked(100, 0, 0, 84.3, 94.9, 94.0),
            _masked(80, 0, 20, 84.1, 95.2, 94.6),
            _masked(80, 20, 0, 84.4, 95.2, 94.7),
            _masked(0, 20, 80, 83.7, 94.8, 94.6),
            _masked(0, 0, 100, 83.6, 94.9, 94.6),
        ),
        ("mnli", "ner", "ner_features"),
        ("sst2", "ner", "ner_features"),
    ),
    "steps": StudyDefinition(
        "Pre-training steps (figure 5)",
        _after_steps(),
        ("mnli",),
        ("sst2",),
    ),
    "positions": StudyDefinition(
        "Position embeddings",
        (
            Row("learned", "Learned"),
            Row("sinusoid", "Sinusoids", Recipe(positions="sinusoid")),
            Row("none", "None", Recipe(positions="none")),
        ),
        ("mnli", "mrpc", "sst2"),
        ("mrpc", "sst2"),
    ),
    "rivals": StudyDefinition(
        "Rivals (tables 1 and 2)",
        (
            Row("bert", "BERT", published=_table_1(84.6, 71.2, 90.5, 93.5, 52.1, 85.8, 88.9, 66.4, 88.5)),
            Row("gpt", "Left to right, as GPT", _GPT, _table_1(82.1, 70.3, 87.4, 91.3, 45.4, 80.0, 82.3, 56.0, None)),
            Row("bilstm", "BiLSTM+Attn, BiDAF", None, recurrent=True),
            Row(
                "elmo",
                "BiLSTM+ELMo+Attn, BiDAF+ELMo",
                Recipe(next_sentence=False, bilm=True),
                _table_1(76.4, 64.8, 79.8, 90.4, 36.0, 73.3, 84.9, 56.8, 85.6),
                recurrent=True,
            ),
            Row("sota", "Pre-OpenAI SOTA", None, _table_1(80.6, 66.1, 82.3, 93.2, 35.0, 81.0, 86.0, 61.7, None)),
            _published("rm_reader", "R.M. Reader, ensemble", 87.9),
            _published("qanet", "QANet, ensemble, on test", 90.5),
            _published("nlnet", "nlnet, ensemble, on test", 91.7),
            _published("human", "Human, on test", 91.2),
        ),
        ("mnli", "qqp", "qnli", "sst2", "cola", "stsb", "mrpc", "rte", "squad"),
        ("sst2", "mrpc"),
        {"mrpc": "f1", "qqp": "f1"},
        "Published scores: of BERT BASE; on test for GLUE, on dev for SQuAD unless said otherwise. Recurrent models "
        "have a learning rate of their own unless --learning_rate is given.",
    ),
}


def define(name, paper_scale):
    """Returns the `StudyDefinition` of a study; `paper_scale` is whether it has the paper's sizes and tasks."""
    definition = STUDIES[name]
    if paper_scale:
        return definition
    rows = _SMALL_SIZES if name == "model_size" else definition.rows
    return dataclasses.replace(definition, rows=rows, tasks=definition.small_tasks)
