"""The command that pre-trains ELMo's language model: mistakes in its flags."""

import pytest

pytest.importorskip("tensorflow")

from keras_bert.pretraining.example_builder import Settings
from tests.pipelines.programs import flags_of, mistake
from tests.pretraining.numbered import Numbered, random_documents

pytestmark = pytest.mark.tensorflow

SOURCE = Numbered(random_documents(0, documents=4, sentences=(10, 20), words=(2, 9)))


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """A folder of records without sentence pairs."""
    folder = tmp_path_factory.mktemp("records")
    SOURCE.generate(folder, Settings(32, next_sentence=False), shards=1)
    return folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "--config: a bilm is trained without next sentence prediction. Add --next_sentence=false"),
        ({"config": "bidaf"}, "--config must be a bilm, such as bilm_H-256. Received: --config=bidaf"),
        ({"config": None}, "--config must be a bilm"),
        (
            {"causal": "true", "next_sentence": "false"},
            "a bilm reads in both directions. Received: --causal",
        ),
        (
            {"positions": "none", "next_sentence": "false"},
            "--config=bilm_H-8: a bilm has no positions",
        ),
        ({"teacher": "a"}, "--teacher: not for a bilm. Received: --config=bilm_H-8"),
        ({"pack": "true"}, "--pack: not for a bilm. Received: --config=bilm_H-8"),
    ],
)
def test_mistakes(records, tmp_path, changes, message):
    given = {
        "data": records,
        "phases": "length:32,steps:2,batch:4",
        "output_dir": tmp_path / "out",
        "config": "bilm_H-8",
    }
    told = mistake("research.run_pretraining", *flags_of(given, **changes))
    assert told.startswith(message)
