"""The command, on four sentences whose translations name their letters."""

import json
import re
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.training.program import Program
from keras_bert.translation import run as translation
from tests.conftest import SEED, eagerly
from tests.pipelines.programs import (
    call,
    cut_if,
    flags_of,
    mistake,
    read_json,
    read_jsonl,
    write_jsonl,
)

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.run_translation"
SOURCES = ["a b c d.", "d c b a.", "b b a a.", "c d a b."]
TARGETS = [
    "one two three four.",
    "four three two one.",
    "two two one one.",
    "three four one two.",
]
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
def made(shared_folder):
    """The files of all tests: a run is resumed with the same ones, whichever process began it."""
    return shared_folder("run_translation_pairs", write_files)


def write_files(made):
    made.mkdir()
    for name, copies in (("train", 1200), ("few", 30), ("dev", 1), ("test", 1)):
        for side, texts in (("a", SOURCES), ("b", TARGETS)):
            (made / f"{name}.{side}").write_text(copies * ("\n".join(texts) + "\n"))
    rows = []
    for source, target in zip(SOURCES, TARGETS, strict=True):
        rows.append({"translation": {"b": target, "a": source}})
    write_jsonl(made / "rows.jsonl", rows)
    (made / "short.b").write_text("one.\n")
    (made / "config.json").write_text(json.dumps(CONFIG))


def arguments(made, output, **changes):
    """Returns the flags of a run."""
    values = {
        "train_source": f"{made}/train.a",
        "train_target": f"{made}/train.b",
        "dev_source": f"{made}/dev.a",
        "dev_target": f"{made}/dev.b",
        "test_source": f"{made}/test.a",
        "test_target": f"{made}/test.b",
        "config": f"{made}/config.json",
        "vocab_size": 300,
        "output_dir": made / output,
        "report_to": "",
        "tokens_per_batch": 256,
        "learning_rate": 0.01,
        "warmup_steps": 20,
        "seed": SEED,
        "epochs": 2,
        "average": 2,
        "beam_size": 2,
    }
    return flags_of(values, **changes)


def plan_of(*given):
    """Returns the `Plan` of a command, which trains nothing, and what it printed."""
    with mock.patch.object(translation, "TranslationRuns") as runs:
        printed = call(PROGRAM, *given)
    (plan,) = runs.call_args.args
    return plan, printed


def test_a_wrong_vocabulary(made):
    given = arguments(made, "mistakes", vocabulary=made / "short.b", vocab_size=None)
    assert "the vocabulary lacks [PAD]" in mistake(PROGRAM, *given)


def test_the_grid(made):
    """The default learning rate is the paper's, for at least 1,000 steps of warm-up."""
    output = made / "grid"
    changes = {
        "seed": "1,2",
        "tokens_per_batch": "128,256",
        "learning_rate": None,
        "test_source": "",
        "test_target": None,
        "beam_size": 3,
    }
    plan, printed = plan_of(*arguments(made, output, **changes))
    assert plan.choices == {
        "learning_rate": [(32 * 1000) ** -0.5],
        "tokens_per_batch": [128, 256],
        "epochs": [2],
        "seed": [1, 2],
    }
    settings = plan.hyperparameters
    assert settings.beam_size == 3
    assert settings.average == 2
    assert settings.warmup_steps == 20
    assert settings.precision == "float32"
    assert CONFIG.items() <= plan.task.run_settings["config"].items()
    assert plan.output == output
    assert "--seed=1,2" in (output / "flags.txt").read_text()
    assert f"predictions:  {output}/dev.txt" in printed


def test_rows_with_both_sides(made):
    """One file is the source and the target; a learned vocabulary counts both."""
    changes = {
        "train_source": f"{made}/rows.jsonl",
        "train_target": None,
        "dev_source": f"{made}/rows.jsonl",
        "dev_target": None,
        "test_source": None,
        "test_target": None,
        "languages": "a,b",
        "vocab_size": 310,
    }
    plan, _ = plan_of(*arguments(made, "rows", **changes))
    (dev,) = plan.task.splits["dev"]
    assert dev.examples.sources == SOURCES
    assert dev.examples.targets == TARGETS
    assert plan.task.report.card.trained_on == "rows.jsonl"
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
            mock.patch.object(Program, "train", steps_in_graph(Program.train)),
            eagerly(),
        ):
            printed = call(PROGRAM, *arguments(made, folder))
        exported = {name: str(value) for name, value in export.call_args.kwargs.items()}
        (folder / "printed.json").write_text(json.dumps([printed, exported]))

    folder = shared_folder("run_translation", fill)
    printed, exported = read_json(folder / "printed.json")
    return folder, printed, exported


@pytest.fixture
def model(trained):
    return keras_bert.translation.load(trained[0] / "model")


