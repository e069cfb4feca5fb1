"""The two clusters: their rule, the swapped labels, and the seed."""

from unittest.mock import patch

import numpy as np
import pytest

from fedgs.data import SyntheticClustered
from fedgs.errors import ConfigError, DataError
from fedgs.registry import build


def clusters_of(data: SyntheticClustered) -> np.ndarray:
    """(N,) whether a client is in the second cluster, by its features."""
    features = data.load().clients.features
    assert features is not None
    sizes = np.linalg.norm(features, axis=1)
    return np.isclose(sizes, sizes.max() * abs(1 - 2 * data.swap))


def test_shapes_and_sizes() -> None:
    federation = SyntheticClustered(
        clients=7, dimension=4, train_examples=5, test_examples=9
    ).load()
    assert (len(federation), federation.num_labels, federation.example_shape) == (7, 2, (4,))
    assert federation.clients.data_sizes.tolist() == [5] * 7
    assert (len(federation.train), len(federation.test)) == (35, 63)
    assert federation.validation is None
    assert federation.train.x.dtype == np.float32
    assert federation.clients.label_counts is not None
    assert federation.clients.label_counts.sum(axis=1).tolist() == [5] * 7


@pytest.mark.parametrize("count", [2, 7, 24])
def test_half_of_the_clients_are_the_second_cluster(count: int) -> None:
    data = SyntheticClustered(clients=count, swap=0.3)
    assert clusters_of(data).sum() == count // 2
    other = SyntheticClustered(clients=24, swap=0.3, seed=1)
    assert clusters_of(other).tolist() != clusters_of(SyntheticClustered(swap=0.3)).tolist()


def test_labels_follow_the_rule_and_are_swapped_in_the_second_cluster() -> None:
    data = SyntheticClustered(clients=20, train_examples=2_000, test_examples=2_000, swap=0.2)
    federation, second = data.load(), clusters_of(data)
    features = federation.clients.features
    assert features is not None
    rule = features[~second][0]
    offsets = np.arange(0, 40_001, 2_000)
    for part in (federation.train, federation.test):
        probability = 1 / (1 + np.exp(-(part.x.astype(np.float64) @ rule)))
        for k in range(20):
            rows = slice(offsets[k], offsets[k + 1])
            p = probability[rows]
            p = 0.2 * (1 - p) + 0.8 * p if second[k] else p
            # The mean of 2,000 variables (y - p) / sd has standard error .0224; six of them: odds
            # below 1e-7. Then their correlation with the direction of the rule.
            residual = (part.y[rows] - p) / np.sqrt(p * (1 - p))
            direction = np.sign(probability[rows] - 0.5)
            assert abs(residual.mean()) < 0.135
            assert abs((residual * direction).mean()) < 0.135


def test_a_swap_of_one_half_leaves_nothing_to_learn_in_the_second_cluster() -> None:
    data = SyntheticClustered(clients=4, train_examples=4_000, swap=0.5)
    federation = data.load()
    features = federation.clients.features
    assert features is not None
    rule = features[np.linalg.norm(features, axis=1).argmax()]
    for k in range(4):
        rows = federation.train.rows(k)
        agrees = (federation.train.x[rows] @ rule > 0) == (federation.train.y[rows] == 1)
        if features[k].any():
            assert agrees.mean() > 0.7
        else:  # standard error .0079; six of them
            assert agrees.mean() == pytest.approx(0.5, abs=0.0475)


def test_the_seed_changes_the_federation_and_the_same_seed_does_not() -> None:
    first, again = SyntheticClustered(seed=3).load(), SyntheticClustered(seed=3).load()
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != SyntheticClustered(seed=4).load().fingerprint


def test_the_swap_changes_labels_of_the_second_cluster_alone() -> None:
    one, two = SyntheticClustered(swap=0.0), SyntheticClustered(swap=0.4)
    plain, swapped, second = one.load(), two.load(), clusters_of(two)
    np.testing.assert_array_equal(plain.train.x, swapped.train.x)
    changed = (plain.train.y != swapped.train.y).reshape(24, 50).mean(axis=1)
    assert not changed[~second].any() and (changed[second] > 0).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clients": 1}, "data.clients should be greater than or equal to 2, got 1"),
        ({"swap": 1.5}, "data.swap should be less than or equal to 1, got 1.5"),
        ({"train_examples": 0}, "data.train_examples should be greater than or equal to 1, got 0"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build("data", {"name": "synthetic_clustered", **settings})


def test_clients_that_do_not_fit_into_memory_are_refused() -> None:
    with (
        patch("fedgs.data.synthetic.memory_limit", return_value=10**6),
        pytest.raises(DataError, match="data.clients must be at most 51 for synthetic data"),
    ):
        SyntheticClustered(clients=1_000).load()
