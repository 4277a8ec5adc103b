"""The model card, as read by the Hugging Face hub's own program."""

import dataclasses
import types

import pytest

hub = pytest.importorskip("huggingface_hub")
markdown_it = pytest.importorskip("markdown_it")
from markdown_it.tree import SyntaxTreeNode  # noqa: E402

from keras_bert.reports.page import base_name  # noqa: E402
from keras_bert.runs import model_card  # noqa: E402
from keras_bert.tasks.reporting import Card  # noqa: E402
from keras_bert.tasks.summary import Summary  # noqa: E402

pytestmark = pytest.mark.tensorflow
SUMMARY = Summary(
    train=3668,
    dev={"mrpc": 408},
    overlap={"dev": 2},
    baseline="always equivalent",
    majority={"f1": 0.8122, "accuracy": 0.6838},
)

OVERLAP = "2 of 408 dev rows are also in train, which raises the dev scores"

# Names of labels, files and folders that mean something in Markdown or HTML.
ODD = ["<img src=x onerror=alert(1)>", "</td></table><script>x</script>", "<!-- a", "&lt;b&gt; &amp;", "a|b", "**b**"]
ODD += ["`c`", "*", "_d_", "__e_f__", "[g](http://h)", "![i](j)", "<http://k.l>", "~~m~~", "\\", "\\<b>", "a_b", "#"]


def task(metric="f1", auto_class="AutoModelForSequenceClassification", **card):
    known = {"pipeline_tag": "text-classification", "example": '["A text."]', "trained_on": "MRPC"}
    card = Card(**{**known, "purpose": "text classification", "hub_metrics": {"spearman": "spearmanr"}, **card})
    facts = {"start": "/home/user/bert, 2 layers", "training examples": "3,668; equivalent: 2,474 (67.4%)"}
    report = types.SimpleNamespace(metric=metric, facts=facts, summary=SUMMARY, warnings=[OVERLAP], card=card)
    return types.SimpleNamespace(title="MRPC", model="google-bert/bert", auto_class=auto_class, report=report)


def test_metadata_of_an_official_data_set():
    dataset = {"type": "nyu-mll/glue", "name": "GLUE MRPC", "config": "mrpc", "split": "validation"}
    scores = {"f1": 0.88123, "accuracy": 0.8333}
    settings = {"learning_rate": 3e-5, "patience": None}
    text = model_card.text("no", task(datasets=["nyu-mll/glue"], dataset=dataset), "dev", settings, scores)
    data = hub.ModelCard(text).data
    assert (data.library_name, data.pipeline_tag) == ("transformers", "text-classification")
    assert (data.base_model, data.datasets, data.metrics) == ("google-bert/bert", ["nyu-mll/glue"], ["f1", "accuracy"])
    assert (data.model_name, data.license, data.language) == ("no", None, None)
    f1, accuracy = data.eval_results
    assert (f1.metric_type, f1.metric_value, f1.metric_name) == ("f1", 0.8812, "f1 (dev)")
    assert (f1.dataset_type, f1.dataset_config, f1.dataset_split) == ("nyu-mll/glue", "mrpc", "validation")
    assert accuracy.metric_value == 0.8333
    for line in (
        "88.1% F1 on dev, 6.9 points above the baseline (always equivalent: 81.2%).",
        "- training examples: 3,668; equivalent: 2,474 (67.4%)",
        f"- {OVERLAP}",
        "| f1 | 88.12 | 81.22 |",
        "| dev, in percent | this model | always equivalent |",
        "| learning_rate | 3e-05 |",
        'model = AutoModelForSequenceClassification.from_pretrained("path/to/this/folder")',
    ):
        assert f"\n{line}\n" in text
    assert "patience" not in text


