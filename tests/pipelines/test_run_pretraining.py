"""The pre-training command, on an artificial language whose topics share no words."""

import itertools
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
from tests.pipelines.programs import (  # noqa: E402
    EAGERLY,
    call,
    flags_of,
    mistake,
    read_json,
    read_jsonl,
    run,
)

pytestmark = pytest.mark.tensorflow

PROGRAM = "pipelines.run_pretraining"

ENDS = "aeioubdg"
TOPICS = []  # Lists of words.
for FIRST in "bdfgklmnprst":
    TOPICS.append([FIRST + last for last in ENDS])
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *itertools.chain.from_iterable(TOPICS)]
SHARES = 1 / np.arange(1, 9) / np.sum(1 / np.arange(1, 9))  # Word frequencies within a topic.
CONFIG = {
    "vocab_size": len(PIECES),
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "hidden_act": "gelu",
    "max_position_embeddings": 32,
    "initializer_range": 0.05,
}
NO_DROPOUT = dict.fromkeys(["hidden_dropout_prob", "attention_probs_dropout_prob"], 0.0)
SMALL = {"hidden_size": 8, "num_attention_heads": 1, "intermediate_size": 8}


def write_text(path, documents, seed):
    """Writes documents of 12 sentences, with one topic each."""
    rng = np.random.default_rng(seed)
    texts = []
    for number in range(documents):
        topic = TOPICS[number % len(TOPICS)]
        sentences = []
        for _ in range(12):
            words = rng.choice(topic, rng.integers(4, 9), p=SHARES)
            sentences.append(" ".join(words))
        texts.append("\n".join(sentences))
    path.write_text("\n\n".join(texts) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def made(shared_folder):
    """A folder with several kinds of data, and models to start from."""
    return shared_folder("pretraining", fill)


def fill(made):
    made.mkdir()
    write_records(made)
    # Large weights, so that rounding errors are relatively small.
    exact = NO_DROPOUT | {"initializer_range": 0.2, "hidden_size": 32, "intermediate_size": 64}
    write_json(made / "config.json", CONFIG)
    write_json(made / "no_dropout.json", CONFIG | exact)
    write_json(made / "short.json", CONFIG | {"max_position_embeddings": 16})
    save_encoders(made)
    save_teacher(made)


def write_records(made):
    """Writes records of pre-training of several kinds."""
    text = write_text(made / "train.txt", 40, 0)
    held_out = write_text(made / "held_out.txt", 36, 1)
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


def write_json(path, content):
    path.write_text(json.dumps(content))


def small_encoder(causal=False, **changes):
    config = keras_bert.BertConfig(**(CONFIG | SMALL | changes))
    return keras_bert.build_encoder(config, causal=causal)


def save_encoders(made):
    """Saves models to start from, and some that do not fit the data."""
    reverse = [*PIECES[:5], *PIECES[:4:-1]]
    distilbert = small_encoder(type_vocab_size=0, pooler_activation="relu")
    keras_bert.save(small_encoder(), made / "encoder", PIECES)
    keras_bert.save(small_encoder(), made / "reverse", reverse)
    keras_bert.save(distilbert, made / "distilbert", PIECES)
    keras_bert.save(small_encoder(max_position_embeddings=15), made / "positions", None)
    keras_bert.save(small_encoder(vocab_size=100), made / "few", None)
    causal = keras_bert.build_pretrainer(small_encoder(causal=True), next_sentence=False)
    keras_bert.save(causal, made / "causal", PIECES)


def save_teacher(made):
    encoder = small_encoder(num_hidden_layers=2, **NO_DROPOUT)
    keras_bert.save(keras_bert.build_pretrainer(encoder), made / "teacher", PIECES)


def shard(folder):
    return folder / "examples-00001-of-00002.tfrecord"


def flags(made, output, **changes):
    """Returns the flags of a run of two steps, with changes; `None` omits a flag."""
    values = {
        "data": "{made}/16",
        "config": "{made}/config.json",
        "phases": "length:16,steps:2,batch:4",
        "seed": SEED,
        "output_dir": made / output,
    }
    return [flag.format(made=made) for flag in flags_of(values, **changes)]


def metrics(folder, kind=None):
    """Returns the lines of metrics.jsonl without timings."""
    lines = []
    for line in read_jsonl(folder / "metrics.jsonl"):
        line.pop("time", None)
        if kind in (None, line["kind"]):
            lines.append(line)
    return lines


def tensors(folder):
    return load_file(folder / "model.safetensors")


def snapshot(folder, step):
    """Returns all tensors of a snapshot."""
    place = folder / "snapshots" / f"step-{step:09}" / "variables"
    reader = tf.train.load_checkpoint(str(place))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def snapshot_settings(folder, step):
    return read_json(folder / "snapshots" / f"step-{step:09}" / "state.json")["settings"]


def assert_holds(model, stored):
    """Asserts that a model has the weights of a snapshot."""
    names = [name for name in stored if name.startswith("model/")]
    for weight in model.trainable_variables:
        (name,) = [name for name in names if name.endswith(f"/{weight.path}")]
        np.testing.assert_array_equal(to_numpy(weight), stored[name], err_msg=name)


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


BOTH = "{made}/16,{made}/32"
PHASES = ["length:16,steps:1,batch:31", "length:32,steps:3,batch:100"]
ONE_STEP = "length:16,steps:1,batch:4"
# Flags, and the start of the message.
WRONG_DATA = [
    (
        {"phases": "length:64,steps:2,batch:4", "data": BOTH},
        "--data: expected one folder for each length of a phase, [64]. Received: {made}/16 of length 16",
    ),
    (
        {"data": "{made}/other,{made}/32", "phases": PHASES},
        "--data: the folders have different vocabularies",
    ),
    ({"data": "{made}/rows"}, "{made}/rows: the records have no sentence pairs"),
    ({"eval_data": "{made}/other"}, "--eval_data: the vocabulary differs from that of --data"),
    (
        {"eval_data": "{made}/held_out", "config": "{made}/short.json"},
        "--config: expected at least 101 tokens and 32 positions. Received: vocab_size=101, max_position_embeddings=16",
    ),
    ({"causal": "true"}, "--causal: left-to-right models are trained without next sentence"),
    ({"model": "{made}/encoder"}, "expected either --config (new weights) or --model"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG_DATA)
def test_data_that_do_not_fit(made, changes, message):
    told = mistake(PROGRAM, *flags(made, "mistake", **changes))
    assert told.startswith(message.format(made=made))


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        ("reverse", {}, "--model: {made}/reverse has another vocabulary than --data"),
        ("few", {}, "--model: expected at least 101 tokens and 16 positions. Received: vocab_size=100"),
        ("positions", {}, "--phases: expected at most 15, the number of positions of {made}/positions"),
        (
            "encoder",
            {"causal": "true", "next_sentence": "false"},
            "--model: {made}/encoder is bidirectional. Received: --causal=true",
        ),
        ("causal", {}, "--model: {made}/causal is a left-to-right model. Received: --causal=false"),
        ("distilbert", {}, "--model: {made}/distilbert is of type distilbert, which has no next"),
    ],
)
def test_models_that_do_not_fit(made, model, changes, message):
    given = {"config": None, "model": made / model} | changes
    told = mistake(PROGRAM, *flags(made, "mistake", **given))
    assert told.startswith(message.format(made=made))


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        ("reverse", "has another vocabulary than --data"),
        ("causal", "is a left-to-right model. Received: --causal=false"),
        ("encoder", "has no masked-LM head. Expected a pre-trained model"),
    ],
)
def test_teachers_that_do_not_fit(made, teacher, message):
    told = mistake(PROGRAM, *flags(made, "mistake", teacher=made / teacher))
    assert told.startswith(f"--teacher: {made / teacher} {message}")


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
    changes = {
        "data": "{made}/rows",
        "next_sentence": "false",
        "causal": "true",
        "config": None,
        "model": "{made}/causal",
        "precision": "mixed_bfloat16",
        "remat": "true",
        "gradient_accumulation": 3,
        "optimizer": "lamb",
        "bias_correction": "true",
        "learning_rate": 0.25,
        "warmup": 0.5,
        "pack": "true",
    }
    found = stopped(*flags(made, "stopped", **changes))
    model = found["model"]
    optimizer = found["optimizer"].get_config()
    assert set(model.output) == {"mlm_logits"}
    block = model.get_layer("block_0")
    assert (block.remat, block.compute_dtype) == (True, "bfloat16")
    expected = keras_bert.load(made / "causal").pretrainer(next_sentence=False)
    for weight, value in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(weight), to_numpy(value))
    assert found["micro_batches"] == 3
    assert found["rewire"] is build_packed
    given = {
        "model": str(made / "causal"),
        "config": None,
        "causal": True,
        "precision": "mixed_bfloat16",
        "pack": True,
    }
    assert given.items() <= found["settings"].items()
    assert "fused" in optimizer  # Only LAMB has it.
    assert optimizer["bias_correction"]
    schedule = optimizer["learning_rate"]["config"]
    assert schedule == {"learning_rate": 0.25, "total_steps": 2, "warmup_steps": 1}


