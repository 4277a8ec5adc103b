"""The outputs of signatures as answers, one for each text. The signatures themselves are in tests/exporting."""

import numpy as np
import pytest

from keras_bert.heads import answers


def test_each_text_has_its_own_outputs():
    outputs = {"value": np.array([1.5, 2.5]), "name": np.array([b"a", "é".encode()])}
    found = answers.each_text(answers.plain, outputs, [{"text": "x"}, {"text": "y"}])
    assert found == [{"value": 1.5, "name": "a"}, {"value": 2.5, "name": "é"}]


def test_counts_of_tokens_come_last_and_windows_are_in_characters():
    text = "é é"  # Of two bytes each: the second one begins at byte 3.
    outputs = {
        "value": np.array([1.0]),
        "tokens": np.array([5]),
        "tokens_read": np.array([4]),
        "windows": np.array([2]),
        "strongest_start": np.array([3]),
        "strongest_end": np.array([5]),
    }
    (found,) = answers.each_text(answers.plain, outputs, [{"text": text}])
    assert list(found) == ["value", "tokens", "tokens_read", "windows", "strongest"]
    assert found["strongest"] == {"start": 2, "end": 3}


def test_an_answer_that_is_no_dict_is_refused():
    with pytest.raises(ValueError, match="`answer` of a head must return a dict"):
        answers.each_text(lambda output, row, n_best: [1], {"value": np.zeros(1)}, [{"text": "a"}])


def test_scores_become_columns():
    answer = {"label": "x", "scores": {"x": 0.7, "y": 0.3}}
    assert answers.flat(answer) == {"label": "x", "score_x": 0.7, "score_y": 0.3}
    for other in ({"choice": 0, "scores": [0.5]}, {"score_x": 1.0, "scores": {"x": 0.7}}):
        assert answers.flat(other) == other


@pytest.mark.parametrize(
    ("names", "convert"),
    [
        (["labels", "probabilities", "label"], answers.classes),
        (["entities", "tags"], answers.entities),
        (["replaced", "tokens"], answers.replaced),
        (["answer", "start"], answers.span),
        (["mask_count", "tokens", "probabilities"], answers.fills),
        (["choice", "probabilities"], answers.choice),
        (["embedding"], answers.embedding),
        (["value"], answers.plain),
    ],
)
def test_names_of_outputs_tell_the_conversion(names, convert):
    assert answers.of_outputs(names) is convert


def test_outputs_of_a_new_head_come_first():
    def stars(output, row, n_best):
        return {"stars": int(output["stars"])}

    answers.add_outputs(("stars", "choice"), stars)
    assert answers.of_outputs(["stars", "choice"]) is stars
    assert answers.of_outputs(["choice"]) is answers.choice


@pytest.mark.parametrize(
    ("names", "owner"),
    [(("answer", "score"), "built-in heads"), (("stars", "tokens_read"), "numbers of tokens")],
)
def test_outputs_that_others_have_are_refused(names, owner):
    with pytest.raises(ValueError, match=f"`outputs` of a head .*{owner}"):
        answers.check_outputs(names)
    answers.check_outputs(("stars",))


def test_a_class_and_no_class_below_the_threshold():
    output = {"labels": np.array([b"x", b"y"]), "probabilities": np.array([0.25, 0.75])}
    expected = {"label": "y", "score": 0.75, "scores": {"x": 0.25, "y": 0.75}}
    assert answers.classes(output, {}, None) == expected
    assert answers.classes(output | {"answered": np.array(True)}, {}, None) == expected
    assert answers.classes(output | {"answered": np.array(False)}, {}, None)["label"] is None


def test_several_labels():
    output = {"labels": np.array(["x", "y"]), "probabilities": np.array([0.5, 0.75])}
    output["predicted"] = np.array([False, True])
    assert answers.classes(output, {}, None) == {"labels": ["y"], "scores": {"x": 0.5, "y": 0.75}}


def test_bytes_of_entities_become_characters():
    """Padding after the first entity is left out."""
    output = {
        "entity_count": 1,
        "entity_starts": np.array([3, -1]),
        "entity_ends": np.array([5, -1]),
        "entity_types": np.array([b"PER", b""]),
        "entity_scores": np.array([0.5, 0.0]),
    }
    (entity,) = answers.entities(output, {"text": "é Bo"}, None)["entities"]
    assert entity == {"text": "Bo", "label": "PER", "start": 2, "end": 4, "score": 0.5}


def test_choices():
    scores = np.array([0.25, 0.75])
    assert answers.choice({"choice": 1, "probabilities": scores}, {}, None) == {"choice": 1, "scores": [0.25, 0.75]}
    assert answers.choice({"choice": -1, "probabilities": scores}, {}, None)["choice"] is None


def test_character_offsets():
    """`a` has one byte, `é` two and the sign of the euro three."""
    offsets = answers.character_offsets("aé€")
    assert offsets[[0, 1, 3, 6]].tolist() == [0, 1, 2, 3]
    assert answers.character_offsets("").tolist() == [0]
