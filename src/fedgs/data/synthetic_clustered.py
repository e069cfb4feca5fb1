"""Two clusters of clients that share one rule; the second one has swapped labels."""

from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field

from fedgs.arrays import AnyArray, FloatArray, IntArray, frozen
from fedgs.clients import Clients
from fedgs.data.base import SYNTHETIC_TRAINING, Data, Defaults
from fedgs.data.federation import Federation, Part
from fedgs.data.synthetic import check_memory
from fedgs.registry import register
from fedgs.rng import stream

__all__ = ["SyntheticClustered"]


@register("data", "synthetic_clustered")
class SyntheticClustered(Data):
    """Binary classification with the rule P(y = 1 | x) = 1 / (1 + exp(-<theta, x>)).

    theta and all inputs are standard normal. N // 2 clients, drawn at random, are the second
    cluster, whose labels are swapped with probability `swap`: there
    P(y = 1 | x) is swap (1 - P) + (1 - swap) P. All clients have equally many examples; the
    server's test set is the union of their tests. There are no validation parts. Features of a
    client are (1 - 2 swap) theta in the second cluster and theta in the first: the direction and
    the size of what its labels tell.

    References:
        A. Rodio et al. (2023): Federated Learning under Heterogeneous and Correlated Client
        Availability. INFOCOM. The published code has the second half of the clients as second
        cluster, and draws at random which clients are available often; here it is the cluster that
        is drawn, so that the modes of availability can go by the number of a client.

    Attributes:
        clients: N >= 2.
        dimension: of the inputs, >= 1.
        train_examples: of each client, >= 1.
        test_examples: of each client, >= 1.
        swap: in [0, 1]; 0: one cluster, 1: the second one has the opposite labels.

    >>> federation = SyntheticClustered(clients=4).load()
    >>> federation.name, federation.example_shape, len(federation.test)
    ('Synthetic clustered(0.2)', (10,), 600)
    """

    defaults: ClassVar[Defaults] = Defaults(model="logistic", training=SYNTHETIC_TRAINING)
    clients: int = Field(default=24, ge=2)
    dimension: int = Field(default=10, ge=1)
    train_examples: int = Field(default=50, ge=1)
    test_examples: int = Field(default=150, ge=1)
    swap: float = Field(default=0.2, ge=0, le=1)

    @property
    def title(self) -> str:
        """Synthetic clustered(swap)."""
        return f"Synthetic clustered({self.swap:g})"

    def load(self, data_dir: Path | None = None) -> Federation:
        """The generated federation; no file is read.

        Raises:
            DataError: the clients' data would not fit into the memory of the machine or the
                container.
        """
        examples = self.train_examples + self.test_examples
        check_memory(self.clients, 2 * (examples * (4 * self.dimension + 8) + 8 * self.dimension))
        rng = stream(self.seed, "synthetic_clustered rule")
        rule = rng.standard_normal(self.dimension)
        swapped = np.zeros(self.clients, dtype=np.bool_)
        swapped[rng.permutation(self.clients)[: self.clients // 2]] = True
        drawn = [self._examples(k, rule, swap=bool(swapped[k])) for k in range(self.clients)]
        cut = self.train_examples
        train = _part([(x[:cut], y[:cut]) for x, y in drawn])
        test = _part([(x[cut:], y[cut:]) for x, y in drawn])
        clients = Clients(
            names=tuple(range(self.clients)),
            data_sizes=np.diff(train.offsets),
            label_counts=train.label_counts(2),
            features=rule * np.where(swapped, 1 - 2 * self.swap, 1.0)[:, np.newaxis],
        )
        server = Part(test.x, test.y, np.array([0, len(test)], dtype=np.int64))
        return Federation(self.title, clients, 2, train, None, server)

    def _examples(self, client: int, rule: FloatArray, *, swap: bool) -> tuple[AnyArray, IntArray]:
        """The client's inputs (s, d) and labels (s,), those of the training first."""
        rng = stream(self.seed, "synthetic_clustered", client)
        count = self.train_examples + self.test_examples
        x = rng.standard_normal((count, self.dimension))
        y = rng.random(count) < 1 / (1 + np.exp(-(x @ rule)))
        exchanged = rng.random(count) < (self.swap if swap else 0.0)
        return x.astype(np.float32), (y ^ exchanged).astype(np.int64)


def _part(drawn: list[tuple[AnyArray, IntArray]]) -> Part:
    """The examples of each client, one client after the other."""
    sizes = [len(y) for _, y in drawn]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    x, y = (np.concatenate(arrays) for arrays in zip(*drawn, strict=True))
    return Part(frozen(x), y, offsets)
