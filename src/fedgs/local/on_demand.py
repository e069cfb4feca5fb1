"""An engine for federations whose examples are made on demand, by any other engine."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from fedgs.arrays import IntArray
from fedgs.data.on_demand import FederationOnDemand, Held
from fedgs.requests import Engine, Evaluate, Failure, Reply, Request, Train

__all__ = ["OnDemandEngine"]


class OnDemandEngine:
    """Makes the examples that requests need, and lets another engine answer.

    The requests of a call that need the same part of the same federation are answered together,
    from the examples of all their clients. These are dropped afterwards, with the engine that knows
    them. Requests on other federations, and on the server's test set, go to one engine that stays.

    Args:
        make: gives a new engine.

    Attributes:
        engine: the one that stays.
    """

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self.engine = make()
        self.name = self.engine.name

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """See `fedgs.requests.Engine`."""
        held: list[int] = []
        needing: dict[tuple[int, Held], list[int]] = {}
        for position, request in enumerate(requests):
            split = _needed(request)
            if split is None:
                held.append(position)
            else:
                needing.setdefault((id(request.work.federation), split), []).append(position)
        if held:
            chosen = requests if not needing else [requests[position] for position in held]
            for place, reply in self.engine.answer(chosen):
                yield held[place], reply
        for (_, split), positions in needing.items():
            chosen = [requests[position] for position in positions]
            for place, reply in self._with_examples(chosen, split):
                yield positions[place], reply

    def _with_examples(
        self, requests: Sequence[Request], split: Held
    ) -> Iterator[tuple[int, Reply]]:
        federation = requests[0].work.federation
        assert isinstance(federation, FederationOnDemand)
        clients = np.unique(np.concatenate([_clients(request) for request in requests]))
        try:
            held = federation.holding(clients, split)
        except Exception as error:
            yield from ((place, Failure(None, error)) for place in range(len(requests)))
            return
        works = [replace(request.work, federation=held) for request in requests]
        yield from self._make().answer(
            [replace(request, work=work) for request, work in zip(requests, works, strict=True)]
        )


def _needed(request: Request) -> Held | None:
    """The part whose examples have to be made for a request; None: all are held."""
    if not isinstance(request.work.federation, FederationOnDemand):
        return None
    split = "train" if isinstance(request, Train) else request.split
    return None if split == "test" else split


def _clients(request: Request) -> IntArray:
    """The clients whose examples a request needs."""
    if isinstance(request, Evaluate) and request.clients is None:
        return np.arange(len(request.work.federation))
    assert request.clients is not None
    return request.clients
