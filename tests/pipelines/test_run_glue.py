"""The command, on tiny data in the official layout."""

import dataclasses
import json
import pathlib
import re
import shutil
import zipfile
from unittest import mock

import numpy as np
import pytest
import scipy.special
from safetensors.numpy import load_file, save_file

import keras_bert
from keras_bert.runs.grid import folder_name
from keras_bert.tasks.classification.glue import TASKS
from keras_bert.training.trainer import Trainer
from pipelines.command import spelling
from tests.conftest import eagerly
from tests.pipelines.programs import (
    call,
    finetune,
    finish,
    mistake,
    no_fit,
    parsed,
    read_jsonl,
    read_table,
    start,
)
from tests.pipelines.programs import read_json as read
from tests.tasks.classification.glue_files import OTHERS, WORDS, write_diagnostics, write_task

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
PROGRAM = "pipelines.run_glue"


@pytest.fixture(scope="module")
def made(tmp_path_factory, config, pieces):
    """A folder with a model to start from, and data."""
    made = tmp_path_factory.mktemp("glue")
    keras_bert.save(keras_bert.build_encoder(config), made / "bert", pieces)
    save_teachers(made, config, pieces)
    for name in ("wnli", "rte", "mnli", "mnli_mismatched", "ax"):
        write_task(made / "data", TASKS[name])
    write_diagnostics(made / "diagnostic-full.tsv")
    return made


def save_teachers(made, config, pieces):
    """Saves a teacher of wnli, and models that cannot teach it."""
    deep = keras_bert.build_encoder(dataclasses.replace(config, num_hidden_layers=2))
    options = {"labels": TASKS["wnli"].labels, "sequence_length": 12}
    classifier = keras_bert.build_classifier(deep, 2)
    keras_bert.save(classifier, made / "teacher" / "wnli" / "model", pieces, pair=True, **options)
    keras_bert.save(classifier, made / "single", pieces, pair=False, **options)
    regressor = keras_bert.build_classifier(deep, 1)
    keras_bert.save(regressor, made / "regression", pieces, sequence_length=12)
    several = keras_bert.build_classifier(deep, 2, multi_label=True)
    keras_bert.save(several, made / "several", pieces, labels=["odd", "third"])


SETTINGS = ["--sequence_length=16", "--batch_size=6", "--learning_rate=1e-3", "--epochs=1"]


def flags(made, output, *arguments):
    return [*SETTINGS, f"--output_dir={output}", f"--model={made}/bert", *arguments]


def write_csv(path, header, rows):
    path.write_text("\n".join([header, *rows]) + "\n")


def logits_of(bert, length, texts, pairs):
    """Returns the logits of a saved classifier for pairs."""
    inputs = bert.preprocessor(length)((texts, pairs))
    return bert.model()(inputs)["logits"].numpy()


def test_two_tasks(made, tmp_path, caplog):
    """The second one starts from the first one; the same command resumes."""
    given = flags(made, tmp_path, "--task=wnli,rte", "--init_from=rte", f"--data_dir={made}/data")
    printed = finetune(PROGRAM, *given, fit=no_fit)
    scores = read(tmp_path / "results.json")
    assert list(scores) == ["rte", "wnli"]
    header, _, ours = (tmp_path / "results.md").read_text().splitlines()[2:5]
    assert header.count("|") == 4
    assert ours.count("|") == 4
    results = read(tmp_path / "wnli" / "results.json")
    assert results["facts"]["start"].startswith(str(tmp_path / "rte"))
    setting = {"learning_rate": 1e-3, "batch_size": 6, "epochs": 1, "seed": 1}
    assert results["best"]["setting"] == setting
    assert (tmp_path / "rte" / "report.html").exists()
    assert "no submission.zip" in caplog.text
    assert "RTE.tsv: expected 3000 predictions, got 12" in caplog.text
    assert printed.splitlines()[-5:] == [
        f"report:       {tmp_path}/wnli/report.html",
        f"model:        {tmp_path}/wnli/model",
        f"saved model:  {tmp_path}/wnli/saved_model",
        f'next:         {spelling("predict")} --model={tmp_path}/wnli/model "A text." "Its pair."',
        f"              {spelling('serve')} --saved_models={tmp_path}",
    ]
    common = read(tmp_path / "rte" / "runs" / "common.json")
    expected = {
        "model": f"{made}/bert",
        "sequence_length": 16,
        "epsilon": 1e-6,
        "group_by_length": True,
        "best": True,
    }
    assert expected.items() <= common.items()
    caplog.set_level("INFO", "keras_bert")
    finetune(PROGRAM, *given, fit=no_fit)
    assert caplog.text.count("the run is finished") == 2


