"""Whether the batches of local training fit into memory, checked before round 0."""

import math

from fedgs.errors import ConfigError
from fedgs.local.batches import compiled_kernels, steps_a_pass
from fedgs.machine import memory_limit
from fedgs.requests import Work

__all__ = ["check_batch_memory", "filled_batch_size"]

_INDEX = 8  # bytes
_PADDED = 8  # clients, the least that the stacked program pads a request to on the CPU


def filled_batch_size(work: Work) -> int:
    """How many examples the largest batch holds: B, or the largest n_k where B is above it.

    With any B from the largest n_k up, every batch of a client is all its examples, in the same
    order.

    >>> from fedgs.data import Synthetic
    >>> from fedgs.models import LogisticRegression
    >>> federation = Synthetic(clients=2).load()
    >>> work = Work(federation, LogisticRegression(), 0.0, local_steps=5, batch_size=10**9)
    >>> filled_batch_size(work) == int(federation.clients.data_sizes.max())
    True
    """
    return min(work.batch_size, int(work.federation.clients.data_sizes.max()))


def check_batch_memory(work: Work, *, program: str, device: str, cohort_limit: int) -> None:
    """Refuse steps and batches whose tables of examples exceed the memory.

    The memory is that of the machine or the container. The estimate is a lower bound of what a
    round needs. The loop engine and the program for linear models hold batches of at most the
    largest n_k examples. The stacked program pads batches to B, on which the last bits of its
    results depend.

    Args:
        work: the federation, E and B.
        program: "loop", "linear" or "stacked", which carries out the work; others are not
            estimated.
        device: "cpu", "cuda" or "cuda:0".
        cohort_limit: M.

    Raises:
        ConfigError: the tables do not fit; the message has both sizes and what to change.
    """
    limit = memory_limit()
    if limit is None or program not in ("loop", "linear", "stacked"):
        return
    filled = filled_batch_size(work)
    padded = program == "stacked" or (program == "linear" and compiled_kernels("linear") is None)
    if padded:
        slots, clients = work.batch_size, _PADDED if device == "cpu" else 1
        inputs = 4 * math.prod(work.federation.example_shape)
    else:
        slots, inputs = filled, 0
        clients = cohort_limit if program == "loop" else min(cohort_limit, _PADDED)
    # Positions among the client's examples, and rows of the federation's.
    tables = 1 if program == "loop" else 2
    steps = _most_steps(work)

    def fits(slots: int) -> bool:
        indices = _INDEX * steps * (tables * slots + 1)
        return clients * (indices + inputs * slots) <= limit

    if fits(slots):
        return
    advice = "use fewer steps or smaller batches"
    if slots > filled and fits(filled):
        advice = (
            f"the largest client has {filled} examples, so training.batch_size = {filled} "
            "gives full batches"
        )
    raise ConfigError(
        f"{_setting(work)} and training.batch_size = {work.batch_size} "
        f"need more memory for the batches of a round than the {limit / 1e9:.1f} GB that this "
        f"process may use; {advice}"
    )


def _most_steps(work: Work) -> int:
    """The steps of the client that makes the most; any integer can be asked for."""
    if work.local_epochs is None:
        return work.local_steps
    sizes = work.federation.clients.data_sizes
    in_pass = steps_a_pass(sizes, filled_batch_size(work), drop_last=work.drop_last)
    return work.local_epochs * int(in_pass.max())


def _setting(work: Work) -> str:
    """The setting of the number of steps."""
    if work.local_epochs is None:
        return f"training.local_steps = {work.local_steps}"
    return f"training.local_epochs = {work.local_epochs}"