TWO_PHASES = {
    "data": BOTH,
    "config": "{made}/no_dropout.json",
    "phases": PHASES,
    "learning_rate": 3e-3,
    "warmup": 0.6,
    "eval_data": "{made}/held_out",
    "eval_examples": 50,
    "gradient_accumulation": 2,
    "save_every": 2,
}


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
    assert bert.vocabulary.pieces == tuple(PIECES)
    assert bert.lowercase
    assert bert.strip_accents is False
    assert_holds(bert.pretrainer(), snapshot(folder, 4))
    # Google's schedule over both phases: warmup over round(0.6 * 4) steps, then linear decay to 0.
    rates = [line["learning_rate"] for line in metrics(folder, "train")]
    assert rates == pytest.approx([0, 3e-3 / 2, 3e-3 / 2, 3e-3 / 4], rel=1e-5)
    settings = snapshot_settings(folder, 4)
    assert settings["config"]["hidden_size"] == 32
    assert settings["phases"][1]["batch"] == 100


@pytest.fixture
def page(said, made):
    """The report of the run with two phases."""
    text = (made / "two_phases" / "report.html").read_text()
    return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>"))


def test_the_next_commands(said, made):
    assert f"report:       {made}/two_phases/report.html\n" in said
    assert "next:         Fine-tunes it on your own table with the columns text and label.\n" in said