def test_use_of_a_multiple_choice_model():
    """transformers takes all choices of a text as one example, `(1, choices, length)`."""
    card = {"pipeline_tag": "multiple-choice", "auto_class": "AutoModelForMultipleChoice", "datasets": []}
    card |= {"arguments": '["A"] * 2, ["B", "C"]', "example": "[]"}
    text = model_card.text(
        "no", task("accuracy", **card, dataset={"type": "csv", "name": "a.csv"}), "dev", {}, {"accuracy": 0.5}
    )
    call = 'tokenizer(["A"] * 2, ["B", "C"], truncation=True, return_tensors="pt")'
    assert f"outputs = model(**{{name: ids[None] for name, ids in {call}.items()}})" in text
    assert 'AutoModelForMultipleChoice.from_pretrained("path/to/this/folder")' in text
    assert hub.ModelCard(text).data.pipeline_tag == "multiple-choice"


def test_local_paths_are_not_published(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    own = task("macro_f1", datasets=[], dataset={"type": "csv", "name": "dev: 'mine' \"x\".csv"})
    starts = {"/home/user/models/mine": "mine", "runs/mine": "mine", "mine": "mine", "/home/user/x/model": "x/model"}
    for start, name in starts.items():
        text = model_card.text("a: b", own, "5 folds", {"model": start}, {"spearman": -0.5, "macro_f1": 1.0})
        data = hub.ModelCard(text).data
        assert (data.base_model, data.datasets, data.model_name) == (None, None, "a: b")
        assert data.metrics == ["spearmanr", "macro_f1"]
        assert data.eval_results[0].dataset_name == "dev: 'mine' \"x\".csv"
        assert "/home" not in text
        sentence = f"A BERT model for text classification, fine-tuned with keras_bert on MRPC. It started from {name}."
        assert f"\n{sentence}\n" in text
        assert f"\n| start | {name} |\n" in text


def shown(node):
    """Returns the text that a reader sees of a part of a rendered card."""
    return "".join(child.content if child.type in ("text", "text_special") else shown(child) for child in node.children)


@pytest.mark.parametrize("name", ODD)
def test_names_are_shown_as_they_are(name):
    """As read by markdown-it, a program for CommonMark with the tables of GitHub."""
    own = task(dataset={"type": "csv", "name": name}, note=f"The teacher is {name}.", trained_on=name)
    own.report.facts = {"labels": f"{name}\n{name}"}
    own.report.summary = dataclasses.replace(SUMMARY, baseline=f"always {name}")
    own.report.warnings = [f"all training rows have the label {name}: the model can only learn to predict it"]
    text = model_card.text(name, own, "dev", {"model": name, "c": name}, {"f1": 0.5})
    parser = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tree = SyntaxTreeNode(parser.parse(text.split("---\n")[2]))
    parts = {"paragraph", "bullet_list", "list_item", "table", "thead", "tbody", "tr", "th", "td", "heading", "fence"}
    assert {node.type for node in tree.walk()} <= {"root", "inline", "text", "text_special", *parts}
    heading, purpose, headline, _, facts, *_ = map(shown, tree.children)
    start = base_name(name)
    assert (heading, purpose.split(" with keras_bert on ")[1]) == (name, f"{name}. It started from {start}.")
    assert headline == f"50.0% F1 on dev, 31.2 points below the baseline (always {name}: 81.2%)."
    assert facts.startswith(f"labels: {name} {name}all training rows have the label {name}: ")
    assert {f"always {name}", name, start} <= {shown(node) for node in tree.walk() if node.type in ("th", "td")}
    assert f"The teacher is {name}." in map(shown, tree.children)


def test_metadata_with_unusual_characters():
    name = "a\n\t\x7f\x85\u2028\u200b\ufeff\xa0é中\U0001f3d4\ufe0f\U000e0001"
    card = {"datasets": [], "dataset": {"type": "csv", "name": name}}
    (result,) = hub.ModelCard(model_card.text("a", task(**card), "dev", {}, {"f1": 1})).data.eval_results
    assert result.dataset_name == name
