"""Whether a model with a head can read long texts as it is asked to."""

from keras_bert.checks import check_choice, check_count
from keras_bert.text.long_texts import WINDOWS


def check_long_texts(long_texts, head):
    """Raises unless `long_texts` is one of those of a head, or `None`."""
    if long_texts is None:
        return
    if not head.long_texts:
        raise ValueError(
            f"`long_texts` is for models that read a part of a long text; with head={head.name!r}, they read all of "
            f"it. Received: long_texts={long_texts!r}"
        )
    check_choice("long_texts", long_texts, head.long_texts)


def check_stored_reading(metadata, head):
    """Raises unless a model with a head can read long texts as its `Metadata` tell, whatever the texts."""
    check_long_texts(metadata.long_texts, head)
    _check_option_of_windows(metadata, "overlap", least=0)
    _check_option_of_windows(metadata, "max_windows", least=1)
    if metadata.overlap is None or metadata.sequence_length is None:
        return
    room = metadata.sequence_length - 2  # Beside [CLS] and [SEP].
    if metadata.overlap >= room:
        raise ValueError(
            f"`overlap` must be less than the {room} tokens of a window. Received: overlap={metadata.overlap}, "
            f"sequence_length={metadata.sequence_length}"
        )


def _check_option_of_windows(metadata, name, least):
    """Raises unless an option is a count and windows are read, or it is `None`."""
    value = getattr(metadata, name)
    if value is None:
        return
    if metadata.long_texts != WINDOWS:
        raise ValueError(
            f"`{name}` is an option of long_texts='windows'. "
            f"Received: long_texts={metadata.long_texts!r}, {name}={value!r}"
        )
    check_count(name, value, least)
