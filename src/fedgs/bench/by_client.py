"""The cost of evaluating clients separately, compared with one evaluation of the same examples."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fedgs.bench.engines import answered
from fedgs.bench.floors import in_turns
from fedgs.data.federation import Federation, Normalization
from fedgs.local.engines import make_engine
from fedgs.local.parameters import initial_parameters
from fedgs.local.threads import threads_of
from fedgs.models import MLP, FashionCNN, LogisticRegression, Model
from fedgs.requests import Evaluate, Work

__all__ = ["CLIENT_MODELS", "TARGET", "MeasuredByClient", "measure_by_client"]

TARGET = 1.2  # the most that it may take, as a multiple of one evaluation

# Model -> the shape of an example.
CLIENT_MODELS: Mapping[Model, tuple[int, ...]] = {
    LogisticRegression(): (60,),
    MLP(): (60,),
    FashionCNN(): (1, 28, 28),
}


@dataclass(frozen=True)
class MeasuredByClient:
    """What was measured of a model; seconds are medians of processor time.

    Attributes:
        model: its name.
        clients: N.
        examples: of all clients.
        once_seconds: one evaluation of all examples.
        by_client_seconds: the evaluation of each client.
        ratio: of the two in one turn, the median.
    """

    model: str
    clients: int
    examples: int
    once_seconds: float
    by_client_seconds: float
    ratio: float

    @property
    def misses(self) -> bool:
        """Whether the ratio is above the target."""
        return self.ratio > TARGET


def measure_by_client(
    models: Mapping[Model, tuple[int, ...]] = CLIENT_MODELS,
    *,
    clients: int = 1000,
    repeats: int = 5,
) -> Iterator[MeasuredByClient]:
    """Time both evaluations in turns, in one thread, with the engine that "auto" chooses.

    Clients have 1 to 9 test examples, 5 on average.

    Args:
        models: with the shape of their examples, which are random.
        clients: N >= 1.
        repeats: how many turns, >= 1.
    """
    with threads_of(1):
        for model, shape in models.items():
            work = Work(_federation(clients, shape), model, 0.0, 1, 10)
            engine, _ = make_engine("auto", "cpu", work)
            theta = initial_parameters(model, work.federation, 0)
            once = [Evaluate(work, theta, "test")]
            alone = [Evaluate(work, theta, "test", by_client=True)]
            by_client, whole, ratio = in_turns(
                lambda engine=engine, alone=alone: answered(engine, alone),  # type: ignore[misc]
                lambda engine=engine, once=once: answered(engine, once),  # type: ignore[misc]
                repeats,
            )
            examples = len(work.federation.test)
            yield MeasuredByClient(model.name, clients, examples, whole, by_client, ratio)


def _federation(clients: int, shape: tuple[int, ...]) -> Federation:
    """Clients with one training example and own test examples."""
    rng = np.random.default_rng(0)
    images = len(shape) == 3

    def draw(owner: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        size = (len(owner), *shape)
        x = (
            rng.integers(0, 256, size, dtype=np.uint8)
            if images
            else rng.standard_normal(size).astype(np.float32)
        )
        return x, rng.integers(10, size=len(owner)), owner

    owners = np.arange(clients)
    x, y, owner = draw(owners)
    return Federation.from_arrays(
        x,
        y,
        client=owner,
        test=draw(np.repeat(owners, 1 + owners % 9)),
        classes=10,
        normalization=Normalization(255.0, (0.5,), (0.25,)) if images else None,
    )
