"""Groups of texts by their length."""

from keras_bert.reports import lengths


def test_errors_by_length():
    rows = lengths.length_rows([7, 3, 3, 9, 3, 1200], [1, 0, 1, 1, 0, 0], "{:.2f}".format)
    assert rows == [["3", "3", "0.33"], ["7", "1", "1.00"], ["9", "1", "1.00"], ["1,200", "1", "0.00"]]
    # 12 different lengths, in groups of two.
    rows = lengths.length_rows(range(12), [0] * 12, str)
    assert [row[:2] for row in rows] == [[f"{low} to {low + 1}", "2"] for low in range(0, 12, 2)]
