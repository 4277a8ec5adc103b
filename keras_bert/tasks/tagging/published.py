"""Published F1 of named entities on CoNLL-2003: Devlin et al., 2019, table 7."""

_WORDS = {"dev": 51_362, "test": 46_435}  # Of the official files.
_SYSTEMS = {  # Dev and test, percent.
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


def is_conll_2003(types, words, split):
    """Returns whether data has the types and the number of words of CoNLL-2003's dev or test file."""
    return set(types) == {"LOC", "MISC", "ORG", "PER"} and words == _WORDS[split]


def comparison_table(dev, test=None):
    """Returns a Markdown table of our F1, from 0 to 1, and published ones; `test` may be `None`."""
    ours = tuple(score and 100 * score for score in (dev, test))
    lines = ["| CoNLL-2003 | dev F1 | test F1 |", "|---|---|---|"]
    for name, numbers in {"ours": ours, **_SYSTEMS}.items():
        cells = ("" if number is None else f"{number:.1f}" for number in numbers)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
