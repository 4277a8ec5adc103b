"""Plans of batches, by hand."""

import numpy as np

from keras_bert.data.batch_plans import GroupPlan, LeftoverPlan, even_batches, first_within, leftover_batches


class AreaPlan(GroupPlan):
    """One row of two sizes, as a document has a number of windows and their length."""

    def __init__(self, windows, length):
        super().__init__([[windows, length]], np.zeros(1, int), sizes=np.ones(1, int), batch_groups=np.zeros(1, int))

    def computed(self, arranged=None):
        return int(self.lengths().prod())


def test_the_first_plan_with_few_tokens_or_the_one_with_the_fewest():
    """Each plan counts its tokens itself: 1 * 9 are fewer than 3 * 4, though 1 + 9 are more than 3 + 4."""
    plans = [AreaPlan(3, 4), AreaPlan(1, 9)]
    assert first_within(plans, 12) is plans[0]
    assert first_within(plans, 10) is plans[1]
    assert first_within(plans, 8) is plans[1]


def test_leftovers_fill_batches_of_the_next_group():
    sizes, groups = leftover_batches([3, 2, 2], 2)
    assert sizes.tolist() == [2, 2, 2, 2]
    assert groups.tolist() == [0, 1, 2, 2]


def test_even_batches_of_a_group():
    sizes, groups = even_batches(np.array([5, 0, 1]), np.array([4, 2, 0]))
    assert sizes.tolist() == [3, 3, 1]
    assert groups.tolist() == [0, 0, 2]


ROW_GROUPS = np.array([1, 0, 0, 0])  # Of lengths 2 and 4.


def test_filler_follows_the_rows_of_its_group():
    sizes, groups = even_batches(np.array([3, 1]), np.array([2, 2]))
    plan = GroupPlan([2, 4], ROW_GROUPS, sizes, groups)
    assert plan.arrange(np.arange(4)).tolist() == [1, 2, 3, -1, 0]
    assert plan.lengths().tolist() == [2, 2, 4]
    assert plan.computed() == 12


def test_a_row_that_is_left_over_takes_the_place_of_filler():
    sizes, groups = leftover_batches([3, 1], 2)
    plan = LeftoverPlan([2, 4], ROW_GROUPS, sizes, groups)
    assert plan.arrange(np.array([3, 2, 1, 0])).tolist() == [3, 2, 1, 0]
    assert plan.lengths().tolist() == [2, 4]
    assert plan.computed() == 12
