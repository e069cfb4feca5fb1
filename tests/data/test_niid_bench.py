"""The partitions of NIID-Bench: a cap on sizes, a minimum, and sizes that differ."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.material import counts_of

from fedgs.data import DirichletCapped, Labelled, QuantitySkew, describe, share_out
from fedgs.errors import DataError


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), concentration=st.sampled_from([0.001, 0.1, 0.5, 5.0]))
def test_a_client_at_the_cap_gets_nothing_of_later_classes(seed: int, concentration: float) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.choice(6, 300)
    partition = DirichletCapped(concentration=concentration, minimum=0)
    counts = counts_of(partition.assign(labels, 7, rng), labels)
    before = np.cumsum(counts, axis=1) - counts  # what a client holds before each class
    full = before * 7 >= 300
    assert not (counts[full] > 0).any()
    assert counts.sum() == 300


@pytest.mark.parametrize(
    "partition", [DirichletCapped(minimum=12), QuantitySkew(concentration=4.0, minimum=12)]
)
def test_draws_are_repeated_until_every_client_has_the_minimum(
    partition: DirichletCapped | QuantitySkew,
) -> None:
    labels = np.arange(600) % 5
    draws = []
    for seed in range(10):
        assignment = partition.assign(labels, 20, np.random.default_rng(seed))
        assert np.diff(assignment.offsets).min() >= 12
        draws.append(assignment.facts["draws"])
    assert max(draws) > 1  # type: ignore[type-var]


def test_a_minimum_that_no_draw_reaches_ends_with_an_error() -> None:
    labels = np.zeros(100, dtype=np.int64)
    with pytest.raises(DataError, match="partition.minimum = 50 was not reached in 3 draws"):
        QuantitySkew(minimum=50, max_draws=3).assign(labels, 2, np.random.default_rng(0))
    with pytest.raises(DataError, match="3 clients with partition.minimum = 50 need 150 examples"):
        DirichletCapped(minimum=50).assign(labels, 3, np.random.default_rng(0))


def test_quantity_skew_gives_sizes_of_the_drawn_shares_and_labels_of_all_data() -> None:
    labels = np.random.default_rng(0).permutation(np.arange(40_000) % 2)
    assignment = QuantitySkew(concentration=1.0, minimum=0).assign(
        labels, 4, np.random.default_rng(1)
    )
    rng = np.random.default_rng(1)
    rng.permutation(40_000)
    shares = rng.dirichlet(np.full(4, 1.0))
    assert np.abs(np.diff(assignment.offsets) - 40_000 * shares).max() <= 1
    counts = counts_of(assignment, labels)
    # a share of one label among s examples has a standard deviation of 1 / (2 sqrt(s))
    sizes = counts.sum(axis=1)
    assert (np.abs(counts[:, 0] / sizes - 0.5) < 4 / (2 * np.sqrt(sizes))).all()


def test_quantity_skew_needs_no_labels() -> None:
    x, y = np.zeros((60, 2)), np.arange(60) / 7
    source = Labelled("mine", x, y, (x, y), 1, task="regression")
    federation = share_out(source, QuantitySkew(minimum=5), 4)
    assert len(federation) == 4
    text = "\n".join(describe(federation).lines())
    assert "sizes           Dirichlet(0.5, ...) over clients" in text


def test_the_description_says_how_the_cap_was_drawn() -> None:
    x, y = np.zeros((200, 2)), np.arange(200) % 4
    federation = share_out(Labelled("mine", x, y, (x, y), 4), DirichletCapped(), 5)
    text = "\n".join(describe(federation).lines())
    assert "over clients, for each class, up to n/N examples: 0.5 a client, total 2.5" in text
