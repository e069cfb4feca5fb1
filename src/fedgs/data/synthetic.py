"""Synthetic(a, b): every client has its own optimum and its own distribution of inputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field

from fedgs.arrays import AnyArray, FloatArray, IntArray, frozen
from fedgs.clients import Clients
from fedgs.data.base import SYNTHETIC_TRAINING, Data, Defaults
from fedgs.data.federation import Federation, Part
from fedgs.data.on_demand import FederationOnDemand, not_held
from fedgs.errors import DataError
from fedgs.machine import memory_limit
from fedgs.registry import register
from fedgs.rng import stream

__all__ = ["Synthetic", "check_memory"]

_DIMENSION, _LABELS = 60, 10
# sd of the i-th input, (i^-1.2)^(1/2); in decimal arithmetic, so that it is the same number on
# every platform.
_INPUT_SD = np.array([float(Decimal(i) ** Decimal("-0.6")) for i in range(1, _DIMENSION + 1)])

# Memory of an average client while the federation is generated: exp(4 + 2²/2) + 50 examples and an
# optimum, each held twice.
_CLIENT_BYTES = 2 * (453 * (4 * _DIMENSION + 8) + 8 * _LABELS * (_DIMENSION + 1))
# Of a client whose examples are made on demand: sizes, offsets and features, with copies.
_BYTES_ON_DEMAND = 100


@dataclass(frozen=True, eq=False)
class _Distribution:
    """What a client's examples are drawn from, and the generator that draws them."""

    rng: np.random.Generator
    size: int  # s
    mean: float  # mu_k
    weight: FloatArray  # (10, 60) W_k
    bias: FloatArray  # (10,) b_k
    centre_mean: float  # B_k


@dataclass(frozen=True, eq=False)
class _ClientData:
    x: AnyArray  # (s, 60) float32
    y: IntArray  # (s,)
    optimum: FloatArray  # (610,) W row by row, then b


