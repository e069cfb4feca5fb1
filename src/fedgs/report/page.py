"""`report.html`: one file with all data and scripts, made from records; it opens offline."""

import html
import json
from collections.abc import Sequence
from importlib.resources import files

from fedgs.errors import require_extra
from fedgs.report.labels import labelled
from fedgs.report.page_data import page_data
from fedgs.report.run_view import Run
from fedgs.report.table import Cell, Table
from fedgs.report.tables import ALL_FIGURES, comparison

__all__ = ["render_page"]


def render_page(
    runs: Sequence[Run], problems: Sequence[str] = (), *, title: str = "fedgs report"
) -> str:
    """The whole page. The same runs give the same page.

    Args:
        runs: at least one, finished or not.
        problems: one line each, shown in the overview.
        title: the page's title.

    Raises:
        MissingExtraError: plotly is not installed.
    """
    runs = labelled(runs)
    table = comparison(runs, figures=ALL_FIGURES)
    parts = {
        "title": html.escape(title),
        "tables": "\n".join(_block_html(table, number) for number in range(len(table.blocks))),
        "style": _asset("page.css"),
        "plotly": _plotly(),
        "data": _json(page_data(runs, problems)),
        "script": "\n".join(
            _asset(name) for name in ("data.js", "charts.js", "network.js", "main.js")
        ),
    }
    page = _asset("page.html")
    for name, content in parts.items():
        before, marker, after = page.partition(f"<!--{name}-->")
        assert marker, name
        page = before + content + after
    return page


def _asset(name: str) -> str:
    return (files("fedgs.report") / "assets" / name).read_text(encoding="utf-8")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise require_extra("plotly", "report") from None
    # In a string of JavaScript both are the same, and only the first would end the script element.
    return str(get_plotlyjs()).replace("</script", "<\\/script")


def _json(data: object) -> str:
    """JSON for the inside of a script element.

    Inside `<script>`, HTML ends the element at any "</script", and older JavaScript ends a string
    at U+2028 and U+2029; escaped, they are still the same JSON.
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _block_html(table: Table, number: int) -> str:
    """One group's table with its notes."""
    block = table.blocks[number]
    shown = [column for column in table.columns if column.shown]
    head = "".join(f'<th scope="col">{html.escape(column.title)}</th>' for column in shown)
    rows = "".join("<tr>" + _cells(table, row) + "</tr>" for row in block.rows)
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in block.notes)
    title = html.escape(block.title)
    return (
        f'<section class="result" data-group="{number}"><h3>{title}</h3>'
        f'<div class="wide" tabindex="0" role="region" aria-label="Table: {title}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f"<ul>{notes}</ul></section>"
    )


def _cells(table: Table, row: Sequence[Cell]) -> str:
    parts = []
    for cell, column in zip(row, table.columns, strict=True):
        if not column.shown:
            continue
        text = html.escape(cell.text)
        if column.numeric:
            parts.append(f'<td class="{cell.mark}">{text}</td>')
        else:
            swatch = f'<span class="swatch" data-label="{text}"></span>'
            parts.append(f'<th scope="row">{swatch}{text}</th>')
    return "".join(parts)
