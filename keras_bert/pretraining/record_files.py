"""The files of pre-training records: finds them and their vocabulary, and encodes examples."""

import functools
import hashlib
import pathlib

import numpy as np

from keras_bert.corpus import lines
from keras_bert.files import read_json
from keras_bert.text.vocabulary import Vocabulary

MANIFEST = "manifest.json"  # In the folder of the records of `generate`.
_ENDS = 2**16  # Bytes at each end of a file that identify its content.


def find_records(source):
    """Returns the paths of the files with examples, and the manifest or `None`."""
    folder = pathlib.Path(source)
    if not folder.is_dir():
        paths = lines.find(source)
        with_records = [str(path) for path in paths if path.stat().st_size]
        return with_records or [str(paths[0])], None
    if not (folder / MANIFEST).exists():
        raise ValueError(
            f"{folder}: has no {MANIFEST}. Expected the folder of a finished run of create_pretraining_data, or a glob "
            "pattern of record files"
        )
    manifest = read_json(folder / MANIFEST)
    for file in manifest["files"]:
        path = folder / file["name"]
        size = path.stat().st_size if path.exists() else 0
        if size != file["bytes"]:
            raise ValueError(
                f"{path}: has {size:,} bytes, expected {file['bytes']:,}: the file is truncated or modified. Copy "
                "it again, or generate the data again"
            )
    with_records = [str(folder / file["name"]) for file in manifest["files"] if file["examples"]]
    return with_records, manifest


def records_vocabulary(source, manifest, vocabulary=None):
    """Returns the `Vocabulary` of records: the given one, or that in their folder; checks that it is theirs."""
    if vocabulary is None and not manifest:
        raise ValueError(f"{source}: the vocabulary of the records is unknown: set `vocabulary` to its vocab.txt")
    if vocabulary is None:
        vocabulary = pathlib.Path(source) / "vocab.txt"
    opened = Vocabulary(vocabulary)
    if manifest and manifest["vocabulary"] != opened.sha256:
        raise ValueError(
            f"{source}: the records were not made with {opened.source}: the hashes of the "
            f"pieces differ. Expected the vocabulary in {source}/vocab.txt"
        )
    return opened


def content_hash(paths):
    """Returns a hash of the sizes and the ends of files, which takes no time for terabytes either."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            digest.update(f"{size:,}".encode())
            for place in (0, max(0, size - _ENDS)):
                file.seek(place)
                digest.update(file.read(_ENDS))
    return digest.hexdigest()[:16]


def serialize(features):
    """Returns serialized `tf.train.Example`s of arrays `(examples, values)` by name, integers from 0 or float32."""
    # An encoder of whole columns, with the bytes of protocol buffers: with Python's own, 20x slower, data generation
    # would spend most of its time here. It can go once `tf.io` serializes batches of examples.
    columns = [_feature_entries(name, values) for name, values in features.items()]
    records = []
    for entries in zip(*columns, strict=True):
        example = b"".join(entries)
        records.append(_tag_and_length(b"\x0a", len(example)) + example)
    return records


def _feature_entries(name, values):
    """Yields the entry of each example in the map from names to features."""
    is_float = values.dtype == np.float32
    if is_float:
        content = values.tobytes()
        lengths = [4 * values.shape[1]] * len(values)
    else:
        content, lengths = _varints(values)
    place = 0
    for length in lengths:
        yield _header(name, is_float, length) + content[place : place + length]
        place += length


@functools.lru_cache(maxsize=2**16)
def _header(name, is_float, length):
    """Returns the bytes before a packed list of values: `map entry { key, value { list { values } } }`."""
    encoded_name = name.encode()
    key = _tag_and_length(b"\x0a", len(encoded_name)) + encoded_name
    values = _tag_and_length(b"\x0a", length)
    list_tag = b"\x12" if is_float else b"\x1a"
    values_list = _tag_and_length(list_tag, len(values) + length) + values
    value = _tag_and_length(b"\x12", len(values_list) + length) + values_list
    return _tag_and_length(b"\x0a", len(key) + len(value) + length) + key + value


@functools.lru_cache(maxsize=2**16)
def _tag_and_length(tag, length):
    """Returns the bytes before a message or string of a length."""
    encoded_length, _ = _varints(np.array([[length]]))
    return tag + encoded_length


def _varints(values):
    """Encodes integers `(rows, values)` in groups of 7 bits, lowest first; returns all bytes and each row's length."""
    size = max(1, -(-int(values.max(initial=0)).bit_length() // 7))  # The most groups of a value.
    integers = values.astype(np.uint32 if size < 5 else np.uint64)
    groups = np.empty((*integers.shape, size), np.uint8)
    there = np.ones(groups.shape, bool)
    for group in range(size):
        rest = integers >> (7 * group)
        there[..., group] = (rest > 0) | (group == 0)
        groups[..., group] = np.where(rest > 127, rest & 127 | 128, rest)
    return groups[there].tobytes(), there.sum(axis=(1, 2)).tolist()
