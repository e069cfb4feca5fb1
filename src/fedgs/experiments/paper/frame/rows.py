"""The rows of the paper's tables: its baselines, and FedGS at every diversity weight."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "ALPHAS",
    "MethodRow",
    "baseline_rows",
    "fedgs_method",
    "fedgs_row",
    "is_about_fedgs",
    "is_baseline",
]

ALPHAS = (0.0, 0.5, 1.0, 2.0, 5.0)
_POWER_OF_CHOICE = {"name": "power_of_choice", "loss_on": "validation"}


@dataclass(frozen=True)
class MethodRow:
    """A method of a table.

    Attributes:
        key: short and unique, such as "fedgs-0.5"; `--methods` accepts it.
        label: the text in tables.
        method: the method's table of a configuration.
        training: training settings of this row alone.
    """

    key: str
    label: str
    method: Mapping[str, object]
    training: Mapping[str, object] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """The method's name. `--methods` accepts it for all rows of the method."""
        return str(self.method["name"])


def baseline_rows() -> list[MethodRow]:
    """The paper's baselines. Power of choice uses validation losses, as its figures imply."""
    return [
        MethodRow("uniform", "uniform", {"name": "uniform"}),
        MethodRow("md", "md", {"name": "md"}),
        MethodRow("power_of_choice", "power_of_choice", _POWER_OF_CHOICE),
        MethodRow("fedprox", "fedprox .01", {"name": "fedprox"}, {"mu": 0.01}),
    ]


def fedgs_row(alpha: float, scale: str) -> MethodRow:
    """FedGS at a diversity weight."""
    return MethodRow(f"fedgs-{alpha:g}", f"fedgs {alpha:g}", fedgs_method(alpha, scale))


def fedgs_method(alpha: float, scale: str) -> dict[str, object]:
    """FedGS's table of a configuration."""
    return {"name": "fedgs", "alpha": alpha, "scale": scale}


def is_about_fedgs(row: str) -> bool:
    """Whether a row's key is one of FedGS."""
    return row.startswith("fedgs-")


def is_baseline(row: str) -> bool:
    """Whether a row's key is one of the paper's other methods.

    >>> [is_baseline(row) for row in ("md", "fedgs-1", "uniform-inverse")]
    [True, False, False]
    """
    return not is_about_fedgs(row) and not row.endswith("-inverse")
