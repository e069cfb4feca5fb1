"""Colours of labels."""

from fedgs.palette import label_colours


def test_colours_are_distinct_and_keep_their_order() -> None:
    for count in (1, 10, 20, 30, 100, 200):
        colours = label_colours(count)
        assert len(set(colours)) == len(colours) == count
        assert colours[:10] == label_colours(10)[:count]


def test_no_label_has_no_colour() -> None:
    assert label_colours(0) == []
