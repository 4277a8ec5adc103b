"""The pre-training command, on an artificial language whose topics share no words."""

import json
import re
import shutil
import signal
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.special
import scipy.stats
from safetensors.numpy import load_file

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.pretraining.dataset import Records  # noqa: E402
from keras_bert.pretraining.example_builder import Settings  # noqa: E402
from keras_bert.pretraining.generation import generate  # noqa: E402
from keras_bert.rewirings.joined import without_teacher  # noqa: E402
from keras_bert.rewirings.trimmed import build_packed  # noqa: E402
from keras_bert.runs import pretraining  # noqa: E402
from keras_bert.runs.pretraining_records import data_facts  # noqa: E402
from keras_bert.training.evaluation import weights_fingerprint  # noqa: E402
from tests.conftest import SEED, eagerly, to_numpy  # noqa: E402
from tests.pipelines.programs import EAGERLY, call, flags_of, mistake, run  # noqa: E402

pytestmark = pytest.mark.tensorflow

PROGRAM = "pipelines.run_pretraining"

TOPICS = [[first + last for last in "aeioubdg"] for first in "bdfgklmnprst"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(word for words in TOPICS for word in words)]
SHARES = 1 / np.arange(1, 9) / np.sum(1 / np.arange(1, 9))  # Word frequencies within a topic.
CONFIG = {"vocab_size": len(PIECES), "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
CONFIG |= {"intermediate_size": 128, "hidden_act": "gelu", "max_position_embeddings": 32, "initializer_range": 0.05}
NO_DROPOUT = dict.fromkeys(["hidden_dropout_prob", "attention_probs_dropout_prob"], 0.0)
SMALL = {"hidden_size": 8, "num_attention_heads": 1, "intermediate_size": 8}


def write_text(path, documents, seed):
    """Writes documents of 12 sentences, with one topic each."""
    rng = np.random.default_rng(seed)
    texts = [
        "\n".join(" ".join(rng.choice(TOPICS[number % len(TOPICS)], rng.integers(4, 9), p=SHARES)) for _ in range(12))
        for number in range(documents)
    ]
    path.write_text("\n\n".join(texts) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def made(shared_folder):
    """A folder with several kinds of data, and models to start from."""
    return shared_folder("pretraining", fill)


def fill(made):
    made.mkdir()
    text, held_out = write_text(made / "train.txt", 40, 0), write_text(made / "held_out.txt", 36, 1)
    for name, file, pieces, settings in (
        ("16", text, PIECES, Settings(16, strip_accents=False)),
        ("32", text, PIECES, Settings(32, strip_accents=False)),
        ("rows", text, PIECES, Settings(16, next_sentence=False, lowercase=False)),
        ("static", text, PIECES, Settings(16, strip_accents=False, static=True)),
        ("held_out", held_out, PIECES, Settings(32, strip_accents=False)),
        ("other", held_out, [*PIECES, "other"], Settings(16, strip_accents=False)),
    ):
        generate(file, made / name, pieces, settings, shards=2, workers=1)
    (made / "static" / "manifest.json").unlink()  # Google's program does not write one.
    (made / "static" / "empty.tfrecord").touch()
    for name, changes in (
        ("config", {}),
        # Large weights, so that rounding errors are relatively small.
        ("no_dropout", {**NO_DROPOUT, "initializer_range": 0.2, "hidden_size": 32, "intermediate_size": 64}),
        ("short", {"max_position_embeddings": 16}),
    ):
        (made / f"{name}.json").write_text(json.dumps({**CONFIG, **changes}))
    for name, changes, pieces, causal in (
        ("encoder", {}, PIECES, False),
        ("positions", {"max_position_embeddings": 15}, None, False),
        ("few", {"vocab_size": 100}, None, False),
        ("reverse", {}, [*PIECES[:5], *PIECES[:4:-1]], False),
        ("causal", {}, PIECES, True),
        ("distilbert", {"type_vocab_size": 0, "pooler_activation": "relu"}, PIECES, False),
    ):
        model = keras_bert.build_encoder(keras_bert.BertConfig(**{**CONFIG, **SMALL, **changes}), causal=causal)
        if causal:
            model = keras_bert.build_pretrainer(model, next_sentence=False)
        keras_bert.save(model, made / name, pieces)
    for name, next_sentence in (("teacher", True), ("without_nsp", False)):
        config = keras_bert.BertConfig(**{**CONFIG, **SMALL, **NO_DROPOUT, "num_hidden_layers": 2})
        model = keras_bert.build_pretrainer(keras_bert.build_encoder(config), next_sentence)
        keras_bert.save(model, made / name, PIECES)


def shard(folder):
    return folder / "examples-00001-of-00002.tfrecord"


def flags(made, output, **changes):
    """Returns the flags of a run of two steps, with changes; `None` omits a flag."""
    values = {"data": "{made}/16", "config": "{made}/config.json", "phases": "length:16,steps:2,batch:4", "seed": SEED}
    return [flag.format(made=made) for flag in flags_of(values, **{"output_dir": made / output, **changes})]


def metrics(folder, kind=None):
    """Returns the lines of metrics.jsonl without timings."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [dict(part for part in line.items() if part[0] != "time") for line in lines if kind in (None, line["kind"])]


def tensors(folder):
    return load_file(folder / "model.safetensors")


def snapshot(folder, step):
    """Returns all tensors of a snapshot."""
    reader = tf.train.load_checkpoint(str(folder / "snapshots" / f"step-{step:09}" / "variables"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def snapshot_settings(folder, step):
    return json.loads((folder / "snapshots" / f"step-{step:09}" / "state.json").read_text())["settings"]


def assert_holds(model, stored):
    """Asserts that a model has the weights of a snapshot."""
    for weight in model.trainable_variables:
        (name,) = [name for name in stored if name.endswith(f"/{weight.path}") and name.startswith("model/")]
        np.testing.assert_array_equal(to_numpy(weight), stored[name], err_msg=name)


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


BOTH = "{made}/16,{made}/32"
PHASES = ["length:16,steps:1,batch:31", "length:32,steps:3,batch:100"]
ONE_STEP = "length:16,steps:1,batch:4"
SIZE = "expected at least 101 tokens and {} positions. Received: vocab_size={}, max_position_embeddings={}"
ONE_SOURCE = "--data: expected one folder for each length of a phase, [{}]. Received: {{made}}/16 of length 16, "
ONE_START = "expected either --config (new weights) or --model (weights to start from)"
# The start of each message, and the flags that cause it.
MISTAKES = [
    (ONE_SOURCE.format(64) + "{made}/32", {"phases": "length:64,steps:2,batch:4", "data": BOTH}),
    ("--causal: left-to-right models are trained without next sentence prediction. Add --next_", {"causal": "true"}),
    (ONE_START, {"model": "{made}/encoder"}),
    ("--data: the folders have different vocabularies.", {"data": "{made}/other,{made}/32", "phases": PHASES}),
    ("--eval_data: the vocabulary differs from that of --data. Expected the", {"eval_data": "{made}/other"}),
    ("--config: " + SIZE.format(32, 101, 16), {"eval_data": "{made}/held_out", "config": "{made}/short.json"}),
    ("{made}/rows: the records have no sentence pairs. Add --next_sentence=false", {"data": "{made}/rows"}),
]
# The same for models to start from.
WRONG_STARTS = [
    ("--model: {made}/reverse has another vocabulary than --data. Create the data with it", "reverse", {}),
    ("--model: " + SIZE.format(16, 100, 32), "few", {}),
    ("--phases: expected at most 15, the number of positions of {made}/positions. Received: 16", "positions", {}),
    (
        "--model: {made}/encoder is bidirectional. Received: --causal=true",
        "encoder",
        {"causal": "true", "next_sentence": "false"},
    ),
    ("--model: {made}/causal is a left-to-right model. Received: --causal=false", "causal", {}),
    ("--model: {made}/distilbert is of type distilbert, which has no next sentence pred", "distilbert", {}),
]
MISTAKES += [(message, {"config": None, "model": "{made}/" + name, **more}) for message, name, more in WRONG_STARTS]
# The same for teachers.
WRONG_TEACHERS = [
    ("--teacher: {made}/reverse has another vocabulary than --data. Create the data with it", "reverse"),
    ("--teacher: {made}/causal is a left-to-right model. Received: --causal=false", "causal"),
    ("--teacher: {made}/encoder has no masked-LM head. Expected a pre-trained model", "encoder"),
]
MISTAKES += [(message, {"teacher": "{made}/" + name}) for message, name in WRONG_TEACHERS]


def test_user_errors(made):
    for message, changes in MISTAKES:
        told = mistake(PROGRAM, *flags(made, "mistake", **changes))
        assert told.startswith(message.format(made=made)), told


class StopError(ValueError):
    """Stops a run before training."""


def stopped(*given):
    """Returns the model, the optimizer and the options of a run, which ends before its training."""
    found = {}

    def stop(model_fn, optimizer_fn, *_, **options):
        model = model_fn()
        found.update(options, model=model, optimizer=optimizer_fn(model))
        raise StopError("before the training")

    with mock.patch.object(pretraining, "Trainer", stop):
        assert mistake(PROGRAM, *given) == "before the training"
    return found


def test_flags_configure_model_and_optimizer(made):
    """A warm start uses the checkpoint's weights, and the precision and optimizer of the flags."""
    changes = {"data": "{made}/rows", "next_sentence": "false", "causal": "true", "config": None, "warmup": 0.5}
    changes |= {"model": "{made}/causal", "precision": "mixed_bfloat16", "remat": "true", "gradient_accumulation": 3}
    changes |= {"optimizer": "lamb", "bias_correction": "true", "learning_rate": 0.25, "pack": "true"}
    found = stopped(*flags(made, "stopped", **changes))
    model = found["model"]
    optimizer = found["optimizer"].get_config()
    assert set(model.output) == {"mlm_logits"}
    block = model.get_layer("block_0")
    assert (block.remat, block.compute_dtype) == (True, "bfloat16")
    expected = keras_bert.load(made / "causal").pretrainer(next_sentence=False)
    for weight, value in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(weight), to_numpy(value))
    assert (found["micro_batches"], found["rewire"]) == (3, build_packed)
    given = {"model": str(made / "causal"), "config": None, "causal": True, "precision": "mixed_bfloat16", "pack": True}
    assert given.items() <= found["settings"].items()
    assert "fused" in optimizer  # Only LAMB has it.
    assert optimizer["bias_correction"]
    assert optimizer["learning_rate"]["config"] == {"learning_rate": 0.25, "total_steps": 2, "warmup_steps": 1}


TWO_PHASES = {"data": BOTH, "config": "{made}/no_dropout.json", "phases": PHASES, "learning_rate": 3e-3, "warmup": 0.6}
TWO_PHASES |= {"eval_data": "{made}/held_out", "eval_examples": 50, "gradient_accumulation": 2, "save_every": 2}


@pytest.fixture(scope="module")
def said(made, shared_folder):
    """The output of a run with two phases."""

    def fill(folder):
        folder.mkdir()
        with eagerly():
            printed = call(PROGRAM, *flags(made, "two_phases", **TWO_PHASES))
        (folder / "printed.txt").write_text(printed)

    return (shared_folder("pretraining_printed", fill) / "printed.txt").read_text()


def test_model_directory_and_learning_rate(said, made):
    folder = made / "two_phases"
    assert f"\nmodel:        {folder}/model\n" in said
    bert = keras_bert.load(folder / "model")
    assert (bert.vocabulary.pieces, bert.lowercase, bert.strip_accents) == (tuple(PIECES), True, False)
    assert_holds(bert.pretrainer(), snapshot(folder, 4))
    # Google's schedule over both phases: warmup over round(0.6 * 4) steps, then linear decay to 0.
    lines = metrics(folder, "train")
    rates = [3e-3 * (step / 2 if step < 2 else 1 - step / 4) for step in range(4)]
    assert [line["learning_rate"] for line in lines] == pytest.approx(rates, rel=1e-5)
    settings = snapshot_settings(folder, 4)
    assert (settings["config"]["hidden_size"], settings["phases"][1]["batch"]) == (32, 100)


def test_the_report_and_the_next_commands(said, made):
    folder = made / "two_phases"
    assert f"report:       {folder}/report.html\n" in said
    assert "next:         Fine-tunes it on your own table with the columns text and label.\n" in said
    page = ElementTree.fromstring((folder / "report.html").read_text().removeprefix("<!DOCTYPE html>"))
    names = [text.text for text in page.iter() if text.get("class") == "name" and text.text != "steps"]
    scores = [f"{part} {score}" for score in ("loss", "accuracy") for part in ("masked LM", "next sentence")]
    assert [name.split(" (")[0] for name in names] == [*scores, "learning rate"]
    table = page.find(".//table")
    cells = [["".join(cell.itertext()) for cell in row] for row in table.find("tbody")]
    assert len(cells) == 12
    for text, token, *guesses in cells:
        assert "[MASK]" in text
        assert token in PIECES
        chances = [int(guess.rpartition(" ")[2].rstrip("%")) for guess in guesses]
        assert len(guesses) == 3
        assert chances == sorted(chances, reverse=True)
    said_right = int(re.search(r"The first is right in (\d+) of 12", " ".join(page.itertext()))[1])
    assert said_right == sum(guesses[0].rpartition(" ")[0] == token for _, token, *guesses in cells)


@pytest.fixture
def no_report():
    """Leaves out the report of a run, which another test checks."""
    with mock.patch("keras_bert.runs.pretraining_report.report") as report:
        yield report


@pytest.mark.usefixtures("eager")
def test_a_finished_run_is_extended(made, capsys, no_report):
    """See also the tests of `extended_schedule`."""
    folder = made / "extended"
    first = {"phases": ONE_STEP, "save_every": 1}
    call(PROGRAM, *flags(made, "extended", **first))
    more = {**first, "phases": ["length:16,steps:2,batch:4", "length:16,steps:1,batch:8"], "learning_rate": 0.5}
    before = (folder / "flags.txt").read_text()
    no_report.side_effect = StopError("interrupted")
    assert mistake(PROGRAM, *flags(made, "extended", **more)) == "interrupted"
    assert "the run is extended from step 1 to 3" in capsys.readouterr().err
    assert (folder / "flags.txt").read_text() == before  # The command that extends by this --flagfile can be repeated.
    no_report.side_effect = None
    call(PROGRAM, *flags(made, "extended", **more))
    assert re.findall("--phases=(.*)", (folder / "flags.txt").read_text()) == more["phases"]
    assert [line["step"] for line in metrics(folder)] == [1, 2, 3]
    rates = [snapshot_settings(folder, step)["optimizer"]["learning_rate"]["config"] for step in (2, 3)]
    assert rates[0] == rates[1]
    assert [part["config"]["learning_rate"] for part in rates[0]["schedules"]] == [1e-4, 0.5]


@pytest.mark.usefixtures("eager")
def test_added_words(made, tmp_path, no_report):
    """The same file adds them to the data and to the model; a vocab.txt that has them is such a file too."""
    (tmp_path / "words.txt").write_text("Salt\n\nda\n##zz\n")
    extended = [*PIECES, "salt", "##zz"]
    keras_bert.Vocabulary(extended).save(tmp_path / "extended.txt")
    create = {"input": made / "train.txt", "shards": 1, "sequence_length": 16, "seed": 1, "strip_accents": "false"}
    words = {"vocabulary": made / "teacher" / "vocab.txt", "add_words": tmp_path / "words.txt"}
    printed = call("pipelines.create_pretraining_data", *flags_of(create, **words, output_dir=tmp_path / "one"))
    assert f"--model={made}/teacher " in printed
    files = {"vocabulary": tmp_path / "extended.txt", "output_dir": tmp_path / "two"}
    call("pipelines.create_pretraining_data", *flags_of(create, **files))
    first, second = ((tmp_path / name / "manifest.json").read_text() for name in ("one", "two"))
    assert first == second
    start = {"data": tmp_path / "one", "config": None, "model": "{made}/teacher", "phases": ONE_STEP}
    assert keras_bert.Vocabulary(tmp_path / "one" / "vocab.txt").pieces == tuple(extended)  # That of the model, too.
    for file in ("words.txt", "extended.txt"):
        model = stopped(*flags(made, "stopped", **start, add_words=tmp_path / file))["model"]
        assert keras_bert.describe(model).config.vocab_size == 103
    (tmp_path / "words.txt").write_text("\n")
    told = mistake(PROGRAM, *flags(made, "mistake", **start, add_words=tmp_path / "words.txt"))
    assert told == f"{tmp_path}/words.txt: the file is empty. Expected one word per line"
    message = (
        f"--model: {made}/teacher has another vocabulary than --data. Create the data with it, and with the same --"
    )
    assert mistake(PROGRAM, *flags(made, "mistake", **start)).startswith(message)


@pytest.mark.usefixtures("eager")
def test_distillation_and_what_a_run_started_from(made, no_report):
    """A student that starts as its teacher loses nothing to it; the teacher is in no snapshot and no model."""
    same = {"config": None, "save_every": 1, "phases": "length:16,steps:1,batch:8"}
    given = flags(made, "undistilled", **same, model="{made}/teacher")
    call(PROGRAM, *given)
    call(PROGRAM, *flags(made, "distilled", **same, teacher="{made}/teacher", alpha=0.25))
    (plain,), (line,) = metrics(made / "undistilled"), metrics(made / "distilled")
    for name in ("mlm_loss", "nsp_loss"):
        assert line[name] == pytest.approx(0.75 * plain[name], rel=1e-5)
    found, expected = (snapshot(made / name, 1) for name in ("distilled", "undistilled"))
    assert found.keys() == expected.keys()
    assert tensors(made / "distilled" / "model").keys() == tensors(made / "undistilled" / "model").keys()
    settings = snapshot_settings(made / "distilled", 1)
    teacher = keras_bert.load(made / "teacher")
    assert (settings["teacher"], settings["alpha"], settings["temperature"]) == (f"{made}/teacher", 0.25, 2.0)
    assert settings["teacher_weights"] == weights_fingerprint(teacher.pretrainer())[:16]
    student = stopped(*flags(made, "student", config=None, teacher="{made}/teacher", student_layers=1))["model"]
    assert keras_bert.describe(without_teacher(student)).config.num_hidden_layers == 1
    # A run remembers the model and the data that it started from.
    file = made / "undistilled" / "snapshots" / "origins.json"
    origins = json.loads(file.read_text())
    data = "the data of length 16"
    assert origins == {f"{made}/teacher": teacher.identity, **data_facts([Records(made / "16", batch_size=8)])}
    file.write_text(json.dumps({**origins, data: {**origins[data], "content": "other"}}))
    message = f"{file.parent} contains runs that started from another version of {data}. Different now: the content."
    assert mistake(PROGRAM, *given).startswith(message)


def test_changed_data_are_found(made, tmp_path):
    data = shutil.copytree(made / "16", tmp_path / "data")
    before = data_facts([Records(data, batch_size=8)])
    content = shard(data).read_bytes()
    shard(data).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert data_facts([Records(data, batch_size=8)]) != before


KILL = """
import os, signal, keras_bert
evaluate, calls = keras_bert.Trainer.evaluate_with_outputs, []
def killed(self, batches):
    calls.append(1)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return evaluate(self, batches)
keras_bert.Trainer.evaluate_with_outputs = killed
"""


@pytest.mark.slow
@pytest.mark.usefixtures("said")
def test_killed_runs_resume_exactly(made):
    """A process is killed in the second phase, two steps after the last snapshot."""
    cut, whole = made / "cut", made / "two_phases"
    run(PROGRAM, *flags(made, "cut", **TWO_PHASES), before=EAGERLY + KILL, status=-signal.SIGKILL)
    assert sorted(path.name for path in (cut / "snapshots").glob("step-*")) == ["step-000000002"]
    assert len(metrics(cut)) < len(metrics(whole))
    assert_holds(keras_bert.load(cut / "model").pretrainer(), snapshot(cut, 2))  # The model is from the snapshot.
    with eagerly():
        call(PROGRAM, f"--flagfile={cut}/flags.txt")
    assert metrics(cut) == metrics(whole)
    assert_equal(snapshot(cut, 4), snapshot(whole, 4))
    files = {path.name: path.read_bytes() for path in (whole / "model").iterdir()}
    assert {path.name: path.read_bytes() for path in (cut / "model").iterdir()} == files
    left = {".lock"}  # Of the killed process.
    assert {path.name for path in cut.iterdir()} - left == {path.name for path in whole.iterdir()}


@pytest.mark.kernels
@pytest.mark.slow
def test_pretraining_learns(made):
    """In 500 steps, the model learns to infer a word's topic from its neighbours, and that topics do not mix."""
    generate(write_text(made / "much.txt", 120, 0), made / "much", PIECES, Settings(32, strip_accents=False), workers=1)
    changes = {"data": "{made}/much", "phases": "length:32,steps:500,batch:32", "eval_data": "{made}/held_out"}
    changes |= {"learning_rate": 3e-3, "warmup": 0.2, "save_every": 500}
    call(PROGRAM, *flags(made, "learns", **changes))
    (line,) = metrics(made / "learns", "evaluation")
    counts = np.unique((made / "much.txt").read_text().split(), return_counts=True)[1]
    shares = counts / counts.sum()
    assert shares.max() < 0.04
    assert line["mlm_accuracy"] > 7 * shares.max()
    assert line["mlm_loss"] < scipy.stats.entropy(shares) - 2
    assert line["nsp_accuracy"] > 0.8
    for line in metrics(made / "learns", "train"):
        step = line["step"] - 1
        assert line["learning_rate"] == pytest.approx(3e-3 * (step / 100 if step < 100 else 1 - step / 500), abs=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_google_records(made):
    """Static masks and no manifest; without next sentence prediction, with LAMB in bfloat16."""
    changes = {"data": "{made}/static/*.tfrecord", "vocabulary": "{made}/16/vocab.txt", "lowercase": "false"}
    changes |= {"next_sentence": "false", "eval_data": "{made}/static/*.tfrecord", "eval_examples": 8}
    call(PROGRAM, *flags(made, "static_run", **changes, optimizer="lamb", precision="mixed_bfloat16"))
    found = tensors(made / "static_run" / "model")
    assert {value.dtype.name for value in found.values()} == {"float32"}
    assert not [tensor for tensor in found if "seq_relationship" in tensor]
    assert [list(line) for line in metrics(made / "static_run", "evaluation")] == [
        ["step", "kind", "mlm_loss", "mlm_accuracy", "mlm_perplexity"]
    ]
    bert = keras_bert.load(made / "static_run" / "model")
    assert (bert.vocabulary.pieces, bert.lowercase) == (tuple(PIECES), False)
    with pytest.raises(ValueError, match=r"the checkpoint lacks 2 tensor\(s\): cls.seq_relationship.weight"):
        bert.pretrainer(next_sentence=True)
