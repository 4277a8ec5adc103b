"""The model card, as read by the Hugging Face hub's own program."""

import types

import pytest

hub = pytest.importorskip("huggingface_hub")

from keras_bert.experiments import model_card  # noqa: E402

pytestmark = pytest.mark.tensorflow
SUMMARY = {
    "baseline": "always equivalent",
    "majority": {"f1": 0.8122, "accuracy": 0.6838},
    "unit": "rows",
    "overlap": {"dev": 2},
    "dev": {"mrpc": 408},
}


def task(**card):
    card = {"pipeline_tag": "text-classification", "example": '["A text."]', "arguments": '"A text."', **card}
    card |= {"purpose": "text classification", "trained_on": "MRPC"}
    facts = {"start": "/home/user/bert, 2 layers", "training examples": "3,668; equivalent: 2,474 (67.4%)"}
    return types.SimpleNamespace(title="MRPC", model="google-bert/bert", facts=facts, summary=SUMMARY, card=card)


def test_metadata_of_an_official_data_set():
    dataset = {"type": "nyu-mll/glue", "name": "GLUE MRPC", "config": "mrpc", "split": "validation"}
    scores = {"f1": 0.88123, "accuracy": 0.8333}
    settings = {"learning_rate": 3e-5, "patience": None}
    text = model_card.write("no", task(datasets=["nyu-mll/glue"], dataset=dataset), "dev", settings, scores)
    data = hub.ModelCard(text).data
    assert (data.library_name, data.pipeline_tag) == ("transformers", "text-classification")
    assert (data.base_model, data.datasets, data.metrics) == ("google-bert/bert", ["nyu-mll/glue"], ["f1", "accuracy"])
    assert (data.model_name, data.license, data.language) == ("no", None, None)
    f1, accuracy = data.eval_results
    assert (f1.metric_type, f1.metric_value, f1.metric_name) == ("f1", 0.8812, "f1 (dev)")
    assert (f1.dataset_type, f1.dataset_config, f1.dataset_split) == ("nyu-mll/glue", "mrpc", "validation")
    assert accuracy.metric_value == 0.8333
    for line in (
        "- training examples: 3,668; equivalent: 2,474 (67.4%)",
        "- 2 of 408 dev rows are also in train, which raises the dev scores",
        "| f1 | 88.12 | 81.22 |",
        "| dev, in percent | this model | always equivalent |",
        "| learning_rate | 3e-05 |",
        'model = AutoModelForSequenceClassification.from_pretrained("path/to/this/folder")',
    ):
        assert f"\n{line}\n" in text
    assert "patience" not in text


def test_use_of_a_multiple_choice_model():
    """transformers takes all choices of a text as one example, `(1, choices, length)`."""
    card = {"pipeline_tag": "multiple-choice", "arguments": '["A"] * 2, ["B", "C"]', "example": "[]", "datasets": []}
    text = model_card.write("no", task(**card, dataset={"type": "csv", "name": "a.csv"}), "dev", {}, {"accuracy": 0.5})
    call = 'tokenizer(["A"] * 2, ["B", "C"], truncation=True, return_tensors="pt")'
    assert f"outputs = model(**{{name: ids[None] for name, ids in {call}.items()}})" in text
    assert 'AutoModelForMultipleChoice.from_pretrained("path/to/this/folder")' in text
    assert hub.ModelCard(text).data.pipeline_tag == "multiple-choice"


def test_local_paths_are_not_published(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    own = task(datasets=[], dataset={"type": "csv", "name": "dev: 'mine' \"x\".csv"})
    starts = {"/home/user/models/mine": "mine", "runs/mine": "mine", "mine": "mine", "/home/user/x/model": "x/model"}
    for start, name in starts.items():
        text = model_card.write("a: b", own, "5 folds", {"model": start}, {"spearman": -0.5, "macro_f1": 1.0})
        data = hub.ModelCard(text).data
        assert (data.base_model, data.datasets, data.model_name) == (None, None, "a: b")
        assert data.metrics == ["spearmanr", "f1"]
        assert data.eval_results[0].dataset_name == "dev: 'mine' \"x\".csv"
        assert "/home" not in text
        sentence = f"A BERT model for text classification, fine-tuned with keras_bert on MRPC. It started from {name}."
        assert f"\n{sentence}\n" in text
        assert f"\n| start | {name} |\n" in text
