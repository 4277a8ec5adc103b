"""Published SWAG accuracies: Devlin et al., 2019, table 4."""

_PUBLISHED = {  # Percent on dev and test.
    "ESIM+ELMo": (59.1, 59.2),
    "OpenAI GPT": (None, 78.0),
    "BERT BASE": (81.6, None),
    "BERT LARGE": (86.6, 86.3),
    "human (expert)": (None, 85.0),
}


def comparison_table(accuracy):
    """Returns a Markdown table of our accuracy on dev, from 0 to 1, and published ones."""
    rows = {"ours": (100 * accuracy, None), **_PUBLISHED}
    lines = ["| SWAG | dev | test |", "|---|---|---|"]
    for name, values in rows.items():
        lines.append(f"| {name} | {' | '.join('' if value is None else f'{value:.1f}' for value in values)} |")
    return "\n".join(lines) + "\n"
