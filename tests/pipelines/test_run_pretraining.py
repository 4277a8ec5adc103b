"""Pre-training as a user runs it, in a language whose topics share no word."""

import functools
import json
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.pretraining.dataset import Records  # noqa: E402
from keras_bert.pretraining.generate import generate  # noqa: E402
from keras_bert.pretraining.settings import Settings  # noqa: E402
from keras_bert.training import losses  # noqa: E402
from keras_bert.training.input_pipeline import Phases  # noqa: E402
from keras_bert.training.trainer import TERMINATED, Trainer  # noqa: E402
from tests.conftest import to_numpy  # noqa: E402
from tests.pipelines.programs import finish, run_here, start  # noqa: E402

pytestmark = pytest.mark.tensorflow

PROGRAM = "pipelines.run_pretraining"

TOPICS = [[first + last for last in "aeioubdg"] for first in "bdfgklmnprst"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(word for words in TOPICS for word in words)]
SHARES = 1 / np.arange(1, 9) / np.sum(1 / np.arange(1, 9))  # Of the words of a topic.
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


def write_text(path, documents, seed):
    """Documents of 12 sentences, each of one topic."""
    rng = np.random.default_rng(seed)
    texts = [
        "\n".join(" ".join(rng.choice(TOPICS[number % len(TOPICS)], rng.integers(4, 9), p=SHARES)) for _ in range(12))
        for number in range(documents)
    ]
    path.write_text("\n\n".join(texts) + "\n")
    return str(path)


def write_config(path, **changes):
    path.write_text(json.dumps({**CONFIG, **changes}))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Data of several kinds, and models to start from."""
    made = tmp_path_factory.mktemp("made")
    text, held_out = write_text(made / "train.txt", 120, 0), write_text(made / "held_out.txt", 36, 1)
    recipes = {
        "16": Settings(16, strip_accents=False),
        "32": Settings(32, strip_accents=False),
        "rows": Settings(16, next_sentence=False, lowercase=False),
        "static": Settings(16, static=True),
    }
    for name, recipe in recipes.items():
        generate(text, made / name, PIECES, recipe, shards=2, workers=1)
    generate(held_out, made / "held_out", PIECES, Settings(32), shards=2, workers=1)
    generate(held_out, made / "other", [*PIECES, "other"], Settings(16), shards=2, workers=1)
    (made / "cut.tfrecord").write_bytes(shard(made / "16").read_bytes()[:-5])
    shutil.copytree(made / "16", made / "damaged")
    content = bytearray(shard(made / "damaged").read_bytes())
    content[len(content) // 2] ^= 1
    shard(made / "damaged").write_bytes(content)
    shutil.copytree(made / "static", made / "googles_records", ignore=shutil.ignore_patterns("manifest.json"))
    (made / "googles_records" / "empty.tfrecord").touch()
    write_config(made / "config.json")
    # Weights so large that rounding is small.
    write_config(made / "no_dropout.json", **NO_DROPOUT, initializer_range=0.2, hidden_size=32, intermediate_size=64)
    write_config(made / "two_layers.json", num_hidden_layers=2)
    write_config(made / "short.json", max_position_embeddings=16)
    small = {"hidden_size": 8, "num_attention_heads": 1, "intermediate_size": 8}
    for name, changes, pieces in (
        ("encoder", {}, PIECES),
        ("positions", {"max_position_embeddings": 15}, None),
        ("few", {"vocab_size": 100}, None),
        ("reverse", {}, [*PIECES[:5], *PIECES[:4:-1]]),
    ):
        config = keras_bert.BertConfig(**{**CONFIG, **small, **changes})
        keras_bert.save(keras_bert.build_encoder(config), made / "models" / name, pieces)
    keras_bert.save(keras_bert.build_encoder(config, causal=True), made / "models" / "causal", PIECES)
    return made


def shard(folder):
    return folder / "examples-00001-of-00002.tfrecord"


def flags(made, output, **changes):
    """The flags of a run of two steps with changes; `None` leaves one out."""
    values = {
        "data": "{made}/16",
        "config": "{made}/config.json",
        "phase": "length:16,steps:2,batch:4",
        "output_dir": str(made / output),
        **changes,
    }
    return [
        f"--{name}={value}".format(made=made)
        for name, given in values.items()
        for value in (given if isinstance(given, list) else [given])
        if value is not None
    ]


def metrics(folder, kind=None):
    """metrics.jsonl without what depends on the speed."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in line.items() if name != "time"}
        for line in lines
        if kind in (None, line["kind"])
    ]


