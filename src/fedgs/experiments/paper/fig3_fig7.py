"""Figures 3 and 7: the oracle's client graph with label pies, and the partitions as stacked bars."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedgs.arrays import AnyArray
from fedgs.data.describe import skew
from fedgs.data.federation import Federation
from fedgs.errors import DataError
from fedgs.experiments.paper.frame.experiment import Computed, Experiment, Material, Presented, Shown, Unit, data_config
from fedgs.experiments.paper.frame.request import Asked, Source
from fedgs.graph import Graph
from fedgs.plurals import counted, noun
from fedgs.report.layout import Block, Cell, Column, Table
from fedgs.report.tables import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENTS"]


def graph_units(asked: Asked) -> list[Unit]:
    """The paper's federation of images: 20 clients of two labels each; --set data.clients and data.partition change it."""
    small = (("data.clients", 20), ("data.partition", {"name": "labels_per_client", "labels": 2}))
    units = []
    for source in asked.data:
        before = small if source.key in ("cifar10", "fashion_mnist") else ()
        config = data_config(replace(asked, overrides=(*before, *asked.overrides)), source)
        units.append(Unit(source.key, config, {}))
    return units


def compute_graph(asked: Asked, unit: Unit, federation: Federation | None) -> dict[str, AnyArray]:
    """The oracle's graph by the paper's settings, and the clients' labels."""
    assert federation is not None
    graph = Graph().of_clients(federation.clients)
    return {"label_counts": _counts(federation), **{key: getattr(graph, key) for key in ("similarity", "adjacency", "distance")}}


def _counts(federation: Federation) -> AnyArray:
    if federation.clients.label_counts is None:
        raise DataError(f"{federation.name} has no labels to draw")
    return federation.clients.label_counts


def present_graph(asked: Asked, material: Material) -> Presented:
    """The graph in words and as a drawing."""
    verdict = [_graph_sentence(kept) for kept in material.computed.values()]

    def draw() -> "dict[str, Figure]":
        from fedgs.report.figures import client_graph
        from fedgs.report.network import network

        return {
            "" if len(material.computed) == 1 else key: client_graph(
                network(kept.arrays["distance"], kept.arrays["adjacency"]),
                kept.arrays["label_counts"],
                title=str(kept.about["data_title"]),
            )
            for key, kept in material.computed.items()
        }

    return Presented((), verdict, draw if material.computed else None)


def _graph_sentence(kept: Computed) -> str:
    joined = np.isfinite(kept.arrays["adjacency"]) & ~np.eye(len(kept.arrays["adjacency"]), dtype=bool)
    shared = (kept.arrays["label_counts"] > 0).astype(np.int64)
    common = (shared @ shared.T > 0) & ~np.eye(len(shared), dtype=bool)
    edges, pairs = int(joined.sum()) // 2, len(joined) * (len(joined) - 1) // 2
    with_common = int((joined & common).sum()) // 2
    return (
        f"{kept.about['data_title']}, {counted(len(joined), 'client')}: {edges} of {counted(pairs, 'pair')} "
        f"{noun(pairs, 'is', 'are')} joined; {with_common} of the "
        "joined pairs, and "
        f"{int((~joined & common).sum()) // 2} of the others, have a label in common."
    )


def compute_partition(asked: Asked, unit: Unit, federation: Federation | None) -> dict[str, AnyArray]:
    """Training examples by client and label."""
    assert federation is not None
    return {"label_counts": _counts(federation)}


def present_partition(asked: Asked, material: Material) -> Presented:
    """Sizes and skew of the partitions, and the bars."""
    columns = (
        Column("data", ("data",), numeric=False),
        Column("clients", ("clients",)),
        *(Column(f"{word} n_k", (f"{word}_data_size",)) for word in ("smallest", "median", "largest")),
        Column("Gini of n_k", ("size_gini",)),
        Column("labels a client", ("labels_per_client",)),
    )
    rows = tuple(_partition_row(kept) for kept in material.computed.values())
    tables = [Shown("", Table("Figure 7: partitions", columns, (Block((), rows),)))] if rows else []

    def draw() -> "dict[str, Figure]":
        from fedgs.report.figures import partition

        return {
            "" if len(material.computed) == 1 else key: partition(
                kept.arrays["label_counts"], title=str(kept.about["data_title"])
            )
            for key, kept in material.computed.items()
        }

    return Presented(tables, [_partition_sentence(kept) for kept in material.computed.values()], draw if rows else None)


def _partition_row(kept: Computed) -> tuple[Cell, ...]:
    counts = kept.arrays["label_counts"]
    sizes, uneven = counts.sum(axis=1), skew(counts)
    title = str(kept.about["data_title"])
    ends = [int(sizes.min()), float(np.median(sizes)), int(sizes.max())]
    return (
        Cell(title, (title,)),
        Cell(str(len(counts)), (len(counts),)),
        *(Cell(f"{end:g}", (end,)) for end in ends),
        Cell(number(uneven.size_gini, 3), (uneven.size_gini,)),
        Cell(number(uneven.labels_per_client, 1), (uneven.labels_per_client,)),
    )


def _partition_sentence(kept: Computed) -> str:
    counts = kept.arrays["label_counts"]
    sizes, held = counts.sum(axis=1), (counts > 0).sum(axis=1)
    even = "all of one size" if sizes.min() == sizes.max() else f"from {int(sizes.min())} to {int(sizes.max())} training examples"
    labels = f"{int(held.min())}" if held.min() == held.max() else f"{int(held.min())} to {int(held.max())}"
    return f"{kept.about['data_title']}: {counted(len(counts), 'client')}, {even}, {labels} labels each."


EXPERIMENTS = {
    "fig3": Experiment(
        name="fig3",
        title="Figure 3: the oracle 3DG of CIFAR10 with 20 clients of two labels each",
        claim="Clients that share labels are near each other on the graph, without forming clear clusters.",
        takes=frozenset({"data", "set"}),
        data=(Source("cifar10"),),
        compute=compute_graph,
        units=graph_units,
        present=present_graph,
        draws=True,
    ),
    "fig7": Experiment(
        name="fig7",
        title="Figure 7: the partitions of CIFAR10 and FashionMNIST",
        claim="CIFAR10's clients differ in size and in labels; FashionMNIST's have equal sizes and two labels each.",
        takes=frozenset({"data", "set"}),
        data=(Source("cifar10"), Source("fashion_mnist")),
        compute=compute_partition,
        present=present_partition,
        draws=True,
    ),
}
