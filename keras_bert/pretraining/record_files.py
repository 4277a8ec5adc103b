"""Finds the files of pre-training records, and their vocabulary."""

import hashlib
import pathlib

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
        return [str(path) for path in paths if path.stat().st_size] or [str(paths[0])], None
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
    return [str(folder / file["name"]) for file in manifest["files"] if file["examples"]], manifest


def records_vocabulary(source, manifest, vocabulary=None):
    """Returns the `Vocabulary` of records: the given one, or that in their folder; checks that it is theirs."""
    if vocabulary is None and not manifest:
        raise ValueError(f"{source}: the vocabulary of the records is unknown: set `vocabulary` to its vocab.txt")
    vocabulary = Vocabulary(pathlib.Path(source) / "vocab.txt" if vocabulary is None else vocabulary)
    if manifest and manifest["vocabulary"] != vocabulary.sha256:
        raise ValueError(
            f"{source}: the records were not made with {vocabulary.source}: the hashes of the "
            f"pieces differ. Expected the vocabulary in {source}/vocab.txt"
        )
    return vocabulary


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