def tensors(folder):
    return load_file(folder / "model.safetensors")


def snapshot(folder, step):
    """All that a snapshot holds."""
    reader = tf.train.load_checkpoint(str(folder / "snapshots" / f"step-{step:09}" / "variables"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def assert_holds(model, stored):
    """That a model has the weights of a snapshot."""
    for weight in model.trainable_variables:
        (name,) = [name for name in stored if name.endswith(f"/{weight.path}") and name.startswith("model/")]
        np.testing.assert_array_equal(to_numpy(weight), stored[name], err_msg=name)


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def assert_close(found, expected):
    """To 1e-5; Adam blows up the key biases, whose gradient is rounding alone."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        bound = 1e-2 if "key.bias" in name else 1e-5 * max(np.abs(value).max(), 1e-2)
        np.testing.assert_allclose(found[name], value, rtol=0, atol=bound, err_msg=name)


BOTH = "{made}/16,{made}/32"
PHASES = ["length:16,steps:20,batch:31", "length:32,steps:15,batch:100"]
MODELS = "{made}/models/"


def of_model(name, **more):
    return {"config": None, "model": MODELS + name, **more}


# Names of what is wrong; the flags; the beginning of the line.
MISTAKES = {
    "no phase": (
        {"phase": "128x1000"},
        "--phase must look like length:128,steps:90000,batch:256. Received: '128x1000'",
    ),
    "no steps": (
        {"phase": "length:16,steps:0,batch:4"},
        "--phase must look like length:128,steps:90000,batch:256. Rec",
    ),
    "length": (
        {"phase": "length:64,steps:2,batch:4", "data": BOTH},
        "--data: expected one source for each length of a --phase, [64]. Received: {made}/16 of length 16, {made}/32",
    ),
    "two of a length": (
        {"data": "{made}/16,{made}/16"},
        "--data: expected one source for each length of a --phase, [16]. Received: {made}/16 of length 16, {made}/16",
    ),
    "causal pairs": (
        {"causal": "true"},
        "--causal: [CLS] sees nothing on its right, so B cannot be judged. Add --next_sentence=false",
    ),
    "config and model": (
        {"model": MODELS + "encoder"},
        "expected either --config or --model: a size to begin with, or weights to go on from",
    ),
    "neither": (
        {"config": None},
        "expected either --config or --model: a size to begin with, or weights to go on from",
    ),
    "vocabularies": (
        {"data": "{made}/other,{made}/32", "phase": PHASES},
        "--data: the sources have different vocabularies. Expected the same one",
    ),
    "eval_data": (
        {"eval_data": "{made}/other"},
        "--eval_data: has another vocabulary than --data. Expected the same one",
    ),
    "vocabulary of the model": (
        of_model("reverse"),
        "--model: {made}/models/reverse has another vocabulary than --data. Make the data with its own",
    ),
    "pieces of the model": (
        of_model("few"),
        "--model: expected at least 101 pieces and 16 positions. Received: vocab_size=100, max_position_embeddings=32",
    ),
    "positions of the model": (
        of_model("positions"),
        "--model: expected at least 101 pieces and 16 positions. Received: vocab_size=101, max_position_embeddings=15",
    ),
    "positions of a phase": (
        {"data": BOTH, "phase": PHASES, "config": "{made}/short.json"},
        "--config: expected at least 101 pieces and 32 positions. Received: vocab_size=101, max_position_embeddings=16",
    ),
    "positions of eval_data": (
        {"eval_data": "{made}/held_out", "config": "{made}/short.json"},
        "--config: expected at least 101 pieces and 32 positions. Received: vocab_size=101, max_position_embeddings=16",
    ),
    "a model of both sides": (
        of_model("encoder", causal="true", next_sentence="false"),
        "--model: {made}/models/encoder sees both sides. Received: --causal=true",
    ),
    "a left-to-right model": (
        of_model("causal"),
        "--model: {made}/models/causal is a left-to-right model. Received: --causal=false",
    ),
    "an encoder alone": (
        of_model("encoder"),
        "{made}/models/encoder: the checkpoint lacks 7 tensor(s): cls.predictions.transform.dense.weight",
    ),
    "no pairs": (
        {"data": "{made}/rows"},
        "{made}/rows: was made without sentence pairs. Train it by --next_sentence=false",
    ),
    "cut": (
        {"data": "{made}/cut.tfrecord", "vocab": "{made}/16/vocab.txt"},
        "{made}/cut.tfrecord: the record after ",
    ),
    "warmup": ({"warmup": 1.5}, "flag --warmup=1.5: 1.5 is not a number in the range [0, 1]"),
    "no output_dir": (
        {"output_dir": None},
        "flag --output_dir=None: Flag --output_dir must have a value other than None",
    ),
}
TWO_PHASES = {
    "data": BOTH,
    "config": "{made}/no_dropout.json",
    "phase": PHASES,
    "eval_data": "{made}/held_out",
    "eval_examples": 50,
    "learning_rate": 3e-3,
    "warmup": 0.8,
    "gradient_accumulation": 2,
    "save_every": 8,
}


def error_line(errors):
    (line,) = [line for line in errors.splitlines() if line.startswith("error:")]
    return line


@pytest.mark.parametrize("name", MISTAKES)
def test_a_users_mistake_is_one_line_and_status_2(made, name):
    changes, message = MISTAKES[name]
    _, errors = run_here(PROGRAM, *flags(made, "mistake", **changes), status=2)
    assert error_line(errors).startswith(f"error: {message}".format(made=made))


@pytest.fixture(scope="module")
def said(made):
    """What the run of two phases says."""
    return finish(start(PROGRAM, *flags(made, "two_phases", **TWO_PHASES)))[0]


@pytest.fixture(scope="module")
def two_phases(said, made):
    assert said.endswith(f"the model is in {made}/two_phases/model\n")
    return made / "two_phases"


def held_out_numbers(model, records):
    """Losses and shares over the records, from the logits, in NumPy: filler rows left out."""
    parts = []
    for inputs, targets, rows in records.dataset().as_numpy_iterator():
        outputs = {name: to_numpy(value) for name, value in model(inputs, training=False).items()}
        real = rows > 0
        logits, labels = outputs["mlm_logits"][real], targets["mask_labels"][real]
        weights = targets["mask_weights"][real]
        nsp, is_random = outputs["nsp_logits"][real], targets["next_sentence_labels"][real]
        log_sums = np.log(np.exp(logits.astype(float)).sum(-1))
        losses = log_sums - np.take_along_axis(logits, labels[..., None], -1)[..., 0]
        chances = np.exp(nsp) / np.exp(nsp).sum(-1, keepdims=True)
        nsp_losses = -np.log(chances[np.arange(len(nsp)), is_random])
        rights = (logits.argmax(-1) == labels) * weights
        parts.append(
            [(losses * weights).sum(), rights.sum(), weights.sum()]
            + [nsp_losses.sum(), (nsp.argmax(-1) == is_random).sum(), real.sum()]
        )
    loss, right, count, nsp_loss, nsp_right, rows = np.sum(parts, 0)
    return {
        "mlm_loss": loss / count,
        "nsp_loss": nsp_loss / rows,
        "mlm_accuracy": right / count,
        "mlm_perplexity": np.exp(loss / count),
        "nsp_accuracy": nsp_right / rows,
    }, rows


def test_evaluation_equals_numpy(said, two_phases, made):
    records = Records(made / "held_out", batch_size=31, shuffle=False, limit=50)
    expected, rows = held_out_numbers(keras_bert.load(two_phases / "model").pretrainer(), records)
    assert rows == 50  # And 12 rows that fill up.
    lines = metrics(two_phases, "evaluation")
    assert [line["step"] for line in lines] == [8, 16, 24, 32, 35]
    for name, value in expected.items():
        assert lines[-1][name] == pytest.approx(value, rel=1e-5), name
        assert f"{name} {lines[-1][name]:.4f}" in said


def test_the_model_directory(two_phases):
    bert = keras_bert.load(two_phases / "model")
    assert (bert.vocabulary.pieces, bert.lowercase, bert.strip_accents) == (tuple(PIECES), True, False)
    assert_holds(bert.pretrainer(), snapshot(two_phases, 35))


def test_learning_rates_over_both_phases(two_phases):
    """Google's schedule: up over 28 of the 35 steps, then along the line to 0. The line has that of its last step."""
    (line,) = metrics(two_phases, "train")
    assert line["step"] == 35
    assert line["learning_rate"] == pytest.approx(3e-3 * (1 - 34 / 35), rel=1e-5)


def test_googles_training(golden, tmp_path):
    """Twelve steps of Google's program, from records under its names, in two phases: all losses, the weights."""
    folder = golden / "google_tf1_training"
    data = dict(np.load(folder / "golden.npz"))
    for name, steps in (("first", slice(0, 5)), ("second", slice(5, 12))):
        write_googles_records(
            tmp_path / f"{name}.tfrecord", {key: value[steps] for key, value in per_step(data).items()}
        )
    pieces = PIECES[:61]
    sources = [
        Records(tmp_path / f"{name}.tfrecord", pieces, batch_size=4, shuffle=False) for name in ("first", "second")
    ]
    assert [(source.steps, source.static, source.sequence_length) for source in sources] == [
        (5, True, 16),
        (7, True, 16),
    ]
    schedule = [data[name].item() for name in ("learning_rate", "total_steps", "warmup_steps")]
    trainer = Trainer(
        lambda: keras_bert.load(folder).pretrainer(),
        lambda model: keras_bert.create_optimizer(model, *schedule, bias_correction=False),
        losses.pretraining_losses(),
        directory=tmp_path / "run",
    )
    trainer.fit(Phases([(sources[0], 5), (sources[1], 7)]), log_every=1)
    lines = metrics(tmp_path / "run")
    for name in ("mlm_loss", "nsp_loss"):
        np.testing.assert_allclose([line[name] for line in lines], data[name], atol=1e-4)
    np.testing.assert_allclose([line["mlm_loss"] + line["nsp_loss"] for line in lines], data["loss"], atol=1e-4)
    rate, total, warmup = schedule
    rates = [rate * (step / warmup if step < warmup else 1 - step / total) for step in range(12)]
    np.testing.assert_allclose([line["learning_rate"] for line in lines], rates, rtol=1e-6)
    for path in [folder / "bert_config.json", *(folder / "after").iterdir()]:
        shutil.copy(path, tmp_path)
    after = {weight.path: to_numpy(weight) for weight in keras_bert.load(tmp_path).pretrainer().weights}
    for weight in trainer.model.trainable_variables:
        np.testing.assert_allclose(to_numpy(weight), after[weight.path], atol=1e-4, err_msg=weight.path)


def per_step(data):
    return {name: value for name, value in data.items() if value.ndim > 1}


def write_googles_records(path, batches):
    names = {
        "input_ids": "token_ids",
        "input_mask": "padding_mask",
        "segment_ids": "segment_ids",
        "masked_lm_positions": "mask_positions",
        "masked_lm_ids": "mask_labels",
        "masked_lm_weights": "mask_weights",
        "next_sentence_labels": "next_sentence_labels",
    }
    rows = {theirs: np.concatenate(batches[ours]) for theirs, ours in names.items()}
    with tf.io.TFRecordWriter(str(path)) as writer:
        for index in range(len(rows["input_ids"])):
            example = tf.train.Example()
            for name, values in rows.items():
                feature, row = example.features.feature[name], np.atleast_1d(values[index])
                (feature.float_list if row.dtype == np.float32 else feature.int64_list).value.extend(row)
            writer.write(example.SerializeToString())


@pytest.mark.slow
def test_two_workers_change_nothing(made, two_phases, two_addresses):
    """As command lines, in two phases, with accumulation and with an evaluation; batches cannot be divided by 4."""
    workers = []
    for index in range(2):
        config = json.dumps({"cluster": {"worker": two_addresses}, "task": {"type": "worker", "index": index}})
        workers.append(start(PROGRAM, *flags(made, "workers", **TWO_PHASES), TF_CONFIG=config))
    said = [finish(worker)[0] for worker in workers]
    assert ["the model is in" in out for out in said] == [True, False]
    for found, line in zip(metrics(made / "workers"), metrics(two_phases), strict=True):
        assert found.pop("kind") == line.pop("kind")
        assert found == pytest.approx(line, rel=1e-4)
    assert_close(tensors(made / "workers" / "model"), tensors(two_phases / "model"))


KILL = """
import os, signal, keras_bert
evaluate, calls = keras_bert.Trainer.evaluate, []
def killed(self, batches):
    calls.append(1)
    if len(calls) == {call}:
        os.kill(os.getpid(), signal.{signal})
    return evaluate(self, batches)
keras_bert.Trainer.evaluate = killed
"""


@pytest.mark.slow
def test_a_killed_run_ends_as_if_it_had_not_been(made, two_phases):
    """In the first phase by SIGTERM, in the second behind an epoch's end with 8 steps behind the last snapshot."""
    cut = made / "cut"
    given = flags(made, "cut", **TWO_PHASES)
    finish(start(PROGRAM, *given, before=KILL.format(call=1, signal="SIGTERM")), TERMINATED)
    assert steps_of(cut) == [8, 16]
    finish(start(PROGRAM, f"--flagfile={cut}/flags.txt", before=KILL.format(call=2, signal="SIGKILL")), -signal.SIGKILL)
    assert steps_of(cut) == [16, 24]
    assert len(metrics(cut)) < len(metrics(two_phases))
    assert_holds(keras_bert.load(cut / "model").pretrainer(), snapshot(cut, 24))  # The model is that of the snapshot.
    # A new interpreter: the order of a set must be of no account either.
    subprocess.run([sys.executable, "-m", PROGRAM, f"--flagfile={cut}/flags.txt"], check=True, capture_output=True)
    assert metrics(cut) == metrics(two_phases)
    assert_equal(snapshot(cut, 35), snapshot(two_phases, 35))
    files = {path.name: path.read_bytes() for path in (two_phases / "model").iterdir()}
    assert {path.name: path.read_bytes() for path in (cut / "model").iterdir()} == files
    assert {path.name for path in cut.iterdir()} == {path.name for path in two_phases.iterdir()}


def steps_of(folder):
    return sorted(int(path.name.removeprefix("step-")) for path in (folder / "snapshots").iterdir())


ONE_PHASE = {"phase": "length:16,steps:12,batch:32", "learning_rate": 3e-3, "warmup": 0.2, "save_every": 12}
ROWS = {"data": "{made}/rows", "next_sentence": "false"}
CAUSAL = {**ROWS, "causal": "true"}
AGAIN = {"phase": "length:16,steps:1,batch:4", "warmup": 1, "config": None}  # A step of rate 0.
PLAIN = {**ONE_PHASE, "config": "{made}/no_dropout.json"}
VARIATIONS = {
    "plain": PLAIN,
    "remat": {**PLAIN, "remat": "true"},
    "bfloat16": {**PLAIN, "precision": "mixed_bfloat16"},
    "rows": {**ONE_PHASE, **ROWS, "optimizer": "lamb", "bias_correction": "true"},
    "pairs": {**ONE_PHASE, "next_sentence": "false", "eval_data": "{made}/held_out"},
    "left_to_right": {**ONE_PHASE, **CAUSAL, "eval_data": "{made}/rows", "phase": "length:16,steps:40,batch:32"},
    "googles": {
        **ONE_PHASE,
        "data": "{made}/googles_records/*.tfrecord",
        "vocab": "{made}/16/vocab.txt",
        "lowercase": "false",
    },
    "warm": {**AGAIN, "model": "plain"},
    "warm_left_to_right": {**AGAIN, **CAUSAL, "model": "left_to_right"},
    "learns": {
        **ONE_PHASE,
        "data": "{made}/32",
        "config": "{made}/two_layers.json",
        "phase": "length:32,steps:300,batch:32",
        "eval_data": "{made}/held_out",
        "save_every": 300,
    },
}


@pytest.fixture(scope="module")
def trained(made):
    """A function from the name of a variation to its folder; each is run when it is first asked for."""

    @functools.cache
    def folder(name):
        changes = dict(VARIATIONS[name])
        if "model" in changes:
            changes["model"] = folder(changes["model"]) / "model"
        run_here(PROGRAM, *flags(made, name, **changes))
        return made / name

    return folder


@pytest.mark.slow
def test_it_learns(trained, made):
    """300 steps: it finds a word's topic in its neighbours, and that texts of two topics do not follow each other."""
    folder = trained("learns")
    (line,) = metrics(folder, "evaluation")
    words = [word for words in (made / "train.txt").read_text().split("\n") for word in words.split()]
    unigram = max(np.unique(words, return_counts=True)[1]) / len(words)
    assert unigram < 0.04
    assert line["mlm_accuracy"] > 7 * unigram
    counts = np.unique(words, return_counts=True)[1]
    entropy = -np.sum(counts / len(words) * np.log(counts / len(words)))
    assert line["mlm_loss"] < entropy - 2
    assert line["nsp_accuracy"] > 0.8
    for line in metrics(folder, "train"):
        step = line["step"] - 1
        assert line["learning_rate"] == pytest.approx(3e-3 * (step / 60 if step < 60 else 1 - step / 300), rel=1e-5)


@pytest.mark.slow
def test_remat_changes_nothing(trained):
    assert_close(tensors(trained("remat") / "model"), tensors(trained("plain") / "model"))


@pytest.mark.slow
def test_bfloat16_is_near(trained):
    (found,), (expected,) = metrics(trained("bfloat16")), metrics(trained("plain"))
    for name in ("mlm_loss", "nsp_loss"):
        assert found[name] == pytest.approx(expected[name], rel=0.05)
        assert found[name] != expected[name]
    assert {value.dtype.name for value in tensors(trained("bfloat16") / "model").values()} == {"float32"}


@pytest.mark.slow
def test_without_next_sentence_prediction(trained):
    for name, casing in (("rows", (False, None)), ("pairs", (True, False))):
        folder = trained(name)
        assert not [tensor for tensor in tensors(folder / "model") if "seq_relationship" in tensor]
        assert not [line for line in metrics(folder) if "nsp_loss" in line or "nsp_accuracy" in line]
        bert = keras_bert.load(folder / "model")
        assert set(bert.pretrainer().output) == {"mlm_logits"}
        assert (bert.lowercase, bert.strip_accents) == casing


@pytest.mark.slow
def test_the_optimizer_of_the_flags(trained):
    state = json.loads((trained("rows") / "snapshots" / "step-000000012" / "state.json").read_text())
    optimizer = state["settings"]["optimizer"]
    assert "fused" in optimizer  # LAMB alone has it.
    assert optimizer["bias_correction"]


@pytest.mark.slow
def test_left_to_right(trained, made):
    """A prediction does not depend on what is on its right, also in a model that was saved and trained on."""
    for name in ("left_to_right", "warm_left_to_right"):
        bert = keras_bert.load(trained(name) / "model")
        assert keras_bert.describe(bert.encoder).causal
    assert_equal(tensors(made / "warm_left_to_right" / "model"), tensors(made / "left_to_right" / "model"))
    model = bert.pretrainer()
    (inputs, targets, _), *_ = Records(made / "rows", batch_size=4, causal=True, shuffle=False).dataset()
    inputs = {name: value.numpy() for name, value in inputs.items()}
    np.testing.assert_array_equal(targets["mask_labels"], inputs["token_ids"][:, 1:])
    np.testing.assert_array_equal(inputs["mask_positions"], np.tile(np.arange(15), (4, 1)))
    before = to_numpy(model(inputs)["mlm_logits"])
    inputs["token_ids"][:, 9] = 7
    after = to_numpy(model(inputs)["mlm_logits"])
    np.testing.assert_array_equal(after[:, :9], before[:, :9])
    assert (after[:, 9:] != before[:, 9:]).any(-1).all()
    # It knows a row's topic from the words on the left; without, the loss is 4.35.
    (line,) = [line for line in metrics(trained("left_to_right"), "evaluation") if line["step"] == 40]
    assert line["mlm_loss"] < 3


@pytest.mark.slow
def test_records_of_googles_kind(trained):
    bert = keras_bert.load(trained("googles") / "model")
    assert bert.vocabulary.pieces == tuple(PIECES)
    assert not bert.lowercase


@pytest.mark.slow
def test_a_warm_start_goes_on_from_the_weights(trained):
    assert_equal(tensors(trained("warm") / "model"), tensors(trained("plain") / "model"))


@pytest.mark.slow
def test_a_head_that_the_start_lacks(trained, made):
    model = trained("pairs") / "model"
    _, errors = run_here(PROGRAM, *flags(made, "new_head", **AGAIN, model=model), status=2)
    assert f"error: {model}: the checkpoint lacks 2 tensor(s): cls.seq_relationship.weight" in errors


@pytest.mark.slow
def test_a_damaged_record_is_named(made):
    for name in ("data", "eval_data"):
        _, errors = run_here(PROGRAM, *flags(made, f"damaged_{name}", **{name: made / "damaged"}), status=2)
        line = error_line(errors)
        begin = f"error: {shard(made / 'damaged')}: the record after "
        assert line.startswith(begin)
        assert line.endswith(". Copy the file again, or make the data anew")
        size = json.loads((made / "16" / "manifest.json").read_text())["files"][1]["examples"]
        assert 0.4 < int(line.removeprefix(begin).split()[0]) / size < 0.6
