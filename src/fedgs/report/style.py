"""Colours, dashes and markers of methods: the same in every figure and on the page.

Published methods have a fixed colour each. Those of the paper's five methods are safe for
colour-blind readers.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from fedgs.palette import shaded
from fedgs.report.labels import base_name
from fedgs.report.run_view import Run

__all__ = ["AVAILABLE", "UNAVAILABLE", "Look", "looks"]

_METHODS = {
    # Okabe and Ito's palette without its yellow, which is too light for lines.
    "fedgs": "#D55E00",
    "uniform": "#444444",
    "md": "#0072B2",
    "fedprox": "#56B4E9",
    "power_of_choice": "#009E73",
    # Colours that keep the largest distances from these, from `_OTHERS` and from each other, also
    # for readers who see no red or no green. So many cannot be told apart by colour alone, and
    # markers differ too.
    "inverse_participation": "#D24B5A",
    "balanced_shares": "#B4A500",
    "fedavg": "#695A78",
    "fedavg_all": "#3C2D5A",
    "cpow_d": "#87C378",
    "rpow_d": "#3C784B",
    "active_fl": "#4B8787",
    "oort": "#C300FF",
    "fedau": "#3CC3D2",
    "known_rates": "#8796FF",
    "f3ast": "#0078FF",
    "ca_fed": "#1E00B4",
    "least_recent": "#E1A5A5",
    "clustered_sizes": "#693CC3",
    "clustered": "#783C87",
    "divfl": "#D20FB4",
    "mifa": "#874B00",
    "fedvarp": "#691E00",
    "fedstale": "#5A3C2D",
    "fedlaavg": "#A5783C",
    "scaffold": "#004BF0",
    "fedawe": "#A50F5A",
    "fedavgm": "#96C35A",
    "permutation": "#C3B45A",
    "feddyn": "#5A5AE1",
    "fedpbc": "#0FC30F",
    "rbcs_f": "#FF0F23",
}
# Of methods that are not published, such as those of plug-ins.
_OTHERS = ("#CC79A7", "#E69F00", "#7A4A2B", "#332288", "#999933")
UNAVAILABLE, AVAILABLE = "#FFFFFF", "#C9D3DC"
_DASHES = ("solid", "dash", "dot", "dashdot")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@dataclass(frozen=True)
class Look:
    """How a method is drawn.

    Attributes:
        colour: "#RRGGBB".
        dash: "solid", "dash", "dot" or "dashdot".
        marker: matplotlib's letter.
    """

    colour: str
    dash: str
    marker: str


def looks(runs: Iterable[Run]) -> dict[str, Look]:
    """Label -> look.

    The colour follows the method's name; variants of one method share its hue and differ in
    lightness and dash.

    >>> looks([Run({"method": {"name": "fedgs"}}, (), label="ours")])["ours"].colour
    '#D55E00'
    """
    variants: dict[str, set[str]] = {}
    for run in runs:
        variants.setdefault(base_name(run), set()).add(run.label)
    colours = _base_colours(sorted(variants))
    by_label: dict[str, Look] = {}
    for place, name in enumerate(sorted(variants)):
        labels = sorted(variants[name])
        for i, label in enumerate(labels):
            shade = 0.0 if len(labels) == 1 else -0.25 + 0.6 * i / (len(labels) - 1)
            by_label[label] = Look(
                colour=shaded(colours[name], shade),
                dash=_DASHES[i % len(_DASHES)],
                marker=_MARKERS[place % len(_MARKERS)],
            )
    return by_label


def _base_colours(names: list[str]) -> dict[str, str]:
    """A fixed colour for published methods, and for others one of five by the name's checksum.

    If that one is taken by another method of the figure, the next free one follows.
    """
    colours: dict[str, str] = {}
    for name in names:
        start = zlib.crc32(name.encode())
        wheel = [_OTHERS[(start + step) % len(_OTHERS)] for step in range(len(_OTHERS))]
        free = [colour for colour in wheel if colour not in colours.values()]
        colours[name] = _METHODS.get(name) or (free or wheel)[0]
    return colours