def test_diagnostics_of_mnli(made):
    files = [f"--data_dir={made}/data", f"--diagnostics={made}/diagnostic-full.tsv"]
    _, arguments = parsed(PROGRAM, *flags(made, "out", "--task=mnli", *files))
    (data,) = arguments.data
    assert len(data.categories) == len(data.dev["ax"].labels)


def test_a_language_model_loss_of_a_left_to_right_model(made, tmp_path, config, pieces):
    encoder = keras_bert.build_encoder(config, causal=True)
    pretrainer = keras_bert.build_pretrainer(encoder, next_sentence=False)
    keras_bert.save(pretrainer, tmp_path / "gpt", pieces)
    output = tmp_path / "out"
    files = [f"--data_dir={made}/data", f"--model={tmp_path}/gpt"]
    settings = ["--task=wnli", "--language_model_weight=0.5", "--max_train_examples=6"]
    finetune(PROGRAM, *flags(made, output, *files, *settings))
    (log,) = (output / "runs").glob("*/metrics.jsonl")
    loss = read_jsonl(log)[0]["weighted_language_model_loss"]
    assert loss == pytest.approx(0.5 * np.log(config.vocab_size), rel=0.25)
    assert keras_bert.load(output / "model").head == "classification"
    assert read(output / "runs" / "common.json")["language_model_weight"] == 0.5


@pytest.fixture(scope="module")
def distilled(made, tmp_path_factory):
    """The folder of a student with one layer of the teacher, and what the command printed.

    It learns from labeled rows, and from pairs that only the teacher labels.
    """
    folder = tmp_path_factory.mktemp("distilled")
    pairs = [f"{text} x\t{other} y" for text, other in zip(WORDS, OTHERS, strict=True)]
    write_csv(folder / "more.tsv", "text\tother", pairs)
    files = [f"--data_dir={made}/data", f"--unlabeled={folder}/more.tsv", "--pair_column=other"]
    teacher = [f"--teacher={made}/teacher", "--student_layers=1", "--temperature=3", "--alpha=0.9"]
    output = [f"--output_dir={folder}/out"]
    with eagerly():
        given = ["--task=wnli", *SETTINGS, *files, *teacher, *output]
        printed = finetune(PROGRAM, *given, fit=no_fit)
    return folder / "out", printed


def teacher_logits(output, name):
    """Returns the logits of a teacher that a run has stored."""
    return np.load(output / "teacher" / f"{name}.npz")["logits"]


def test_the_logits_of_a_teacher(made, distilled):
    output, _ = distilled
    assert len(teacher_logits(output, "train")) == 12
    assert len(teacher_logits(output, "dev")) == 12
    teacher = keras_bert.load(made / "teacher" / "wnli" / "model")
    texts = [f"{text} x" for text in WORDS]
    others = [f"{text} y" for text in OTHERS]
    logits = logits_of(teacher, 12, texts, others)
    np.testing.assert_allclose(teacher_logits(output, "unlabeled"), logits, atol=1e-5)


def test_a_student(made, distilled):
    output, _ = distilled
    assert keras_bert.load(output / "model").config.num_hidden_layers == 1
    start = read(output / "results.json")["facts"]["start"]
    assert start == f"{made}/teacher/wnli/model, 1 layer, width 32"
    # Another teacher is another run.
    common = read(output / "runs" / "common.json")
    assert common["temperature"] == 3.0
    assert common["alpha"] == 0.9
    assert common["teacher_weights"]


def test_the_scores_of_a_teacher(made, distilled):
    """In the results, in what is printed, and in the card, which has no paths of this machine."""
    output, printed = distilled
    report = read(output / "results.json")
    right = np.mean(teacher_logits(output, "dev").argmax(-1) == np.arange(len(WORDS)) % 2)
    share = report["scores"]["wnli"]["accuracy"] / right
    assert report["teacher"] == {
        "model": f"{made}/teacher/wnli/model",
        "scores": {"accuracy": right},
        "share_kept": share,
    }
    kept = f"accuracy {right:.2%}; the student keeps {share:.1%} of the accuracy"
    assert f"teacher: {kept}\n" in printed
    assert report["facts"]["scores of the teacher"] == kept
    card = (output / "model" / "README.md").read_text()
    assert f"The teacher, wnli/model, has on the same rows: {kept}.\n" in card
    assert "\n- teacher: wnli/model, 2 layers, width 32; temperature 3, alpha 0.9\n" in card
    assert str(made) not in card


