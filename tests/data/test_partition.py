"""Partitions: every example given out once, sizes exact, bounded time, impossible wishes in one sentence."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from fedgs.data import (
    Assignment,
    ByColumn,
    DirichletOverClasses,
    DirichletOverClients,
    Iid,
    Labelled,
    LabelsPerClient,
    LogNormalDirichlet,
    Partition,
    Shards,
    share_out,
)
from fedgs.errors import ConfigError, DataError
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
}


@st.composite
def labelled(draw: st.DrawFn) -> tuple[np.ndarray, int, int]:
    """Labels of random classes (not all of them present, unbalanced), a number of clients, a seed."""
    seed = draw(st.integers(0, 10_000))
    classes = draw(st.integers(2, 12))
    clients = draw(st.integers(1, 12))
    count = draw(st.integers(2 * clients + classes, 300))
    rng = np.random.default_rng(seed)
    return rng.choice(classes, count, p=rng.dirichlet(np.ones(classes))), clients, seed


def counts_of(assignment: Assignment, labels: np.ndarray) -> np.ndarray:
    return np.stack(
        [
            np.bincount(labels[assignment.examples(k)], minlength=int(labels.max()) + 1)
            for k in range(len(assignment))
        ]
    )


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
        assignment = ANY[name].assign(labels, clients, stream(seed, "partition"), columns=columns)
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
        ANY[name].assign(labels, 8, stream(seed, "partition"), columns=columns).order.tolist()
        for seed in (3, 3, 4)
    )
    assert first == again
    assert (first != other) == (name != "by_column")


@pytest.mark.parametrize("name", ANY)
def test_a_partition_is_a_table_and_back(name: str) -> None:
    assert build("partition", table(ANY[name])) == ANY[name]


# --- Dirichlet
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concentration", [1e-9, 0.01, 0.2, 100.0, 1e4])
@pytest.mark.parametrize("seed", range(3))
def test_half_and_half_is_exact_at_any_concentration(concentration: float, seed: int) -> None:
    labels = np.arange(1000) % 10
    assignment = DirichletOverClasses(concentration=concentration).assign(
        labels, 2, stream(seed, "partition")
    )
    assert np.diff(assignment.offsets).tolist() == [500, 500]
    assert np.isfinite(assignment.facts["shift"]).all()


def test_a_high_concentration_is_near_identical_and_a_low_one_is_not() -> None:
    labels = np.arange(5000) % 10
    # concentration 10⁴: p_kc has sd sqrt(.1·.9/10⁴) = .003, so 1000 examples move by about 3 of 100
    # a class: chi-square with 36 degrees of freedom stays far below its mean. Concentration 1:
    # nearly all of a client's examples are of few classes.
    near = counts_of(
        DirichletOverClasses(concentration=1e4).assign(labels, 5, stream(0, "partition")), labels
    )
    far = counts_of(
        DirichletOverClasses(concentration=1.0).assign(labels, 5, stream(0, "partition")), labels
    )
    assert chi2_contingency(near).pvalue > 0.5
    assert chi2_contingency(far).pvalue < 1e-50


@pytest.mark.parametrize("concentration", [1e-9, 0.01, 0.2, 100.0, 1e4])
def test_over_clients_keeps_class_counts_and_the_minimum(concentration: float) -> None:
    labels = np.repeat(np.arange(4), [400, 300, 200, 100])
    assignment = DirichletOverClients(concentration=concentration, minimum=20).assign(
        labels, 10, stream(1, "partition")
    )
    counts = counts_of(assignment, labels)
    assert counts.sum(axis=0).tolist() == [400, 300, 200, 100]
    assert counts.sum(axis=1).min() >= 20
    assert (assignment.facts["moved"] > 0) == (concentration < 1)


@pytest.mark.parametrize(
    "partition", [DirichletOverClients, DirichletOverClasses, LogNormalDirichlet]
)
def test_an_impossible_minimum_states_the_feasible_maximum_at_once(
    partition: type[Partition],
) -> None:
    started = time.monotonic()
    with pytest.raises(
        DataError, match="needs 10000 examples, but there are 5000; at most 5 is possible"
    ):
        partition(minimum=10).assign(np.arange(5000) % 10, 1000, stream(0, "partition"))
    assert time.monotonic() - started < 60  # it ends; how soon is a benchmark's matter


@pytest.mark.parametrize(
    "partition", [DirichletOverClients(minimum=5), DirichletOverClasses(minimum=5, sigma=2.0)]
)
def test_the_largest_possible_minimum_is_met(partition: Partition) -> None:
    assignment = partition.assign(np.arange(5000) % 10, 1000, stream(0, "partition"))
    assert set(np.diff(assignment.offsets)) == {5}


def test_the_two_dirichlets_are_named_apart_with_the_implied_concentration() -> None:
    labels = np.repeat(np.arange(4), [100, 100, 100, 200])
    over_classes = (
        DirichletOverClasses(concentration=2.0)
        .assign(labels, 5, stream(0, "partition"))
        .facts["concentration"]
    )
    over_clients = (
        DirichletOverClients(concentration=0.5)
        .assign(labels, 5, stream(0, "partition"))
        .facts["concentration"]
    )
    assert over_classes["over"] == "classes, for each client"
    # 2.0 times the label proportions (.2, .2, .2, .4)
    assert over_classes["of_each_class"] == pytest.approx({"0": 0.4, "1": 0.4, "2": 0.4, "3": 0.8})
    assert over_clients["over"] == "clients, for each class"
    assert (over_clients["total"], over_clients["implied_over_classes"]) == (
        2.5,
        2.0,
    )  # .5 x 5 clients; .5 x 4 classes


def test_implied_concentration_agrees_with_the_drawn_proportions() -> None:
    # Client label proportions of "over clients" are about Dirichlet(a, ..., a) over C classes: Var
    # p = (1/C)(1-1/C)/(aC+1).
    labels, clients, concentration = np.arange(200_000) % 10, 2000, 0.5
    counts = counts_of(
        DirichletOverClients(concentration=concentration).assign(
            labels, clients, stream(0, "partition")
        ),
        labels,
    )
    weights = counts.sum(axis=1) / counts.sum()
    shares = counts / counts.sum(axis=1, keepdims=True)
    variance = float((weights[:, None] * (shares - 0.1) ** 2).sum() / 10)
    implied = (0.09 / variance - 1) / 10
    assert implied == pytest.approx(
        concentration, rel=0.2
    )  # finite sizes and weighting move it by a few per cent


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), clients=st.integers(60, 90))
def test_the_papers_partition_stays_within_its_tolerance(seed: int, clients: int) -> None:
    labels = np.arange(6000) % 10
    assignment = LogNormalDirichlet(tolerance=0.1).assign(
        labels, clients, stream(seed, "partition")
    )
    facts = assignment.facts
    assert facts["mismatch"] <= 0.1
    assert facts["draws"] <= 10_000
    assert np.diff(assignment.offsets).min() >= 1
    # Moving examples between classes can change a client by more than the mean, but all shifts
    # together are bounded by the mismatch (half of it is moved) and by rounding (at most C/2
    # examples a client).
    sizes = np.diff(assignment.offsets)
    assert (np.array(facts["shift"]) * sizes).sum() <= 0.1 * 6000 / 2 + 5 * clients


def test_a_tolerance_out_of_reach_says_how_close_it_came() -> None:
    with pytest.raises(
        DataError,
        match=r"partition.tolerance = 0.001: after 50 draws labels still miss the global ones by 0\.\d+",
    ):
        LogNormalDirichlet(tolerance=0.001, max_draws=50).assign(
            np.arange(500) % 10, 3, stream(0, "partition")
        )


# --- the others
# -------------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "partition", [LogNormalDirichlet, DirichletOverClasses, DirichletOverClients]
)
def test_concentration_zero_is_refused(partition: type[Partition]) -> None:
    with pytest.raises(
        ConfigError, match=r"partition.concentration:? should be greater than 0, got 0"
    ):
        partition(concentration=0.0)


def test_by_column_names_clients_by_its_values() -> None:
    columns = {"site": np.array([b"west", b"east", b"west"])}
    assignment = ByColumn(column="site").assign(
        np.zeros(3, dtype=int), 99, stream(0, "partition"), columns=columns
    )
    assert assignment.names == ("east", "west")
    assert assignment.examples(1).tolist() == [0, 2]


# --- a federation of it
# -----------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(data=labelled(), fraction=st.sampled_from([0.0, 0.2, 0.5, 0.99]))
def test_the_federation_holds_every_example_once(
    data: tuple[np.ndarray, int, int], fraction: float
) -> None:
    labels, clients, seed = data
    x = np.arange(len(labels), dtype=np.float32)[:, None]
    source = Labelled("mine", x, labels, (x[:1], labels[:1]), int(labels.max()) + 1)
    federation = share_out(source, Iid(), clients, seed=seed, validation_fraction=fraction)
    parts = [part for part in (federation.train, federation.validation) if part is not None]
    rows = np.concatenate([part.index for part in parts])
    assert np.array_equal(np.sort(rows), np.arange(len(labels)))
    for part in parts:
        assert np.array_equal(
            part.x[:, 0], part.index
        )  # the example is the one that its index names
        assert np.array_equal(part.y, labels[part.index])
    sizes = np.diff(federation.train.offsets)
    held_out = (
        np.zeros_like(sizes)
        if federation.validation is None
        else np.diff(federation.validation.offsets)
    )
    assert np.array_equal(held_out, np.floor(fraction * (sizes + held_out) + 1e-9))


def test_small_clients_keep_a_training_example_when_the_hold_out_rounds_to_nothing() -> None:
    sizes = np.array([1, 2, 7, 9])
    labels = np.zeros(19, dtype=int)
    columns = {"who": np.repeat(np.arange(4), sizes)}
    x = np.zeros((19, 2), dtype=np.float32)
    federation = share_out(
        Labelled("tiny", x, labels, (x, labels), 1), ByColumn(column="who"), 4, columns=columns
    )
    assert federation.clients.data_sizes.tolist() == [1, 2, 6, 8]
    assert federation.validation is not None
    assert np.diff(federation.validation.offsets).tolist() == [0, 0, 1, 1]  # floor(.2 s)


def test_a_hold_out_of_nothing_at_all_is_no_validation_part() -> None:
    x, labels = np.zeros((4, 2), dtype=np.float32), np.zeros(4, dtype=int)
    assert (
        share_out(Labelled("tiny", x, labels, (x, labels), 1), Iid(), 4).validation is None
    )  # floor(.2) = 0 everywhere


def test_a_client_without_examples_is_refused_by_name_or_left_out() -> None:
    x, labels = np.zeros((3, 2), dtype=np.float32), np.zeros(3, dtype=int)
    source = Labelled("tiny", x, labels, (x, labels), 1)
    with pytest.raises(
        DataError,
        match=r"client 3 has no training example \(and 1 more\); data.drop_empty = true leaves",
    ):
        share_out(source, Iid(), 5)
    federation = share_out(source, Iid(), 5, drop_empty=True)
    assert federation.clients.names == (0, 1, 2)
    assert federation.facts["left_out"] == [3, 4]


def test_a_partition_that_loses_an_example_is_refused() -> None:
    class Forgetful(Partition):
        name = "forgetful"

        def assign(self, labels, clients, rng, *, columns=None):  # type: ignore[no-untyped-def]
            return Assignment.from_owners(np.zeros(len(labels) - 1, dtype=np.int64), clients)

    x, labels = np.zeros((4, 2), dtype=np.float32), np.zeros(4, dtype=int)
    with pytest.raises(
        DataError, match="partition 'forgetful' must give each of the 4 examples out exactly once"
    ):
        share_out(Labelled("tiny", x, labels, (x, labels), 1), Forgetful(), 1)


def test_the_seed_draws_the_hold_out_too() -> None:
    x, labels = np.arange(40, dtype=np.float32)[:, None], np.zeros(40, dtype=int)
    source = Labelled("tiny", x, labels, (x, labels), 1)
    columns = {"who": np.arange(40) % 2}  # a partition that no seed changes
    first, again, other = (
        share_out(source, ByColumn(column="who"), 2, seed=seed, columns=columns)
        for seed in (0, 0, 1)
    )
    assert first.fingerprint == again.fingerprint
    assert first.validation is not None
    assert other.validation is not None
    assert not np.array_equal(first.validation.index, other.validation.index)
