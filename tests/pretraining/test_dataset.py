"""Batches of records: epochs, resuming at any step, packed rows, records of other programs, and damaged files."""

import collections
import itertools
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.pretraining.dataset import PackedRecords, Records, find_damage
from keras_bert.pretraining.example_builder import Settings
from keras_bert.pretraining.masking import Masking
from tests.data.test_bucketing import assert_equal
from tests.pretraining import numbered
from tests.pretraining.numbered import CLS, FIRST, MASK, PAD, SEP, Numbered, batches, random_documents

LENGTH = 32
SOURCE = Numbered(random_documents(0, documents=8, sentences=(10, 20), words=(2, 9)))
SHORT = Numbered(random_documents(0, documents=30, sentences=(6, 12), words=(1, 5)))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Writes folders of the same text: `pairs`, compressed, `static`, and `rows` without pairs."""
    folder = tmp_path_factory.mktemp("reading")
    rows = Masking(0.3, whole_word=True)
    SOURCE.generate(folder / "pairs", Settings(LENGTH), shards=3, compress=True)
    SOURCE.generate(folder / "static", Settings(LENGTH, static=True), shards=3)
    SOURCE.generate(folder / "rows", Settings(LENGTH, next_sentence=False, masking=rows), shards=3)
    return folder


def examples(found):
    """Returns `{name: (examples, ...)}` of batches, without rows of weight 0 and with the ids before masking."""
    keep = np.concatenate([weights for _, _, weights in found]) > 0
    features = [inputs | targets for inputs, targets, _ in found]
    values = {}
    for name in features[0]:
        whole = np.concatenate([batch[name] for batch in features])
        values[name] = whole[keep]
    return values | {"unmasked": unmasked(values, values)}


def unmasked(inputs, targets):
    ids = inputs["token_ids"].copy()
    (rows, columns) = np.nonzero(targets["mask_weights"])
    ids[rows, inputs["mask_positions"][rows, columns]] = targets["mask_labels"][rows, columns]
    return ids


def rows(ids):
    return collections.Counter(map(tuple, ids.tolist()))


@pytest.mark.parametrize("name", ["pairs", "static", "rows"])
def test_epoch_contains_every_example_once(folders, name):
    """It can start at any step."""
    records = Records(folders / name, batch_size=7)
    expected = numbered.arrays(folders / name)
    if name == "static":
        expected["input_ids"] = numbered.unmasked(expected)
    count = len(expected["input_ids"])
    assert count % 7, "the last batch must have room left"
    assert (records.num_examples, records.steps, records.sequence_length) == (count, -(-count // 7), LENGTH)
    assert records.tokens == expected["input_mask"].sum()
    assert records.static == (name == "static")
    assert records.vocabulary.pieces == tuple(SOURCE.pieces)
    assert records.settings["next_sentence"] == (name != "rows")
    made = batches(records, 1)
    assert_equal(batches(records, 1, start=records.steps - 2), made[-2:])
    assert len(made) == records.steps
    assert [weights.tolist() for _, _, weights in made[:-1]] == [[1.0] * 7] * (records.steps - 1)
    assert made[-1][2].tolist() == [1.0] * (count % 7) + [0.0] * (7 - count % 7)
    found = examples(made)
    joint = ["segment_ids", "padding_mask", "next_sentence_labels"]
    ours = np.concatenate([found["unmasked"], *(found[key].reshape(count, -1) for key in joint)], axis=1)
    joint = ["segment_ids", "input_mask", "next_sentence_labels"]
    theirs = np.concatenate([expected["input_ids"], *(expected[key] for key in joint)], axis=1)
    assert rows(ours) == rows(theirs)
    assert {key for key, value in found.items() if value.dtype != np.int32} == {"mask_weights"}
    assert found["mask_weights"].shape == found["mask_labels"].shape == (count, 10 if name == "rows" else 5)


def test_order_and_masks_depend_on_seed_epoch_and_step(folders):
    """Rows at the same position of a batch share no more masked positions than expected by chance."""

    def read(seed, epoch):
        records = Records(folders / "rows", masking=Masking(), batch_size=7, seed=seed)
        return list(records.dataset(epoch).take(2).as_numpy_iterator())

    found = []
    for seed, epoch in ((0, 0), (0, 1), (1, 0)):
        tf.random.set_seed(len(found))  # The global seed has no effect.
        found.append(read(seed, epoch))
    assert_equal(found[0], read(0, 0))
    drawn = []
    for some in found:
        drawn.extend(inputs["mask_positions"] for inputs, _, _ in some)
    for one, other in itertools.combinations(drawn, 2):
        # 5 of 30 positions are masked.
        common = 0
        for positions, others in zip(one.tolist(), other.tolist(), strict=True):
            common += len(set(positions) & set(others))
        assert common < 0.5 * one.size
    whole_texts = [examples(some)["unmasked"] for some in found]
    for one, other in itertools.combinations(whole_texts, 2):
        assert (one != other).any(axis=1).mean() > 0.9


def test_masking_defaults_to_settings_of_the_folder(folders):
    found = examples(batches(Records(folders / "rows", batch_size=7)))
    lengths = found["padding_mask"].sum(1)
    assert (found["mask_weights"].sum(1) <= np.round(0.3 * lengths)).all()
    assert found["mask_weights"].sum() > 0.28 * lengths.sum()
    masking = Masking(0.1, 2, mask_share=1, random_share=0)
    found = examples(batches(Records(folders / "rows", batch_size=7, masking=masking)))
    weights = found["mask_weights"] > 0
    lengths = found["padding_mask"].sum(1).tolist()
    assert weights.sum(1).tolist() == [min(2, max(1, round(0.1 * length))) for length in lengths]
    now = np.take_along_axis(found["token_ids"], found["mask_positions"], 1)[weights]
    assert set(now) == {MASK}


def test_evaluation_is_deterministic(folders):
    """In the order of the files, 16 records of each file in turn."""
    records = Records(folders / "rows", batch_size=7, shuffle=False, seed=5)
    found = batches(records, 0)
    tf.random.set_seed(99)  # The global seed has no effect.
    assert_equal(found, batches(records, 4))
    files = [[], [], []]
    for number, path in enumerate(sorted((folders / "rows").glob("examples-*"))):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            files[number].append(tf.train.Example.FromString(record).features.feature["input_ids"].int64_list.value[:])
    longest = max(map(len, files))
    expected = []
    for begin in range(0, longest, 16):
        for rows_of_file in files:
            expected.extend(rows_of_file[begin : begin + 16])
    np.testing.assert_array_equal(examples(found)["unmasked"], expected)


def test_limit(folders):
    records = Records(folders / "static", batch_size=7, shuffle=False, limit=10)
    assert (records.num_examples, records.steps) == (10, 2)
    whole = Records(folders / "static", batch_size=7, shuffle=False)
    assert records.tokens == whole.tokens * 10 // whole.num_examples
    found = batches(records)
    assert np.concatenate([weights for _, _, weights in found]).tolist() == [1.0] * 10 + [0.0] * 4
    np.testing.assert_array_equal(examples(found)["unmasked"], examples(batches(whole))["unmasked"][:10])
    assert Records(folders / "static", limit=10**6).num_examples == whole.num_examples


def test_causal_targets(folders):
    found = examples(batches(Records(folders / "rows", batch_size=7, causal=True)))
    ids = found["token_ids"]
    assert rows(ids) == rows(numbered.arrays(folders / "rows")["input_ids"])
    # The label of each position is the next token, if there is one.
    assert (found["mask_positions"] == np.arange(LENGTH - 1)).all()
    np.testing.assert_array_equal(found["mask_labels"], ids[:, 1:])
    np.testing.assert_array_equal(found["mask_weights"], ids[:, 1:] != PAD)


def google_record(rng, static=True, lacking=()):
    """Returns a record like those of Google's `create_pretraining_data.py`."""
    size = int(rng.integers(8, LENGTH + 1))
    first = int(rng.integers(3, size - 2))
    padding = LENGTH - size
    words = rng.integers(FIRST, len(SOURCE.pieces), size - 3).tolist()
    features = {
        "input_ids": [CLS, *words[: first - 2], SEP, *words[first - 2 :], SEP] + [PAD] * padding,
        "input_mask": [1] * size + [0] * padding,
        "segment_ids": [0] * first + [1] * (size - first) + [0] * padding,
        "next_sentence_labels": [int(rng.integers(2))],
    }
    if static:
        features |= {"masked_lm_positions": [1, 2, 0, 0], "masked_lm_ids": [*rng.integers(FIRST, 99, 2).tolist(), 0, 0]}
    example = tf.train.Example()
    for name in features.keys() - set(lacking):
        example.features.feature[name].int64_list.value.extend(features[name])
    if static:
        example.features.feature["masked_lm_weights"].float_list.value.extend([1.0, 1.0, 0.0, 0.0])
    return example


