"""The commands that train the models that BERT is compared with, and those of the package on such models."""

import json

import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf

import keras_bert
from keras_bert.tasks.classification.glue import TASKS
from keras_bert.tasks.question_answering import data as squad
from pipelines import command
from research import rivals
from tests.pipelines.programs import call, finetune, flags_of, mistake, parsed
from tests.pipelines.test_run_squad import answers_of, write_file
from tests.tasks.classification.glue_files import write_task

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def made(tmp_path_factory, config, pieces):
    """A folder with data and a BERT."""
    made = tmp_path_factory.mktemp("rivals")
    keras_bert.save(keras_bert.build_encoder(config), made / "bert", pieces)
    write_task(made / "data", TASKS["wnli"])
    for name, count, seed in (("train1", 8, 1), ("dev1", 6, 2)):
        write_file(made / f"{name}.json", count, seed)
    return made


def glue(made, **changes):
    values = {"task": "wnli", "data_dir": made / "data", "output_dir": made / "out", "sequence_length": 8}
    return flags_of({**values, "batch_size": 6, "epochs": 1}, **changes)


MISTAKES = {
    "bilstm": "--model=bilstm: a new model needs --vocabulary=vocab.txt, or --language_model",
    "bilstm_256": "--model=bilstm_256: no such model. Models without BERT are named",
    "bidaf_H-8": "--model must be a bilstm for this task, such as bilstm_H-256. Received: --model=bidaf_H-8",
    "{made}/bert --lowercase": "--lowercase: only for new models, such as --model=bilstm. Received: --model=",
    "bilstm --vocabulary={made}/bert/vocab.txt --lora_rank=2": "--lora_rank adapts the attention of BERT.",
    "bilstm --vocabulary={made}/bert/vocab.txt --pack": "--pack: only for BERT, without --language_model_weight",
}


def test_mistakes(made):
    for given, message in MISTAKES.items():
        model, *more = given.format(made=made).split()
        assert mistake("research.run_glue", *glue(made, model=model), *more).startswith(message.format(made=made))


@pytest.mark.usefixtures("eager")
def test_a_bilstm_is_trained_and_predicts(made, monkeypatch):
    """The next command imports `research`, too."""
    monkeypatch.setattr(command, "LOADED", ["research"])
    model = {"model": "bilstm_H-4_E-4_L-1", "vocabulary": made / "bert" / "vocab.txt"}
    given = glue(made, **model, learning_rate=1e-2, max_train_examples=6)
    signatures = {}
    printed = finetune("research.run_glue", *given, signatures=signatures)
    assert f'predict --plugins=research --model={made}/out/model "A text." "Its pair."' in printed
    assert parsed("research.run_glue", *glue(made, **model))[1].plugins == ["research"]
    setting = json.loads((made / "out" / "results.json").read_text())["best"]["setting"]
    assert setting["learning_rate"] == 1e-2
    assert "A BiLSTM model for " in (card := (made / "out" / "model" / "README.md").read_text())
    assert "import research.rivals" in card
    heading, answer = call("pipelines.predict", f"--model={made}/out/model", "A text.", "Its pair.").splitlines()
    assert heading.split("\t")[0] == "label"
    found = signatures["serving_default"](tf.constant(["A text."]), tf.constant(["Its pair."]))
    assert answer.split("\t")[0].encode() == found["label"].numpy()[0]


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_a_bidaf_is_trained(made):
    values = {name: f"{made}/{name[:-5]}1.json" for name in ("train_file", "dev_file")}
    values |= {"model": "bidaf_H-16_E-16", "vocabulary": f"{made}/bert/vocab.txt", "output_dir": made / "bidaf"}
    values |= {"sequence_length": 16, "doc_stride": 6, "epochs": 1, "batch_size": 16, "max_train_examples": 8}
    signatures = {}
    finetune("research.run_squad", *flags_of(values), signatures=signatures)
    predictions = json.loads((made / "bidaf" / "dev" / "predictions.json").read_text())
    questions = squad.read(made / "dev1.json")
    expected = [predictions[name] for name in questions.ids]
    assert answers_of(signatures["serving_default"], questions) == expected
    rows = zip(questions.questions, questions.context, strict=True)
    asked = [{"question": question, "context": questions.contexts[number]} for question, number in rows]
    assert [answer["answer"] for answer in rivals.load(made / "bidaf" / "model").predict(asked)] == expected
    assert "A BiDAF model for question answering" in (made / "bidaf" / "model" / "README.md").read_text()
