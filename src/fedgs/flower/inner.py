"""The Flower strategy inside `SampledStrategy`: its checks, its settings, its restarts."""

import copy
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import strategy as flower_strategies
from flwr.serverapp.strategy import FedAvg

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
# The attributes that FedAvgM and the FedOpt family carry from round to round. Flower has no
# interface for them; `test_a_restarted_server_goes_on_exactly` fails if a version renames them.
_CARRIED = ("m_t", "v_t", "momentum_vector", "current_arrays")


@dataclass(frozen=True, eq=False)
class Inner:
    """A strategy whose own choice of nodes is switched off, so that it aggregates what it gets.

    Attributes:
        strategy: a copy that takes every node it sees (fractions 1, minima 1); the user's object
            is not changed.
        fraction_train: the user's setting, as are the following.
        fraction_evaluate: share of the available nodes that evaluate.
        min_train_nodes: the fewest nodes that train.
        min_evaluate_nodes: the fewest nodes that evaluate.
        min_available_nodes: the fewest nodes that a round needs.
    """

    strategy: FedAvg
    fraction_train: float
    fraction_evaluate: float
    min_train_nodes: int
    min_evaluate_nodes: int
    min_available_nodes: int

    @staticmethod
    def of(strategy: object) -> "Inner":
        """Wrap a strategy.

        Raises:
            ConfigError: it does not average by `weighted_by_key`, chooses by itself, or does not
                train.

        >>> from flwr.serverapp.strategy import FedAvg
        >>> Inner.of(FedAvg(fraction_train=0.2)).fraction_train
        0.2
        """
        fitting = _checked(strategy)
        taking_all = copy.copy(fitting)
        taking_all.fraction_train = taking_all.fraction_evaluate = 1.0
        taking_all.min_train_nodes = taking_all.min_evaluate_nodes = 1
        taking_all.min_available_nodes = 1
        return Inner(
            taking_all,
            fraction_train=fitting.fraction_train,
            fraction_evaluate=fitting.fraction_evaluate,
            min_train_nodes=fitting.min_train_nodes,
            min_evaluate_nodes=fitting.min_evaluate_nodes,
            min_available_nodes=fitting.min_available_nodes,
        )

    @contextmanager
    def undisturbed(self) -> Iterator[FedAvg]:
        """The strategy, with its sampling lines and its use of the global generator undone.

        Flower's strategies draw their choice of nodes from Python's global generator and log it.
        """
        state = random.getstate()
        try:
            with without_sampling_lines():
                yield self.strategy
        finally:
            random.setstate(state)


def _checked(strategy: object) -> FedAvg:
    """The strategy, if it fits in `SampledStrategy`."""
    kind = type(strategy).__name__
    for name, why in _IGNORES_WEIGHTS.items():
        if isinstance(strategy, getattr(flower_strategies, name, ())):
            raise ConfigError(
                f"{kind} does not fit in SampledStrategy: {why} and ignores aggregation weights; "
                "use FedAvg, FedAvgM, FedProx, FedAdagrad, FedAdam, FedYogi or a strategy derived "
                "from them"
            )
    if kind.startswith("DifferentialPrivacy"):
        raise ConfigError(
            f"{kind} does not fit in SampledStrategy: its noise is scaled for equal weights and a "
            "fixed number of clients"
        )
    if not isinstance(strategy, FedAvg):
        raise ConfigError(f"the inner strategy must be FedAvg or derived from it, got {kind}")
    if strategy.fraction_train == 0.0:
        raise ConfigError("the inner strategy must train, got fraction_train = 0.0")
    return strategy


def saved_arrays(strategy: object) -> dict[str, AnyArray]:
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


def restored_arrays(strategy: object, arrays: Mapping[str, AnyArray]) -> None:
    """Set the attributes that `saved_arrays` saved."""
    groups: dict[tuple[str, str], dict[str, AnyArray]] = {}
    for path, array in arrays.items():
        attribute, kind, name = path.split("/", 2)
        groups.setdefault((attribute, kind), {})[name] = array
    for (attribute, kind), named in groups.items():
        if kind == "record":
            record = ArrayRecord({name: Array(array) for name, array in named.items()})
            setattr(strategy, attribute, record)
        elif kind == "list":
            setattr(strategy, attribute, [named[name] for name in sorted(named)])
        else:
            setattr(strategy, attribute, named)
