"""What a run must find unchanged to resume: its start model, with everything that training depends on."""

import json
import shutil

import pytest
from safetensors.numpy import load_file, save_file

import keras_bert
from keras_bert.runs.unchanged_inputs import check_unchanged

ANOTHER = "runs contains runs that started from another version of {}. Different now: {}. Restore it to resume"


@pytest.fixture(scope="module")
def start(checkpoint, pieces, tmp_path_factory):
    """A folder with a model, and an adapter of it."""
    folder = tmp_path_factory.mktemp("start")
    shutil.copytree(checkpoint, folder / "bert")
    (folder / "bert" / "tokenizer.json").unlink()  # It repeats vocab.txt.
    model = keras_bert.load(folder / "bert").model()
    keras_bert.enable_lora(model, 2)
    keras_bert.save(model, folder / "adapter", pieces, format="peft", base=folder / "bert")
    change_json(base_model_name_or_path="../bert")(folder / "adapter" / "adapter_config.json")
    file = folder / "adapter" / "adapter_model.safetensors"
    save_file({name: tensor + 1 for name, tensor in load_file(file).items()}, file)  # A new B is zero.
    return folder


def change_tensor(file):
    tensors = load_file(file)
    name = min(tensors)
    save_file({**tensors, name: tensors[name] + 1}, file, metadata={"format": "pt"})


def change_json(**values):
    def change(file):
        file.write_text(json.dumps(json.loads(file.read_text()) | values))

    return change


def swap_lines(file):
    *lines, one, other = file.read_text().splitlines()
    file.write_text("\n".join([*lines, other, one]) + "\n")


CHANGES = [
    ("bert", "model.safetensors", change_tensor, "the weights"),
    ("bert", "config.json", change_json(hidden_dropout_prob=0.5), "`hidden_dropout_prob`, 0.5 instead of its default"),
    ("bert", "vocab.txt", swap_lines, "the vocabulary"),
    ("bert", "tokenizer_config.json", change_json(do_lower_case=False), "`lowercase`, False instead of its default"),
    ("adapter", "adapter_model.safetensors", change_tensor, "the weights"),
    ("adapter", "adapter_config.json", change_json(lora_alpha=64), "the weights"),
    ("adapter", "../bert/model.safetensors", change_tensor, "the weights"),
]


@pytest.mark.parametrize(("name", "file", "change", "found"), CHANGES)
def test_another_start_model_is_refused(start, tmp_path, name, file, change, found):
    folder = shutil.copytree(start, tmp_path / "models") / name
    for _ in range(2):
        check_unchanged(tmp_path / "runs", {"M": keras_bert.load(folder).identity})
    change(folder / file)
    with pytest.raises(ValueError) as error:
        check_unchanged(tmp_path / "runs", {"M": keras_bert.load(folder).identity})
    assert ANOTHER.format("M", found) in str(error.value)


def test_models_are_stored_when_first_seen(tmp_path):
    """Of several workers, the first one writes."""
    first, second = ({"weights": weights, "config": {}} for weights in "12")
    check_unchanged(tmp_path, {"M": first}, write=False)
    assert not list(tmp_path.iterdir())
    check_unchanged(tmp_path, {"M": first})
    check_unchanged(tmp_path, {"N": second})
    for name, known in (("M", first), ("N", second)):
        check_unchanged(tmp_path, {name: known})
        with pytest.raises(ValueError, match=f"another version of {name}. Different now: the weights. Restore it"):
            check_unchanged(tmp_path, {name: {"weights": "3", "config": {}}})


def test_new_weights_of_a_loaded_model_are_no_difference(start, tmp_path):
    """Those that a checkpoint lacks are random."""
    folder = shutil.copytree(start / "bert", tmp_path / "bert")
    file = folder / "model.safetensors"
    save_file({name: tensor for name, tensor in load_file(file).items() if "pooler" not in name}, file)
    facts = [keras_bert.load(folder, head="encoder").identity for _ in range(2)]
    assert facts[0] == facts[1]
