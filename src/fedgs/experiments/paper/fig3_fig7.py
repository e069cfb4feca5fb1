"""Figures 3 and 7: the oracle's client graph with label pies, and the partitions as bars."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedgs.arrays import AnyArray, IntArray
from fedgs.data.describe import skew
from fedgs.data.federation import Federation
from fedgs.errors import DataError
from fedgs.experiments.paper.frame.conditions import Source
from fedgs.experiments.paper.frame.experiment import (
    Computation,
    Computed,
    Experiment,
    ExperimentRecords,
    Rendering,
)
from fedgs.experiments.paper.frame.planning import data_config
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.graph import Graph
from fedgs.plurals import counted, noun
from fedgs.report.table import Block, Cell, Column, Table
from fedgs.report.tables import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENTS"]


def computations_of_graphs(request: ExperimentRequest) -> list[Computation]:
    """One computation a federation.

    Images have the paper's 20 clients of two labels each, unless `--set` changes them.
    """
    small = (("data.clients", 20), ("data.partition", {"name": "labels_per_client", "labels": 2}))
    computations = []
    for source in request.data:
        before = small if source.key in ("cifar10", "fashion_mnist") else ()
        config = data_config(replace(request, overrides=(*before, *request.overrides)), source)
        computations.append(Computation(source.key, config, {}))
    return computations


def compute_graph(
    request: ExperimentRequest, computation: Computation, federation: Federation | None
) -> dict[str, AnyArray]:
    """The oracle's graph with the paper's settings, and the clients' labels."""
    assert federation is not None
    graph = Graph().of_clients(federation.clients)
    return {
        "label_counts": _counts(federation),
        **{key: getattr(graph, key) for key in ("similarity", "adjacency", "distance")},
    }


def _counts(federation: Federation) -> AnyArray:
    if federation.clients.label_counts is None:
        raise DataError(f"{federation.name} has no labels to draw")
    return federation.clients.label_counts


def render_graph(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """The graph in words and as a drawing."""
    verdict = [_graph_sentence(result) for result in records.computed.values()]

    def draw() -> "dict[str, Figure]":
        from fedgs.report.figures import client_graph
        from fedgs.report.network import network

        return {
            "" if len(records.computed) == 1 else str(number): client_graph(
                network(result.arrays["distance"], result.arrays["adjacency"]),
                result.arrays["label_counts"],
                title=result.data_title,
            )
            for number, result in enumerate(records.computed.values(), 1)
        }

    return Rendering(verdict=verdict, draw=draw if records.computed else None)


def _graph_sentence(result: Computed) -> str:
    joined = np.isfinite(result.arrays["adjacency"]) & ~np.eye(
        len(result.arrays["adjacency"]), dtype=bool
    )
    shared = (result.arrays["label_counts"] > 0).astype(np.int64)
    common = (shared @ shared.T > 0) & ~np.eye(len(shared), dtype=bool)
    edges, pairs = int(joined.sum()) // 2, len(joined) * (len(joined) - 1) // 2
    with_common = int((joined & common).sum()) // 2
    return (
        f"{result.data_title}, {counted(len(joined), 'client')}: {edges} of "
        f"{counted(pairs, 'pair')} {noun(pairs, 'is', 'are')} joined; {with_common} of the joined "
        f"pairs, and {int((~joined & common).sum()) // 2} of the others, have a label in common."
    )


def compute_partition(
    request: ExperimentRequest, computation: Computation, federation: Federation | None
) -> dict[str, AnyArray]:
    """Training examples by client and label."""
    assert federation is not None
    return {"label_counts": _counts(federation)}


def render_partition(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """Sizes and label skew of the partitions, as a table and as bars."""
    columns = (
        Column("data", ("data",), numeric=False),
        Column("clients", ("clients",)),
        *(
            Column(f"{word} n_k", (f"{word}_data_size",))
            for word in ("smallest", "median", "largest")
        ),
        Column("Gini of n_k", ("size_gini",)),
        Column("labels a client", ("labels_per_client",)),
    )
    rows = tuple(_partition_row(result) for result in records.computed.values())
    table = Table("Figure 7: partitions", columns, (Block((), rows),))

    def draw() -> "dict[str, Figure]":
        from fedgs.report.figures import partition

        return {
            "" if len(records.computed) == 1 else str(number): partition(
                result.arrays["label_counts"], title=result.data_title
            )
            for number, result in enumerate(records.computed.values(), 1)
        }

    verdict = [_partition_sentence(result) for result in records.computed.values()]
    return (
        Rendering({"": table}, verdict=verdict, draw=draw) if rows else Rendering(verdict=verdict)
    )


def _partition_row(result: Computed) -> tuple[Cell, ...]:
    counts = result.arrays["label_counts"]
    sizes, uneven = counts.sum(axis=1), skew(counts)
    title = result.data_title
    ends = [int(sizes.min()), float(np.median(sizes)), int(sizes.max())]
    return (
        Cell(title, (title,)),
        Cell(str(len(counts)), (len(counts),)),
        *(Cell(f"{end:g}", (end,)) for end in ends),
        Cell(number(uneven.size_gini, 3), (uneven.size_gini,)),
        Cell(number(uneven.labels_per_client, 1), (uneven.labels_per_client,)),
    )


def _partition_sentence(result: Computed) -> str:
    counts = result.arrays["label_counts"]
    sizes, labels = counts.sum(axis=1), (counts > 0).sum(axis=1)
    size = "all of one size"
    if sizes.min() < sizes.max():
        size = f"from {_range(sizes)} training examples"
    clients = counted(len(counts), "client")
    return f"{result.data_title}: {clients}, {size}, {_range(labels)} labels each."


def _range(values: IntArray) -> str:
    """The lowest and the highest of whole numbers.

    >>> _range(np.array([4, 2, 3])), _range(np.array([2, 2]))
    ('2 to 4', '2')
    """
    lowest, highest = int(values.min()), int(values.max())
    return f"{lowest}" if lowest == highest else f"{lowest} to {highest}"


EXPERIMENTS = {
    "fig3": Experiment(
        name="fig3",
        title="Figure 3: the oracle 3DG of CIFAR10 with 20 clients of two labels each",
        claim=(
            "Clients that share labels are near each other on the graph, without forming clear "
            "clusters."
        ),
        takes=frozenset({"data", "set"}),
        data=(Source("cifar10"),),
        compute=compute_graph,
        computations=computations_of_graphs,
        render=render_graph,
        draws=True,
    ),
    "fig7": Experiment(
        name="fig7",
        title="Figure 7: the partitions of CIFAR10 and FashionMNIST",
        claim=(
            "CIFAR10's clients differ in size and in labels; FashionMNIST's have equal sizes and "
            "two labels each."
        ),
        takes=frozenset({"data", "set"}),
        data=(Source("cifar10"), Source("fashion_mnist")),
        compute=compute_partition,
        render=render_partition,
        draws=True,
    ),
}
