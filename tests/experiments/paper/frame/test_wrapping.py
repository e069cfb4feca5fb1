"""Paragraphs of a page are wrapped; what Markdown reads by lines stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgs.experiments.paper.frame.wrapping import wrapped


def test_a_paragraph_is_wrapped_and_its_words_stay() -> None:
    assert wrapped("one two three four\nfive\n", 10) == "one two\nthree four\nfive\n"


def test_short_paragraphs_keep_their_lines() -> None:
    assert wrapped("one\ntwo\n", 10) == "one\ntwo\n"


def test_items_hang_and_do_not_run_together() -> None:
    assert wrapped("* aa bb cc dd\n* ee\n1. ff gg hh ii", 8) == (
        "* aa bb\n  cc dd\n* ee\n1. ff gg\n   hh ii"
    )


@pytest.mark.parametrize(
    "line",
    ["# a heading that is long", "| a | row that is long |", "```\ncode that is long\n```",
     "![a picture](with-a-long-name.png)", "    indented code that is long"],
)  # fmt: skip
def test_other_lines_stay(line: str) -> None:
    assert wrapped(line, 10) == line


@pytest.mark.parametrize("sign", ["-", "*", "+", "#", ">", "2.", "3)", "="])
def test_no_line_begins_with_a_sign_that_markdown_would_read(sign: str) -> None:
    for width in range(6, 30):
        lines = wrapped(f"alpha beta {sign} gamma delta {sign} epsilon", width).splitlines()
        assert not any(line.startswith(f"{sign} ") for line in lines)


def test_code_spans_are_not_broken() -> None:
    assert wrapped("run `fedgs run --set a=b` now", 12) == "run\n`fedgs run --set a=b`\nnow"


@given(st.lists(st.sampled_from(["a", "bb", "ccc", "dddd", "`e f`", "-", "1."]), min_size=1))
def test_words_and_their_order_stay_and_wrapping_twice_changes_nothing(words: list[str]) -> None:
    text = "start " + " ".join(words)
    once = wrapped(text, 12)
    assert once.split() == text.split()
    assert wrapped(once, 12) == once
