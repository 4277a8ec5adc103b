"""Google's checkpoints: their names, and errors for damaged ones."""

import numpy as np
import pytest

import keras_bert
from tests.checkpoints.conftest import edit, shorten, token_table

INDEX = "bert_model.ckpt.index"
DATA = "bert_model.ckpt.data-00000-of-00001"


@pytest.mark.tensorflow
class TestGoogle:
    @pytest.fixture
    def google(self, copy):
        return copy("pretraining", format="google")

    def test_another_prefix(self, google, saved_table):
        for path in google.glob("bert_model.ckpt*"):
            path.rename(google / path.name.replace("bert_model.ckpt", "model.ckpt-1000"))
        np.testing.assert_array_equal(token_table(keras_bert.load(google)), saved_table)

    def test_a_folder_of_this_name_is_not_opened(self, google, saved_table, tmp_path):
        """TensorFlow takes the path of a folder as that of the checkpoint which its file `checkpoint` names."""
        (google / "bert_model.ckpt").mkdir()
        (google / "bert_model.ckpt" / "checkpoint").write_text(f'model_checkpoint_path: "{tmp_path}/other"\n')
        np.testing.assert_array_equal(token_table(keras_bert.load(google)), saved_table)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda folder: (folder / INDEX).unlink(), "expected one TensorFlow checkpoint, such as .* Received: none"),
            (lambda folder: (folder / DATA).unlink(), "bert_model.ckpt: "),
            (
                lambda folder: edit(folder / "bert_config.json", hiden_size=32),
                r"config.json: unknown key\(s\) hiden_size",
            ),
            (shorten(INDEX, 30), "bert_model.ckpt: (not a readable TensorFlow|not readable|the tensor)"),
            (shorten(DATA, 400), "bert_model.ckpt: (not a readable TensorFlow|not readable|the tensor)"),
        ],
    )
    def test_a_damaged_folder(self, google, change, message):
        change(google)
        with pytest.raises(ValueError, match=message):
            keras_bert.load(google)

    def test_googles_names_of_heads(self, saved):
        import tensorflow as tf

        prefixes = [str(saved(head, "google") / "bert_model.ckpt") for head in ("classification", "question_answering")]
        first, second = (tf.train.load_checkpoint(prefix).get_variable_to_shape_map() for prefix in prefixes)
        assert first["output_weights"] == [3, 32]
        assert first["bert/encoder/layer_0/attention/self/query/kernel"] == [32, 32]
        assert second["cls/squad/output_weights"] == [2, 32]
