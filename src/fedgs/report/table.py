"""A table as a plain object, and its four forms: terminal, Markdown, CSV, LaTeX.

Equal tables give equal text.
"""

import csv
import io
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Block", "Cell", "Column", "Table"]


@dataclass(frozen=True)
class Cell:
    """One entry.

    Attributes:
        text: as shown.
        values: what CSV holds, one entry for each field of the column; None: empty.
        mark: "best", "second" or "".
    """

    text: str
    values: tuple[str | float | int | None, ...] = ()
    mark: str = ""


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        title: as shown.
        fields: names of its values in CSV; none: the column is not in CSV.
        shown: whether it appears outside CSV.
        numeric: whether it is aligned to the right.
        meaning: what it shows, for the legend below a table; "" where the title says it.
    """

    title: str
    fields: tuple[str, ...] = ()
    shown: bool = True
    numeric: bool = True
    meaning: str = ""


@dataclass(frozen=True)
class Block:
    """Rows that are comparable with each other.

    Attributes:
        keys: what the block is, as (field, value): ("data", ...), ("availability", ...); empty for
            a table of one block.
        rows: one cell for each column.
        notes: sentences below the block.
    """

    keys: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The values of the keys."""
        return ", ".join(value for _, value in self.keys)


@dataclass(frozen=True)
class Table:
    """A table of one or more blocks with the same columns.

    Attributes:
        title: what the table shows.
        columns: left to right.
        blocks: top to bottom.
        notes: sentences below all blocks.
        ranked: among what the best and second best are marked, a word for the legend.

    >>> columns = (Column("method", ("method",), numeric=False), Column("loss", ("loss",)))
    >>> rows = ((Cell("md", ("md",)), Cell(".336", (0.336,), "best")),)
    >>> print(Table("Losses", columns, (Block((), rows),)))
    method  loss
    md      .336*
    * best of the column.
    """

    title: str
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()
    ranked: str = "column"

    def __str__(self) -> str:
        return self.text()

    @property
    def rows(self) -> tuple[tuple[Cell, ...], ...]:
        """The rows of all blocks."""
        return tuple(row for block in self.blocks for row in block.rows)

    def text(self, width: int | None = None) -> str:
        """Aligned for a terminal; `*` marks the best and `°` the second best.

        Args:
            width: characters of a line. A wider table is written in parts below each other, which
                all begin with its first column, and notes are wrapped between words. None: any.
        """
        shown = [column for column in self.columns if column.shown]
        cells = [
            [cell for cell, column in zip(row, self.columns, strict=True) if column.shown]
            for row in self.rows
        ]
        widths = [
            max(len(column.title), *(len(row[i].text) for row in cells), 0)
            for i, column in enumerate(shown)
        ]
        marked = [any(row[i].mark for row in cells) for i in range(len(shown))]
        header = tuple(Cell(column.title) for column in self.columns)
        taken = [length + mark for length, mark in zip(widths, marked, strict=True)]
        parts = _parts(taken, width)
        sections = []
        for block in self.blocks:
            title = [block.title] if block.title and len(self.blocks) > 1 else []
            rows = [self._aligned(row, widths, marked) for row in (header, *block.rows)]
            lines = [
                "\n".join("  ".join(row[i] for i in part).rstrip() for row in rows)
                for part in parts
            ]
            notes = [_wrapped(note, width) for note in block.notes]
            sections.append("\n".join([*title, "\n\n".join(lines), *notes]))
        separator = "\n" if len(sections) == 1 else "\n\n"
        below = [_wrapped(note, width) for note in (*self.notes, *self._legend("*", "°"))]
        return separator.join(["\n\n".join(sections), *(["\n".join(below)] if below else [])])

    def _aligned(
        self, row: Sequence[Cell], widths: Sequence[int], marked: Sequence[bool]
    ) -> list[str]:
        """The cells of one line of text.

        Marks stand to the right of a column, so that its digits are aligned.
        """
        shown = [
            (cell, column) for cell, column in zip(row, self.columns, strict=True) if column.shown
        ]
        parts = []
        for (cell, column), width, with_mark in zip(shown, widths, marked, strict=True):
            text = cell.text.rjust(width) if column.numeric else cell.text.ljust(width)
            mark = {"best": "*", "second": "°"}.get(cell.mark, " ") if with_mark else ""
            parts.append(text + mark)
        return parts

    def markdown(self) -> str:
        """A Markdown table for each block; the best is bold, the second best in italics."""
        shown = [column for column in self.columns if column.shown]
        parts: list[str] = []
        for block in self.blocks:
            lines = [f"**{block.title}**", ""] if block.title else []
            lines += ["| " + " | ".join(_escape_bar(column.title) for column in shown) + " |"]
            lines += ["|" + "|".join("---:" if column.numeric else "---" for column in shown) + "|"]
            lines += [
                "| " + " | ".join(map(_escape_bar, self._shown(row, _mark_markdown))) + " |"
                for row in block.rows
            ]
            parts.append("\n".join(lines))
            parts += [" ".join(block.notes)] if block.notes else []
        below = [*self.notes, *self._legend("Bold:", "italics:")]
        parts += [" ".join(below)] if below else []
        return "\n\n".join(parts) + "\n"

    def csv(self) -> str:
        """One line for each row, at full precision; the first fields are the block's keys."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        keys = [name for name, _ in self.blocks[0].keys] if self.blocks else []
        writer.writerow(keys + [field for column in self.columns for field in column.fields])
        for block in self.blocks:
            for row in block.rows:
                values = [value for _, value in block.keys]
                for cell, column in zip(row, self.columns, strict=True):
                    given = [_csv_value(value) for value in cell.values]
                    values += [*given, *[""] * (len(column.fields) - len(given))]
                writer.writerow(values)
        return file.getvalue()

    def latex(self) -> str:
        """A `tabular` for the package booktabs.

        The best is bold, the second best underlined; notes are comments.
        """
        shown = [column for column in self.columns if column.shown]
        lines = [
            f"% {self.title}",
            "\\begin{tabular}{" + "".join("r" if c.numeric else "l" for c in shown) + "}",
            "\\toprule",
        ]
        lines += [" & ".join(_latex(column.title) for column in shown) + " \\\\"]
        for block in self.blocks:
            lines += ["\\midrule"]
            if block.title:
                lines += [f"\\multicolumn{{{len(shown)}}}{{l}}{{{_latex(block.title)}}} \\\\"]
            lines += [" & ".join(self._shown(row, _mark_latex)) + " \\\\" for row in block.rows]
        notes = [note for block in self.blocks for note in block.notes]
        notes += [*self.notes, *self._legend("Bold:", "underlined:")]
        lines += ["\\bottomrule", "\\end{tabular}", *(f"% {note}" for note in notes)]
        return "\n".join(lines) + "\n"

    def _legend(self, best: str, second: str) -> list[str]:
        """What the marks of a form mean, where there are marks, and what the columns show."""
        marks = {cell.mark for row in self.rows for cell in row}
        lines = []
        if "second" in marks:
            lines = [f"{best} best, {second} second best of the {self.ranked}."]
        elif "best" in marks:
            lines = [f"{best} best of the {self.ranked}."]
        return lines + self.meanings

    @property
    def meanings(self) -> list[str]:
        """One sentence for each shown column whose title does not say what it shows."""
        return [
            f"{column.title}: {column.meaning}."
            for column in self.columns
            if column.shown and column.meaning
        ]

    def _shown(self, row: Sequence[Cell], mark: Callable[[Cell], str]) -> list[str]:
        return [mark(cell) for cell, column in zip(row, self.columns, strict=True) if column.shown]


def _parts(widths: Sequence[int], width: int | None) -> list[list[int]]:
    """The columns of each part of a table; each part begins with the first column.

    >>> _parts([4, 6, 6, 6], 20), _parts([4, 6, 6, 6], None)
    ([[0, 1, 2], [0, 3]], [[0, 1, 2, 3]])
    """
    parts: list[list[int]] = [[0]] if widths else [[]]
    for column in range(1, len(widths)):
        used = sum(widths[i] + 2 for i in parts[-1])
        if width is not None and len(parts[-1]) > 1 and used + widths[column] > width:
            parts.append([0])
        parts[-1].append(column)
    return parts


def _wrapped(text: str, width: int | None) -> str:
    """The text in lines of at most `width` characters, broken between words."""
    if width is None:
        return text
    return "\n".join(
        textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False)
    )


def _mark_markdown(cell: Cell) -> str:
    return {"best": f"**{cell.text}**", "second": f"*{cell.text}*"}.get(cell.mark, cell.text)


def _mark_latex(cell: Cell) -> str:
    text = _latex(cell.text)
    return {"best": f"\\textbf{{{text}}}", "second": f"\\underline{{{text}}}"}.get(cell.mark, text)


def _escape_bar(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "°": r"$^\circ$",
}
# A minus sign in front of a number, also of one that begins with a point; no hyphen inside a word.
_MINUS = re.compile(r"(?<![\w.])-(?=[.\d])")


def _latex(text: str) -> str:
    return _MINUS.sub("$-$", "".join(_LATEX.get(character, character) for character in text))


def _csv_value(value: str | float | int | None) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)
