"""The command, on two tasks that are hard without attention: to copy words, and to reverse them."""

import json
import shutil
import signal
from unittest import mock

import numpy as np
import pytest

import keras_bert.translation
from keras_bert.translation import data
from keras_bert.translation import results as translation_results
from keras_bert.translation import run as translation
from tests.pipelines.programs import call, killed_if, mistake, run

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.run_translation"
WORDS = ["one", "two", "three", "four"]


def write_pairs(folder, name, count, seed):
    rng = np.random.default_rng(seed)
    rows = [(list(rng.choice(WORDS, rng.integers(1, 5))), rng.random() < 0.5) for _ in range(count)]
    sources = "".join(f"{'Copy' if copies else 'Reverse'}: {' '.join(words)}.\n" for words, copies in rows)
    (folder / f"{name}.a").write_text(sources)
    targets = "".join(f"{' '.join(words if copies else words[::-1])}.\n" for words, copies in rows)
    (folder / f"{name}.b").write_text(targets)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    made = tmp_path_factory.mktemp("pairs")
    for name, count, seed in (("train", 3000, 0), ("dev", 40, 1), ("test", 40, 2)):
        write_pairs(made, name, count, seed)
    (made / "short.b").write_text("one.\n")
    (made / "learned.json").write_text('{"positions": "learned"}')
    (made / "config.json").write_text(
        json.dumps(
            {
                "hidden_size": 64,
                "num_encoder_layers": 1,
                "num_decoder_layers": 1,
                "num_attention_heads": 4,
                "intermediate_size": 128,
                "dropout": 0.0,
                "max_position_embeddings": 24,
            }
        )
    )
    return made


def arguments(made, output, **changes):
    files = {f"{part}_{side}": f"{made}/{part}.{end}" for part in ("train", "dev", "test") for side, end in SIDES}
    values = {
        **files,
        "config": f"{made}/config.json",
        "vocab_size": 310,
        "output_dir": made / output,
        "tokens_per_batch": 512,
        "learning_rate": 2e-3,
        "warmup_steps": 60,
        "epochs": 13,
        "average": 3,
        "beam_size": 2,
        "report_to": "",
        **changes,
    }
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


SIDES = (("source", "a"), ("target", "b"))

MISTAKES = [
    ("short.b has 1", {"train_target": "{made}/short.b"}),
    ("no such file", {"dev_source": "{made}/none.a"}),
    ("--config must be one of tiny, mini", {"config": "huge"}),
    ("--test_target needs --test_source", {"test_source": None}),
    ("Marian's layout has no place for positions='learned'", {"config": "{made}/learned.json"}),
    ("no such file: nowhere.json", {"config": "nowhere.json"}),
    ("the vocabulary lacks [PAD]", {"vocab": "{made}/short.b", "vocab_size": None}),
]


def test_user_errors(made):
    for message, changes in MISTAKES:
        changes = {name: value and value.format(made=made) for name, value in changes.items()}
        assert message in mistake(PROGRAM, *arguments(made, "mistakes", **changes))


@pytest.fixture(scope="module")
def trained(made, shared_folder):
    """The folder of a run, and what it printed."""

    def fill(folder):
        printed = call(PROGRAM, *arguments(made, folder))
        (folder / "printed.txt").write_text(printed)

    folder = shared_folder("run_translation", fill)
    return folder, (folder / "printed.txt").read_text()


@pytest.mark.usefixtures("eager")
def test_the_task_is_learned(made, trained):
    """All texts of test are translated without a mistake; so are they by the model's directory."""
    output, printed = trained
    assert "test: BLEU 100.00" in printed
    wanted = (made / "test.b").read_text()
    assert (output / "test.txt").read_text() == wanted
    bert = keras_bert.translation.load(output / "model")
    texts = (made / "test.a").read_text().splitlines()[:5]
    answers = bert.predict(texts, n_best=2, beam_size=2)
    assert [answer["translation"] for answer in answers] == wanted.splitlines()[:5]
    for wrong in (0, 2.0, "2", True):
        with pytest.raises(ValueError, match="`n_best` must be a positive integer"):
            bert.predict("one", n_best=wrong)
    for answer in answers:
        assert answer["translations"][0] == {name: answer[name] for name in ("translation", "score")}
        assert answer["translations"][1]["score"] <= answer["score"] <= 0


