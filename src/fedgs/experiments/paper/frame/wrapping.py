"""Wraps the paragraphs and lists of a Markdown page."""

import re
import textwrap

__all__ = ["WIDTH", "wrapped"]

WIDTH = 100

_ITEM = re.compile(r"( *)([-*+]|\d+\.) +")
_GLUE = "\N{NO-BREAK SPACE}"
# What a line must not begin with, since Markdown would read a list, a heading or a quotation.
_AT_START = re.compile(r" (?=(?:[-*+#>=]+|\d+[.)])(?: |$))")


def wrapped(text: str, width: int = WIDTH) -> str:
    r"""The page with paragraphs and list items of at most `width` columns, where words allow it.

    Only paragraphs with a longer line are wrapped. Headings, tables, fenced and indented code,
    and single words that are longer stay as they are.

    >>> print(wrapped("* one two three\n\n| a wide table | stays |", 10))
    * one two
      three
    <BLANKLINE>
    | a wide table | stays |
    """
    lines: list[str] = []
    paragraph: list[str] = []
    fenced = False

    def end_paragraph() -> None:
        lines.extend(_rewrapped(paragraph, width))
        paragraph.clear()

    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        if fence or fenced or _stays(line, inside=bool(paragraph)):
            end_paragraph()
            lines.append(line)
            fenced ^= fence
        else:
            if _ITEM.match(line):
                end_paragraph()
            paragraph.append(line)
    end_paragraph()
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")


def _stays(line: str, *, inside: bool) -> bool:
    """Whether a line is no part of a paragraph: empty, a heading, a table row, code, a comment."""
    start = line.lstrip()
    code = line.startswith("    ") and not inside and not _ITEM.match(line)
    return not start or code or start.startswith(("#", "|", "<", "![", ">"))


def _rewrapped(paragraph: list[str], width: int) -> list[str]:
    if not paragraph or max(map(len, paragraph)) <= width:
        return list(paragraph)
    item = _ITEM.match(paragraph[0])
    first = item[0] if item else " " * (len(paragraph[0]) - len(paragraph[0].lstrip()))
    words = " ".join(line.strip() for line in paragraph)[len(first.strip()) :].strip()
    words = re.sub(r"`[^`]{1,60}`", lambda code: code[0].replace(" ", _GLUE), words)
    wrapped_lines = textwrap.wrap(
        _AT_START.sub(_GLUE, words),
        width,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_GLUE, " ") for line in wrapped_lines]
