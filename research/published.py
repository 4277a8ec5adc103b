"""Published scores beside those of a run: of the paper (Devlin et al., 2019), and of Google's miniatures.

Registered by `import research`, or `--plugins=research` of a command.
"""

import keras_bert
from research.studies.tables import markdown

# Percent of the main metric of each task on test, by (layers, width). BASE and LARGE: table 1; the others: Google's
# model cards of the miniatures (Turc et al., 2019).
_GLUE_TASKS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "mnli_mismatched", "qnli", "rte", "wnli", "ax")
_GLUE = {
    (2, 128): ("BERT Tiny", (0.0, 83.2, 81.1, 73.6, 62.2, 70.2, 70.3, 81.5, 57.2, 62.3, 21.0)),
    (4, 256): ("BERT Mini", (0.0, 85.9, 81.1, 73.3, 66.4, 74.8, 74.3, 84.1, 57.9, 62.3, 26.1)),
    (4, 512): ("BERT Small", (27.8, 89.7, 83.4, 77.0, 68.1, 77.6, 77.0, 86.4, 61.8, 62.3, 28.6)),
    (8, 512): ("BERT Medium", (38.0, 89.6, 86.6, 78.4, 69.6, 80.0, 79.1, 87.7, 62.2, 62.3, 30.5)),
    (12, 768): ("BERT BASE", (52.1, 93.5, 88.9, 85.8, 71.2, 84.6, 83.4, 90.5, 66.4, None, None)),
    (24, 1024): ("BERT LARGE", (60.5, 94.9, 89.3, 86.5, 72.1, 86.7, 85.9, 92.7, 70.1, None, None)),
}
# Exact match and F1 in percent, by whether it is SQuAD 2.0: tables 2 and 3.
_SQUAD = {
    False: {
        "BERT BASE, dev": (80.8, 88.5),
        "BERT LARGE, dev": (84.1, 90.9),
        "BERT LARGE, ensemble of 7, dev": (85.8, 91.8),
        "BERT LARGE, TriviaQA first, dev": (84.2, 91.1),
        "BERT LARGE, TriviaQA first, ensemble of 7, dev": (86.2, 92.2),
        "human, test": (82.3, 91.2),
    },
    True: {"BERT LARGE, dev": (78.7, 81.9), "human, test": (86.9, 89.5)},
}
# Percent on dev and test: F1 of table 7, accuracy of table 4.
_CONLL_2003 = {
    "ELMo": (95.7, 92.2),
    "CVT": (None, 92.6),
    "CSE": (None, 93.1),
    "BERT LARGE, fine-tuned": (96.6, 92.8),
    "BERT BASE, fine-tuned": (96.4, 92.4),
    "BERT BASE, embeddings": (91.0, None),
    "BERT BASE, second_to_last": (95.6, None),
    "BERT BASE, last": (94.9, None),
    "BERT BASE, sum_last_four": (95.9, None),
    "BERT BASE, concat_last_four": (96.1, None),
    "BERT BASE, sum_all": (95.5, None),
}
_SWAG = {
    "ESIM+ELMo": (59.1, 59.2),
    "OpenAI GPT": (None, 78.0),
    "BERT BASE": (81.6, None),
    "BERT LARGE": (86.6, 86.3),
    "human (expert)": (None, 85.0),
}
_WORDS = {"dev": 51_362, "test": 46_435}  # Of the official files of CoNLL-2003.


@keras_bert.register_comparison
def compare(task, scores, test_scores=None):
    """Returns entries of the report's head and tables for the scores of a run, see `register_comparison`."""
    from keras_bert.tasks import ClassificationTask, MultipleChoiceTask, QuestionAnsweringTask, TaggingTask

    if isinstance(task, ClassificationTask):
        return glue(scores, task.bert.config)
    if isinstance(task, QuestionAnsweringTask):
        return {}, [squad(scores)]
    if isinstance(task, TaggingTask):
        return {}, conll_2003(task, scores, test_scores)
    if isinstance(task, MultipleChoiceTask) and task.data.dev.swag:
        return {}, [_table("SWAG", ("dev", "test"), _SWAG, (scores["accuracy"], None))]
    return {}, []


def glue(scores, config):
    """Returns entries and the table for the dev scores of GLUE tasks: a BERT of the same size, or BASE and LARGE."""
    from keras_bert.tasks import leaderboard

    if any(name not in _GLUE_TASKS for name in scores):
        return {}, []
    models = [_GLUE[12, 768], _GLUE[24, 1024]]
    size = (config.num_hidden_layers, config.hidden_size)
    if isinstance(config, keras_bert.BertConfig) and size in _GLUE:
        models = [_GLUE[size]]
    rows = {}
    facts = {}
    for name, numbers in models:
        row = f"{name}, test"
        rows[row] = dict(zip(_GLUE_TASKS, numbers, strict=True))
        known = [f"{task}: {rows[row][task]}%" for task in scores if rows[row][task] is not None]
        if known:
            facts[row] = ", ".join(known)
    return facts, [leaderboard.table(scores, rows)]


def squad(scores):
    """Returns the table for the dev scores of SQuAD."""
    version_2 = "exact" in scores
    if version_2:
        title = "SQuAD 2.0"
        exact_match = scores["exact"]
    else:
        title = "SQuAD 1.1"
        exact_match = scores["exact_match"]
    ours = (exact_match / 100, scores["f1"] / 100)
    return _table(title, ("exact match", "F1"), _SQUAD[version_2], ours, "ours, dev")


def conll_2003(task, scores, test_scores=None):
    """Returns the table for the scores of named entities in a list, which is empty for other data than CoNLL-2003."""
    types = {label[2:] for label in task.labels if label != "O"}
    if types != {"LOC", "MISC", "ORG", "PER"} or _count_words(task, "dev") != _WORDS["dev"]:
        return []
    test_f1 = None
    if test_scores and _count_words(task, "test") == _WORDS["test"]:
        test_f1 = test_scores["f1"]
    return [_table("CoNLL-2003", ("dev F1", "test F1"), _CONLL_2003, (scores["f1"], test_f1))]


def _count_words(task, split):
    """Returns the number of words of all sentences of a split."""
    count = 0
    for part in task.splits.get(split, ()):
        count += sum(map(len, part.examples.words or ()))
    return count


def _table(title, columns, published, ours, name="ours"):
    """Returns a Markdown table; `ours` are from 0 to 1, the published ones in percent; `None` for none."""
    ours_in_percent = [None if score is None else 100 * score for score in ours]
    rows = {name: ours_in_percent} | published
    lines = []
    for row, scores in rows.items():
        cells = ["" if score is None else f"{score:.1f}" for score in scores]
        lines.append([row, *cells])
    return markdown([title, *columns], lines)
