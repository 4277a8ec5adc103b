"""The command that trains GLUE's BiLSTM, and those of the package on such models."""

import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf

import keras_bert
from keras_bert.tasks.classification.glue import TASKS
from pipelines import command
from tests.pipelines.programs import call, finetune, flags_of, mistake, parsed, read_json
from tests.tasks.classification.glue_files import write_task

pytestmark = pytest.mark.tensorflow

PROGRAM = "research.run_glue"


@pytest.fixture(scope="module")
def made(tmp_path_factory, config, pieces):
    """A folder with data and a BERT."""
    made = tmp_path_factory.mktemp("rivals")
    keras_bert.save(keras_bert.build_encoder(config), made / "bert", pieces)
    write_task(made / "data", TASKS["wnli"])
    return made


def flags(made, **changes):
    values = {
        "task": "wnli",
        "data_dir": made / "data",
        "output_dir": made / "out",
        "sequence_length": 8,
        "batch_size": 6,
        "epochs": 1,
    }
    return flags_of(values, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lora_rank": 2}, "--lora_rank adapts the attention of BERT."),
        ({"pack": "true"}, "--pack: only for BERT, without --language_model_weight"),
    ],
)
def test_options_of_bert(made, changes, message):
    model = {"model": "bilstm", "vocabulary": made / "bert" / "vocab.txt"}
    told = mistake(PROGRAM, *flags(made, **model, **changes))
    assert told.startswith(message)


@pytest.mark.usefixtures("eager")
def test_a_bilstm_is_trained_and_predicts(made, monkeypatch):
    """The next command imports `research`, too."""
    monkeypatch.setattr(command, "LOADED", ["research"])
    output = made / "out"
    model = {"model": "bilstm_H-4_E-4_L-1", "vocabulary": made / "bert" / "vocab.txt"}
    signatures = {}
    given = flags(made, **model, learning_rate=1e-2, max_train_examples=6)
    printed = finetune(PROGRAM, *given, signatures=signatures)
    assert f'predict --plugins=research --model={output}/model "A text." "Its pair."' in printed
    setting = read_json(output / "results.json")["best"]["setting"]
    assert setting["learning_rate"] == 1e-2
    card = (output / "model" / "README.md").read_text()
    assert "A BiLSTM model for " in card
    assert "import research.rivals" in card
    # The saved model and its export answer alike.
    printed = call("pipelines.predict", f"--model={output}/model", "A text.", "Its pair.")
    heading, answer = [line.split("\t") for line in printed.splitlines()]
    assert heading[0] == "label"
    serve = signatures["serving_default"]
    label = serve(tf.constant(["A text."]), tf.constant(["Its pair."]))["label"].numpy()[0]
    assert label.decode() == answer[0]


def test_research_is_imported_by_default(made):
    _, arguments = parsed(PROGRAM, *flags(made, model="bilstm"))
    assert arguments.plugins == ["research"]
