"""The names of `fedgs reproduce` and the experiments behind them."""

import importlib

from fedgs.errors import ConfigError
from fedgs.experiments.paper.experiment import Experiment
from fedgs.registry import nearest

__all__ = ["NAMES", "find"]

_MODULES = {
    "table1": "modes",
    "table2": "methods",
    "table3": "edges",
    "table4": "graphs",
    "fig3": "drawings",
    "fig4": "curves",
    "fig5": "curves",
    "fig7": "drawings",
    "fig8": "modes",
    "tuning": "tuning",
    "gamma": "weights",
    "theorem1": "theorem",
}
NAMES = tuple(_MODULES)


def find(name: str) -> Experiment:
    """The experiment of a name.

    Raises:
        ConfigError: no such name.

    >>> find("table2").name
    'table2'
    """
    if name not in _MODULES:
        illustration = "; figures 1, 2 and 6 of the paper are illustrations" if name in ("fig1", "fig2", "fig6") else ""
        raise ConfigError(f"NAME must be one of {', '.join(NAMES)}; got {name!r}{illustration or nearest(name, NAMES)}")
    module = importlib.import_module(f"fedgs.experiments.paper.{_MODULES[name]}")
    experiment: Experiment = module.EXPERIMENTS[name]
    return experiment
