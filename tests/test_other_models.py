"""Models other than BERT: who opens a folder, a name, the model of Keras, or the outputs of a server."""

import sys
import types

import pytest

from keras_bert import other_models
from keras_bert.other_models import OtherModelError, UnknownModelError
from tests.conftest import forgetting_registrations


class Folder:
    """As much of a `checkpoints.folder.Folder` as is read."""

    def __init__(self, path, model_type=None):
        self.path = path
        self.transformer = self
        self.config = {} if model_type is None else {"model_type": model_type}

    def __truediv__(self, name):
        return f"{self.path}/{name}"

    def __str__(self):
        return str(self.path)


@pytest.fixture
def guest(monkeypatch):
    """A module with models of its own, which are forgotten afterwards."""
    module = types.ModuleType("guest_models")
    monkeypatch.setitem(sys.modules, "guest_models", module)
    monkeypatch.setattr(module, "load", "the loader of the guest", raising=False)
    with forgetting_registrations():
        other_models.register_models(
            "guest_models",
            model_types=["guest"],
            names=["guest_classifier"],
            is_new=lambda name: name.startswith("guest:"),
            answers={"guest_output": str},
        )
        yield module


@pytest.mark.usefixtures("guest")
def test_what_a_guest_opens():
    models = other_models.named("guest_classifier")
    assert models.load == "the loader of the guest"
    assert other_models.named("another") is None
    assert other_models.creating("guest:small") is models
    assert other_models.creating("small") is None
    assert other_models.answering(["text", "guest_output"]) is str
    assert other_models.answering(["text"]) is None


@pytest.mark.usefixtures("guest")
def test_a_second_registration_takes_the_place_of_the_first():
    other_models.register_models("guest_models", model_types=["newer"], names=["newer"])
    assert other_models.named("guest_classifier") is None
    assert other_models.named("newer").model_types == ("newer",)
    assert other_models.creating("guest:small") is None


@pytest.mark.usefixtures("guest")
def test_folders(tmp_path):
    for model_type in (None, *other_models.BERTS):
        assert not other_models.fits(Folder(tmp_path, model_type))
        other_models.check_folder(Folder(tmp_path, model_type))
    with pytest.raises(OtherModelError, match=r"is not a BERT: guest_models.load opens it"):
        other_models.check_folder(Folder(tmp_path, "guest"))
    with pytest.raises(UnknownModelError, match="model_type='t5', a model for transformers or KerasHub"):
        other_models.check_folder(Folder(tmp_path, "t5"))
    with pytest.raises(UnknownModelError, match="model_type='unheard_of', a model for transformers$"):
        other_models.check_folder(Folder(tmp_path, "unheard_of"))


@pytest.mark.usefixtures("guest")
def test_the_name_of_a_new_model(tmp_path):
    assert not (tmp_path / "guest:small").exists()
    new = Folder(tmp_path / "guest:small")
    assert not other_models.fits(new)  # The name begins with the folder.

    class Named(Folder):
        def __str__(self):
            return "guest:small"

    with pytest.raises(OtherModelError):
        other_models.check_folder(Named(tmp_path / "guest:small"))
