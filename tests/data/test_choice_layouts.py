"""Where the columns of questions with choices are found."""

import pytest

from keras_bert.data.choice_layouts import COLUMNS, Layout, NamedColumns, find_layout
from keras_bert.data.sources import PythonRows

# The columns of a file, and its layout.
LAYOUTS = [
    ("question choices answerKey", Layout("question", ["choices"], "answerKey")),
    ("question_stem choices label", Layout("question_stem", ["choices"], "label")),
    ("article question options answer", Layout("article", ["options"], "answer", question="question")),
    ("label C B A context question", Layout("context", ["A", "B", "C"], "label", question="question")),
    ("premise choice1 choice2 question label", Layout("premise", ["choice1", "choice2"], "label", question="question")),
    ("premise choice1 choice2 label", Layout("premise", ["choice1", "choice2"], "label")),
    ("goal sol2 sol1 label", Layout("goal", ["sol1", "sol2"], "label")),
    ("ctx ctx_a endings label", Layout("ctx", ["endings"], "label")),
    ("text option_b option_a key", Layout("text", ["option_a", "option_b"], "key")),
    (
        "sent1 sent2 ending1 ending0 label",
        Layout("sent1", ["ending0", "ending1"], "label", question="sent2", first_label=0),
    ),
]


def rows(names):
    return PythonRows("texts", [dict.fromkeys(names.split(), "a")])


@pytest.mark.parametrize(("names", "layout"), LAYOUTS)
def test_layouts(names, layout):
    assert find_layout(rows(names), NamedColumns(), labeled=True) == layout
    unlabeled = find_layout(rows(names), NamedColumns(), labeled=None)
    assert unlabeled.label is None
    assert unlabeled.choices == layout.choices
    assert unlabeled.text == layout.text
    assert layout.is_swag == ("sent2" in names)


def test_named_columns():
    """Named texts have no question; the columns of choices are in the order of their letters."""
    origin = rows("context question A B body good")
    assert find_layout(origin, NamedColumns("body", ["B", "A"], "good"), True) == Layout("body", ["A", "B"], "good")
    assert find_layout(origin, NamedColumns(choices=["good", "A"]), False) == Layout(
        "context", ["good", "A"], None, question="question"
    )
    with pytest.raises(ValueError, match="no columns of choices, such as `A` or .* or `choices`. It has: 'text'"):
        find_layout(rows("text label"), NamedColumns(), True)


def test_known_data_sets_are_all_recognized_by_other_columns():
    assert len(set(map(frozenset, COLUMNS))) == len(COLUMNS)


def test_required_columns_name_their_parameters():
    layout = Layout("context", ["A", "B"], "key", question="question")
    assert layout.required == {
        "context": "text_column",
        "A": "choice_columns",
        "B": "choice_columns",
        "key": "label_column",
        "question": None,
    }