def test_the_curves_of_the_report(page):
    labels = [part.text for part in page.iter() if part.get("class") == "name"]
    curves = [label.split(" (")[0] for label in labels if label != "steps"]
    assert curves == [
        "masked LM loss",
        "next sentence loss",
        "masked LM accuracy",
        "next sentence accuracy",
        "learning rate",
    ]


def test_the_guesses_of_the_report(page):
    """Each row has a text, the token that was masked, and three guesses with their chances."""
    rows = page.find(".//table").find("tbody")
    assert len(rows) == 12
    right = 0
    for row in rows:
        text, token, *guesses = ["".join(cell.itertext()) for cell in row]
        assert "[MASK]" in text
        assert token in PIECES
        words = [guess.rpartition(" ")[0] for guess in guesses]
        chances = [int(guess.rpartition(" ")[2].rstrip("%")) for guess in guesses]
        assert len(chances) == 3
        assert chances == sorted(chances, reverse=True)
        right += words[0] == token
    assert f"The first is right in {right} of 12" in " ".join(page.itertext())


@pytest.fixture
def no_report():
    """Leaves out the report of a run, which another test checks."""
    with mock.patch("keras_bert.runs.pretraining_report.report") as report:
        yield report


@pytest.mark.usefixtures("eager")
def test_a_finished_run_is_extended(made, capsys, no_report):
    """See also the tests of `extended_schedule`."""
    folder = made / "extended"
    call(PROGRAM, *flags(made, "extended", phases=ONE_STEP, save_every=1))
    before = (folder / "flags.txt").read_text()
    phases = ["length:16,steps:2,batch:4", "length:16,steps:1,batch:8"]
    extended = flags(made, "extended", phases=phases, save_every=1, learning_rate=0.5)
    # The command that extends by this --flagfile can be repeated.
    no_report.configure_mock(side_effect=StopError("interrupted"))
    assert mistake(PROGRAM, *extended) == "interrupted"
    assert "the run is extended from step 1 to 3" in capsys.readouterr().err
    assert (folder / "flags.txt").read_text() == before
    no_report.configure_mock(side_effect=None)
    call(PROGRAM, *extended)
    assert re.findall("--phases=(.*)", (folder / "flags.txt").read_text()) == phases
    assert [line["step"] for line in metrics(folder)] == [1, 2, 3]
    schedule = snapshot_settings(folder, 2)["optimizer"]["learning_rate"]["config"]
    rates = [part["config"]["learning_rate"] for part in schedule["schedules"]]
    assert rates == [1e-4, 0.5]
    assert snapshot_settings(folder, 3)["optimizer"]["learning_rate"]["config"] == schedule


