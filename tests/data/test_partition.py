"""Partitions: every example is assigned once, and impossible ones are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.material import counts_of, labelled

from fedgs.data import (
    ByColumn,
    DirichletCapped,
    DirichletOverClasses,
    DirichletOverClients,
    Iid,
    IndexLists,
    LabelsPerClient,
    LogNormalDirichlet,
    Partition,
    QuantitySkew,
    Shards,
)
from fedgs.errors import DataError
from fedgs.registry import build, table, variant_names
from fedgs.rng import stream

# One of each, with settings that suit any labels; a partition that joins the family must join this
# table.
ANY = {
    "iid": Iid(),
    "shards": Shards(per_client=2),
    "by_column": ByColumn(column="site"),
    "labels_per_client": LabelsPerClient(labels=2),
    "lognormal_dirichlet": LogNormalDirichlet(tolerance=2.0),
    "dirichlet_over_classes": DirichletOverClasses(concentration=0.5, sigma=1.0),
    "dirichlet_over_clients": DirichletOverClients(concentration=0.3),
    "dirichlet_capped": DirichletCapped(concentration=0.3, minimum=0),
    "quantity_skew": QuantitySkew(minimum=0),
    "index_lists": IndexLists(lists=[[]]),
}


def fitting(name: str, count: int, clients: int) -> Partition:
    """The partition of the table, with lists that fit the examples."""
    if name != "index_lists":
        return ANY[name]
    return IndexLists(lists=[np.arange(k, count, clients) for k in range(clients)])  # type: ignore[misc]


def test_the_contract_covers_every_registered_partition() -> None:
    assert set(ANY) == set(variant_names("partition"))


@pytest.mark.parametrize("name", ANY)
@settings(max_examples=25, deadline=None)
@given(data=labelled())
def test_every_example_is_given_out_exactly_once(
    name: str, data: tuple[np.ndarray, int, int]
) -> None:
    labels, clients, seed = data
    columns = {"site": np.arange(len(labels)) % clients}
    try:
        partition = fitting(name, len(labels), clients)
        assignment = partition.assign(labels, clients, stream(seed, "partition"), columns=columns)
    except DataError as error:
        assert name == "labels_per_client"  # all others are possible for these data
        assert any(  # noqa: PT017
            word in str(error)
            for word in ("labels each cannot hold", "has only", "different labels")
        )
        return
    assert np.array_equal(np.sort(assignment.order), np.arange(len(labels)))
    assert len(assignment.offsets) == clients + 1
    assert int(assignment.offsets[-1]) == len(labels)
    assert np.array_equal(counts_of(assignment, labels).sum(axis=0), np.bincount(labels))


@pytest.mark.parametrize("name", ANY)
def test_same_seed_same_partition_and_another_seed_another_one(name: str) -> None:
    labels = np.arange(200) % 5
    columns = {"site": np.arange(200) % 8}
    first, again, other = (
        fitting(name, 200, 8)
        .assign(labels, 8, stream(seed, "partition"), columns=columns)
        .order.tolist()
        for seed in (3, 3, 4)
    )
    assert first == again
    assert (first != other) == (name not in ("by_column", "index_lists"))


@pytest.mark.parametrize("name", ANY)
def test_a_partition_is_a_table_and_back(name: str) -> None:
    assert build("partition", table(ANY[name])) == ANY[name]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), size=st.integers(1, 5), clients=st.integers(5, 40))
def test_labels_per_client_gives_that_many_and_spreads_labels_evenly(
    seed: int, size: int, clients: int
) -> None:
    labels = np.random.default_rng(seed).permutation(np.arange(600) % 5)
    counts = counts_of(
        LabelsPerClient(labels=size).assign(labels, clients, stream(seed, "partition")), labels
    )
    assert ((counts > 0).sum(axis=1) == size).all()
    takers = (counts > 0).sum(axis=0)
    assert takers.max() - takers.min() <= 1
    for label in range(5):
        held = counts[:, label][counts[:, label] > 0]
        assert held.max() - held.min() <= 1


def test_the_papers_two_labels_give_equal_sizes() -> None:
    labels = np.arange(6000) % 10
    counts = counts_of(
        LabelsPerClient(labels=2).assign(labels, 100, stream(0, "partition")), labels
    )
    assert (counts.sum(axis=1) == 60).all()  # 6000 / 100
    assert sorted(set(counts.ravel().tolist())) == [0, 30]
    assert ((counts > 0).sum(axis=0) == 20).all()  # 100 clients x 2 labels / 10 labels


@pytest.mark.parametrize(
    ("partition", "labels", "clients", "message"),
    [
        (
            Shards(per_client=3),
            np.zeros(20, dtype=int),
            10,
            "need 30 shards, but there are only 20 examples; at most 6 clients",
        ),
        (
            LabelsPerClient(labels=3),
            np.arange(8) % 2,
            4,
            "partition.labels is 3, but the data has only 2 different labels",
        ),
        (
            LabelsPerClient(labels=1),
            np.arange(8) % 4,
            3,
            "cannot hold all 4 labels; at least 4 clients are needed",
        ),
        (
            LabelsPerClient(labels=1),
            np.array([0] * 9 + [1] * 2),
            6,
            "label 1 is given to 3 clients, but has only 2 examples",
        ),
        (
            ByColumn(column="user"),
            np.zeros(2, dtype=int),
            2,
            r"partition.column = 'user' is not among the columns of the data \(site\)",
        ),
        (
            ByColumn(column="site"),
            np.zeros(3, dtype=int),
            2,
            "must hold integers within 64 bits or texts, got 0.5",
        ),
    ],
)
def test_what_cannot_be_had_is_a_sentence_with_have_and_need(
    partition: Partition, labels: np.ndarray, clients: int, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        partition.assign(
            labels, clients, stream(0, "partition"), columns={"site": np.array([0.5, 1.5])}
        )


def test_by_column_names_clients_by_its_values() -> None:
    columns = {"site": np.array([b"west", b"east", b"west"])}
    assignment = ByColumn(column="site").assign(
        np.zeros(3, dtype=int), 99, stream(0, "partition"), columns=columns
    )
    assert assignment.names == ("east", "west")
    assert assignment.examples(1).tolist() == [0, 2]


def test_a_partition_without_assign_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"Partition must define assign\(labels, clients, rng"):
        Partition().assign(np.zeros(3, dtype=np.int64), 2, stream(0, "partition"))
