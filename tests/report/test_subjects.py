import numpy as np
import pytest
from tests.report import folders

from fedgs.clients import Clients
from fedgs.errors import ConfigError, OutputError
from fedgs.report.run_view import Run
from fedgs.report.subjects import as_label_counts, as_matrix, description, rates_of

UNLABELLED = Clients(("a", "b"), np.array([3, 4]))


def test_clients_without_labels_have_no_label_counts() -> None:
    with pytest.raises(ConfigError, match="^partition needs clients with label counts; these have"):
        as_label_counts(UNLABELLED, "partition")
    with pytest.raises(OutputError, match="the labels of the clients of run are not known"):
        as_label_counts(Run({"method": "md"}, (), UNLABELLED), "partition")


def test_a_run_without_clients_has_neither_label_counts_nor_rates() -> None:
    run = Run({"method": "md"}, ())
    with pytest.raises(OutputError, match=r"run has no readable clients\.npz, so its clients"):
        as_label_counts(run, "partition")
    with pytest.raises(OutputError, match=r"run has no readable clients\.npz, so its rates"):
        rates_of(run, "rates_map")


def test_runs_that_share_their_clients_have_their_label_counts() -> None:
    clients = folders.make_clients(4)
    runs = [Run({"method": method}, (), clients) for method in ("md", "fedgs")]
    np.testing.assert_array_equal(as_label_counts(runs, "partition"), clients.label_counts)


@pytest.mark.parametrize(
    ("given", "bounds", "message"),
    [
        ([[1, 2], [3]], {}, "takes M; got rows of different lengths"),
        ([[1.0, np.nan]], {}, "takes M, finite values; got nan"),
        ([[1, -2]], {"low": 0}, "takes M, finite values of at least 0; got -2"),
        ([[1, 3]], {"low": 0, "high": 2}, r"takes M, finite values in \[0, 2\]; got 3"),
        (np.array([["a"]]), {}, r"takes M; got an array of shape \(1, 1\) of type <U1"),
    ],
)
def test_other_matrices_are_refused_with_the_bounds(
    given: object, bounds: dict[str, float], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^make {message}$"):
        as_matrix(given, "make", "M", **bounds)


def test_a_description_names_what_is_not_a_run() -> None:
    run = Run({}, ())
    assert description([run, 3]) == "a list with int inside"
    assert description((run, run)) == "a tuple with Run inside"
    assert description({}) == "a dict"