@pytest.mark.slow
def test_lora(made, tmp_path):
    """The adapter and the merged model answer alike; the trained weights are counted by hand, for one block."""
    output = tmp_path / "out"
    settings = ["--task=wnli", "--lora_rank=2", "--max_train_examples=6"]
    arguments = flags(made, output, *settings, f"--data_dir={made}/data")
    printed = finetune(PROGRAM, *arguments)
    assert f"adapter:      {output}/adapter\n" in printed
    common = read(output / "runs" / "common.json")
    results = read(output / "results.json")
    assert common["lora_rank"] == 2
    assert common["lora_alpha"] is None
    trained = 2 * (32 + 96) + 2 * (32 + 32) + 32 * 32 + 32 + 32 * 2 + 2
    assert results["runs"][0]["trained_weights"] == trained
    assert results["facts"]["trained weights"].startswith(f"{trained:,} of ")
    settings = read(output / "adapter" / "adapter_config.json")
    assert settings["lora_alpha"] == 4
    assert settings["base_model_name_or_path"] == f"{made}/bert"
    whole = keras_bert.load(output / "model")
    adapter = keras_bert.load(output / "adapter")
    assert whole.labels == adapter.labels
    score = whole.predict(("a b", "c d"))["score"]
    assert adapter.predict(("a b", "c d"))["score"] == pytest.approx(score, abs=1e-5)
    told = mistake(PROGRAM, *arguments, "--lora_rank=4")
    assert told.startswith(f"{output}/runs contains runs with other settings: --lora_rank was 2, is 4.")


def test_another_start_model_is_refused(made, tmp_path):
    """Also where all runs are finished, or between two runs."""
    start = shutil.copytree(made / "bert", tmp_path / "bert")
    runs = tmp_path / "out" / "runs"
    files = [f"--data_dir={made}/data", f"--model={start}"]
    given = flags(made, tmp_path / "out", "--task=wnli", *files)
    message = (
        f"{runs} contains runs that started from another version of {start}. Different now: the weights. Restore "
        "it to resume them, or choose another --output_dir for new runs"
    )

    def change(trainer, *arguments, **options):
        weights = load_file(start / "model.safetensors")
        changed = {name: -values for name, values in weights.items()}
        save_file(changed, start / "model.safetensors")
        return no_fit(trainer, *arguments, **options)

    with mock.patch.object(Trainer, "fit", change), mock.patch("keras_bert.runs.results.export"):
        assert mistake(PROGRAM, *given, "--seed=1,2") == message
        assert mistake(PROGRAM, *given) == message


@pytest.mark.slow
def test_own_table(made, tmp_path, caplog):
    train = star_rows(["10", "9", "9", "9"])
    write_csv(tmp_path / "train.csv", "review,stars", [*train, "a row without stars"])
    write_csv(tmp_path / "dev.csv", "review,stars", star_rows(["9", "10"]))
    write_csv(tmp_path / "predict.csv", "review,stars", star_rows(["10", "9"]))
    output = tmp_path / "out"
    given = flags(
        made,
        output,
        "--task=classification",
        f"--train_file={tmp_path}/train.csv",
        f"--dev_file={tmp_path}/dev.csv",
        f"--predict_file={tmp_path}/predict.csv",
        "--text_column=review",
        "--label_column=stars",
        "--skip_bad_rows=1",
        "--class_weight=balanced",
        "--freeze_layers=1",
        "--layer_decay=0.9",
        "--gradient_accumulation=2",
    )
    caplog.set_level("INFO", "keras_bert")
    printed = finetune(PROGRAM, *given)
    assert "9: 9 (75.0%), 10: 3 (25.0%)" in caplog.text
    assert "train.csv: skipped 1 unreadable row(s). The first: " in caplog.text
    assert "test: accuracy " in printed
    # Frozen weights are unchanged.
    before = keras_bert.load(made / "bert").encoder
    after = keras_bert.load(output / "model")
    assert after.labels == ["9", "10"]
    changed = set()
    for weight, other in zip(before.weights, after.encoder.weights, strict=True):
        if not np.array_equal(weight, other):
            changed.add(weight.path.split("/")[0])
    assert changed == {"pooler"}
    assert f"predictions:  {output}/predictions.tsv\n" in printed
    assert (output / "predictions.tsv").read_text().startswith("label\t9\t10\treview\n")
    finetune(PROGRAM, *given)
    assert "the run is finished" in caplog.text


def star_rows(labels):
    """Returns up to 12 rows of reviews, whose labels are three times those that are given."""
    return [f'"{text}, well",{label}' for text, label in zip(WORDS, labels * 3, strict=False)]


