"""The command, on four sentences whose translations name their letters."""

import json
from unittest import mock

import numpy as np
import pytest

import keras_bert.translation
from keras_bert.training.calls import Calls
from keras_bert.translation import run as translation
from tests.pipelines.programs import call, mistake

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.run_translation"
NAMES = {"a": "one", "b": "two", "c": "three", "d": "four"}
SOURCES = ["a b c d.", "d c b a.", "b b a a.", "c d a b."]
TARGETS = ["".join(NAMES.get(sign, sign) for sign in text) for text in SOURCES]
CONFIG = {
    "hidden_size": 32,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "dropout": 0.0,
    "max_position_embeddings": 16,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    made = tmp_path_factory.mktemp("pairs")
    for name, copies in (("train", 150), ("dev", 1), ("test", 1)):
        for side, texts in (("a", SOURCES), ("b", TARGETS)):
            (made / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts * copies))
    (made / "short.b").write_text("one.\n")
    (made / "learned.json").write_text('{"positions": "learned"}')
    (made / "config.json").write_text(json.dumps(CONFIG))
    return made


def arguments(made, output, **changes):
    files = {f"{part}_{side}": f"{made}/{part}.{end}" for part in ("train", "dev", "test") for side, end in SIDES}
    values = {
        **files,
        "config": f"{made}/config.json",
        "vocab_size": 300,
        "output_dir": made / output,
        "tokens_per_batch": 256,
        "learning_rate": 0.02,
        "warmup_steps": 5,
        "epochs": 2,
        "average": 2,
        "beam_size": 2,
        "report_to": "",
        **changes,
    }
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


SIDES = (("source", "a"), ("target", "b"))


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("short.b has 1", {"train_target": "{made}/short.b"}),
        ("no such file", {"dev_source": "{made}/none.a"}),
        ("--config must be one of tiny, mini", {"config": "huge"}),
        ("--test_target needs --test_source", {"test_source": None}),
        ("Marian's layout has no place for positions='learned'", {"config": "{made}/learned.json"}),
        ("no such file: nowhere.json", {"config": "nowhere.json"}),
        ("the vocabulary lacks [PAD]", {"vocab": "{made}/short.b", "vocab_size": None}),
        ("--epochs must be at least 1. Received: 3,0", {"epochs": "3,0"}),
    ],
)
def test_user_errors(made, message, changes):
    changes = {name: value and value.format(made=made) for name, value in changes.items()}
    assert message in mistake(PROGRAM, *arguments(made, "mistakes", **changes))


def test_the_grid(made):
    """The default learning rate is the paper's, for at least 1,000 steps of warm-up."""
    changes = {"seed": "1,2", "tokens_per_batch": "128,256", "learning_rate": None, "test_source": "", "beam_size": 3}
    with mock.patch.object(translation, "TranslationRuns") as runs:
        printed = call(PROGRAM, *arguments(made, "grid", **changes, test_target=None))
    task, choices, settings, output = runs.call_args.args
    rate = (32 * 1000) ** -0.5
    assert choices == {"learning_rate": [rate], "tokens_per_batch": [128, 256], "epochs": [2], "seed": [1, 2]}
    assert (settings.beam_size, settings.average, settings.warmup_steps, settings.precision) == (3, 2, 5, "float32")
    assert task.settings["config"] == {**task.settings["config"], **CONFIG}
    assert output == made / "grid"
    assert "--seed=1,2" in (output / "flags.txt").read_text()
    assert f"predictions:  {output}/dev.txt" in printed


@pytest.fixture(scope="module")
def trained(made, shared_folder):
    """The folder of a run, what it printed, and the arguments of its export."""

    def fill(folder):
        with mock.patch.object(translation, "export") as export:
            printed = call(PROGRAM, *arguments(made, folder))
        exported = {name: str(value) for name, value in export.call_args.kwargs.items()}
        (folder / "printed.json").write_text(json.dumps([printed, exported]))

    folder = shared_folder("run_translation", fill)
    return folder, *json.loads((folder / "printed.json").read_text())


