"""Memories of a sampler and a weighting for clients that join."""

from collections.abc import Mapping

import numpy as np

from fedgs.arrays import AnyArray, FloatArray
from fedgs.clients import Clients, Memory, Outcome, View
from fedgs.errors import ConfigError, SelectionError
from fedgs.requests import check_batch, check_reports
from fedgs.sampler_answers import checked_memory, kept_memory
from fedgs.sampling import AsksBatchLosses, AsksReports, Grows, Remembers, Sampler
from fedgs.weighting import Weighting

__all__ = [
    "check_requests",
    "grown",
    "observed",
    "refuse_durations",
    "refuse_rates",
    "sampler_memory",
    "seen_by_sampler",
    "weighting_memory",
]


def grown(earlier: Memory, fresh: Memory, *, owner: str = "sampler") -> Memory:
    """A memory for more clients: a fresh start, with the entries of the earlier clients.

    Args:
        earlier: the memory of the clients met before.
        fresh: a memory of all clients before round 0.
        owner: of the memory, for messages.

    Raises:
        SelectionError: an array of the earlier memory does not fit in the fresh one.

    >>> grown({"seen": np.array([1, 2])}, {"seen": np.zeros(3)})["seen"]
    array([1., 2., 0.])
    """
    memory: dict[str, AnyArray] = {}
    for name, array in fresh.items():
        memory[name] = larger = np.array(array)
        old = earlier.get(name)
        if old is not None:
            if old.ndim != larger.ndim or any(
                a > b for a, b in zip(old.shape, larger.shape, strict=True)
            ):
                raise SelectionError(
                    f"the {owner}'s memory {name!r} of shape {old.shape} does not fit in "
                    f"{larger.shape}, which start gives for all clients"
                )
            larger[tuple(slice(0, length) for length in old.shape)] = old
    return memory


def refuse_rates(weighting: Weighting) -> None:
    """Refuse a weighting that reads the true rates of availability.

    Raises:
        ConfigError: it reads them.
    """
    if weighting.reads_rates:
        raise ConfigError(
            f"weighting {weighting.name or type(weighting).__name__!r} reads the true rates of "
            "availability, which a deployment does not know; 'fedau' estimates them"
        )


def weighting_memory(
    weighting: Weighting, earlier: Mapping[str, AnyArray], clients: Clients, cohort_limit: int
) -> Memory:
    """The memory of a weighting for these clients, of whom the last ones may be new."""
    fresh = checked_memory(weighting.start(clients, cohort_limit), "start")
    return kept_memory(grown(earlier, fresh, owner="weighting"))


def observed(weighting: Weighting, memory: Memory, view: View, outcome: Outcome | None) -> Memory:
    """The memory of a weighting after a round."""
    return kept_memory(checked_memory(weighting.observe(memory, view, outcome), "observe"))


def check_requests(sampler: Sampler) -> None:
    """Refuse a mini-batch or a report that a sampler cannot have.

    Raises:
        ConfigError: its `loss_batch` is no integer >= 1, or one of its reports does not exist.
    """
    if isinstance(sampler, AsksBatchLosses):
        check_batch(sampler.loss_batch, "method.loss_batch")
    if isinstance(sampler, AsksReports):
        check_reports(sampler.wanted_reports)


def refuse_durations(sampler: Sampler) -> None:
    """Refuse settings about durations, which a sampler does not see.

    Raises:
        ConfigError: one of them is not the default.
    """
    for name in sampler.of_durations:
        if getattr(sampler, name) != type(sampler).model_fields[name].default:
            raise ConfigError(
                f"method.{name} has no effect with durations = False, which hides the durations "
                "that it is about; leave it out"
            )


def sampler_memory(sampler: Remembers, earlier: Memory, clients: Clients) -> Memory:
    """The memory of a sampler for these clients, of whom the last ones may be new.

    Args:
        sampler: of the deployment.
        earlier: the memory of the clients met before; {}: there is none.
        clients: all clients met so far.

    Raises:
        SelectionError: what the sampler returned is no memory, or an array has another shape.
    """
    if not earlier or not isinstance(sampler, Grows):
        return grown(earlier, checked_memory(sampler.start(clients), "start"))
    memory = checked_memory(sampler.grow(earlier, clients), "grow")
    others = {name: array for name, array in earlier.items() if name not in memory}
    if not others:
        return memory
    # Those of a subclass whose base class grows.
    fresh = checked_memory(sampler.start(clients), "start")
    return {**grown(others, {name: fresh[name] for name in others if name in fresh}), **memory}


def seen_by_sampler(outcome: Outcome, features: Mapping[int, FloatArray]) -> Outcome:
    """The outcome of the clients whose feature is known, with their features.

    Args:
        outcome: of the round.
        features: row -> feature, of at least one client of the outcome.
    """
    known = np.array([row in features for row in outcome.clients.tolist()], dtype=bool)
    rows = outcome.clients[known]
    reports = {name: numbers[known] for name, numbers in outcome.reports.items()}
    matrix = np.stack([features[row] for row in rows.tolist()])
    return Outcome(rows, outcome.weights[known], matrix, reports)