def write(path, found):
    with tf.io.TFRecordWriter(str(path), "GZIP" if path.suffix == ".gz" else "") as writer:
        for example in found:
            writer.write(example if isinstance(example, bytes) else example.SerializeToString())
    return path


def test_records_of_google(tmp_path):
    rng = np.random.default_rng(0)
    made = [google_record(rng) for _ in range(21)]
    for number in range(3):
        write(tmp_path / f"tf_examples.{number}.gz", made[number::3])
    (tmp_path / "tf_examples.0000").touch()  # Files without records are allowed.
    records = Records(f"{tmp_path}/tf_examples.*", SOURCE.pieces, batch_size=4, shuffle=False)
    assert (records.num_examples, records.steps, records.static) == (21, 6, True)
    assert (records.settings, records.tokens) == ({}, None)
    found = examples(batches(records))
    names = {"input_ids": "token_ids", "input_mask": "padding_mask", "masked_lm_positions": "mask_positions"}
    names |= {"masked_lm_ids": "mask_labels", **{name: name for name in ("segment_ids", "next_sentence_labels")}}
    order = [*made[0::3], *made[1::3], *made[2::3]]
    for theirs, ours in names.items():
        expected = np.array([example.features.feature[theirs].int64_list.value for example in order])
        np.testing.assert_array_equal(found[ours].reshape(expected.shape), expected)
    assert found["mask_weights"].tolist() == [[1, 1, 0, 0]] * 21
    # Without masks, masking is dynamic.
    write(tmp_path / "plain", [google_record(rng, static=False) for _ in range(5)])
    records = Records(tmp_path / "plain", SOURCE.pieces, batch_size=4)
    assert (records.num_examples, records.static) == (5, False)
    found = examples(batches(records))
    lengths = found["padding_mask"].sum(1).tolist()
    assert found["mask_weights"].sum(1).tolist() == [max(1, round(0.15 * length)) for length in lengths]


