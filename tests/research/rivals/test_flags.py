"""Flags of the commands that train the models that BERT is compared with."""

import pytest

from pipelines.arguments import parse
from research.rivals.flags import NewModels


class Arguments(NewModels):
    kind = "bilstm"


@pytest.fixture
def bert(tmp_path):
    """A folder that looks like that of a BERT."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    return tmp_path


def options(models, *flags):
    """Returns the options of `load` for some models."""
    return parse("A command.", Arguments, list(flags)).load_options(models)


def test_options_of_a_new_model(bert):
    vocabulary = f"{bert}/vocab.txt"
    found = options(["bilstm_H-4"], f"--vocabulary={vocabulary}", "--nolowercase")
    assert found == {"vocabulary": vocabulary, "lowercase": False}


def test_a_checkpoint_needs_no_options(bert):
    assert options([str(bert)]) == {}


@pytest.mark.parametrize(
    ("models", "flags", "message"),
    [
        (["bilstm"], [], "^--model=bilstm: a new model needs --vocabulary=vocab.txt, or --language"),
        (["bilstm_256"], [], "^--model=bilstm_256: no such model. Models without BERT are named"),
        (["bidaf_H-8"], [], "^--model must be a bilstm .* Received: --model=bidaf_H-8"),
        (["{bert}"], ["--lowercase"], "^--lowercase: only for new models, such as --model=bilstm"),
        (["bilstm", "{bert}"], [], "^--model: new models are trained on their own"),
        (["bilstm"], ["--language_model=./none"], "^./none: no such checkpoint"),
    ],
)
def test_mistakes(bert, models, flags, message):
    given = [model.format(bert=bert) for model in models]
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        options(given, *flags)
