"""The command, on four sentences whose translations name their letters."""

import json
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.training.step_loop import StepLoop
from keras_bert.translation import run as translation
from tests.conftest import SEED, eagerly
from tests.pipelines.programs import call, cut_if, flags_of, mistake

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.run_translation"
NAMES = {"a": "one", "b": "two", "c": "three", "d": "four"}
SOURCES = ["a b c d.", "d c b a.", "b b a a.", "c d a b."]
TARGETS = ["".join(NAMES.get(sign, sign) for sign in text) for text in SOURCES]
CONFIG = {"hidden_size": 32, "num_encoder_layers": 1, "num_decoder_layers": 1, "num_attention_heads": 2}
CONFIG |= {"intermediate_size": 64, "dropout": 0.0, "max_position_embeddings": 16}


@pytest.fixture(scope="module")
def made(shared_folder):
    """The files of all tests: a run is resumed with the same ones, whichever process began it."""
    return shared_folder("run_translation_pairs", write_files)


def write_files(made):
    made.mkdir()
    for name, copies in (("train", 1200), ("few", 30), ("dev", 1), ("test", 1)):
        for side, texts in (("a", SOURCES), ("b", TARGETS)):
            (made / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts * copies))
    rows = [{"translation": {"b": target, "a": source}} for source, target in zip(SOURCES, TARGETS, strict=True)]
    (made / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (made / "short.b").write_text("one.\n")
    (made / "config.json").write_text(json.dumps(CONFIG))


def arguments(made, output, **changes):
    values = {f"{part}_{side}": f"{made}/{part}.{end}" for part in ("train", "dev", "test") for side, end in SIDES}
    values |= {"config": f"{made}/config.json", "vocab_size": 300, "output_dir": made / output, "report_to": ""}
    values |= {"tokens_per_batch": 256, "learning_rate": 0.01, "warmup_steps": 20, "seed": SEED}
    return flags_of(values, **{"epochs": 2, "average": 2, "beam_size": 2, **changes})


SIDES = (("source", "a"), ("target", "b"))


def test_a_wrong_vocabulary(made):
    given = arguments(made, "mistakes", vocabulary=made / "short.b", vocab_size=None)
    assert "the vocabulary lacks [PAD]" in mistake(PROGRAM, *given)


def test_the_grid(made):
    """The default learning rate is the paper's, for at least 1,000 steps of warm-up."""
    changes = {"seed": "1,2", "tokens_per_batch": "128,256", "learning_rate": None, "test_source": "", "beam_size": 3}
    with mock.patch.object(translation, "TranslationRuns") as runs:
        printed = call(PROGRAM, *arguments(made, "grid", **changes, test_target=None))
    (plan,) = runs.call_args.args
    task = plan.task
    choices = plan.choices
    settings = plan.hyperparameters
    output = plan.output
    rate = (32 * 1000) ** -0.5
    assert choices == {"learning_rate": [rate], "tokens_per_batch": [128, 256], "epochs": [2], "seed": [1, 2]}
    assert (settings.beam_size, settings.average, settings.warmup_steps, settings.precision) == (3, 2, 20, "float32")
    assert task.run_settings["config"] == {**task.run_settings["config"], **CONFIG}
    assert output == made / "grid"
    assert "--seed=1,2" in (output / "flags.txt").read_text()
    assert f"predictions:  {output}/dev.txt" in printed


def test_rows_with_both_sides(made):
    """One file is the source and the target; a learned vocabulary counts both."""
    changes = {f"{part}_{side}": None for part in ("train", "dev", "test") for side, _ in SIDES}
    changes |= {"train_source": f"{made}/rows.jsonl", "dev_source": f"{made}/rows.jsonl", "languages": "a,b"}
    with mock.patch.object(translation, "TranslationRuns") as runs:
        call(PROGRAM, *arguments(made, "rows", **changes, vocab_size=310))
    (plan,) = runs.call_args.args
    task = plan.task
    dev = task.splits["dev"][0].examples
    assert (dev.sources, dev.targets, task.report.card.trained_on) == (SOURCES, TARGETS, "rows.jsonl")
    assert "three" in (made / "rows" / "vocab.txt").read_text()


def steps_in_graph(train):
    """Runs the 230 steps of training as a graph, which `eagerly` turns off for everything else."""

    def call_graph(self, *arguments):
        tf.config.run_functions_eagerly(False)
        try:
            return train(self, *arguments)
        finally:
            tf.config.run_functions_eagerly(True)

    return call_graph


@pytest.fixture(scope="module")
def trained(made, shared_folder):
    """The folder of a run, what it printed, and the arguments of its export."""

    def fill(folder):
        with (
            mock.patch.object(translation, "export") as export,
            mock.patch.object(StepLoop, "_call", steps_in_graph(StepLoop._call)),
            eagerly(),
        ):
            printed = call(PROGRAM, *arguments(made, folder))
        exported = {name: str(value) for name, value in export.call_args.kwargs.items()}
        (folder / "printed.json").write_text(json.dumps([printed, exported]))

    folder = shared_folder("run_translation", fill)
    return folder, *json.loads((folder / "printed.json").read_text())


@pytest.mark.kernels
@pytest.mark.usefixtures("eager")
def test_the_task_is_learned(trained):
    """All texts of test are translated without a mistake; so are they by the model's directory."""
    output, printed, exported = trained
    assert "test: BLEU 100.00" in printed
    assert (output / "test.txt").read_text().splitlines() == TARGETS
    assert exported == {
        "beam": str(keras_bert.translation.Beam(2)),
        "n_best": "2",
        "example": str({"text": SOURCES[0]}),
        "overwrite": "True",
    }
    results = json.loads((output / "results.json").read_text())
    assert results["best"]["scores"]["bleu"] == results["scores"]["bleu"] == pytest.approx(1)
    assert results["weights"] == max(
        ("best epoch", "average of 2 epochs"), key=lambda name: results["bleu"][f"dev, {name}"]
    )
    card, report = ((output / name).read_text() for name in ("model/README.md", "report.html"))
    assert "A Transformer model for translation, trained with keras_bert on train.a and train.b" in card
    assert "| bleu | 100.00 |" in card
    for name in ("BLEU", "Learning curves", "Examples of dev", "Cross-attention"):
        assert f"<h2>{name}</h2>" in report
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
        ({"vocab_size": 320}, "contains a run with another vocabulary: --vocab_size was 300, is 320. Choose another"),
        ({"beam_size": 3}, "contains runs with other settings: --beam_size was 2, is 3"),
    ):
        assert message in mistake(PROGRAM, *arguments(made, trained[0], **changes))


