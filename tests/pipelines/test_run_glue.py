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
from tests.pipelines.programs import call, finetune, finish, mistake, no_fit, parsed, start
from tests.pipelines.programs import read_json as read
from tests.tasks.classification.glue_files import OTHERS, WORDS, write_diagnostics, write_task

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
PROGRAM = "pipelines.run_glue"


@pytest.fixture(scope="module")
def made(tmp_path_factory, config, pieces):
    """A folder with a model to start from, and data."""
    made = tmp_path_factory.mktemp("glue")
    keras_bert.save(keras_bert.build_encoder(config), made / "bert", pieces)
    deep = keras_bert.build_encoder(dataclasses.replace(config, num_hidden_layers=2))
    for folder, classes, options in (
        ("teacher/wnli/model", 2, {"labels": TASKS["wnli"].labels, "pair": True}),
        ("single", 2, {"labels": TASKS["wnli"].labels, "pair": False}),
        ("regression", 1, {}),
    ):
        keras_bert.save(
            keras_bert.build_classifier(deep, classes), made / folder, pieces, sequence_length=12, **options
        )
    several = keras_bert.build_classifier(deep, 2, multi_label=True)
    keras_bert.save(several, made / "several", pieces, labels=["odd", "third"])
    for name in ("wnli", "rte", "mnli", "mnli_mismatched", "ax"):
        write_task(made / "data", TASKS[name])
    write_diagnostics(made / "diagnostic-full.tsv")
    return made


def flags(made, output, *arguments):
    return ["--sequence_length=16", f"--output_dir={output}", f"--model={made}/bert", *SETTINGS, *arguments]


SETTINGS = ["--batch_size=6", "--learning_rate=1e-3", "--epochs=1"]


def test_two_tasks(made, tmp_path, caplog):
    arguments = ["--task=wnli,rte", "--init_from=rte", f"--data_dir={made}/data"]
    printed = finetune(PROGRAM, *flags(made, tmp_path, *arguments), fit=no_fit)
    scores = read(tmp_path / "results.json")
    assert list(scores) == ["rte", "wnli"]
    header, _, ours = (tmp_path / "results.md").read_text().splitlines()[2:5]
    assert header.count("|") == ours.count("|") == 4
    results = read(tmp_path / "wnli" / "results.json")
    assert results["facts"]["start"].startswith(str(tmp_path / "rte"))
    assert results["best"]["setting"] == {"learning_rate": 1e-3, "batch_size": 6, "epochs": 1, "seed": 1}
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
    given = {"model": f"{made}/bert", "sequence_length": 16, "epsilon": 1e-6, "group_by_length": True, "best": True}
    assert given.items() <= common.items()
    caplog.set_level("INFO", "keras_bert")
    finetune(PROGRAM, *flags(made, tmp_path, *arguments), fit=no_fit)  # The same command resumes.
    assert caplog.text.count("the run is finished") == 2


def test_diagnostics_of_mnli(made):
    given = flags(made, "out", "--task=mnli", f"--data_dir={made}/data", f"--diagnostics={made}/diagnostic-full.tsv")
    (found,) = parsed(PROGRAM, *given)[1].data
    assert len(found.categories) == len(found.dev["ax"].labels)


def test_a_language_model_loss_of_a_left_to_right_model(made, tmp_path, config, pieces):
    encoder = keras_bert.build_encoder(config, causal=True)
    keras_bert.save(keras_bert.build_pretrainer(encoder, next_sentence=False), tmp_path / "gpt", pieces)
    arguments = flags(made, tmp_path / "out", "--task=wnli", f"--data_dir={made}/data", f"--model={tmp_path}/gpt")
    finetune(PROGRAM, *arguments, "--language_model_weight=0.5", "--max_train_examples=6")
    lines = next((tmp_path / "out" / "runs").glob("*/metrics.jsonl")).read_text().splitlines()
    loss = json.loads(lines[0])["weighted_language_model_loss"]
    assert loss == pytest.approx(0.5 * np.log(config.vocab_size), rel=0.25)
    assert keras_bert.load(tmp_path / "out" / "model").head == "classification"
    assert read(tmp_path / "out" / "runs" / "common.json")["language_model_weight"] == 0.5


