"""The file of the rows to check is corrected and trained on again."""

import csv
import json
import types

import pytest

pytest.importorskip("tensorflow")
import keras_bert
from keras_bert.data.sources import PythonRows
from keras_bert.reports.label_checks import JudgedLabel
from keras_bert.runs import rows_to_check
from tests.pipelines import programs
from tests.runs.fold_data import DATA

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


def untrained(trainer, *batches, evaluation=None, **options):
    """Replaces `Trainer.fit`."""
    trainer.directory.mkdir(parents=True, exist_ok=True)
    (trainer.directory / "metrics.jsonl").touch()
    return {} if evaluation is None else trainer.evaluate(evaluation)


def finetuned(module, start, train, output, *more):
    """Runs a command with folds, without training."""
    flags = {"train_file": train, "model": start, "output_dir": output, "folds": 3, "epochs": 1, "sequence_length": 16}
    programs.finetune(module, *programs.flags_of(flags), *more, fit=untrained)
    return programs.read_json(output / "results.json")


def test_the_file_of_a_table_is_corrected_and_trained_on_again(checkpoint, tmp_path):
    texts, labels = DATA["classification"]
    lines = [f'{text},{label},"a, {row}"' for row, (text, label) in enumerate(zip(texts, labels, strict=True))]
    path = tmp_path / "train.csv"
    path.write_text("\n".join(["text,label,loss", *lines]) + "\n")
    finetuned("pipelines.run_glue", checkpoint, path, tmp_path / "first", "--task=classification")
    with open(tmp_path / "first" / "rows_to_check.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["rank"] for row in rows] == [str(rank) for rank in range(1, 13)]
    losses = [float(row["loss_"]) for row in rows]  # The table has a column of that name.
    assert losses == sorted(losses, reverse=True)
    assert sorted(int(row["loss"].split()[1]) for row in rows) == list(range(12))
    for row in rows:
        assert labels[int(row["loss"].split()[1])] == row["label"]
    report = (tmp_path / "first" / "report.html").read_text()
    section = report[report.index('id="rows-to-check"') :]
    places = [int(row["loss"].split()[1]) + 1 for row in rows]
    shown = [section.index(f"row\N{NO-BREAK SPACE}{place}<") for place in places]
    assert shown == sorted(shown)
    # The first label is corrected.
    rows[0]["label"] = "y" if rows[0]["label"] == "x" else "x"
    with open(tmp_path / "corrected.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    again = tmp_path / "corrected.csv"
    results = finetuned("pipelines.run_glue", checkpoint, again, tmp_path / "second", "--task=classification")
    assert results["data"]["train"] == 12


@pytest.mark.slow
def test_the_file_of_sentences_has_comments_and_is_trained_on_again(checkpoint, tmp_path):
    words, tags = DATA["tagging"]
    blocks = ["\n".join(map(" ".join, zip(*sentence, strict=True))) for sentence in zip(words, tags, strict=True)]
    (tmp_path / "train.txt").write_text("-DOCSTART- O\n\n" + "\n\n-DOCSTART- O\n\n".join(blocks) + "\n")
    finetuned("pipelines.run_tagging", checkpoint, tmp_path / "train.txt", tmp_path / "first")
    written = (tmp_path / "first" / "rows_to_check.txt").read_text()
    comments = [line for line in written.splitlines() if line.startswith("# rank ")]
    assert comments
    assert (
        "".join(line + "\n" for line in written.splitlines() if line not in comments)
        == (tmp_path / "train.txt").read_text()
    )
    # Corrected as an editor would: "a O" becomes "a B-K" somewhere.
    (tmp_path / "corrected.txt").write_text(written.replace("\nb O\n", "\nb B-K\n", 1))
    results = finetuned("pipelines.run_tagging", checkpoint, tmp_path / "corrected.txt", tmp_path / "second")
    assert results["data"]["train"] == 12
    entities = sum(row.count("B-K") for row in tags)
    assert results["data"]["entities"] == {"K": entities + 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["multi_label", "tagging", "multiple_choice", "questions"])
def test_the_file_of_rows_of_json_is_trained_on_again(name, checkpoint, tmp_path):
    texts, targets = DATA[name]
    rows = []
    for text, target in zip(texts, targets, strict=True):
        if name == "questions":
            start = text["context"].index(target)
            rows.append({**text, "id": f"q{len(rows)}", "answers": {"text": [target], "answer_start": [start]}})
        elif name == "multiple_choice":
            rows.append({"question": text["text"], "choices": text["choices"], "answer": target})
        elif name == "tagging":
            rows.append({"tokens": text, "tags": target})
        else:
            rows.append({"text": text, "label": target})
    (tmp_path / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    module = {"multi_label": "run_glue", "tagging": "run_tagging", "questions": "run_squad"}.get(name, f"run_{name}")
    more = ["--task=multi_label"] if name == "multi_label" else []
    if name == "questions":  # The model with its head is refused.
        bert = keras_bert.load(checkpoint)
        keras_bert.save(bert.encoder, tmp_path / "encoder", bert.vocabulary)
        checkpoint = tmp_path / "encoder"
    finetuned(f"pipelines.{module}", checkpoint, tmp_path / "train.jsonl", tmp_path / "first", *more)
    path = tmp_path / "first" / "rows_to_check.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(found) == 12
    assert [row["rank"] for row in found] == sorted(row["rank"] for row in found)
    for row in found:
        assert {key: row[key] for key in rows[0]} in rows
    finetuned(f"pipelines.{module}", checkpoint, path, tmp_path / "second", *more)


@pytest.mark.slow
def test_articles_are_trained_on_again(checkpoint, tmp_path):
    """Two questions about each context: the file has the same articles, the worst question of all first."""
    contexts = [row["context"] for row in DATA["questions"][0]]
    answers = DATA["questions"][1]
    articles = []
    for number, (context, answer) in enumerate(zip(contexts, answers, strict=True)):
        found = [{"text": answer, "answer_start": context.index(answer)}]
        questions = [{"id": f"{number}{name}", "question": name, "answers": found, "rank": 0} for name in "ab"]
        articles.append({"title": str(number), "paragraphs": [{"context": context, "qas": questions}]})
    (tmp_path / "train.json").write_text(json.dumps({"version": "1.1", "data": articles}))
    bert = keras_bert.load(checkpoint)
    keras_bert.save(bert.encoder, tmp_path / "encoder", bert.vocabulary)
    finetuned("pipelines.run_squad", tmp_path / "encoder", tmp_path / "train.json", tmp_path / "first")
    path = tmp_path / "first" / "rows_to_check.json"
    assert path.name in (tmp_path / "first" / "report.html").read_text()
    document = json.loads(path.read_text())
    ranks = []
    seen = []
    for article in document["data"]:
        (paragraph,) = article["paragraphs"]
        for question in paragraph["qas"]:
            ranks.append(question["rank_"])
            assert isinstance(question["predicted"], str)
            original = articles[int(article["title"])]["paragraphs"][0]
            assert {name: question[name] for name in original["qas"][0]} in original["qas"]
            assert paragraph["context"] == original["context"]
            seen.append(question["id"])
    assert sorted(ranks) == list(range(1, 25))
    first = [min(ranks[place : place + 2]) for place in range(0, 24, 2)]
    assert first == sorted(first) == ranks[::2]
    assert len(set(seen)) == 24
    finetuned("pipelines.run_squad", tmp_path / "encoder", path, tmp_path / "second")


def check_of(row, label, predicted, loss):
    """Returns the `JudgedLabel` of a row of texts."""
    return JudgedLabel(row=row, label=label, predicted=predicted, loss=loss, place=row + 1, text="a")


def test_without_a_source_of_rows_there_is_no_file(tmp_path):
    checks = [check_of(0, "x", "y", 1.0)]
    assert rows_to_check.write(tmp_path, object(), ["a"], checks) is None
    assert list(tmp_path.iterdir()) == []


def test_added_columns_have_names_that_no_row_has(tmp_path):
    rows = [{"text": "a", "label": "x", "rank": 5}, {"text": "b", "label": "y"}]
    examples = types.SimpleNamespace(file_rows=[0, 1])
    checks = [check_of(1, "y", "x", 2.5), check_of(0, "x", "x", 0.123456789)]

    name = rows_to_check.write(tmp_path, PythonRows("texts", rows), examples, checks)

    lines = (tmp_path / name).read_text().splitlines()
    first, second = map(json.loads, lines)
    assert first == {"text": "b", "label": "y", "rank_": 1, "predicted": "x", "loss": 2.5}
    assert second == {"text": "a", "label": "x", "rank": 5, "rank_": 2, "predicted": "x", "loss": 0.123457}


def test_a_source_that_has_changed_is_named(tmp_path):
    examples = types.SimpleNamespace(file_rows=[0, 4])
    with pytest.raises(ValueError, match="texts has changed"):
        rows_to_check.write(tmp_path, PythonRows("texts", [{"text": "a", "label": "x"}]), examples, [])