@pytest.mark.usefixtures("eager")
def test_the_task_is_learned(trained):
    """All texts of test are translated without a mistake; so are they by the model's directory."""
    output, printed, exported = trained
    assert "test: BLEU 100.00" in printed
    assert (output / "test.txt").read_text().splitlines() == TARGETS
    assert exported == {"beam": str(keras_bert.Beam(2)), "n_best": "2", "example": str({"text": SOURCES[0]})}
    results = json.loads((output / "results.json").read_text())
    assert results["best"]["scores"]["bleu"] == results["scores"]["bleu"] == pytest.approx(1)
    assert results["weights"] == max(
        ("best epoch", "average of 2 epochs"), key=lambda name: results["bleu"][f"dev, {name}"]
    )
    card, report = ((output / name).read_text() for name in ("model/README.md", "report.html"))
    assert "A Transformer model for translation, trained with keras_bert on train.a and train.b" in card
    assert "| bleu | 100.00 |" in card
    assert all(
        f"<h2>{name}</h2>" in report for name in ("BLEU", "Learning curves", "Examples of dev", "Cross-attention")
    )
    bert = keras_bert.translation.load(output / "model")
    answers = bert.predict(SOURCES, n_best=2, beam_size=2)
    assert [answer["translation"] for answer in answers] == TARGETS
    for wrong in (0, 2.0, "2", True):
        with pytest.raises(ValueError, match="`n_best` must be a positive integer"):
            bert.predict("one", n_best=wrong)
    for answer in answers:
        assert answer["translations"][0] == {name: answer[name] for name in ("translation", "score")}
        assert answer["translations"][1]["score"] <= answer["score"] <= 0


@pytest.mark.usefixtures("eager")
def test_the_next_commands_work(trained, tmp_path):
    """`predict`, as the run prints it."""
    model = f"--model={trained[0] / 'model'}"
    assert "predict \\\n" in trained[1] or "predict --model=" in trained[1]
    (tmp_path / "texts.txt").write_text(f"{SOURCES[0]}\n\n{SOURCES[2]}\n")
    output = tmp_path / "answers.jsonl"
    call("pipelines.predict", model, f"--input={tmp_path}/texts.txt", "--n_best=2", f"--output={output}")
    answers = [json.loads(line) for line in output.read_text().splitlines()]
    assert [answer["translation"] for answer in answers] == [TARGETS[0], "", TARGETS[2]]
    assert [len(answer["translations"]) for answer in answers] == [2, 2, 2]
    message = mistake("pipelines.predict", model, "--sequence_length=4", "one")
    assert "--sequence_length has no meaning for" in message


def test_a_finished_run_is_not_mixed_with_others(made, trained):
    for changes, message in (
        (
            {"vocab_size": 320},
            "contains a run with another vocabulary: `vocab_size` was 300, is 320. Choose another --",
        ),
        ({"beam_size": 3}, "contains runs with other settings: `beam_size` was 2, is 3"),
    ):
        assert message in mistake(PROGRAM, *arguments(made, trained[0], **changes))


@pytest.mark.slow
def test_two_devices_in_16_bits_interrupted_and_resumed(made, tmp_path, mirrored, monkeypatch):
    """A run that is cut in its second epoch resumes to the bit; two replicas learn as one does."""

    def given(name):
        return arguments(made, tmp_path / name, precision="mixed_bfloat16", learning_rate=0.003)

    train = Calls._call

    def cut(self, iterator, step, count):
        if step > 20:
            raise RuntimeError("cut")
        return train(self, iterator, step, count)

    monkeypatch.setattr(translation, "export", lambda *values, **options: None)
    call(PROGRAM, *given("one"))
    monkeypatch.setattr(keras_bert, "create_strategy", lambda name: mirrored)
    with monkeypatch.context() as patch:
        patch.setattr(Calls, "_call", cut)
        with pytest.raises(RuntimeError, match="cut"):
            call(PROGRAM, *given("cut"))
    for name in ("cut", "whole"):
        call(PROGRAM, *given(name))
    names = ("cut", "whole", "one")
    runs = {name: json.loads((tmp_path / name / "results.json").read_text())["runs"] for name in names}
    assert runs["cut"] == runs["whole"]
    assert (tmp_path / "cut" / "test.txt").read_bytes() == (tmp_path / "whole" / "test.txt").read_bytes()
    losses = {name: [result["scores"]["loss"] for result in results] for name, results in runs.items()}
    np.testing.assert_allclose(losses["whole"], losses["one"], rtol=0.1)
    weights = [
        keras_bert.translation.load(tmp_path / name / "model").model().get_weights() for name in ("cut", "whole")
    ]
    for before, after in zip(*weights, strict=True):
        np.testing.assert_array_equal(before, after)
