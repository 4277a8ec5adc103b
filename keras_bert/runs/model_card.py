"""The model card of a fine-tuned model: README.md with metadata, in the form of the Hugging Face hub."""

import html
import platform
import re

import keras
import tensorflow as tf

from keras_bert.files import json_text
from keras_bert.reports.page import base_name, is_hub_name
from keras_bert.tasks.summary import baselines, headline
from keras_bert.version import __version__

_MARKUP = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])|#$")  # Not underscores in words.
_RESERVED = ("true", "false", "yes", "no", "on", "off", "null")  # In YAML 1.1.


def text(
    name,
    task,
    evaluated_on,
    settings,
    scores,
    *,
    title="BERT",
    family=None,
    package="keras_bert",
    facts=None,
    note=None,
):
    """Returns the text of a model card.

    Local files and folders are named without their path; the license and the language are unknown and left out. The
    `card` of the task is described there; `evaluated_on` is what the scores, from 0 to 1, are from, such as "dev".
    `title` is what the model is, of which only "BERT" opens in transformers, and `family` the relative of BERT that it
    is, such as "RoBERTa"; `package` the one whose `load` opens it.
    `facts` describe the data, by default those of the task's report; `note` is one more sentence on the scores.
    """
    start = settings.get("model", task.model)
    family = family or title
    metadata = _metadata(name, task, start, evaluated_on, scores, title, family)
    settings = {"start": base_name(start), **settings}
    rows = {key: escaped(value) for key, value in settings.items() if key != "model" and value is not None}
    versions = {"keras_bert": __version__, "keras": keras.__version__, "tensorflow": tf.__version__}
    versions["python"] = platform.python_version()
    card = task.report.card if note is None else task.report.card.with_note(note)
    note = f"\n{escaped(card.note)}\n" if card.note else ""
    trained = "fine-tuned" if task.auto_class else "trained"
    what = f"{_article(family)} {family} model for {card.purpose}"
    parts = [
        "---\n" + _yaml(metadata) + "---\n",
        f"# {escaped(name)}\n",
        f"{what}, {trained} with keras_bert on {escaped(card.trained_on)}. "
        f"It started from {escaped(settings['start'])}.\n",
        f"{escaped(headline(task.report, scores, evaluated_on).text)}\n",
        f"## Data\n\n{_data(facts or task.report.facts, task.report.warnings)}",
        f"## Scores\n\n{_scores(task.report.summary, evaluated_on, scores)}{note}",
        f"## Use\n\n{_use(card, task.auto_class, title, package)}",
        f"## Training settings\n\n{_table(('setting', 'value'), rows)}",
        f"## Versions\n\n{_table(('package', 'version'), versions)}",
    ]
    return "\n".join(parts)


def _article(name):
    is_spoken_vowel = name.startswith(("A", "E", "I", "O", "U", "XLM", "MPN"))
    return "An" if is_spoken_vowel else "A"


def _metadata(name, task, start, evaluated_on, scores, title, family):
    card = task.report.card
    results = [
        {
            "type": card.hub_metrics.get(metric, metric),
            "value": round(100 * value, 2) if card.hub_percent else round(value, 4),
            "name": f"{metric.replace('_', ' ')} ({evaluated_on})",
        }
        for metric, value in scores.items()
    ]
    library = "transformers" if task.auto_class and title == "BERT" else "keras_bert"
    if card.pipeline_tag == "sentence-similarity":
        library = "sentence-transformers"
    metadata = {"library_name": library, "pipeline_tag": card.pipeline_tag}
    if is_hub_name(start):
        metadata["base_model"] = str(start)
    metadata["tags"] = [family.split()[0].lower(), "keras_bert"]
    if card.datasets:
        metadata["datasets"] = card.datasets
    metadata["metrics"] = list(dict.fromkeys(result["type"] for result in results))
    evaluation = {"type": card.pipeline_tag, "name": task.title}
    metadata["model-index"] = [
        {"name": name, "results": [{"task": evaluation, "dataset": card.dataset, "metrics": results}]}
    ]
    return metadata


def _yaml(value, indent=""):
    """Returns a dict as YAML."""
    lines = []
    for key, part in value.items():
        if isinstance(part, dict):
            lines.append(f"{indent}{key}:\n{_yaml(part, indent + '  ')}")
        elif isinstance(part, list):
            lines.append(f"{indent}{key}:\n{''.join(_yaml_item(item, indent) for item in part)}")
        else:
            lines.append(f"{indent}{key}: {_scalar(part)}\n")
    return "".join(lines)


def _yaml_item(item, indent):
    if isinstance(item, dict):
        return f"{indent}- {_yaml(item, indent + '  ').lstrip()}"
    return f"{indent}- {_scalar(item)}\n"


def _scalar(value):
    """Returns a string or number as YAML; strings other than names are quoted as in JSON, which YAML includes."""
    is_name = re.fullmatch(r"[a-zA-Z][\w./-]+", str(value)) and str(value).lower() not in _RESERVED
    text = str(value) if is_name else json_text(value, measured=True)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in text)  # YAML refuses some.


def _data(facts, warnings):
    lines = [f"{name}: {text}" for name, text in facts.items() if name != "start"]
    return "".join(f"- {escaped(line)}\n" for line in [*lines, *warnings])


def escaped(text):
    """Returns Markdown that shows a text in one line as it is; names may contain HTML, links or bars of tables."""
    return _MARKUP.sub(r"\\\g<0>", html.escape(" ".join(str(text).split()), quote=False))


def _scores(summary, evaluated_on, scores):
    found = baselines(summary)
    heads = [f"{evaluated_on}, in percent", "this model", *(escaped(text) for text, _ in found)]
    rows = {}
    for name in scores:
        parts = [scores, *(majority for _, majority in found)]
        rows[name.replace("_", " ")] = " | ".join(f"{100 * part[name]:.2f}" for part in parts if name in part)
    return _table(heads, rows)


def _table(heads, rows):
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows.items())]) + "\n"


def _use(card, auto_class, title, package):
    own = (
        f"With keras_bert:\n\n```python\nimport {package}\n\n"
        f'bert = {package}.load("path/to/this/folder")\n'
        f"print(bert.predict({card.example}))\n```\n"
    )
    if title != "BERT":
        return own
    if card.pipeline_tag == "sentence-similarity":
        return (
            f"{own.replace('predict', 'encode')}\nWith sentence-transformers:\n\n```python\n"
            "from sentence_transformers import SentenceTransformer\n\n"
            f'print(SentenceTransformer("path/to/this/folder").encode({card.example}))\n```\n'
        )
    model, head, imports, outputs = auto_class, "With transformers", card.imports, card.outputs
    if auto_class is None:  # What is done with logits needs the head.
        model, head, imports, outputs = "AutoModel", "With transformers, the encoder alone", "", ""
    call = f'tokenizer({card.arguments}, truncation=True, return_tensors="pt")'
    # A row of choices is one example.
    inputs = f"{{name: ids[None] for name, ids in {call}.items()}}" if model.endswith("MultipleChoice") else call
    return (
        f"{own}\n{head}:\n\n```python\n{imports}from transformers import AutoTokenizer, {model}\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")\n'
        f'model = {model}.from_pretrained("path/to/this/folder")\n'
        f"outputs = model(**{inputs})\n{outputs}```\n"
    )
