"""What all figures share: size, fonts, panels, legends, and how a figure becomes files."""

import io
import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fedgs.arrays import AnyArray
from fedgs.errors import ConfigError, require_extra
from fedgs.report.files import write_file
from fedgs.report.subjects import description

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = [
    "canvas",
    "figure_style",
    "legend_below",
    "legend_patches",
    "line_widths",
    "panels",
    "save_figure",
    "single_axes",
    "whole_numbers",
]

_COLUMN_INCHES = 3.35


class _Format(NamedTuple):
    dpi: int | Literal["figure"]
    undated: dict[
        str, None
    ]  # what matplotlib shall not write, so that equal figures are equal files


_FORMATS = {
    ".pdf": _Format("figure", {"CreationDate": None}),
    ".png": _Format(300, {"Software": None}),
}
_OTHER_FORMATS = {".svg", ".jpg", ".jpeg", ".eps", ".ps", ".tif", ".tiff", ".gif", ".webp", ".bmp"}


def save_figure(figure: "Figure", stem: str | os.PathLike[str]) -> list[Path]:
    """Write STEM.pdf and STEM.png (300 dots per inch); the same figure gives the same files.

    Args:
        figure: what a function of `fedgs.report.figures` returned, or another figure of matplotlib.
        stem: folder and name; a missing folder is made. A name that ends in .pdf or .png is written
            in that format alone.

    Returns:
        The files that were written.

    Raises:
        ConfigError: not a figure, not a name, or a name that ends in another format.
        OutputError: they cannot be written there.
    """
    paths = _targets(figure, stem)
    for path in paths:
        content = io.BytesIO()
        suffix = path.suffix.lower()
        dpi, metadata = _FORMATS[suffix]
        with figure_style():
            figure.savefig(content, format=suffix[1:], dpi=dpi, metadata=metadata)
        write_file(path, content.getvalue())
    return paths


def _targets(figure: object, stem: object) -> list[Path]:
    if not callable(getattr(figure, "savefig", None)):
        raise ConfigError(
            "save_figure takes a figure, such as loss_curves(runs), and a name; "
            f"got {description(figure)} as the figure"
        )
    example = "save_figure takes a name such as 'figures/loss'"
    if not isinstance(stem, str | os.PathLike):
        raise ConfigError(f"{example}; got {description(stem)}")
    path = Path(stem)
    if not path.name:
        raise ConfigError(f"{example}; got {str(stem)!r}")
    if path.suffix.lower() in _FORMATS:
        return [path]
    if path.suffix.lower() in _OTHER_FORMATS:
        raise ConfigError(
            "save_figure writes .pdf and .png, both where the name has no ending; "
            f"got {str(stem)!r}"
        )
    return [path.with_name(path.name + suffix) for suffix in _FORMATS]


def figure_style() -> AbstractContextManager[None]:
    """A context with the package's fonts; matplotlib's settings are restored at its end."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise require_extra("matplotlib", "report") from None
    return mpl.rc_context(
        {
            "font.size": 8,
            "axes.titlesize": 8,
            "legend.fontsize": 7,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "pdf.fonttype": 42,
        }
    )


def canvas(height_inches: float) -> "Figure":
    """An empty figure, one column wide."""
    from matplotlib.figure import Figure

    return Figure(figsize=(_COLUMN_INCHES, height_inches), layout="constrained")


def single_axes(height_inches: float) -> tuple["Figure", "Axes"]:
    """A figure one column wide with one pair of axes."""
    drawing = canvas(height_inches)
    return drawing, drawing.add_subplot()


def panels(titles: Sequence[str], height_inches: float) -> tuple["Figure", list["Axes"]]:
    """A figure with a pair of axes for each title: up to four in one column, more in two."""
    if len(titles) == 1:
        drawing, axes = single_axes(height_inches)
        axes.set_title(titles[0])
        return drawing, [axes]
    columns = 1 if len(titles) <= 4 else 2
    rows = -(-len(titles) // columns)
    drawing = canvas(0.7 * height_inches * rows + 0.4)
    grid = drawing.subplots(rows, columns, squeeze=False)
    every = list(grid.flat)
    for axes, title in zip(every, titles, strict=False):
        axes.set_title("\n".join(textwrap.wrap(title, 56 // columns)))
    for axes in every[len(titles) :]:
        axes.set_visible(False)
    return drawing, every[: len(titles)]


def whole_numbers(*axes: "Axis") -> None:
    """Ticks at whole numbers only, for clients and rounds."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(
            MaxNLocator(nbins=7, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1)
        )


def line_widths(curves: Sequence[Sequence[AnyArray]]) -> list[float]:
    """The width of each curve in points, such that equal curves stay visible.

    Of equal curves, the first is the widest; each later one, which is drawn on it, is narrower.

    >>> line_widths([(np.ones(2),), (np.zeros(2),), (np.ones(2),)])
    [2.8, 1.2, 1.2]
    """
    later = [
        sum(
            len(curve) == len(other) and all(map(np.array_equal, curve, other))
            for other in curves[position + 1 :]
        )
        for position, curve in enumerate(curves)
    ]
    return [round(1.2 + 1.6 * count, 1) for count in later]


def legend_below(
    drawing: "Figure", axes: "Axes | Iterable[Axes]", title: str | None = None
) -> None:
    """A legend of the axes' labels below the figure, each label once, in columns that fit.

    At least one of the axes must have a label.
    """
    from matplotlib.axes import Axes

    entries: dict[str, Artist] = {}
    for panel in [axes] if isinstance(axes, Axes) else axes:
        handles, labels = panel.get_legend_handles_labels()
        entries = {**dict(zip(labels, handles, strict=True)), **entries}
    names = sorted(entries) if title is None else list(entries)
    widest = max(map(len, names))
    by_width = 10 if widest < 3 else 44 // (widest + 4)
    columns = max(1, min(len(names), by_width, 5 if widest < 6 else 3))
    drawing.legend(
        [entries[name] for name in names],
        names,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        handlelength=1.6,
        columnspacing=1.0,
        title=title,
    )


def legend_patches(drawing: "Figure", colours: Mapping[str, str], title: str | None = None) -> None:
    """A legend of coloured boxes below the figure."""
    from matplotlib.patches import Patch

    patches = [
        Patch(facecolor=colour, edgecolor="#666666", linewidth=0.4, label=label)
        for label, colour in colours.items()
    ]
    drawing.legend(
        handles=patches,
        loc="outside lower center",
        ncols=min(len(patches), 5),
        frameon=False,
        handlelength=1.0,
        columnspacing=1.0,
        title=title,
    )