def test_distillation(made, tmp_path):
    """A student with one layer of the teacher, from labelled rows and from pairs that only the teacher labels."""
    pairs = [f"{text} x\t{other} y" for text, other in zip(WORDS, OTHERS, strict=True)]
    (tmp_path / "more.tsv").write_text("\n".join(["text\tother", *pairs]) + "\n")
    output = tmp_path / "out"
    given = ["--task=wnli", f"--data_dir={made}/data", "--sequence_length=16", f"--output_dir={output}", *SETTINGS]
    given += [f"--teacher={made}/teacher", "--student_layers=1", "--temperature=3", "--alpha=0.9"]
    given += [f"--unlabelled={tmp_path}/more.tsv", "--pair_column=other"]
    printed = finetune(PROGRAM, *given, fit=no_fit)
    teacher = keras_bert.load(made / "teacher" / "wnli" / "model")
    found = {name: np.load(output / "teacher" / f"{name}.npz")["logits"] for name in ("train", "dev", "unlabelled")}
    assert [len(logits) for logits in found.values()] == [12, 12, 12]
    texts = [f"{text} x" for text in WORDS], [f"{text} y" for text in OTHERS]
    logits = teacher.model()(teacher.preprocessor(12)(texts))["logits"]
    np.testing.assert_allclose(found["unlabelled"], logits, atol=1e-5)
    report = read(output / "results.json")
    student = keras_bert.load(output / "model")
    assert student.config.num_hidden_layers == 1
    assert report["facts"]["start"] == f"{made}/teacher/wnli/model, 1 layer, width 32"
    right = np.mean(found["dev"].argmax(-1) == np.arange(len(WORDS)) % 2)
    assert report["teacher"] == {
        "model": f"{made}/teacher/wnli/model",
        "scores": {"accuracy": right},
        "share_kept": report["scores"]["wnli"]["accuracy"] / right,
    }
    kept = f"accuracy {right:.2%}; the student keeps {report['teacher']['share_kept']:.1%} of the accuracy"
    assert f"teacher: {kept}\n" in printed
    assert report["facts"]["scores of the teacher"] == kept
    card = (output / "model" / "README.md").read_text()
    assert f"The teacher, wnli/model, has on the same rows: {kept}.\n" in card
    assert "\n- teacher: wnli/model, 2 layers, width 32; temperature 3, alpha 0.9\n" in card
    assert str(made) not in card
    # Another teacher is another run.
    common = read(output / "runs" / "common.json")
    assert (common["temperature"], common["alpha"]) == (3.0, 0.9)
    assert common["teacher_weights"]


@pytest.mark.slow
def test_lora(made, tmp_path):
    """The adapter and the merged model answer alike; the trained weights are counted by hand, for one block."""
    output = tmp_path / "out"
    arguments = flags(made, output, "--task=wnli", f"--data_dir={made}/data", "--lora_rank=2", "--max_train_examples=6")
    printed = finetune(PROGRAM, *arguments)
    assert f"adapter:      {output}/adapter\n" in printed
    common = read(output / "runs" / "common.json")
    results = read(output / "results.json")
    assert (common["lora_rank"], common["lora_alpha"]) == (2, None)
    trained = 2 * (32 + 96) + 2 * (32 + 32) + 32 * 32 + 32 + 32 * 2 + 2
    assert results["runs"][0]["trained_weights"] == trained
    assert results["facts"]["trained weights"].startswith(f"{trained:,} of ")
    settings = read(output / "adapter" / "adapter_config.json")
    assert (settings["lora_alpha"], settings["base_model_name_or_path"]) == (4, str(made / "bert"))
    whole, adapter = (keras_bert.load(output / name) for name in ("model", "adapter"))
    assert whole.labels == adapter.labels
    answers = [bert.predict([("a b", "c d")])[0]["score"] for bert in (whole, adapter)]
    assert answers[0] == pytest.approx(answers[1], abs=1e-5)
    told = mistake(PROGRAM, *arguments, "--lora_rank=4")
    assert told.startswith(f"{output}/runs contains runs with other settings: --lora_rank was 2, is 4.")


def test_another_start_model_is_refused(made, tmp_path):
    """Also where all runs are finished, or between two runs."""
    start = shutil.copytree(made / "bert", tmp_path / "bert")
    runs = tmp_path / "out" / "runs"
    given = [*flags(made, tmp_path / "out", "--task=wnli", f"--data_dir={made}/data"), f"--model={start}"]
    message = (
        f"{runs} contains runs that started from another version of {start}. Different now: the weights. Restore "
        "it to resume them, or choose another --output_dir for new runs"
    )

    def change(trainer, *arguments, **options):
        weights = load_file(start / "model.safetensors")
        save_file({name: -values for name, values in weights.items()}, start / "model.safetensors")
        return no_fit(trainer, *arguments, **options)

    with mock.patch.object(Trainer, "fit", change), mock.patch("keras_bert.runs.results.export"):
        assert mistake(PROGRAM, *given, "--seed=1,2") == message
        assert mistake(PROGRAM, *given) == message