@register("data", "synthetic")
class Synthetic(Data):
    """Synthetic(a, b) of the paper's section 6.

    For client k: mu_k ~ N(0, a²), W_k[i, j] ~ N(mu_k, 1) (10x60), b_k[i] ~ N(mu_k, 1), B_k ~ N(0,
    b²), v_k[i] ~ N(B_k, 1), x ~ N(v_k, diag(i^-1.2)), y = argmax(W_k x + b_k), and int(lognormal(4,
    2)) + 50 examples (the paper omits the + 50). 75 / 15 / 10 % of them are the client's training,
    validation and test examples; the server's test set is the union of the tests. Client k is the
    same for every number of clients.

    With `on_demand` the examples are the same, and those of a client are made when it is needed, so
    that a million clients fit into memory. The clients have no label counts, and (mu_k, B_k) as
    features in place of (W_k, b_k). The run is another run, also where its records are equal.

    Attributes:
        a: standard deviation of mu_k, >= 0: how far clients differ in their optimum.
        b: standard deviation of B_k, >= 0: how far clients differ in their inputs.
        clients: N >= 1.
        on_demand: whether the examples of a client are made when they are needed.
        test_clients: with `on_demand`, how many clients' test examples are the server's test set,
            >= 1; all where there are no more clients, else so many drawn by the seed.

    >>> federation = Synthetic(clients=3).load()
    >>> federation.name, federation.example_shape, federation.clients.features.shape
    ('Synthetic(0.5, 0.5)', (60,), (3, 610))
    """

    defaults: ClassVar[Defaults] = Defaults(model="logistic", training=SYNTHETIC_TRAINING)
    a: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    b: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    clients: int = Field(default=30, ge=1)
    on_demand: bool = False
    test_clients: int = Field(default=1000, ge=1)
    later_settings = (("on_demand", "test_clients"),)

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """`test_clients` without `on_demand`, where all clients' test examples are the test set."""
        if settings.get("on_demand") or settings.get("test_clients", 1000) == 1000:
            return {}
        return {
            "test_clients": "data.test_clients has no effect without data.on_demand = true; leave "
            "it out"
        }

    @property
    def title(self) -> str:
        """Synthetic(a, b)."""
        return f"Synthetic({self.a:g}, {self.b:g})"

    def load(self, data_dir: Path | None = None) -> Federation:
        """The generated federation; no file is read.

        Raises:
            DataError: the clients' data would not fit into the memory of the machine or the
                container.
        """
        if self.on_demand:
            check_memory(self.clients, _BYTES_ON_DEMAND)
            return self._on_demand()
        check_memory(self.clients, _CLIENT_BYTES)
        drawn = [self._client(client) for client in range(self.clients)]
        cuts = [_cuts(len(data.y)) for data in drawn]
        train = _part(drawn, [slice(0, end) for end, _ in cuts])
        validation = _part(drawn, [slice(start, end) for start, end in cuts])
        test = _part(drawn, [slice(start, None) for _, start in cuts])
        clients = Clients(
            names=tuple(range(self.clients)),
            data_sizes=np.diff(train.offsets),
            label_counts=train.label_counts(_LABELS),
            features=np.stack([data.optimum for data in drawn]),
        )
        server = Part(test.x, test.y, np.array([0, len(test)], dtype=np.int64))
        return Federation(self.title, clients, _LABELS, train, validation, server)

    def _on_demand(self) -> Federation:
        """The federation without examples but those of the server's test set."""
        cuts = np.empty((self.clients, 2), dtype=np.int64)
        features = np.empty((self.clients, 2))
        for client in range(self.clients):
            drawn = self._distribution(client)
            cuts[client] = _cuts(drawn.size)
            features[client] = drawn.mean, drawn.centre_mean
        testers = np.arange(self.clients)
        if self.clients > self.test_clients:
            rng = stream(self.seed, "synthetic test clients")
            testers = np.sort(rng.choice(self.clients, self.test_clients, replace=False))
        tested = [self._client(client) for client in testers.tolist()]
        test = _part(tested, [slice(end, None) for end in cuts[testers, 1].tolist()])
        train, validation = (
            not_held(np.concatenate([[0], np.cumsum(sizes)]), (_DIMENSION,), "float32")
            for sizes in (cuts[:, 0], cuts[:, 1] - cuts[:, 0])
        )
        return FederationOnDemand(
            self.title,
            Clients(range(self.clients), data_sizes=cuts[:, 0], features=features),
            _LABELS,
            train,
            validation,
            Part(test.x, test.y, np.array([0, len(test)], dtype=np.int64)),
            data=self,
            make=self._examples,
        )

    def _examples(self, client: int) -> tuple[AnyArray, IntArray]:
        data = self._client(client)
        return data.x, data.y

    def _client(self, client: int) -> _ClientData:
        drawn = self._distribution(client)
        rng, weight, bias = drawn.rng, drawn.weight, drawn.bias
        centre = rng.normal(drawn.centre_mean, 1.0, _DIMENSION)
        x = centre + _INPUT_SD * rng.standard_normal((drawn.size, _DIMENSION))  # (s, 60)
        y = np.argmax(x @ weight.T + bias, axis=1).astype(np.int64)
        return _ClientData(x.astype(np.float32), y, np.concatenate([weight.ravel(), bias]))

    def _distribution(self, client: int) -> _Distribution:
        rng = stream(self.seed, "synthetic", client)
        size = int(rng.lognormal(4.0, 2.0)) + 50
        mean = rng.normal(0.0, self.a)
        weight = rng.normal(mean, 1.0, (_LABELS, _DIMENSION))
        bias = rng.normal(mean, 1.0, _LABELS)
        return _Distribution(rng, size, mean, weight, bias, rng.normal(0.0, self.b))


def _cuts(size: int) -> tuple[int, int]:
    """How many of a client's examples are training ones, and training or validation ones."""
    return int(0.75 * size), int(0.9 * size)


def check_memory(num_clients: int, client_bytes: int) -> None:
    """Refuse more generated clients of average size than fit into the memory of this process.

    Raises:
        DataError: they do not fit.
    """
    limit = memory_limit()
    if limit is not None and num_clients > limit // client_bytes:
        raise DataError(
            f"data.clients must be at most {limit // client_bytes} for synthetic data, "
            f"since this process may use {limit / 1e9:.1f} GB "
            f"and a client takes about {client_bytes / 1e3:.0f} kB, got {num_clients}"
        )


def _part(drawn: list[_ClientData], rows: list[slice]) -> Part:
    """The rows of each client, one client after the other."""
    x = [data.x[chosen] for data, chosen in zip(drawn, rows, strict=True)]
    y = [data.y[chosen] for data, chosen in zip(drawn, rows, strict=True)]
    offsets = np.concatenate([[0], np.cumsum([len(labels) for labels in y])]).astype(np.int64)
    return Part(frozen(np.concatenate(x)), np.concatenate(y), offsets)
