"""A stacked bar chart of a federation: one bar per client, one colour per label."""

from pathlib import Path

import numpy as np

from fedgs.data.describe import Description
from fedgs.errors import OutputError, require_extra
from fedgs.palette import label_colours
from fedgs.plurals import counted

__all__ = ["plot_labels"]


def plot_labels(description: Description, path: Path) -> Path:
    """Write the picture in the format of its ending (.png, .svg, .pdf) and return its path.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OutputError: an unknown ending, or a folder that cannot be written to.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise require_extra("matplotlib", "report") from None
    counts = description.label_counts
    word = "label" if description.task == "classes" else "group"
    if counts is None:  # one bar of all examples for each client
        counts = description.data_sizes[:, None]
    count, labels = counts.shape
    figure = Figure(figsize=(min(max(6.0, 0.16 * count), 24.0), 4.0), layout="constrained")
    axes = figure.add_subplot()
    bottom = np.zeros(count)
    for label, colour in enumerate(label_colours(labels)):
        heights = counts[:, label]
        axes.bar(
            np.arange(count), heights, bottom=bottom, width=0.9, color=colour, label=str(label)
        )
        bottom += heights
    axes.set_xlim(-0.6, count - 0.4)
    axes.set_xlabel("client")
    axes.set_ylabel("training examples")
    axes.set_title(f"{description.name}, {counted(count, 'client')}")
    if count <= 40:
        names = [str(name) for name in description.names]
        axes.set_xticks(np.arange(count), names, rotation=90 if count > 15 else 0)
    if labels <= 30 and description.label_counts is not None:
        axes.legend(
            title=word,
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            reverse=True,
            fontsize="small",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    except (ValueError, OSError) as error:
        raise OutputError(f"the picture cannot be written to {path}: {error}") from None
    return path