@pytest.mark.kernels
def test_the_task_is_learned(trained):
    """All texts of test are translated without a mistake."""
    output, printed, exported = trained
    assert "test: BLEU 100.00" in printed
    assert (output / "test.txt").read_text().splitlines() == TARGETS
    assert exported == {
        "beam": str(keras_bert.translation.Beam(2)),
        "n_best": "2",
        "example": str({"text": SOURCES[0]}),
        "overwrite": "True",
    }
    results = read_json(output / "results.json")
    assert results["scores"]["bleu"] == pytest.approx(1)
    assert results["best"]["scores"]["bleu"] == results["scores"]["bleu"]


@pytest.mark.kernels
def test_the_better_weights_are_kept(trained):
    results = read_json(trained[0] / "results.json")
    best_epoch = results["bleu"]["dev, best epoch"]
    average = results["bleu"]["dev, average of 2 epochs"]
    expected = "best epoch" if best_epoch >= average else "average of 2 epochs"
    assert results["weights"] == expected


def test_the_card_and_the_report(trained):
    card = (trained[0] / "model" / "README.md").read_text()
    report = (trained[0] / "report.html").read_text()
    assert "A Transformer model for translation, trained with keras_bert on train.a and train.b" in card
    assert "| bleu | 100.00 |" in card
    for name in ("BLEU", "Learning curves", "Examples of dev", "Cross-attention"):
        assert f"<h2>{name}</h2>" in report


@pytest.mark.kernels
@pytest.mark.usefixtures("eager")
def test_the_saved_model_translates(model):
    answers = model.predict(SOURCES, n_best=2, beam_size=2)
    assert [answer["translation"] for answer in answers] == TARGETS
    for answer in answers:
        first, second = answer["translations"]
        assert first == {"translation": answer["translation"], "score": answer["score"]}
        assert second["score"] <= answer["score"] <= 0


@pytest.mark.parametrize("n_best", [0, 2.0, "2", True])
def test_wrong_numbers_of_translations(model, n_best):
    with pytest.raises(ValueError, match="`n_best`"):
        model.predict("one", n_best=n_best)


@pytest.mark.usefixtures("eager")
def test_the_next_commands_work(trained, tmp_path):
    """`predict`, as the run prints it."""
    output_folder, printed, _ = trained
    model = f"--model={output_folder}/model"
    assert re.search(r"predict (\\\n\s*)?--model=", printed)
    (tmp_path / "texts.txt").write_text(f"{SOURCES[0]}\n\n{SOURCES[2]}\n")
    output = tmp_path / "answers.jsonl"
    files = [f"--input={tmp_path}/texts.txt", f"--output={output}"]
    call("pipelines.predict", model, *files, "--n_best=2")
    answers = read_jsonl(output)
    assert [answer["translation"] for answer in answers] == [TARGETS[0], "", TARGETS[2]]
    assert [len(answer["translations"]) for answer in answers] == [2, 2, 2]
    message = mistake("pipelines.predict", model, "--sequence_length=4", "one")
    assert "--sequence_length has no meaning for" in message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"vocab_size": 320},
            "contains a run with another vocabulary: --vocab_size was 300, is 320. Choose another",
        ),
        ({"beam_size": 3}, "contains runs with other settings: --beam_size was 2, is 3"),
    ],
)
def test_a_finished_run_is_not_mixed_with_others(made, trained, changes, message):
    assert message in mistake(PROGRAM, *arguments(made, trained[0], **changes))


@pytest.mark.slow
def test_two_devices_in_16_bits_interrupted_and_resumed(made, tmp_path, mirrored, monkeypatch):
    """A run that is cut resumes to the bit; two replicas learn as one does."""

    options = {"precision": "mixed_bfloat16", "learning_rate": 0.003}
    few = {"train_source": f"{made}/few.a", "train_target": f"{made}/few.b"}

    def train(name):
        call(PROGRAM, *arguments(made, tmp_path / name, **few, **options))

    def without_search(*values, **options):
        return lambda texts, name: texts

    monkeypatch.setattr(translation, "export", lambda *values, **options: None)
    monkeypatch.setattr(translation, "translation", without_search)
    with eagerly():
        with cut_if(lambda name, step: step >= 3):  # In the second epoch.
            train("cut")
        train("cut")
        train("whole")
    monkeypatch.setattr(keras_bert, "create_strategy", lambda name: mirrored)
    train("two")
    assert runs_of(tmp_path / "cut") == runs_of(tmp_path / "whole")
    np.testing.assert_array_equal(weights_of(tmp_path / "cut"), weights_of(tmp_path / "whole"))
    np.testing.assert_allclose(losses_of(tmp_path / "two"), losses_of(tmp_path / "whole"), rtol=0.1)


def runs_of(output):
    return read_json(output / "results.json")["runs"]


def losses_of(output):
    return [run["scores"]["loss"] for run in runs_of(output)]


def weights_of(output):
    """Returns all weights of the saved model in one array."""
    weights = keras_bert.translation.load(output / "model").model().get_weights()
    return np.concatenate([weight.ravel() for weight in weights])
