"""The states of the clients' optimisers from round to round: `training.optimizer_state = "client"`.

They are part of a run's state. A client's optimiser continues from where it was after the client's
last local training; that of a client that has not trained yet begins anew.
"""

import torch

from fedgs.aggregation import ClientTable, Vectors
from fedgs.arrays import IntArray
from fedgs.errors import ConfigError, UpdateError
from fedgs.optimizers import SGD, Optimizer
from fedgs.requests import OptimizerState, Reply, Work

__all__ = ["check_memory", "kept_states", "start_states", "states_of"]


def check_memory(work: Work) -> None:
    """Raise `ConfigError` if states are to be kept and the optimiser has none."""
    optimizer = SGD() if work.optimizer is None else work.optimizer
    if work.optimizer_state == "client" and not optimizer.memory:
        raise ConfigError(
            "training.optimizer_state = 'client' needs an optimiser with a memory, such as 'adam' "
            f"or 'sgd' with momentum; got {_without_memory(optimizer)}"
        )


def _without_memory(optimizer: Optimizer) -> str:
    name = repr(optimizer.name or type(optimizer).__name__)
    if type(optimizer) is SGD:
        return f"{name} without momentum"
    return f"{name}, whose class names no entries in `memory`"


def start_states(work: Work) -> Vectors:
    """What a run keeps before round 0; nothing where states do not outlive a round.

    "steps" has the steps of each client's optimiser, 0 for a client that has not trained, and
    "entries" a row of what it remembers.
    """
    if work.optimizer_state == "round":
        return {}
    number = len(work.federation)
    return {
        "steps": torch.zeros(number, dtype=torch.int64),
        "entries": ClientTable.zeros(number),
    }


def states_of(kept: Vectors, clients: IntArray) -> tuple[OptimizerState | None, ...] | None:
    """The states with which these clients' optimisers begin, as in `fedgs.requests.Train`."""
    if not kept:
        return None
    steps, entries = _parts(kept)
    rows = [entries.row(client) for client in clients.tolist()]
    counts = steps[torch.from_numpy(clients)].tolist()
    return tuple(
        None if row is None else OptimizerState(count, row)
        for count, row in zip(counts, rows, strict=True)
    )


def kept_states(kept: Vectors, clients: IntArray, reply: Reply) -> tuple[Reply, Vectors]:
    """The reply to a request for training without its states, and what the run keeps of them.

    Raises:
        UpdateError: the reply does not end with a state of each client.
    """
    if not kept:
        return reply, kept
    *rest, states = reply
    if not isinstance(states, tuple) or len(states) != len(clients):
        raise UpdateError(
            "the reply of an engine that keeps the states of optimisers must end with a tuple of "
            f"{len(clients)} states, one for each client"
        )
    steps, entries = _parts(kept)
    steps = steps.clone()
    steps[torch.from_numpy(clients)] = torch.tensor([state.steps for state in states])
    rows = [state.entries for state in states]
    return tuple(rest), {"steps": steps, "entries": entries.replaced(clients, rows)}


def _parts(kept: Vectors) -> tuple[torch.Tensor, ClientTable]:
    steps, entries = kept["steps"], kept["entries"]
    assert isinstance(steps, torch.Tensor) and isinstance(entries, ClientTable)
    return steps, entries