@pytest.mark.slow
def test_two_devices_in_16_bits_interrupted_and_resumed(made, tmp_path, mirrored, monkeypatch):
    """A run that is cut resumes to the bit; two replicas learn as one does."""

    def given(name):
        few = {f"train_{side}": f"{made}/few.{end}" for side, end in SIDES}
        return arguments(made, tmp_path / name, precision="mixed_bfloat16", learning_rate=0.003, **few)

    monkeypatch.setattr(translation, "export", lambda *values, **options: None)
    monkeypatch.setattr(translation, "translation", lambda *values, **options: lambda texts, name: texts)  # No search.
    with eagerly():
        with cut_if(lambda name, step: step >= 3):  # In the second epoch.
            call(PROGRAM, *given("cut"))
        for name in ("cut", "whole"):
            call(PROGRAM, *given(name))
    monkeypatch.setattr(keras_bert, "create_strategy", lambda name: mirrored)
    call(PROGRAM, *given("two"))
    names = ("cut", "whole", "two")
    runs = {name: json.loads((tmp_path / name / "results.json").read_text())["runs"] for name in names}
    assert runs["cut"] == runs["whole"]
    losses = {name: [result["scores"]["loss"] for result in results] for name, results in runs.items()}
    np.testing.assert_allclose(losses["two"], losses["whole"], rtol=0.1)
    weights = [
        keras_bert.translation.load(tmp_path / name / "model").model().get_weights() for name in ("cut", "whole")
    ]
    for before, after in zip(*weights, strict=True):
        np.testing.assert_array_equal(before, after)
