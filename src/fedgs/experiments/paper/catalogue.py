"""The names of `fedgs reproduce` and their experiments, by the names of the modules."""

import importlib

from fedgs.errors import ConfigError
from fedgs.experiments.paper.frame.experiment import Experiment
from fedgs.suggestions import nearest

__all__ = ["NAMES", "find"]

# A module is named after its experiments, separated by underscores.
_MODULES = (
    "table1_fig8",
    "table2",
    "table3",
    "table4",
    "fig3_fig7",
    "fig4",
    "fig5",
    "tuning",
    "gamma",
    "theorem1",
)
_MODULE_OF = {name: module for module in _MODULES for name in module.split("_")}


def _names() -> tuple[str, ...]:
    """All names: tables, then figures, then the rest."""
    tables, figures = (
        sorted(name for name in _MODULE_OF if name.startswith(kind)) for kind in ("table", "fig")
    )
    return (*tables, *figures, *(name for name in _MODULE_OF if name not in (*tables, *figures)))


NAMES = _names()


def find(name: str) -> Experiment:
    """The experiment of a name.

    Raises:
        ConfigError: no such name.

    >>> find("table2").name
    'table2'
    """
    if name not in NAMES:
        illustrations = "; figures 1, 2 and 6 of the paper are illustrations"
        hint = illustrations if name in ("fig1", "fig2", "fig6") else nearest(name, NAMES)
        raise ConfigError(f"NAME must be one of {', '.join(NAMES)}; got {name!r}{hint}")
    module = importlib.import_module(f"fedgs.experiments.paper.{_MODULE_OF[name]}")
    experiment: Experiment = module.EXPERIMENTS[name]
    return experiment
