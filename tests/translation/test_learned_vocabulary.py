"""The vocabulary of a run, which is learned once."""

import pytest

from keras_bert.translation import data
from keras_bert.translation.learned_vocabulary import open_vocabulary


@pytest.mark.tensorflow
def test_a_vocabulary_is_learned_until_a_run_has_begun(tmp_path):
    for name, text in (("a", "one two\nthree\n"), ("b", "two one\nthree three\n")):
        (tmp_path / name).write_text(text)
    pairs = data.read(tmp_path / "a", tmp_path / "b")
    folder = tmp_path / "run"
    vocabulary = open_vocabulary(None, pairs, 280, folder)
    learned = (folder / "vocab.txt").read_text()
    (folder / "vocab.txt").write_text(f"{learned}more\n")  # Not learned anew, since nothing has changed.
    assert open_vocabulary(None, pairs, 280, folder).pieces == (*vocabulary.pieces, "more")
    assert open_vocabulary(folder / "vocab.txt", pairs, 1, tmp_path / "other").pieces[-1] == "more"
    assert open_vocabulary(None, pairs, 281, folder).pieces == vocabulary.pieces
    (folder / "runs").mkdir()
    message = "contains a run with another vocabulary: `vocab_size` was 281, is 282. Choose another --output_dir"
    with pytest.raises(ValueError, match=message):
        open_vocabulary(None, pairs, 282, folder)