@pytest.fixture
def words(made, tmp_path):
    """Two files that add the same words, and the folder of data that have them."""
    (tmp_path / "words.txt").write_text("Salt\n\nda\n##zz\n")
    keras_bert.Vocabulary([*PIECES, "salt", "##zz"]).save(tmp_path / "extended.txt")
    return tmp_path


CREATE = "pipelines.create_pretraining_data"


@pytest.fixture
def extended_data(made, words):
    """The folder of data with the added words, and what its command printed."""
    given = creation(made, words / "one", vocabulary=made / "teacher" / "vocab.txt")
    printed = call(CREATE, *given, f"--add_words={words}/words.txt")
    return words / "one", printed


def creation(made, output, vocabulary):
    """Returns the flags that create data."""
    settings = {"shards": 1, "sequence_length": 16, "seed": 1, "strip_accents": "false"}
    return flags_of(settings, input=made / "train.txt", output_dir=output, vocabulary=vocabulary)


def test_added_words_in_the_data(made, words, extended_data):
    """A vocab.txt with the words gives the same data."""
    folder, printed = extended_data
    assert f"--model={made}/teacher " in printed
    assert keras_bert.Vocabulary(folder / "vocab.txt").pieces == (*PIECES, "salt", "##zz")
    call(CREATE, *creation(made, words / "two", vocabulary=words / "extended.txt"))
    first = (folder / "manifest.json").read_text()
    assert (words / "two" / "manifest.json").read_text() == first


@pytest.mark.usefixtures("eager", "no_report")
def test_added_words_in_the_model(made, words, extended_data):
    """The same file adds them; a vocab.txt that has them is such a file, too."""
    data, _ = extended_data
    start = {"data": data, "config": None, "model": "{made}/teacher", "phases": ONE_STEP}
    for file in ("words.txt", "extended.txt"):
        model = stopped(*flags(made, "stopped", **start, add_words=words / file))["model"]
        assert keras_bert.describe(model).config.vocab_size == 103
    told = mistake(PROGRAM, *flags(made, "mistake", **start))
    message = f"--model: {made}/teacher has another vocabulary than --data."
    assert told.startswith(message)
    assert "and with the same --" in told
    (words / "words.txt").write_text("\n")
    told = mistake(PROGRAM, *flags(made, "mistake", **start, add_words=words / "words.txt"))
    assert told == f"{words}/words.txt: the file is empty. Expected one word per line"


SAME = {"config": None, "save_every": 1, "phases": "length:16,steps:1,batch:8"}


@pytest.fixture(scope="module")
def undistilled(made):
    """The folder of a run that starts from the teacher."""
    with mock.patch("keras_bert.runs.pretraining_report.report"), eagerly():
        call(PROGRAM, *flags(made, "undistilled", **SAME, model="{made}/teacher"))
    return made / "undistilled"


@pytest.mark.usefixtures("eager", "no_report")
def test_distillation(made, undistilled):
    """A student that starts as its teacher loses nothing to it; the teacher is in no snapshot and no model."""
    call(PROGRAM, *flags(made, "distilled", **SAME, teacher="{made}/teacher", alpha=0.25))
    distilled = made / "distilled"
    (plain,) = metrics(undistilled)
    (line,) = metrics(distilled)
    assert line["mlm_loss"] == pytest.approx(0.75 * plain["mlm_loss"], rel=1e-5)
    assert line["nsp_loss"] == pytest.approx(0.75 * plain["nsp_loss"], rel=1e-5)
    assert snapshot(distilled, 1).keys() == snapshot(undistilled, 1).keys()
    assert tensors(distilled / "model").keys() == tensors(undistilled / "model").keys()
    settings = snapshot_settings(distilled, 1)
    teacher = keras_bert.load(made / "teacher").pretrainer()
    assert settings["teacher"] == f"{made}/teacher"
    assert settings["alpha"] == 0.25
    assert settings["temperature"] == 2.0
    assert settings["teacher_weights"] == weights_fingerprint(teacher)[:16]


