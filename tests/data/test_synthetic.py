"""Synthetic(a, b): the paper's numbers."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest

from fedgs.data import Synthetic
from fedgs.data.synthetic import _CLIENT_BYTES
from fedgs.errors import ConfigError, DataError


def test_shapes_sizes_and_split() -> None:
    federation = Synthetic().load()
    assert (federation.name, len(federation), federation.num_labels) == (
        "Synthetic(0.5, 0.5)",
        30,
        10,
    )
    assert federation.example_shape == (60,)
    assert federation.train.x.dtype == np.float32
    assert federation.validation is not None
    train, valid = federation.clients.data_sizes, np.diff(federation.validation.offsets)
    # s >= 50, cut at int(.75 s) and int(.9 s): at least 37 and 7; and train / valid is 5 up to
    # rounding
    assert train.min() >= 37
    assert valid.min() >= 7
    assert (np.abs(train / 0.75 - valid / 0.15) <= 1 / 0.75 + 1 / 0.15).all()
    total = len(federation.train) + len(federation.validation) + len(federation.test)
    assert len(federation.test) / total == pytest.approx(0.1, abs=0.01)


def test_labels_are_the_argmax_of_the_clients_own_optimum() -> None:
    federation = Synthetic(clients=5).load()
    assert federation.clients.features is not None
    for client in range(5):
        weight = federation.clients.features[client, :600].reshape(10, 60)
        bias = federation.clients.features[client, 600:]
        rows = federation.train.rows(client)
        scores = federation.train.x[rows].astype(np.float64) @ weight.T + bias
        # inputs are stored in float32, so a score may move by 1e-4: the label is within that of the
        # best
        best = scores.max(axis=1) - scores[np.arange(len(scores)), federation.train.y[rows]]
        assert best.max() < 1e-3


def test_inputs_have_variance_that_falls_as_i_to_the_minus_1_2() -> None:
    federation = Synthetic(clients=40, seed=3).load()
    client = int(federation.clients.data_sizes.argmax())
    x = federation.train.x[federation.train.rows(client)].astype(np.float64)
    standard = (x - x.mean(axis=0)) / np.arange(1, 61) ** -0.6
    # standard normal entries: a Kolmogorov-Smirnov test on fixed data, false alarm 1 in 10⁴
    assert kstest(standard[:, ::7].ravel(), "norm").pvalue > 1e-4


def test_optima_and_inputs_spread_with_a_and_b() -> None:
    # mean of W_k's 610 entries is mu_k up to 1/sqrt(610) = .04: its sd over 200 clients is sqrt(a²
    # + .0016); the sample sd of 200 normal values is within 20 % of it but for 1 in 10⁴
    for a in (0.0, 2.0):
        features = Synthetic(a=a, b=0.0, clients=200).load().clients.features
        assert features is not None
        assert features.mean(axis=1).std() == pytest.approx(np.hypot(a, 1 / np.sqrt(610)), rel=0.2)


def test_a_client_is_the_same_in_every_number_of_clients_and_other_for_another_seed() -> None:
    few, many, other = (
        Synthetic(clients=3).load(),
        Synthetic(clients=8).load(),
        Synthetic(clients=3, seed=1).load(),
    )
    rows = slice(0, int(few.train.offsets[-1]))
    assert np.array_equal(few.train.x, many.train.x[rows])
    assert few.fingerprint != other.fingerprint


def test_the_federation_is_the_same_on_every_machine() -> None:
    """A pinned value, since a change of it changes all results.

    It is part of a run's identity, so no version has to be raised.
    """
    assert Synthetic(clients=3).load().fingerprint[:16] == "c69ca997586d0562"


def test_negative_spread_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"data.a:? should be greater than or equal to 0, got -1.0"
    ):
        Synthetic(a=-1.0)


def test_the_documented_fingerprint_is_the_default_federations() -> None:
    documented = (Path(__file__).parents[2] / "docs" / "federations.md").read_text(encoding="utf-8")
    assert Synthetic().load().fingerprint in documented


def test_more_clients_than_memory_holds_are_refused_before_any_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedgs.data.synthetic.memory_limit", lambda: 10**9)
    monkeypatch.setattr("fedgs.data.synthetic.stream", None)
    with pytest.raises(
        DataError,
        match=r"data.clients must be at most \d+ for synthetic data, .* 1.0 GB .*, got 1000000000",
    ):
        Synthetic(clients=10**9).load()


def test_the_estimate_of_memory_is_about_what_is_held() -> None:
    federation = Synthetic(clients=400).load()
    features = federation.clients.features
    assert federation.validation is not None and features is not None
    parts = (federation.train, federation.validation, federation.test)
    held = sum(part.x.nbytes + part.y.nbytes for part in parts) + features.nbytes
    assert 0.5 < 2 * held / (400 * _CLIENT_BYTES) < 2