@pytest.mark.slow
def test_own_table(made, tmp_path, caplog):
    labels = {"train": ["10", "9", "9", "9"], "dev": ["9", "10"], "predict": ["10", "9"]}
    for split, column in labels.items():
        rows = [f'"{text}, well",{label}' for text, label in zip(WORDS, column * 3, strict=False)]
        rows.append("a row without stars\n" if split == "train" else "")
        (tmp_path / f"{split}.csv").write_text("\n".join(["review,stars", *rows]) + "\n")
    files = [f"--{split}_file={tmp_path}/{split}.csv" for split in labels]
    columns = ("--text_column=review", "--label_column=stars", "--skip_bad_rows=1")
    settings = ("--class_weight=balanced", "--freeze_layers=1", "--layer_decay=0.9", "--gradient_accumulation=2")
    output = tmp_path / "out"
    caplog.set_level("INFO", "keras_bert")
    printed = finetune(PROGRAM, *flags(made, output, "--task=classification", *files, *columns, *settings))
    assert "9: 9 (75.0%), 10: 3 (25.0%)" in caplog.text
    assert "train.csv: skipped 1 unreadable row(s). The first: " in caplog.text
    assert "test: accuracy " in printed
    # Frozen weights are unchanged.
    before = keras_bert.load(made / "bert").encoder
    after = keras_bert.load(output / "model")
    assert after.labels == ["9", "10"]
    weights = zip(before.weights, after.encoder.weights, strict=True)
    changed = {weight.path.split("/")[0] for weight, other in weights if not np.array_equal(weight, other)}
    assert changed == {"pooler"}
    assert f"predictions:  {output}/predictions.tsv\n" in printed
    assert (output / "predictions.tsv").read_text().startswith("label\t9\t10\treview\n")
    finetune(PROGRAM, *flags(made, output, "--task=classification", *files, *columns, *settings))
    assert "the run is finished" in caplog.text


