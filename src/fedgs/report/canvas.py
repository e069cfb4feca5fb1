"""What all figures share: size, fonts, legends, and how a figure becomes files."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgs.errors import require_extra
from fedgs.report.files import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["canvas", "legend_below", "legend_patches", "save_figure", "single_axes", "style"]

COLUMN_INCHES = 3.35
_STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,
}


def save_figure(figure: "Figure", stem: Path) -> list[Path]:
    """Write STEM.pdf and STEM.png (300 dots an inch); the same figure gives the same files.

    Raises:
        OutputError: they cannot be written there.
    """

    written = []
    for suffix, options in (
        (".pdf", {"metadata": {"CreationDate": None}}),
        (".png", {"dpi": 300, "metadata": {"Software": None}}),
    ):
        content = io.BytesIO()
        with style():
            figure.savefig(content, format=suffix[1:], **options)
        path = stem.with_name(stem.name + suffix)
        write_file(path, content.getvalue())
        written.append(path)
    return written


def style() -> Any:
    """A context with the house's fonts, which leaves matplotlib's settings as they were."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise require_extra("matplotlib", "report") from None
    return mpl.rc_context(_STYLE)


def canvas(height_inches: float) -> "Figure":
    """An empty figure, one column wide."""
    from matplotlib.figure import Figure

    return Figure(figsize=(COLUMN_INCHES, height_inches), layout="constrained")


def single_axes(height_inches: float) -> tuple["Figure", "Axes"]:
    """A figure of one column with one pair of axes."""
    drawing = canvas(height_inches)
    return drawing, drawing.add_subplot()


def legend_below(drawing: "Figure", axes: "Axes", title: str | None = None) -> None:
    """A legend of the axes' labels below the figure, in columns that fit."""
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        widest = max(map(len, labels))
        columns = max(1, min(len(labels), 10 if widest < 3 else 44 // (widest + 4), 5 if widest < 6 else 3))
        look: dict[str, Any] = {"frameon": False, "handlelength": 1.6, "columnspacing": 1.0, "title": title}
        drawing.legend(handles, labels, loc="outside lower center", ncols=columns, **look)


def legend_patches(drawing: "Figure", colours: Mapping[str, str], title: str | None = None) -> None:
    """A legend of coloured boxes below the figure."""
    from matplotlib.patches import Patch

    patches = [Patch(facecolor=colour, edgecolor="#666666", linewidth=0.4, label=label) for label, colour in colours.items()]
    look: dict[str, Any] = {"frameon": False, "handlelength": 1.0, "columnspacing": 1.0, "title": title}
    drawing.legend(handles=patches, loc="outside lower center", ncols=min(len(patches), 5), **look)