@pytest.mark.usefixtures("eager")
def test_a_student_with_fewer_layers(made):
    given = flags(made, "student", config=None, teacher="{made}/teacher", student_layers=1)
    student = without_teacher(stopped(*given)["model"])
    assert keras_bert.describe(student).config.num_hidden_layers == 1


@pytest.mark.usefixtures("eager")
def test_a_run_remembers_the_model_and_the_data_that_it_started_from(made, undistilled):
    file = undistilled / "snapshots" / "origins.json"
    origins = read_json(file)
    teacher = keras_bert.load(made / "teacher")
    data = data_facts([Records(made / "16", batch_size=8)])
    assert origins == {f"{made}/teacher": teacher.identity} | data
    # With other data, the same command is refused.
    name = "the data of length 16"
    changed = origins | {name: origins[name] | {"content": "other"}}
    file.write_text(json.dumps(changed))
    told = mistake(PROGRAM, *flags(made, "undistilled", **SAME, model="{made}/teacher"))
    file.write_text(json.dumps(origins))
    expected = f"contains runs that started from another version of {name}. Different now: the content."
    assert told.startswith(f"{file.parent} {expected}")


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
    cut = made / "cut"
    whole = made / "two_phases"
    run(PROGRAM, *flags(made, "cut", **TWO_PHASES), before=EAGERLY + KILL, status=-signal.SIGKILL)
    assert sorted(path.name for path in (cut / "snapshots").glob("step-*")) == ["step-000000002"]
    assert len(metrics(cut)) < len(metrics(whole))
    # The model is from the snapshot.
    assert_holds(keras_bert.load(cut / "model").pretrainer(), snapshot(cut, 2))
    with eagerly():
        call(PROGRAM, f"--flagfile={cut}/flags.txt")
    assert metrics(cut) == metrics(whole)
    assert_equal(snapshot(cut, 4), snapshot(whole, 4))
    for file in (whole / "model").iterdir():
        assert (cut / "model" / file.name).read_bytes() == file.read_bytes()
    assert names_in(cut / "model") == names_in(whole / "model")
    left = {".lock"}  # Of the killed process.
    assert names_in(cut) - left == names_in(whole)


def names_in(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.kernels
@pytest.mark.slow
def test_pretraining_learns(made):
    """In 500 steps, the model learns to infer a word's topic from its neighbours, and that topics do not mix."""
    text = write_text(made / "much.txt", 120, 0)
    settings = Settings(32, strip_accents=False)
    generate(text, made / "much", PIECES, settings, workers=1)
    changes = {
        "data": "{made}/much",
        "phases": "length:32,steps:500,batch:32",
        "eval_data": "{made}/held_out",
        "learning_rate": 3e-3,
        "warmup": 0.2,
        "save_every": 500,
    }
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
        share = 1 - step / 500
        if step < 100:
            share = step / 100  # Warm-up.
        assert line["learning_rate"] == pytest.approx(3e-3 * share, abs=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_google_records(made):
    """Static masks and no manifest; without next sentence prediction, with LAMB in bfloat16."""
    changes = {
        "data": "{made}/static/*.tfrecord",
        "vocabulary": "{made}/16/vocab.txt",
        "lowercase": "false",
        "next_sentence": "false",
        "eval_data": "{made}/static/*.tfrecord",
        "eval_examples": 8,
        "optimizer": "lamb",
        "precision": "mixed_bfloat16",
    }
    call(PROGRAM, *flags(made, "static_run", **changes))
    found = tensors(made / "static_run" / "model")
    assert {value.dtype.name for value in found.values()} == {"float32"}
    assert not [tensor for tensor in found if "seq_relationship" in tensor]
    (line,) = metrics(made / "static_run", "evaluation")
    assert list(line) == ["step", "kind", "mlm_loss", "mlm_accuracy", "mlm_perplexity"]
    bert = keras_bert.load(made / "static_run" / "model")
    assert bert.vocabulary.pieces == tuple(PIECES)
    assert bert.lowercase is False
    with pytest.raises(ValueError, match=r"cls.seq_relationship.weight"):
        bert.pretrainer(next_sentence=True)
