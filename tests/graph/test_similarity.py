import numpy as np
import pytest

from fedgs.clients import Clients
from fedgs.errors import GraphError
from fedgs.graph import client_features, cosines, feature_products, min_max


def test_features_come_before_label_proportions() -> None:
    clients = Clients(
        (0, 1),
        np.array([2, 2]),
        label_counts=np.array([[2, 0], [0, 2]]),
        features=np.array([[5.0], [6.0]]),
    )
    assert client_features(clients).tolist() == [[5.0], [6.0]]


def test_label_proportions_not_counts() -> None:
    clients = Clients((0, 1), np.array([10, 1]), label_counts=np.array([[5, 5], [1, 0]]))
    assert client_features(clients).tolist() == [[0.5, 0.5], [1.0, 0.0]]


def test_neither_features_nor_labels_is_refused() -> None:
    with pytest.raises(
        GraphError, match="needs client features or labels, and these clients have neither"
    ):
        client_features(Clients((0,), np.array([1])))


def test_nan_feature_names_the_client() -> None:
    with pytest.raises(GraphError, match="must be finite; those of client 'b' are not"):
        client_features(Clients(("a", "b"), np.array([1, 1]), features=np.array([[0.0], [np.nan]])))


def test_products_are_exactly_symmetric() -> None:
    products = feature_products(np.random.default_rng(0).normal(size=(40, 7)))
    assert np.array_equal(products, products.T)


def test_zero_vector_has_cosine_zero() -> None:
    assert cosines(feature_products(np.array([[0.0, 0.0], [3.0, 4.0]]))).tolist() == [
        [0.0, 0.0],
        [0.0, 1.0],
    ]


def test_cosines_need_the_diagonal() -> None:
    with pytest.raises(GraphError, match="normalize_by_norm needs every client's own product"):
        cosines(np.array([[np.nan, 1.0], [1.0, 1.0]]))


def test_min_max_over_pairs_ignores_own_products() -> None:
    # Off the diagonal 1..3, so 2 lies half way; the 100s do not count.
    scaled = min_max(
        np.array([[100.0, 1.0, 2.0], [1.0, 100.0, 3.0], [2.0, 3.0, 100.0]]), "off_diagonal"
    )
    assert scaled.tolist() == [[1.0, 0.0, 0.5], [0.0, 1.0, 1.0], [0.5, 1.0, 1.0]]


def test_min_max_over_all_uses_own_products() -> None:
    scaled = min_max(np.array([[5.0, 1.0], [1.0, 3.0]]), "all")
    assert scaled.tolist() == [[1.0, 0.0], [0.0, 0.5]]


def test_min_max_none_changes_nothing() -> None:
    products = np.array([[5.0, -1.0], [-1.0, 3.0]])
    assert min_max(products, "none") is products


@pytest.mark.parametrize("over", ["off_diagonal", "all"])
def test_equal_pairs_become_one(over: str) -> None:
    # Identical clients: their products differ in the last bits only, which must not be stretched to
    # [0, 1].
    row = np.random.default_rng(1).dirichlet(np.ones(7))
    products = feature_products(np.tile(row, (5, 1))) * (
        1 + 1e-15 * np.arange(5)[:, None] * np.arange(5)[None, :]
    )
    assert np.array_equal(min_max(products, over), np.ones((5, 5)))  # type: ignore[arg-type]


def test_one_client_is_like_itself() -> None:
    assert min_max(np.array([[7.0]]), "off_diagonal").tolist() == [[1.0]]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.empty((2, 0)), r"at least one number for each client, got shape \(2, 0\)"),
        (np.array([[1.0], [-1e200]]), "length at most 1e\\+150, .* client 'b' is longer"),
    ],
)
def test_features_without_finite_products_are_refused(features: np.ndarray, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        client_features(Clients(("a", "b"), np.array([1, 1]), features=features))


@pytest.mark.filterwarnings("error")
def test_the_largest_features_have_finite_similarities() -> None:
    features = client_features(
        Clients(
            (0, 1, 2), np.ones(3, dtype=np.int64), features=np.array([[1e150], [-1e150], [1.0]])
        )
    )
    products = feature_products(features)
    assert np.isfinite(min_max(products, "off_diagonal")).all()
    assert cosines(products)[0].tolist() == pytest.approx([1, -1, 1])
