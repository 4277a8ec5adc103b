"""Labels to check: their order by a formula of its own, and the file that is corrected and trained on again."""

import csv
import json

import numpy as np
import pytest
from scipy.special import log_softmax

pytest.importorskip("tensorflow")
import keras_bert
from keras_bert.runs import cross_validation
from tests.pipelines import programs
from tests.runs.test_folds import DATA, OPTIONS, TEXTS

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


@pytest.fixture
def finished(monkeypatch):
    """The cross-validations that run, a list."""
    found = []
    run = cross_validation.CrossValidation.run

    def noted(self):
        found.append(self)
        run(self)

    monkeypatch.setattr(cross_validation.CrossValidation, "run", noted)
    return found


def cross_entropies(logits, golds):
    """Returns the cross-entropy of each row."""
    return -log_softmax(logits.astype("float64"), -1)[np.arange(len(golds)), golds]


def test_classes_are_ranked_by_the_loss_of_the_kept_logits(checkpoint, finished, tmp_path):
    texts, targets = DATA["classification"]
    # The last text is the first one again, with another label.
    bert = keras_bert.load(checkpoint)
    checks = bert.check_labels([*texts, texts[0]], [*targets, "y"], folds=3, output_dir=tmp_path, **OPTIONS)
    (runs,) = finished
    logits = runs.grid_runs.logits("dev")["classification"]
    golds = np.array([0 if target == "x" else 1 for target in [*targets, "y"]])
    losses = cross_entropies(logits, golds)
    repeated = [0, 12] if losses[0] > losses[12] else [12, 0]
    others = [row for row in np.argsort(-losses, kind="stable").tolist() if row not in (0, 12)]
    assert [check["row"] for check in checks] == repeated + others
    np.testing.assert_allclose([check["loss"] for check in checks], losses[repeated + others], rtol=1e-6)
    for check in checks:
        assert check["label"] == "xy"[golds[check["row"]]]
        assert check["predicted"] == "xy"[logits[check["row"]].argmax()]
    assert [check["same_text"] for check in checks[:3]] == [[12 - repeated[0]], [12 - repeated[1]], []]
    # Both are in the same fold, and nothing but the folds was trained.
    folds = runs.grid_runs.assigned(1)
    assert folds[0] == folds[12]
    assert len(runs.grid_runs.results) == 3


@pytest.mark.slow
def test_tags_are_ranked_by_word(checkpoint, finished, tmp_path):
    words, tags = DATA["tagging"]
    checks = keras_bert.load(checkpoint).check_labels(words, tags, folds=3, output_dir=tmp_path, **OPTIONS)
    (runs,) = finished
    logits = runs.grid_runs.logits("dev")["words"]
    labels = runs.task.labels
    places = [(row, word) for row, sentence in enumerate(words) for word in range(len(sentence))]
    losses = cross_entropies(logits, [labels.index(tags[row][word]) for row, word in places])
    expected = [places[number] for number in np.argsort(-losses, kind="stable")]
    assert [(check["row"], check["word"]) for check in checks] == expected
    for check, (row, word) in zip(checks, expected, strict=True):
        assert check["text"] == words[row][word]
        assert check["label"] == tags[row][word]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["regression", "multi_label", "questions", "multiple_choice"])
def test_other_tasks_rank_their_labels(name, checkpoint, finished, tmp_path):
    texts, targets = DATA[name]
    head = "encoder" if name == "questions" else None
    bert = keras_bert.load(checkpoint, head=head)
    checks = bert.check_labels(texts, targets, task=name, folds=3, output_dir=tmp_path, **OPTIONS)
    (runs,) = finished
    kept = runs.grid_runs.logits("dev")
    assert sorted(check["row"] for check in checks) == list(range(12))
    losses = np.array([check["loss"] for check in sorted(checks, key=lambda check: check["row"])])
    if name == "regression":
        expected = (kept["regression"][:, 0] - np.array(targets)) ** 2
    elif name == "multi_label":
        golds = np.array([["x" in target, "y" in target] for target in targets])
        expected = np.logaddexp(0, np.where(golds, -1, 1) * kept["multi_label"]).mean(-1)
    elif name == "multiple_choice":
        expected = cross_entropies(kept["dev"], np.array(targets))
    else:
        assert all(0 <= loss <= 1 for loss in losses)
        return
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("texts", "targets", "options", "message"),
    [
        (TEXTS, ["x"] * 12, {}, "class"),
        (TEXTS[:2], ["x", "y"], {"folds": 2}, "one fold alone"),
        (TEXTS, ["x", None] * 6, {}, r"targets\[1\] is missing"),
        (TEXTS[:5], ["x", "y", "x", "y", "x"], {"folds": 9}, "`folds` must be from 2 to"),
        (TEXTS, ["x", "y"] * 6, {"pred_probs": []}, "makes its own predictions"),
        (TEXTS, ["x", "y"] * 6, {"validation_split": 0.5}, "Expected no `validation_split`"),
    ],
)
def test_bad_input_gets_one_line(texts, targets, options, message, checkpoint):
    with pytest.raises(ValueError, match=message) as error:
        keras_bert.load(checkpoint).check_labels(texts, targets, **{**OPTIONS, **options})
    assert "\n" not in str(error.value)


def test_a_model_that_may_have_seen_the_rows_is_refused(config, pieces, tmp_path):
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 2)
    keras_bert.save(model, tmp_path / "model", pieces, labels=["x", "y"], task="classification")
    bert = keras_bert.load(tmp_path / "model")
    with pytest.raises(ValueError, match="may have been trained on these rows"):
        bert.check_labels(*DATA["classification"], folds=3, **OPTIONS)


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
    entities = sum(tag == "B-K" for row in tags for tag in row)
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
    contexts, answers = [row["context"] for row in DATA["questions"][0]], DATA["questions"][1]
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
    ranks, seen = [], []
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
