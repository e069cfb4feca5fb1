"""What a description says."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.data import (
    DirichletOverClasses,
    DirichletOverClients,
    Federation,
    Iid,
    Labelled,
    Synthetic,
    describe,
    share_out,
)
from fedgs.data.describe import gini, skew
from fedgs.errors import DataError


def three_clients() -> Federation:
    """Sizes 1, 2, 3; labels {0}, {0, 1}, {1, 1, 1}."""
    y = np.array([0, 0, 1, 1, 1, 1])
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    return Federation.from_arrays(
        x, y, client=np.array(["a", "b", "b", "c", "c", "c"]), test=(x[:1], y[:1]), name="three"
    )


def test_measures_by_hand() -> None:
    measures = describe(three_clients()).skew
    # Gini: pairs differ by 1, 1, 2; mean absolute difference over all 9 ordered pairs 8/9; over
    # twice the mean size 2: 2/9
    assert measures.size_gini == pytest.approx(2 / 9)
    assert measures.label_entropy == pytest.approx(np.log(2) / 3)  # 0, ln 2, 0
    # global shares (1/3, 2/3): distances 2/3, 1/6, 1/3
    assert measures.label_distance == pytest.approx((2 / 3 + 1 / 6 + 1 / 3) / 3)
    assert measures.max_label_distance == pytest.approx(2 / 3)
    assert measures.labels_per_client == pytest.approx(4 / 3)


def test_the_bias_is_that_of_the_cohort_size() -> None:
    description = describe(three_clients(), cohort_size=2)
    # cohorts ab, ac, bc: client a has weight 1/3 and 1/4, on average (7/12)/3; n_a/n = 1/6
    assert description.bias[0] == pytest.approx(7 / 12 / 3 * 6)
    assert (description.bias * description.data_sizes / 6).sum() == pytest.approx(1)
    with pytest.raises(DataError, match=r"the cohort size must be in 1..3"):
        describe(three_clients(), cohort_size=4)


@settings(max_examples=40)
@given(seed=st.integers(0, 1000), clients=st.integers(1, 8), classes=st.integers(1, 6))
def test_measures_stay_in_their_ranges_and_ignore_the_order_of_clients(
    seed: int, clients: int, classes: int
) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, (clients, classes))
    counts[:, 0] += 1
    measures, shuffled = skew(counts), skew(rng.permutation(counts))
    assert 0 <= measures.size_gini < 1
    assert -1e-12 <= measures.label_entropy <= np.log(classes) + 1e-12
    assert measures.label_entropy <= measures.global_entropy + np.log(clients) + 1e-12
    assert 0 <= measures.label_distance <= measures.max_label_distance + 1e-12 <= 1 + 1e-12
    assert vars(measures) == pytest.approx(vars(shuffled))
    assert gini(counts.sum(axis=1) * 7) == pytest.approx(measures.size_gini)


def test_lines_tell_sizes_labels_fingerprint_and_clients() -> None:
    federation = three_clients()
    lines = describe(federation, cohort_size=2).lines(max_clients=2)
    assert (
        lines[0]
        == "three: 3 clients, 6 training, 0 validation and 1 test examples (2 float32), 2 labels"
    )
    assert f"fingerprint     {federation.fingerprint}" in lines
    assert [line.split() for line in lines[-7:-3]] == [
        ["client", "train", "valid", "gamma", "bias", "y=0", "y=1"],
        # mean 2: gamma = 1/(1 + (3-2)(n-2)/(2·2·2)) = 1/(1 - 1/8), 1; biases 7/6 and (2/3 +
        # 2/5)/3·3
        ["a", "1", "0", "1.143", "1.167", "1", "."],
        ["b", "2", "0", "1.000", "1.067", "1", "1"],
        ["...", "and", "1", "more", "clients"],
    ]
    assert lines[-2].startswith("gamma: the paper's factor") and "cohorts of 2; bias:" in lines[-2]
    assert describe(federation).lines(max_clients=None)[-4].split()[0] == "c"


def shared_out(partition: object, clients: int = 5, **settings: object) -> list[str]:
    x, y = np.zeros((40, 1), dtype=np.float32), np.arange(40) % 4
    return describe(
        share_out(Labelled("s", x, y, (x, y), 4), partition, clients, **settings)
    ).lines()  # type: ignore[arg-type]


def test_the_partition_and_which_dirichlet_it_is_are_told() -> None:
    over_classes = "\n".join(shared_out(DirichletOverClasses(concentration=2.0)))
    over_clients = "\n".join(shared_out(DirichletOverClients(concentration=0.5)))
    assert (
        "partition       dirichlet_over_classes (concentration 2.0, sigma 0.0, minimum 1)"
        in over_classes
    )
    assert "Dirichlet       over classes, for each client: total 2, 0.5 a class" in over_classes
    assert "label shift     mean 0." in over_classes
    assert (
        "over clients, for each class: 0.5 a client, total 2.5; "
        "about the same as a total of 2 over classes" in over_clients
    )


def test_clients_that_were_left_out_are_listed() -> None:
    lines = shared_out(Iid(), clients=55, drop_empty=True)
    assert (
        "left out        15 clients (40, 41, 42, 43, 44, 45, 46, 47, 48, 49, ...): "
        "no training example" in lines
    )


def test_the_table_is_json_with_every_client() -> None:
    table = json.loads(json.dumps(describe(Synthetic(clients=25).load()).table()))
    assert len(table["clients"]) == 25
    assert sum(sum(client["labels"]) for client in table["clients"]) == sum(
        client["train"] for client in table["clients"]
    )
    assert table["fingerprint"] == Synthetic(clients=25).load().fingerprint


def test_examples_that_were_moved_to_reach_the_minimum_are_counted() -> None:
    lines = shared_out(DirichletOverClients(concentration=0.01, minimum=8))
    moved = next(line for line in lines if line.startswith("moved"))
    assert moved.endswith(" examples, so that every client has the minimum")
    assert int(moved.split()[1]) > 0
