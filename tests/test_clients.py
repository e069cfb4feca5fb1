"""Clients, views and selections: which arrays and answers are valid."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedgs.clients import Clients, Selection, View
from fedgs.errors import DataError, SelectionError
from fedgs.sampler_answers import checked_candidates, checked_memory, checked_selection, kept_memory


@pytest.fixture
def view() -> View:
    """Six clients, all available, of which two may be selected."""
    clients = Clients(tuple(f"site-{k}" for k in range(6)), np.arange(1, 7))
    return View(0, clients, np.arange(6), np.zeros(6, dtype=np.int64), 2)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"data_sizes": np.array([1.5, 2.0])},
            "data_sizes must be an array of integers, got float64",
        ),
        ({"data_sizes": np.array(["1", "2"])}, "data_sizes must be an array of integers, got <U1"),
        ({"data_sizes": [1, [2]]}, "data_sizes must be an array of integers, got list: "),
        (
            {"label_counts": np.array([["a"], ["b"]])},
            "label_counts must be an array of numbers, got <U1",
        ),
        ({"features": np.array([[None], [1]])}, "features must be an array of numbers, got object"),
        ({"features": [[1], [1, 2]]}, "features must be an array of numbers, got list: "),
        (
            {"features": np.ones((2, 1)) * 1j},
            "features must be an array of numbers, got complex128",
        ),
    ],
)
def test_the_arrays_of_clients_are_numbers(arrays: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Clients(("a", "b"), **{"data_sizes": np.array([1, 2]), **arrays})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda view: None, "must return a fedgs.Selection, got None"),
        (lambda view: {1, 2}, r"must return a fedgs.Selection, got set \{1, 2\}"),
        (lambda view: (k for k in [1]), "must return a fedgs.Selection, got generator"),
        (lambda view: [0.5], r"1-d array of integers, got an array of float64 with shape \(1,\)"),
        (lambda view: [0, 0], "distinct"),
        (lambda view: np.arange(6) < 2, r"got an array of bool .*np.flatnonzero\(mask\)"),
        (
            lambda view: ["site-0"],
            "got an array of <U6 .*names of clients are in view.clients.names",
        ),
        (lambda view: Selection(np.array([0, 0])), "distinct"),
        (lambda view: Selection(np.array([0, 1, 2])), r"at most 2 clients \(cohort_limit\), got 3"),
        (
            lambda view: Selection(np.array([99])),
            r"client 99 is not available \(the 6 clients have the indices 0 to 5\)",
        ),
        (lambda view: Selection(np.array([-1])), "client -1 is not available"),
        (
            lambda view: Selection(np.array([0.5])),
            r"1-d array of integers, got an array of float64 with shape \(1,\)",
        ),
        (
            lambda view: Selection(np.array([[0, 1]])),
            r"1-d array of integers, got an array of int64 with shape \(1, 2\)",
        ),
        (
            lambda view: Selection(np.zeros((0, 2))),
            r"1-d array of integers, got an array of float64 with shape \(0, 2\)",
        ),
        (lambda view: Selection(0), "1-d array of integers, got int 0"),
        (lambda view: Selection(None), "1-d array of integers, got None"),
        (
            lambda view: Selection([[0], [1, 2]]),
            r"indices of clients, got list \[\[0\], \[1, 2\]\]",
        ),
        (
            lambda view: Selection(np.arange(6) < 2),
            r"got an array of bool .*np.flatnonzero\(mask\)",
        ),
        (
            lambda view: Selection(["site-0"]),
            "got an array of <U6 .*names of clients are in view.clients.names",
        ),
        (
            lambda view: Selection(np.array([0]), draws=np.array([0])),
            r"draws must be 1 integers >= 1.* got array\(\[0\]\)",
        ),
        (
            lambda view: Selection(np.array([0]), draws=np.array([1.5])),
            r"draws must be 1 integers >= 1.* got array\(\[1.5\]\)",
        ),
        (
            lambda view: Selection(np.array([0]), draws=np.array([1, 1])),
            r"draws must be 1 integers .* got array\(\[1, 1\]\)",
        ),
        (
            lambda view: Selection(np.array([0]), draws=[True]),
            r"draws must be 1 integers >= 1.* got list \[True\]",
        ),
        (
            lambda view: Selection(np.array([0]), draws="a"),
            "draws must be 1 integers >= 1.* got str 'a'",
        ),
        (
            lambda view: Selection(np.array([0]), draws=[[1], [1, 2]]),
            "draws must be 1 integers >= 1.* got list",
        ),
        (
            lambda view: Selection(np.array([0]), weighting="data-size"),
            "must be one of data_size, draws, equal, inverse_participation, .*, or None; "
            "got 'data-size'; did you mean 'data_size'",
        ),
        (
            lambda view: Selection(np.array([0]), weighting=np.ones(2)),
            "weighting of a Selection must be one of",
        ),
        (
            lambda view: Selection(np.array([0]), weighting=["equal"]),
            "weighting of a Selection must be one of",
        ),
        (
            lambda view: Selection(np.array([0]), status=3),
            "status of a Selection must be a word or None, got int 3",
        ),
        (
            lambda view: Selection(np.array([0]), status="empty"),
            "status of a Selection must not be 'empty'",
        ),
        (
            lambda view: Selection(np.array([0]), objective=np.nan),
            "objective of a Selection must be a finite .* got float nan",
        ),
        (
            lambda view: Selection(np.array([0]), objective="high"),
            "objective of a Selection must be a finite number",
        ),
        (
            lambda view: Selection(np.array([0]), upper_bound=np.inf),
            "upper_bound of a Selection must be a finite number",
        ),
        (
            lambda view: Selection(np.array([0]), upper_bound=True),
            "upper_bound of a Selection must be a finite number",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_selections_are_refused_in_a_sentence(
    view: View, answer: Callable[[View], object], message: str
) -> None:
    with pytest.raises(SelectionError, match=message):
        checked_selection(answer(view), view)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"names": (), "data_sizes": np.array([], dtype=int)}, "at least one client, got none"),
        ({"data_sizes": np.array([1])}, r"data_sizes must have shape \(2,\), .* got \(1,\)"),
        ({"data_sizes": np.array([3, 0])}, "at least one training example; client 'b' has 0"),
        ({"label_counts": np.ones(2)}, r"label_counts must have 2 rows, .* got shape \(2,\)"),
        ({"features": np.ones((3, 2))}, r"features must have 2 rows, .* got shape \(3, 2\)"),
        ({"classes": 2}, "number of columns of label_counts, which is none, got 2"),
        (
            {"classes": 2, "label_counts": np.ones((2, 3))},
            "number of columns of label_counts, which is 3, got 2",
        ),
    ],
)
def test_clients_whose_parts_do_not_fit_are_refused(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        Clients(**{"names": ("a", "b"), "data_sizes": np.array([1, 2]), **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([0, 6], r"available clients only; client 6 is not available \(the 6 clients have"),
        ([1, 1], "loss_candidates must return distinct clients"),
        (["site-0"], "loss_candidates must return the indices of clients as a 1-d array"),
    ],
)
def test_wrong_candidates_for_losses_are_refused(
    view: View, candidates: object, message: str
) -> None:
    with pytest.raises(SelectionError, match=message):
        checked_candidates(candidates, view)


def test_no_candidates_for_losses_are_valid(view: View) -> None:
    assert checked_candidates([], view).tolist() == []


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (None, "start must return a mapping of names to arrays, got None"),
        ({3: np.zeros(1)}, "3 cannot be a name"),
        ({"": np.zeros(1)}, "'' cannot be a name"),
        ({"last": [[1], [1, 2]]}, r"'last' is list \[\[1\], \[1, 2\]\]"),
        ({"last": object()}, "'last' is object <object"),
    ],
)
def test_a_memory_that_a_file_cannot_hold_is_refused(memory: object, message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        checked_memory(memory, "start")


def test_a_memory_has_no_array_named_file(tmp_path: Path) -> None:
    # `numpy.savez(file, *args, **kwds)` cannot take an array of this name.
    with pytest.raises(SelectionError, match="'file' cannot be a name"):
        checked_memory({"file": np.zeros(1)}, "start")
    with pytest.raises(TypeError, match="file"):
        np.savez(tmp_path / "memory.npz", file=np.zeros(1))


def test_a_memory_is_frozen_once() -> None:
    wide = np.zeros((2, 4))
    memory = kept_memory(
        {"whole": np.eye(2), "view": wide[:, :2], "repeated": np.broadcast_to(np.zeros(1), (3,))}
    )
    wide[:] = 7
    assert not memory["view"].any()
    assert kept_memory(memory) is memory
    extended = kept_memory({**memory, "new": np.zeros(1)})
    assert all(extended[name] is array for name, array in memory.items())
