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
    start_name = settings.get("start", base_name(start))
    family = family or title
    card = task.report.card if note is None else task.report.card.with_note(note)
    note_text = f"\n{escaped(card.note)}\n" if card.note else ""
    trained = "fine-tuned" if task.auto_class else "trained"
    what = f"{_article(family)} {family} model for {card.purpose}"
    metadata = _metadata(name, task, start, evaluated_on, scores, title=title, family=family)
    parts = [
        f"---\n{_yaml(metadata)}---\n",
        f"# {escaped(name)}\n",
        f"{what}, {trained} with keras_bert on {escaped(card.trained_on)}. It started from {escaped(start_name)}.\n",
        f"{escaped(headline(task.report, scores, evaluated_on).text)}\n",
        f"## Data\n\n{_data(facts or task.report.facts, task.report.warnings)}",
        f"## Scores\n\n{_scores_table(task.report.summary, evaluated_on, scores)}{note_text}",
        f"## Use\n\n{_use(card, task.auto_class, title, package)}",
        f"## Training settings\n\n{_settings_table({'start': start_name} | settings)}",
        f"## Versions\n\n{_versions_table()}",
    ]
    return "\n".join(parts)


def _article(name):
    is_spoken_vowel = name.startswith(("A", "E", "I", "O", "U", "XLM", "MPN"))
    return "An" if is_spoken_vowel else "A"


def _metadata(name, task, start, evaluated_on, scores, title, family):
    """Returns what the hub reads of the card, a dict."""
    card = task.report.card
    results = []
    for metric, value in scores.items():
        result = {
            "type": card.hub_metrics.get(metric, metric),
            "value": round(100 * value, 2) if card.hub_percent else round(value, 4),
            "name": f"{metric.replace('_', ' ')} ({evaluated_on})",
        }
        results.append(result)
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
    evaluated = {"task": evaluation, "dataset": card.dataset, "metrics": results}
    metadata["model-index"] = [{"name": name, "results": [evaluated]}]
    return metadata


def _yaml(value, indent=""):
    """Returns a dict as YAML."""
    lines = []
    for key, part in value.items():
        if isinstance(part, dict):
            lines.append(f"{indent}{key}:\n{_yaml(part, indent + '  ')}")
        elif isinstance(part, list):
            items = [_yaml_item(item, indent) for item in part]
            lines.append(f"{indent}{key}:\n{''.join(items)}")
        else:
            lines.append(f"{indent}{key}: {_scalar(part)}\n")
    return "".join(lines)


def _yaml_item(item, indent):
    """Returns an item of a list as YAML."""
    if isinstance(item, dict):
        return f"{indent}- {_yaml(item, indent + '  ').lstrip()}"
    return f"{indent}- {_scalar(item)}\n"


def _scalar(value):
    """Returns a string or number as YAML; strings other than names are quoted as in JSON, which YAML includes."""
    is_name = re.fullmatch(r"[a-zA-Z][\w./-]+", str(value)) and str(value).lower() not in _RESERVED
    text = str(value) if is_name else json_text(value, measured=True)
    signs = []
    for sign in text:
        signs.append(sign if sign.isprintable() else f"\\U{ord(sign):08x}")  # YAML refuses some.
    return "".join(signs)


def _data(facts, warnings):
    """Returns the list of what is known about the data."""
    lines = [f"{name}: {text}" for name, text in facts.items() if name != "start"]
    lines.extend(warnings)
    return "".join(f"- {escaped(line)}\n" for line in lines)


def escaped(text):
    """Returns Markdown that shows a text in one line as it is; names may contain HTML, links or bars of tables."""
    return _MARKUP.sub(r"\\\g<0>", html.escape(" ".join(str(text).split()), quote=False))


def _scores_table(summary, evaluated_on, scores):
    """Returns the table of the scores, beside those of the answers that need no model."""
    columns = [scores]
    heads = [f"{evaluated_on}, in percent", "this model"]
    for text, majority in baselines(summary):
        heads.append(escaped(text))
        columns.append(majority)
    rows = {}
    for name in scores:
        cells = [f"{100 * column[name]:.2f}" for column in columns if name in column]
        rows[name.replace("_", " ")] = " | ".join(cells)
    return _markdown_table(heads, rows)


def _settings_table(settings):
    """Returns the table of the settings; the model to start from is in the row `start`."""
    rows = {}
    for name, value in settings.items():
        if name != "model" and value is not None:
            rows[name] = escaped(value)
    return _markdown_table(("setting", "value"), rows)


def _versions_table():
    """Returns the table of the versions of the packages."""
    versions = {
        "keras_bert": __version__,
        "keras": keras.__version__,
        "tensorflow": tf.__version__,
        "python": platform.python_version(),
    }
    return _markdown_table(("package", "version"), versions)


def _markdown_table(heads, rows):
    """Returns a Markdown table of the rows, values by name."""
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, value in rows.items():
        lines.append(f"| {name} | {value} |")
    return "\n".join(lines) + "\n"


def _use(card, auto_class, title, package):
    """Returns how the model is used, with this package and, if they open it, with those of Hugging Face."""
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
    if auto_class is None:  # What is done with logits needs the head.
        encoder = _use_in_transformers(card, "AutoModel", imports="", outputs="")
        return f"{own}\nWith transformers, the encoder alone:\n\n{encoder}"
    model = _use_in_transformers(card, auto_class, imports=card.imports, outputs=card.outputs)
    return f"{own}\nWith transformers:\n\n{model}"


def _use_in_transformers(card, model, imports, outputs):
    """Returns the code that opens a model with a class of transformers, and what it does with the outputs."""
    call = f'tokenizer({card.arguments}, truncation=True, return_tensors="pt")'
    inputs = call
    if model.endswith("MultipleChoice"):  # A row of choices is one example.
        inputs = f"{{name: ids[None] for name, ids in {call}.items()}}"
    return (
        f"```python\n{imports}from transformers import AutoTokenizer, {model}\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")\n'
        f'model = {model}.from_pretrained("path/to/this/folder")\n'
        f"outputs = model(**{inputs})\n{outputs}```\n"
    )
