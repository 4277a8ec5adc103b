"""Published SQuAD dev scores: Devlin et al., 2019, tables 2 and 3."""

_DEV = {  # Exact match and F1, percent.
    False: {
        "BERT BASE": (80.8, 88.5),
        "BERT LARGE": (84.1, 90.9),
        "BERT LARGE, ensemble of 7": (85.8, 91.8),
        "BERT LARGE, TriviaQA first": (84.2, 91.1),
        "BERT LARGE, TriviaQA first, ensemble of 7": (86.2, 92.2),
    },
    True: {"BERT LARGE": (78.7, 81.9)},
}
_HUMAN = {False: (82.3, 91.2), True: (86.9, 89.5)}  # On the test set.


def comparison_table(scores, version_2):
    """Returns a Markdown table of our dev scores, see `squad.metrics.score`, and published dev scores."""
    ours = scores["exact" if version_2 else "exact_match"], scores["f1"]
    rows = {"ours, dev": ours, **{f"{name}, dev": pair for name, pair in _DEV[version_2].items()}}
    rows["human, test"] = _HUMAN[version_2]
    lines = [f"| SQuAD {'2.0' if version_2 else '1.1'} | exact match | F1 |", "|---|---|---|"]
    return "\n".join(lines + [f"| {name} | {exact:.1f} | {f1:.1f} |" for name, (exact, f1) in rows.items()]) + "\n"