def test_the_export_translates_the_same(made, trained):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    served = tf.saved_model.load(str(trained[0] / "saved_model" / "1"))
    texts = [*(made / "test.a").read_text().splitlines()[:5], "", "one " * 60]
    for name in ("serving_default", "alignment"):
        assert served.signatures[name](text=tf.constant([], tf.string))["translation"].shape == (0,)
    outputs = served.signatures["serving_default"](text=tf.constant(texts))
    wanted = [line.encode() for line in (made / "test.b").read_text().splitlines()[:5]]
    assert outputs["translation"].numpy().tolist()[:5] == wanted
    assert outputs["translations"].numpy().tolist()[5] == [b"", b""]
    assert outputs["truncated"].numpy().tolist() == [False] * 6 + [True]
    aligned = served.signatures["alignment"](text=tf.constant(texts[:2]))
    np.testing.assert_allclose(aligned["attention"].numpy()[0][0].sum(), 1, atol=1e-5)


@pytest.mark.usefixtures("eager")
def test_the_next_commands_work(made, trained, tmp_path):
    """`predict` on texts and files, as the run prints it."""
    model = f"--model={trained[0] / 'model'}"
    assert "predict \\\n" in trained[1] or "predict --model=" in trained[1]
    assert call("pipelines.predict", model, "Reverse: one two.").splitlines() == ["two one."]
    (tmp_path / "texts.txt").write_text("Copy: one two.\n\nReverse: three.\n")
    output = tmp_path / "answers.jsonl"
    call("pipelines.predict", model, f"--input={tmp_path}/texts.txt", "--n_best=5", f"--output={output}")
    answers = [json.loads(line) for line in output.read_text().splitlines()]
    assert [answer["translation"] for answer in answers] == ["one two.", "", "three."]
    assert [len(answer["translations"]) for answer in answers] == [5, 5, 5]
    message = mistake("pipelines.predict", model, "--sequence_length=4", "one")
    assert "--sequence_length has no meaning for" in message


def test_a_vocabulary_of_other_data_is_not_used(made, trained, tmp_path):
    message = mistake(PROGRAM, *arguments(made, trained[0], vocab_size=320))
    assert (
        "contains a run with another vocabulary: `vocab_size` was 310, is 320. Choose another --output_dir" in message
    )
    # Without a training in the folder, the vocabulary is learned anew.
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    pairs = data.read(made / "dev.a", made / "dev.b")
    vocabulary = translation.open_vocabulary(None, pairs, 310, tmp_path)
    assert len(vocabulary) > 260
    assert translation.open_vocabulary(None, pairs, 310, tmp_path).pieces == vocabulary.pieces


@pytest.mark.usefixtures("eager")
def test_a_finished_run_is_decoded_in_another_way(made, trained, tmp_path):
    """With other beams and without test; nothing is trained."""
    output = shutil.copytree(trained[0], tmp_path / "run")
    before = (output / "metrics.jsonl").read_bytes()
    changes = {"beam_size": 3, "test_source": "", "test_target": None}
    with mock.patch.object(translation_results, "export") as export:
        printed = call(PROGRAM, *arguments(made, output, **changes))
    assert export.call_args.kwargs["beam"] == keras_bert.Beam(3)
    assert export.call_args.kwargs["n_best"] == 3
    assert "dev, best epoch: BLEU" in printed
    assert "test: BLEU" not in printed
    assert (output / "metrics.jsonl").read_bytes() == before
    assert "--beam_size=3" in (output / "flags.txt").read_text()


@pytest.mark.slow
def test_two_devices_in_16_bits_killed_and_resumed(made, tmp_path):
    """A killed run resumes to the bit; two replicas learn as one does."""
    short = {"epochs": 3, "precision": "mixed_bfloat16"}
    two = {**short, "strategy": "mirrored"}

    def given(name, settings):
        return arguments(made, name, **{**settings, "output_dir": tmp_path / name})

    run(PROGRAM, *given("killed", two), devices=2, before=killed_if("step > 100"), status=-signal.SIGKILL)
    _, errors = run(PROGRAM, *given("killed", two), devices=2)
    assert "/device:CPU:1" in errors
    run(PROGRAM, *given("whole", two), devices=2)
    run(PROGRAM, *given("one", short))
    logs = {}
    for name in ("killed", "whole", "one"):
        lines = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        logs[name] = [(line["step"], line["loss"]) for line in lines if line["kind"] == "evaluation"]
    assert logs["killed"] == logs["whole"]
    assert (tmp_path / "killed" / "test.txt").read_bytes() == (tmp_path / "whole" / "test.txt").read_bytes()
    np.testing.assert_allclose(logs["whole"], logs["one"], rtol=0.1)
    models = [keras_bert.translation.load(tmp_path / name / "model").model() for name in ("killed", "whole")]
    weights = [model.get_weights() for model in models]
    for killed, whole in zip(*weights, strict=True):
        np.testing.assert_array_equal(killed, whole)
