"""Writes files of records without TensorFlow."""

import struct

from keras_bert.pretraining.record_files import checksums
from keras_bert.pretraining.records import serialize


def write(path, features):
    """Writes examples; the checksums of their lengths, which are not read, are zero."""
    records = serialize(features)
    parts = (
        struct.pack("<QI", len(record), 0) + record + struct.pack("<I", checksum)
        for record, checksum in zip(records, checksums(records), strict=True)
    )
    path.write_bytes(b"".join(parts))
