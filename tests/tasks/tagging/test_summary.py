"""What to know about sentences before training."""

from keras_bert.tasks.tagging.task import summary_warnings


def test_tags_and_types_that_look_alike():
    for what, key in (("tags", "tags"), ("types", "entities")):
        found = summary_warnings({"unit": "texts", key: {"PER": 3}, "unknown": {"PER\u200b": 2}})[0]
        assert found == rf"{what} that look alike are different classes: 'PER' (3) and 'PER\u200b' (0)"
        assert summary_warnings({"unit": "rows", key: {"1": 9, "01": 9}}) == [
            f"{what} that look alike are different classes: '1' (9) and '01' (9)"
        ]