@pytest.mark.slow
def test_several_labels_on_two_devices(made, tmp_path, mirrored, monkeypatch, caplog):
    """The saved and the exported model, taught on more rows by a teacher, predict by the chosen thresholds."""
    import tensorflow as tf

    rows = [f"{text},{row % 2},{row % 3 // 2}" for row, text in enumerate(WORDS)]
    write_csv(tmp_path / "rows.csv", "text,odd,third", rows)
    files = [f"--{name}={tmp_path}/rows.csv" for name in ("train_file", "dev_file", "predict_file")]
    teacher = [f"--teacher={made}/several", f"--unlabeled={tmp_path}/rows.csv"]
    settings = ["--label_column=odd,third", "--threshold=per_label", "--class_weight=balanced"]
    output = tmp_path / "out"
    given = flags(made, output, "--task=multi_label", *files, *settings, *teacher)
    signatures = {}
    caplog.set_level("INFO", "keras_bert")
    monkeypatch.setattr(keras_bert, "create_strategy", lambda name: mirrored)
    tf.config.run_functions_eagerly(False)  # Replicas gather rows in graphs only.
    printed = finetune(PROGRAM, *given, signatures=signatures)
    assert "odd: 6 (50.0%), third: 4 (33.3%); 0.83 labels per row" in caplog.text
    report = read(output / "results.json")
    bert = keras_bert.load(output / "model")
    assert f"test: micro f1 {report['scores']['multi_label']['micro_f1']:.2%}" in printed
    assert bert.labels == ["odd", "third"]
    assert bert.multi_label
    assert len(bert.thresholds) == 2
    for name in ("train", "dev", "unlabeled"):
        assert teacher_logits(output, name).shape == (12, 2)
    assert list(report["teacher"]["scores"]) == ["micro_f1", "macro_f1", "exact_match"]
    (run,) = output.glob("runs/*/dev.npz")
    saved = scipy.special.expit(np.load(run)["multi_label"])
    expected = [joined(row) for row in saved >= bert.thresholds]
    header, lines = read_table(output / "predictions.tsv")
    assert header == ["labels", "odd", "third", "text"]
    labels, *probabilities, texts = zip(*lines, strict=True)
    assert list(texts) == WORDS
    assert list(labels) == expected
    np.testing.assert_allclose(np.array(probabilities, float).T, saved, atol=1e-4)
    assert ["|".join(answer["labels"]) for answer in bert.predict(WORDS)] == expected
    served = signatures["serving_default"](tf.constant(WORDS))
    assert [joined(row) for row in served["predicted"].numpy()] == expected
    card = (output / "model" / "README.md").read_text()
    assert f"| thresholds | odd {bert.thresholds[0]:g}, third {bert.thresholds[1]:g} |" in card
    # The same command trains nothing.
    finetune(PROGRAM, *given, fit=mock.Mock(side_effect=AssertionError))
    assert caplog.text.count("found logits of") == 3  # The teacher is not asked again.


def joined(predicted):
    return "|".join(name for name, is_in in zip(["odd", "third"], predicted, strict=True) if is_in)


@pytest.mark.slow
def test_cross_validation(made, tmp_path):
    rows = []
    for number, text in enumerate(WORDS):
        label = ("no", "yes")[number % 2]
        rows.append(f"{text} {chr(97 + number)},{label}")
    write_csv(tmp_path / "all.csv", "text,label", rows)
    settings = ["--task=classification", f"--train_file={tmp_path}/all.csv", "--folds=2"]
    finetune(PROGRAM, *flags(made, tmp_path / "out", *settings))
    runs = read(tmp_path / "out" / "results.json")["runs"]
    assert [run["setting"]["fold"] for run in runs] == [1, 2]
    assert keras_bert.load(tmp_path / "out" / "model").labels == ["no", "yes"]
    # The model is trained on all rows: two batches of six.
    (log,) = (tmp_path / "out" / "final").glob("*/metrics.jsonl")
    assert read_jsonl(log)[-1]["step"] == 2


