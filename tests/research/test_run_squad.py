"""The command that trains BiDAF on SQuAD."""

import pytest

pytest.importorskip("tensorflow")

from keras_bert import Vocabulary
from keras_bert.tasks.question_answering import data as squad
from research import rivals
from tests.pipelines.programs import finetune, flags_of, mistake, read_json
from tests.pipelines.squad_files import answers_of, write_file

pytestmark = pytest.mark.tensorflow

PROGRAM = "research.run_squad"


@pytest.fixture(scope="module")
def made(tmp_path_factory, pieces):
    """A folder with data and a vocabulary."""
    made = tmp_path_factory.mktemp("bidaf")
    Vocabulary(pieces).save(made / "vocab.txt")
    write_file(made / "train.json", 8, 1)
    write_file(made / "dev.json", 6, 2)
    return made


def flags(made, **changes):
    values = {
        "train_file": made / "train.json",
        "dev_file": made / "dev.json",
        "model": "bidaf_H-16_E-16",
        "vocabulary": made / "vocab.txt",
        "output_dir": made / "out",
        "sequence_length": 16,
        "doc_stride": 6,
        "epochs": 1,
        "batch_size": 16,
        "max_train_examples": 8,
    }
    return flags_of(values, **changes)


def test_a_model_of_another_task(made):
    told = mistake(PROGRAM, *flags(made, model="bilstm_H-8"))
    assert told.startswith("--model must be a bidaf for this task, such as bidaf_H-256.")


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_a_bidaf_is_trained(made):
    """The predictions, the saved model and its export answer alike."""
    output = made / "out"
    signatures = {}
    finetune(PROGRAM, *flags(made), signatures=signatures)
    predictions = read_json(output / "dev" / "predictions.json")
    questions = squad.read(made / "dev.json")
    expected = [predictions[name] for name in questions.ids]
    assert answers_of(signatures["serving_default"], questions) == expected
    rows = []
    for question, number in zip(questions.questions, questions.context, strict=True):
        rows.append({"question": question, "context": questions.contexts[number]})
    answers = rivals.load(output / "model").predict(rows)
    assert [answer["answer"] for answer in answers] == expected
    assert "A BiDAF model for question answering" in (output / "model" / "README.md").read_text()