@pytest.mark.slow
def test_several_labels_on_two_devices(made, tmp_path, mirrored, monkeypatch, caplog):
    """The saved and the exported model, taught on more rows by a teacher, predict by the chosen thresholds."""
    import tensorflow as tf

    rows = [f"{text},{row % 2},{row % 3 // 2}" for row, text in enumerate(WORDS)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,odd,third", *rows]) + "\n")
    files = [f"--{split}_file={tmp_path}/rows.csv" for split in ("train", "dev", "predict")]
    settings = ["--label_column=odd,third", "--threshold=per_label", "--class_weight=balanced"]
    settings += [f"--teacher={made}/several", f"--unlabelled={tmp_path}/rows.csv"]
    output = tmp_path / "out"
    given = flags(made, output, "--task=multi_label", *files, *settings)
    signatures = {}
    caplog.set_level("INFO", "keras_bert")
    monkeypatch.setattr(keras_bert, "create_strategy", lambda name: mirrored)
    tf.config.run_functions_eagerly(False)  # Replicas gather rows in graphs only.
    printed = finetune(PROGRAM, *given, signatures=signatures)
    assert "odd: 6 (50.0%), third: 4 (33.3%); 0.83 labels per row" in caplog.text
    report = read(output / "results.json")
    bert = keras_bert.load(output / "model")
    assert f"test: micro f1 {report['scores']['multi_label']['micro_f1']:.2%}" in printed
    assert (bert.labels, bert.multi_label, len(bert.thresholds)) == (["odd", "third"], True, 2)
    logits = [np.load(output / "teacher" / f"{name}.npz")["logits"] for name in ("train", "dev", "unlabelled")]
    assert [part.shape for part in logits] == [(12, 2)] * 3
    assert list(report["teacher"]["scores"]) == ["micro_f1", "macro_f1", "exact_match"]
    (run,) = output.glob("runs/*/dev.npz")
    saved = scipy.special.expit(np.load(run)["multi_label"])
    header, *lines = [line.split("\t") for line in (output / "predictions.tsv").read_text().splitlines()]
    assert header == ["labels", "odd", "third", "text"]
    assert [line[3] for line in lines] == WORDS
    np.testing.assert_allclose([[float(cell) for cell in line[1:3]] for line in lines], saved, atol=1e-4)
    expected = [joined(row) for row in saved >= bert.thresholds]
    assert [line[0].strip('"') for line in lines] == expected
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
    rows = [f"{text} {chr(97 + row)},{['no', 'yes'][row % 2]}" for row, text in enumerate(WORDS)]
    (tmp_path / "all.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    given = flags(made, tmp_path / "out", "--task=classification", f"--train_file={tmp_path}/all.csv", "--folds=2")
    finetune(PROGRAM, *given)
    assert [run["setting"]["fold"] for run in read(tmp_path / "out" / "results.json")["runs"]] == [1, 2]
    assert keras_bert.load(tmp_path / "out" / "model").labels == ["no", "yes"]
    # The model is trained on all rows: two batches of six.
    (log,) = (tmp_path / "out" / "final").glob("*/metrics.jsonl")
    assert json.loads(log.read_text().splitlines()[-1])["step"] == 2


@pytest.mark.slow
def test_grid_end_to_end(made, tmp_path):
    write_task(tmp_path, TASKS["wnli"], test_rows=146)
    output = tmp_path / "out"
    call(PROGRAM, *flags(made, output, "--task=wnli", "--seed=1,2", "--ensemble=2", f"--data_dir={tmp_path}"))
    report = read(output / "results.json")
    assert [run["setting"]["seed"] for run in report["runs"]] == [1, 2]
    assert report["best"]["scores"]["accuracy"] == max(run["scores"]["accuracy"] for run in report["runs"])
    results = (output / "results.md").read_text()
    for text in ("(ensemble of the 2 best runs)", "| learning_rate=0.001, batch_size=6, epochs=1 | 2 |"):
        assert text in results

    # The saved and the exported model reproduce the predictions of the best run.
    import tensorflow as tf

    bert = keras_bert.load(output / "model")
    assert (bert.labels, bert.pair, bert.sequence_length) == (["not_entailment", "entailment"], True, 16)
    logits = bert.model()(bert.preprocessor(16)((WORDS, OTHERS)))["logits"].numpy()
    runs = [folder_name(setting) for setting in report["ensemble"]]
    saved = [np.load(output / "runs" / run / "dev.npz")["wnli"] for run in runs]
    np.testing.assert_allclose(logits, saved[0], atol=1e-4)
    served = tf.saved_model.load(output / "saved_model" / "1").signatures["serving_default"]
    answers = served(text=tf.constant(WORDS), pair=tf.constant(OTHERS))["label"].numpy()
    assert [label.decode() for label in answers] == [bert.labels[index] for index in logits.argmax(-1)]

    # The ensemble averages the probabilities of the two best runs; the archive contains all eleven files.
    mean = scipy.special.softmax(saved, -1).mean(0)
    assert report["scores"]["wnli"] == {"accuracy": np.mean(np.arange(len(WORDS)) % 2 == mean.argmax(-1))}
    with zipfile.ZipFile(output / "submission.zip") as archive:
        assert len(archive.namelist()) == 11
        assert archive.read("WNLI.tsv").count(b"\n") == 1 + 146

    # Finished runs are not repeated; flags.txt works as a flagfile.
    finetune(PROGRAM, f"--flagfile={output}/flags.txt", fit=mock.Mock(side_effect=AssertionError))
    assert read(output / "results.json") == report
    # Runs with other settings are not added to the folder.
    other = mistake(PROGRAM, f"--flagfile={output}/flags.txt", "--warmup=0.5")
    assert "contains runs with other settings: --warmup was 0.1, is 0.5" in other


MISTAKES = {
    "--language_model_weight=0.5": "{made}/bert: a language model loss needs a left-to-right model. Received:",
    "--teacher={made}/single": "--teacher={made}/single: it reads single texts, the task has pairs. Expected",
    "--teacher={made}/regression": "--teacher={made}/regression: 1 output(s) without names. Expected a classif",
}


def test_user_errors(made, tmp_path):
    """Of models; tests/pipelines/test_early_checks.py has those that are found before."""
    for given, message in MISTAKES.items():
        given = flags(made, tmp_path, "--task=wnli", f"--data_dir={made}/data", given.format(made=made))
        assert mistake(PROGRAM, *given).startswith(message.format(made=made)), given


def test_recipes_have_valid_flags():
    tasks = {}
    for path in pathlib.Path("pipelines/recipes").glob("*.txt"):
        program = re.search(r"pipelines\.run_\w+", path.read_text())[0]
        _, arguments = parsed(program, f"--flagfile={path}", "--output_dir=out")
        tasks[path.name] = arguments.tasks if program == PROGRAM else None
    assert tasks["rte_after_mnli.txt"] == ["mnli", "rte", "mrpc", "stsb"]
    assert len(tasks["glue_base.txt"]) == 9
    assert len(tasks) == 13


NO_EXPORT = "from keras_bert.runs import results; results.export = lambda *values, **options: None"


@pytest.mark.slow
def test_only_the_chief_of_two_workers_writes(made, tmp_path, two_addresses):
    arguments = flags(made, tmp_path, "--task=wnli", f"--data_dir={made}/data", f"--teacher={made}/teacher")
    tasks = [{"cluster": {"worker": two_addresses}, "task": {"type": "worker", "index": index}} for index in range(2)]
    workers = [start(PROGRAM, *arguments, before=NO_EXPORT, TF_CONFIG=json.dumps(task)) for task in tasks]
    assert ["next: " in finish(worker)[0] for worker in workers] == [True, False]
    bert = keras_bert.load(tmp_path / "model")
    logits = bert.model()(bert.preprocessor(16)((WORDS, OTHERS)))["logits"]
    (saved,) = tmp_path.glob("runs/*/dev.npz")
    np.testing.assert_allclose(np.load(saved)["wnli"], logits, atol=1e-4)
