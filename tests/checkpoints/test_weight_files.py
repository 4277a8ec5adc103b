"""Keras 2's files of weights never lead out of themselves. Whole ones are among the goldens, see test_world.py."""

import h5py
import numpy as np
import pytest

from keras_bert.checkpoints.weight_files import read_h5_file

NAME = "model/dense/kernel:0"
SECRET = np.arange(6.0).reshape(2, 3)


def plain(layer, folder):
    layer[NAME] = SECRET


def soft_link(layer, folder):
    layer["elsewhere"] = SECRET
    layer[NAME] = h5py.SoftLink("/bert/elsewhere")


def external_link(layer, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["kernel"] = SECRET
    layer[NAME] = h5py.ExternalLink("other.h5", "kernel")


def external_storage(layer, folder):
    (folder / "other").write_bytes(SECRET.tobytes())
    layer.create_dataset(NAME, (2, 3), "f8", external=[(str(folder / "other"), 0, 48)])


def virtual(layer, folder):
    external_link(layer.create_group("unused"), folder)
    layout = h5py.VirtualLayout((2, 3), "f8")
    layout[:] = h5py.VirtualSource(folder / "other.h5", "kernel", (2, 3))
    layer.create_virtual_dataset(NAME, layout)


def unwritten(layer, folder):
    layer.create_dataset(NAME, (2**20, 2**20), "f8", chunks=(1024, 1024))  # 8 TB of zeros.


def references(layer, folder):
    layer[NAME] = np.array([layer.ref] * 3, h5py.ref_dtype)


KINDS = [plain, soft_link, external_link, external_storage, virtual, unwritten, references]


@pytest.mark.parametrize("kind", KINDS)
def test_only_arrays_in_the_file_are_read(tmp_path, kind):
    path = tmp_path / "tf_model.h5"
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [b"bert"]
        file.create_group("bert").attrs["weight_names"] = [NAME.encode()]
        kind(file["bert"], tmp_path)
    if kind is plain:
        ((name, (shape, read)),) = read_h5_file(path).items()
        assert (name, shape) == ("dense.weight", (3, 2))
        np.testing.assert_array_equal(read(), SECRET.T)
    else:
        with pytest.raises(
            ValueError, match=r"tf_model.h5: not a readable file .* is not (in|a plain array in) this file"
        ):
            read_h5_file(path)


@pytest.mark.parametrize(
    ("attributes", "message"), [({}, "it has no `layer_names`"), ({"layer_names": ["bert"]}, "not enough values")]
)
def test_names_of_another_program(tmp_path, attributes, message):
    path = tmp_path / "tf_model.h5"
    with h5py.File(path, "w") as file:
        file.attrs.update(attributes)
        file["bert/kernel:0"] = SECRET
    with pytest.raises(ValueError, match=f"tf_model.h5: not a readable file .*{message}"):
        read_h5_file(path)


def test_names_in_attributes_are_not_read(tmp_path):
    """They may refer to one long name many times: those of the file's own tree are read."""
    path = tmp_path / "tf_model.h5"
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = ["x" * 30000] * 30
        file["bert/" + NAME] = SECRET
    ((name, (shape, _)),) = read_h5_file(path).items()
    assert (name, shape) == ("dense.weight", (3, 2))


def test_names_longer_than_the_file(tmp_path):
    """A folder with a long name in many folders: 20 paths to a tensor in each of them have all of it."""
    path = tmp_path / "tf_model.h5"
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = ["bert"]
        group = file.create_group("/".join(["a" * 30000] * 20))
        group["0"] = SECRET
        for number in range(1, 20):
            group[str(number)] = group["0"]
    with pytest.raises(ValueError, match="its names are longer than the file$"):
        read_h5_file(path)
