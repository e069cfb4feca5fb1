"""Synthetic(a, b): every client has its own optimum and its own distribution of inputs."""

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

    Attributes:
        a: standard deviation of mu_k, >= 0: how far clients differ in their optimum.
        b: standard deviation of B_k, >= 0: how far clients differ in their inputs.
        clients: N >= 1.

    >>> federation = Synthetic(clients=3).load()
    >>> federation.name, federation.example_shape, federation.clients.features.shape
    ('Synthetic(0.5, 0.5)', (60,), (3, 610))
    """

    defaults: ClassVar[Defaults] = Defaults(model="logistic", training=SYNTHETIC_TRAINING)
    a: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    b: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    clients: int = Field(default=30, ge=1)

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
        check_memory(self.clients, _CLIENT_BYTES)
        drawn = [self._client(client) for client in range(self.clients)]
        cuts = [(int(0.75 * len(data.y)), int(0.9 * len(data.y))) for data in drawn]
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

    def _client(self, client: int) -> _ClientData:
        rng = stream(self.seed, "synthetic", client)
        size = int(rng.lognormal(4.0, 2.0)) + 50
        mean = rng.normal(0.0, self.a)
        weight = rng.normal(mean, 1.0, (_LABELS, _DIMENSION))
        bias = rng.normal(mean, 1.0, _LABELS)
        centre = rng.normal(rng.normal(0.0, self.b), 1.0, _DIMENSION)
        x = centre + _INPUT_SD * rng.standard_normal((size, _DIMENSION))  # (s, 60)
        y = np.argmax(x @ weight.T + bias, axis=1).astype(np.int64)
        return _ClientData(x.astype(np.float32), y, np.concatenate([weight.ravel(), bias]))


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
