"""`report.html`: one file with all data and scripts, made from records; it opens offline."""

import html
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.resources import files

import fedgs
from fedgs.errors import require_extra
from fedgs.report.labels import labelled
from fedgs.report.page_data import page_data
from fedgs.report.run_view import Run
from fedgs.report.table import Block, Cell, Table
from fedgs.report.tables import ALL_FIGURES, comparison

__all__ = ["render_page"]


def render_page(
    runs: Sequence[Run],
    problems: Sequence[str] = (),
    *,
    title: str = "fedgs report",
    written: datetime | None = None,
    reload: float | None = None,
) -> str:
    """The whole page. The same arguments give the same page.

    Args:
        runs: at least one, finished or not.
        problems: one line each, shown in the overview.
        title: the page's title.
        written: when the page is written, which it then says.
        reload: seconds after which the browser loads the page again; None: it does not.

    Raises:
        MissingExtraError: plotly is not installed.
    """
    runs = labelled(runs)
    table = comparison(runs, figures=ALL_FIGURES)
    parts = {
        "title": html.escape(title),
        "about": html.escape(_about(runs, written)),
        "tables": _tables(table, len({run.group for run in runs})),
        "meanings": "".join(f"<p>{html.escape(meaning)}</p>" for meaning in table.meanings),
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
    if reload is not None:
        refresh = f'<meta http-equiv="refresh" content="{reload:g}">'
        page = page.replace("<head>", f"<head>\n{refresh}", 1)
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


def _about(runs: Sequence[Run], written: datetime | None) -> str:
    """Where the runs are, when they were started and by which version, and when this is written."""
    folders = sorted({run.path.resolve().parent.name for run in runs if run.path is not None})
    started = sorted(str(run.about["started"])[:10] for run in runs if run.about.get("started"))
    versions = [run.about.get("versions") for run in runs]
    names = sorted({str(v["fedgs"]) for v in versions if isinstance(v, Mapping) and "fedgs" in v})
    parts = [f"Folder {', '.join(folders)}"] if folders else []
    if started:
        until = "" if started[0] == started[-1] else f" to {started[-1]}"
        parts.append(f"runs started {started[0]}{until}")
    parts += [f"runs by fedgs {', '.join(names)}"] if names else []
    when = "" if written is None else f" {written:%Y-%m-%d %H:%M %Z}".rstrip()
    parts.append(f"page written{when} by fedgs {fedgs.__version__}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _tables(table: Table, groups: int) -> str:
    """The block of each group, and those over several modes, which are shown with every group."""
    return "\n".join(
        _block_html(table, block, str(number) if number < groups else "all")
        for number, block in enumerate(table.blocks)
    )


def _block_html(table: Table, block: Block, group: str) -> str:
    """One block with its notes."""
    shown = [column for column in table.columns if column.shown]
    head = "".join(f'<th scope="col">{html.escape(column.title)}</th>' for column in shown)
    rows = "".join("<tr>" + _cells(table, row) + "</tr>" for row in block.rows)
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in block.notes)
    title = html.escape(block.title)
    return (
        f'<section class="result" data-group="{group}"><h3>{title}</h3>'
        '<p class="hint" hidden>The table is wider than the window: scroll it sideways.</p>'
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