# Packed rows.


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A folder of short pairs."""
    folder = tmp_path_factory.mktemp("packed") / "short"
    SHORT.generate(folder, Settings(LENGTH, short_seq_prob=0.9), shards=3)
    return folder


def packed_examples(found):
    """Counts the examples of batches: ids before masking, segments and NSP label."""
    counted = collections.Counter()
    for inputs, targets, weights in found:
        ids = unmasked(inputs, targets)
        for row in np.flatnonzero(weights):
            labels = targets["next_sentence_labels"][row]
            assert inputs["text_numbers"][row].max() == (labels >= 0).sum()
            for number, (start, label) in enumerate(zip(inputs["text_starts"][row], labels, strict=True), 1):
                part = np.flatnonzero(inputs["text_numbers"][row] == number)
                assert (len(part) == 0) == (label < 0)
                if len(part):
                    np.testing.assert_array_equal(inputs["position_ids"][row, part], part - start)
                    counted[(*ids[row, part], *inputs["segment_ids"][row, part], label)] += 1
    return counted


def test_packed_rows_contain_every_example_once(short):
    records = PackedRecords(short, batch_size=7)
    stored = numbered.arrays(short)
    lengths = stored["input_mask"].sum(1)
    expected = collections.Counter(
        (*ids[:length], *segments[:length], *label)
        for ids, segments, label, length in zip(
            stored["input_ids"], stored["segment_ids"], stored["next_sentence_labels"], lengths, strict=True
        )
    )
    assert (records.num_examples, records.tokens) == (len(lengths), lengths.sum())
    assert records.steps * 7 * LENGTH == records.computed < 1.15 * records.tokens < 0.8 * LENGTH * len(lengths)
    found = batches(records, 1)
    first = next(records.dataset(0).as_numpy_iterator())
    assert len(found) == records.steps
    assert packed_examples(found) == expected
    for inputs, targets, weights in found:  # 15% of the tokens of each row are masked.
        real = (inputs["text_numbers"] > 0).sum(1)[weights > 0]
        assert targets["mask_weights"].sum(1)[weights > 0].tolist() == [max(1, round(0.15 * size)) for size in real]
    assert (found[0][0]["token_ids"] != first[0]["token_ids"]).any()
    for one, other in zip(batches(records, 1, start=2), found[2:], strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)


def test_causal_targets_of_packed_rows_stay_in_their_example(short):
    for inputs, targets, _ in batches(PackedRecords(short, batch_size=7, causal=True)):
        numbers = inputs["text_numbers"]
        together = (numbers[:, 1:] == numbers[:, :-1]) & (numbers[:, 1:] > 0)
        np.testing.assert_array_equal(targets["mask_weights"], together)
        np.testing.assert_array_equal(targets["mask_labels"], inputs["token_ids"][:, 1:])


# Errors.


def test_incompatible_arguments(folders):
    for name, options, message in (
        ("rows", {"vocabulary": SOURCE.pieces[:-1]}, "the hashes of the pieces differ. Expected the vocabulary in"),
        ("static", {"causal": True}, "a left-to-right model needs records without masks. Received: causal=True"),
        ("static", {"masking": Masking()}, "static: the records already contain masks. Expected `masking=None`"),
        ("rows/ex*", {}, r"rows/ex\*: the vocabulary of the records is unknown: set `vocabulary`"),
        ("none*", {"vocabulary": SOURCE.pieces}, r"none\*: no file matches"),
        ("*s*/ex*", {"vocabulary": SOURCE.pieces}, ": the records differ in features or length from"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            Records(f"{folders}/{name}", **options)
    with pytest.raises(ValueError, match="records that already contain masks cannot be packed"):
        PackedRecords(folders / "static")


def test_incomplete_folders(folders, tmp_path):
    shutil.copytree(folders / "rows", tmp_path / "data")
    path = sorted((tmp_path / "data").glob("examples-*"))[1]
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    message = f"{path.name}: has {len(whole) - 1:,} bytes, expected {len(whole):,}: the file is truncated or modified."
    with pytest.raises(ValueError, match=message):
        Records(tmp_path / "data")
    path.unlink()
    with pytest.raises(ValueError, match=f"{path.name}: has 0 bytes, expected {len(whole):,}: "):
        Records(tmp_path / "data")
    (tmp_path / "data" / "manifest.json").unlink()
    message = "data: has no manifest.json. Expected the folder of a finished run of create_pretraining_data, or a glob"
    with pytest.raises(ValueError, match=message):
        Records(tmp_path / "data")


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_truncated_files_are_reported_by_name(tmp_path, name):
    rng = np.random.default_rng(0)
    made = [google_record(rng) for _ in range(2)]
    path = write(tmp_path / name, made)
    whole = path.read_bytes()
    ends = [len(whole)]
    if name == "a.tfrecord":  # A file truncated between two records looks complete.
        ends = list(itertools.accumulate(16 + example.ByteSize() for example in made))
        cuts = set()
        for end in [0, *ends]:
            cuts.update(end + step for step in (-9, -4, -1, 1, 8, 12, 99))
    else:
        cuts = {1, len(whole) // 2, *range(len(whole) - 9, len(whole), 4)}
    for size in sorted(size for size in cuts if 0 < size < len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=f"{tmp_path}/{name}: "):
            Records(path, SOURCE.pieces)
    for number, size in enumerate(ends, len(made) + 1 - len(ends)):
        path.write_bytes(whole[:size])
        assert Records(path, SOURCE.pieces).num_examples == number
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=f"{name}: not a file of `tf.train.Example` records"):
        Records(path, SOURCE.pieces)


def test_damaged_records_are_found(folders, tmp_path):
    shutil.copytree(folders / "rows", tmp_path / "data")
    assert find_damage(tmp_path / "data") is None
    path = sorted((tmp_path / "data").glob("examples-*"))[2]
    content = bytearray(path.read_bytes())
    sizes = [16 + len(record) for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()]
    content[sum(sizes[:5]) + 30] ^= 1
    path.write_bytes(content)
    for source in (tmp_path / "data", f"{tmp_path}/data/ex*"):
        found = find_damage(source)
        assert found.startswith(f"{path}: the record after 5 complete ones is damaged (corrupted record at ")
        assert "{{" not in found
    # Damage its length, so that the position of the next record is unknown.
    content[sum(sizes[:5])] ^= 1
    path.write_bytes(content)
    assert "the record after 5 complete ones is damaged" in find_damage(tmp_path / "data")


def test_files_of_other_formats(tmp_path):
    (tmp_path / "text").write_text("This is no file of records.\n" * 9)
    write(tmp_path / "strings", [b"This is no example."])
    write(tmp_path / "lacking", [google_record(np.random.default_rng(0), lacking=["segment_ids", "input_mask"])])
    format_message = ": not a file of `tf.train.Example` records"
    for name, message in (
        ("text", format_message),
        ("strings", format_message),
        ("lacking", ": the records lack input_mask, segment_ids. Received: input_ids, masked_lm_ids, masked_lm_posi"),
    ):
        with pytest.raises(ValueError, match=f"{name}{message}") as error:
            Records(tmp_path / name, SOURCE.pieces)
        assert "{{" not in str(error.value)