@pytest.mark.slow
def test_grid_end_to_end(made, tmp_path):
    write_task(tmp_path, TASKS["wnli"], test_rows=146)
    output = tmp_path / "out"
    settings = ["--task=wnli", "--seed=1,2", "--ensemble=2", f"--data_dir={tmp_path}"]
    call(PROGRAM, *flags(made, output, *settings))
    report = read(output / "results.json")
    assert [run["setting"]["seed"] for run in report["runs"]] == [1, 2]
    accuracies = [run["scores"]["accuracy"] for run in report["runs"]]
    assert report["best"]["scores"]["accuracy"] == max(accuracies)
    results = (output / "results.md").read_text()
    assert "(ensemble of the 2 best runs)" in results
    assert "| learning_rate=0.001, batch_size=6, epochs=1 | 2 |" in results

    # The saved and the exported model reproduce the predictions of the best run.
    import tensorflow as tf

    bert = keras_bert.load(output / "model")
    assert bert.labels == ["not_entailment", "entailment"]
    assert bert.pair
    assert bert.sequence_length == 16
    logits = logits_of(bert, 16, WORDS, OTHERS)
    runs = [folder_name(setting) for setting in report["ensemble"]]
    saved = [np.load(output / "runs" / run / "dev.npz")["wnli"] for run in runs]
    np.testing.assert_allclose(logits, saved[0], atol=1e-4)
    served = tf.saved_model.load(output / "saved_model" / "1").signatures["serving_default"]
    answers = served(text=tf.constant(WORDS), pair=tf.constant(OTHERS))["label"].numpy()
    served_labels = [label.decode() for label in answers]
    assert served_labels == [bert.labels[index] for index in logits.argmax(-1)]

    # The ensemble averages the probabilities of the two best runs; the archive contains all eleven files.
    mean = scipy.special.softmax(saved, -1).mean(0)
    labels = np.arange(len(WORDS)) % 2
    assert report["scores"]["wnli"] == {"accuracy": np.mean(mean.argmax(-1) == labels)}
    with zipfile.ZipFile(output / "submission.zip") as archive:
        assert len(archive.namelist()) == 11
        assert archive.read("WNLI.tsv").count(b"\n") == 1 + 146

    # Finished runs are not repeated; flags.txt works as a flagfile.
    finetune(PROGRAM, f"--flagfile={output}/flags.txt", fit=mock.Mock(side_effect=AssertionError))
    assert read(output / "results.json") == report
    # Runs with other settings are not added to the folder.
    other = mistake(PROGRAM, f"--flagfile={output}/flags.txt", "--warmup=0.5")
    assert "contains runs with other settings: --warmup was 0.1, is 0.5" in other


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "--language_model_weight=0.5",
            "{made}/bert: a language model loss needs a left-to-right model. Received:",
        ),
        (
            "--teacher={made}/single",
            "--teacher={made}/single: it reads single texts, the task has pairs. Expected",
        ),
        (
            "--teacher={made}/regression",
            "--teacher={made}/regression: 1 output(s) without names. Expected a classif",
        ),
    ],
)
def test_user_errors(made, tmp_path, given, message):
    """Of models; tests/pipelines/test_early_checks.py has those that are found before."""
    files = [f"--data_dir={made}/data", given.format(made=made)]
    told = mistake(PROGRAM, *flags(made, tmp_path, "--task=wnli", *files))
    assert told.startswith(message.format(made=made))


def test_recipes_have_valid_flags():
    tasks = {}
    for path in pathlib.Path("pipelines/recipes").glob("*.txt"):
        program = re.search(r"pipelines\.run_\w+", path.read_text())[0]
        _, arguments = parsed(program, f"--flagfile={path}", "--output_dir=out")
        tasks[path.name] = getattr(arguments, "tasks", None)
    assert tasks["rte_after_mnli.txt"] == ["mnli", "rte", "mrpc", "stsb"]
    assert len(tasks["glue_base.txt"]) == 9
    assert len(tasks) == 13


NO_EXPORT = "from keras_bert.runs import results; results.export = lambda *values, **options: None"


@pytest.mark.slow
def test_only_the_chief_of_two_workers_writes(made, tmp_path, two_addresses):
    files = [f"--data_dir={made}/data", f"--teacher={made}/teacher"]
    arguments = flags(made, tmp_path, "--task=wnli", *files)
    workers = []
    for index in range(2):
        task = {"cluster": {"worker": two_addresses}, "task": {"type": "worker", "index": index}}
        worker = start(PROGRAM, *arguments, before=NO_EXPORT, TF_CONFIG=json.dumps(task))
        workers.append(worker)
    chief, other = [finish(worker)[0] for worker in workers]
    assert "next: " in chief
    assert "next: " not in other
    logits = logits_of(keras_bert.load(tmp_path / "model"), 16, WORDS, OTHERS)
    (saved,) = tmp_path.glob("runs/*/dev.npz")
    np.testing.assert_allclose(np.load(saved)["wnli"], logits, atol=1e-4)
