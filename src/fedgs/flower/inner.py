"""Which Flower strategies fit inside `SampledStrategy`, what they were set to, and what must survive a restart."""

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import strategy as flower_strategies

from fedgs.arrays import AnyArray
from fedgs.errors import ConfigError
from fedgs.flower.journal import without_sampling_lines

__all__ = ["Inner", "restored_arrays", "saved_arrays"]

_IGNORES_WEIGHTS = {
    "Bulyan": "it picks updates by their distances",
    "FedMedian": "it takes medians",
    "FedTrimmedAvg": "it takes trimmed means",
    "FedXgbBagging": "it joins trees",
    "FedXgbCyclic": "it visits one client after the other",
    "Krum": "it picks updates by their distances",
    "MultiKrum": "it picks updates by their distances",
    "QFedAvg": "it weighs updates by their losses",
}
# What FedAvgM and the FedOpt family carry from round to round.
_CARRIED = ("m_t", "v_t", "momentum_vector", "current_arrays")


@dataclass(frozen=True, eq=False)
class Inner:
    """A strategy that aggregates what it is given, with its own choice of nodes switched off.

    Attributes:
        strategy: a copy that takes every node it sees (fractions 1, minima 1); the user's object
            stays as it was.
        fraction_train, fraction_evaluate: what the user had set.
        min_train_nodes, min_evaluate_nodes, min_available_nodes: likewise.
    """

    strategy: Any
    fraction_train: float
    fraction_evaluate: float
    min_train_nodes: int
    min_evaluate_nodes: int
    min_available_nodes: int

    @staticmethod
    def of(strategy: Any) -> "Inner":
        """Wrap a strategy.

        Raises:
            ConfigError: it does not average by `weighted_by_key`, chooses by itself, or does not
                train.

        >>> from flwr.serverapp.strategy import FedAvg
        >>> Inner.of(FedAvg(fraction_train=0.2)).fraction_train
        0.2
        """
        _check_fits(strategy)
        settings = {
            name: getattr(strategy, name)
            for name in Inner.__dataclass_fields__
            if name != "strategy"
        }
        taking_all = copy.copy(strategy)
        taking_all.fraction_train = taking_all.fraction_evaluate = 1.0
        taking_all.min_train_nodes = taking_all.min_evaluate_nodes = (
            taking_all.min_available_nodes
        ) = 1
        return Inner(taking_all, **settings)

    @contextmanager
    def undisturbed(self) -> Iterator[Any]:
        """The strategy, for a call whose stock sampling would draw from Python's global generator and log what it took."""
        state = random.getstate()
        try:
            with without_sampling_lines():
                yield self.strategy
        finally:
            random.setstate(state)


def _check_fits(strategy: Any) -> None:
    kind = type(strategy).__name__
    for name, why in _IGNORES_WEIGHTS.items():
        if isinstance(strategy, getattr(flower_strategies, name, ())):
            raise ConfigError(
                f"{kind} does not fit in SampledStrategy: {why} and ignores aggregation weights; use FedAvg, FedAvgM, FedProx, "
                "FedAdagrad, FedAdam, FedYogi or a strategy derived from them"
            )
    if kind.startswith("DifferentialPrivacy"):
        raise ConfigError(
            f"{kind} does not fit in SampledStrategy: its noise is scaled for equal weights and a fixed number of clients"
        )
    if not isinstance(strategy, flower_strategies.FedAvg):
        raise ConfigError(f"the inner strategy must be FedAvg or derived from it, got {kind}")
    if strategy.fraction_train == 0.0:
        raise ConfigError("the inner strategy must train, got fraction_train = 0.0")


def saved_arrays(strategy: Any) -> dict[str, AnyArray]:
    """The arrays that a server optimiser carries, by "attribute/name".

    >>> from flwr.serverapp.strategy import FedAvg
    >>> saved_arrays(FedAvg())
    {}
    """
    arrays: dict[str, AnyArray] = {}
    for attribute in _CARRIED:
        value = getattr(strategy, attribute, None)
        if isinstance(value, ArrayRecord):
            arrays |= {f"{attribute}/record/{name}": array.numpy() for name, array in value.items()}
        elif isinstance(value, dict):
            arrays |= {
                f"{attribute}/dict/{name}": np.asarray(array) for name, array in value.items()
            }
        elif isinstance(value, list):
            arrays |= {
                f"{attribute}/list/{position:06d}": np.asarray(array)
                for position, array in enumerate(value)
            }
    return arrays


def restored_arrays(strategy: Any, arrays: dict[str, AnyArray]) -> None:
    """Set what `saved_arrays` gave."""
    found: dict[tuple[str, str], dict[str, AnyArray]] = {}
    for path, array in arrays.items():
        attribute, kind, name = path.split("/", 2)
        found.setdefault((attribute, kind), {})[name] = array
    for (attribute, kind), named in found.items():
        value: Any = named
        if kind == "record":
            value = ArrayRecord({name: Array(array) for name, array in named.items()})
        elif kind == "list":
            value = [named[name] for name in sorted(named)]
        setattr(strategy, attribute, value)
