"""Settings of tasks: the fields of a dataclass, and what is asked of them."""

import dataclasses

from keras_bert import settings
from keras_bert.settings import AnswerSettings, WindowSettings, setting


@dataclasses.dataclass(frozen=True)
class Reviews(AnswerSettings, WindowSettings):
    """Settings of a task of a user."""

    sequence_length: int = setting(128, "Maximum number of tokens.", least=3)
    column: str = setting(None, "Name of a column.", of_files=True)
    shown: int = setting(3, "Rows to show.", most=9, stored=True)
    plain: int = 1


def test_a_setting_is_a_field_with_its_default():
    fields = {field.name: field for field in dataclasses.fields(Reviews)}
    assert Reviews().shown == 3
    assert fields["shown"].metadata["limits"] == (None, 9)
    assert fields["shown"].metadata["stored"]
    assert fields["sequence_length"].metadata["limits"] == (3, None)
    assert fields["overlap"].metadata["needs"] == "long_texts"


def test_keywords_of_fit():
    """Neither those of files nor fields that are no settings; `sequence_length` is a keyword of its own."""
    assert set(settings.keywords(Reviews)) == {
        "long_texts",
        "overlap",
        "max_windows",
        "calibrate",
        "answer_at_precision",
        "shown",
    }


def test_what_is_chosen_on_held_out_rows():
    assert settings.needing_held_out(Reviews()) == []
    assert settings.needing_held_out(Reviews(calibrate=True, shown=4)) == ["calibrate"]
    assert settings.needing_held_out(Reviews(answer_at_precision=0.9)) == ["answer_at_precision"]


def test_the_reading_of_long_texts():
    """Only what is given: the rest is that of the model."""
    assert Reviews().reading == {}
    given = Reviews(long_texts="windows", overlap=0)
    assert given.reading == {"long_texts": "windows", "overlap": 0}
