"""Attempts to make the solver's kernels read out of bounds, for `tests/test_bounds.py`."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.bounds.common import answered_or_refused, few, outside, put, refused

from fedgs.graph import MatrixDistances, shortest_paths
from fedgs.graph.matrix_distances import checked_once
from fedgs.graph.tree import SpanningForest, minimum_spanning_forest, shortfall
from fedgs.solver import SelectionProblem, select, solve


def matrix_of(count, seed=0):
    places = np.random.default_rng(seed).random((count, 2))
    lengths = np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=2))
    return np.maximum(lengths, lengths.T)


def is_cohort(cohort, count, size):
    assert len(cohort) == size and cohort.min() >= 0 and cohort.max() < count


LINE = matrix_of(30)
good = {
    "distance": LINE,
    "sampling_counts": np.arange(30),
    "available": np.arange(2, 25),
    "cohort_limit": 5,
}
is_cohort(select(**good), 30, 5)
bad_matrices = [
    [[0.0, 1.0], [1.0]],
    LINE.astype(str),
    LINE * 1j,
    np.full((30, 30), None),
    LINE[0],
    LINE[:29],
    np.zeros((30, 30, 1)),
    np.full((30, 30), np.nan),
    -LINE,
    "distance",
    None,
    5.0,
    {"a": 1},
    [LINE[:3], LINE],
    np.array(3.0),
]
bad_vectors = [
    [[0], [1, 2]],
    np.full(30, "a"),
    np.full(30, None),
    np.zeros((30, 1)),
    np.zeros(29),
    None,
    7,
    "abc",
    {},
    np.zeros(30, complex),
    np.full(30, np.nan),
    np.full(30, -1),
    np.full(30, np.inf),
    np.zeros(30, "M8[s]"),
]
bad_indices = [
    [[0], [1, 2]],
    ["a"],
    [None],
    [[0, 1]],
    [0.0, 1.0],
    [np.nan],
    [],
    None,
    3,
    "abc",
    [0, 0],
    [-1],
    [30],
    [2**63],
    [-(2**63)],
    np.ones(30, bool),
]


def malformed():
    for name, values in {
        "distance": bad_matrices,
        "sampling_counts": bad_vectors,
        "available": bad_indices,
        "cohort_limit": [0, -1, 2.0, None, "3", np.nan],
        "alpha": [-1, np.nan, np.inf, "a", None, 1j],
        "scale": ["x", None, 3],
        "seed": [-1, 1.5, None, "a"],
    }.items():
        for value in values:
            refused(select, **good | {name: value})
    for value in bad_matrices:
        refused(MatrixDistances, value)
        refused(shortest_paths, value)
        refused(SelectionProblem, value, np.zeros(30), 3, 1.0)
    for value in bad_vectors[:11]:
        refused(SelectionProblem, LINE, value, 3, 1.0)
    for value in bad_indices[:7] + bad_indices[8:]:
        refused(SelectionProblem, LINE, np.zeros(30), 1, 1.0, value)
    for value in (np.zeros((40, 39)), np.zeros((3, 2)), np.zeros(40)):
        refused(minimum_spanning_forest, value)
        refused(shortfall, value, SpanningForest(np.full(40, -1), np.zeros(40), np.arange(40)))
    refused(shortfall, matrix_of(300), SpanningForest(np.full(40, -1), np.zeros(40), np.arange(40)))


@few
@given(st.data(), st.integers(0, 60), st.sampled_from(["parent", "above", "order"]))
def forests(data, place, name):
    arrays = {
        "parent": np.arange(-1, 39),
        "above": np.append(0.0, np.ones(39)),
        "order": np.arange(40),
    }
    if name == "above":
        value = data.draw(st.sampled_from([np.nan, np.inf, -1.0]))
        refused(SpanningForest, **arrays | {name: put(arrays[name], place, value)})
    else:
        refused(
            SpanningForest, **arrays | {name: put(arrays[name], place, data.draw(outside(-1, 40)))}
        )
        refused(SpanningForest, **arrays | {name: arrays[name][:-1]})
        shuffled = data.draw(st.permutations(range(40)))
        forest = answered_or_refused(SpanningForest, **arrays | {"order": np.array(shuffled)})
        assert (forest is None) == (list(shuffled) != list(range(40)))
    refused(SpanningForest, **arrays | {name: arrays[name].astype(object)})


@few
@given(st.sampled_from([8, 12, 30, 70, 150]), st.data())
def distances_that_change_after_they_were_checked(count, data):
    size, seed = data.draw(st.integers(1, count - 1)), data.draw(st.integers(0, 9))
    value = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, -1.0, 1e308, -1e308]))
    share, before = data.draw(st.sampled_from([1.0, 0.1])), data.draw(st.booleans())
    effort = data.draw(st.sampled_from(["fast", "default"] + ["thorough"] * (count <= 12)))
    matrix = matrix_of(count, seed)
    distances = data.draw(st.sampled_from([MatrixDistances, checked_once]))(matrix)
    if before:
        assert hasattr(distances, "tree")  # is made now
    available, penalty = np.arange(count), np.random.default_rng(seed).normal(size=count)
    problem = SelectionProblem(
        distances, penalty, size, data.draw(st.sampled_from([1.0, 0.01])), available
    )
    available[:], penalty[:] = 10**12, np.nan
    matrix[np.random.default_rng(seed).random(matrix.shape) < share] = value
    answer = answered_or_refused(solve, problem, effort=effort, seed=seed)
    if answer is not None:
        is_cohort(answer.cohort, count, size)


@few
@given(
    st.integers(0, 9),
    st.sampled_from([1.0, 1e300, np.nan, np.inf, -1.0, None]),
    st.sampled_from(range(9)),
    st.sampled_from(range(6)),
)
def distances_of_any_origin(seed, maximum, rows, tree):
    class Own:
        def __len__(self):
            return 40

        def rows(self, clients):
            exact = matrix_of(40, seed)[clients]
            return [
                exact,
                exact[:, :30],
                exact[:1],
                exact * np.nan,
                -exact,
                exact.astype(object) * 2,
                exact.astype("f4"),
                [[1.0], [1.0, 2.0]],
                None,
            ][rows]

    Own.maximum = maximum
    small = SpanningForest(np.full(12, -1), np.zeros(12), np.arange(12))
    Own.tree = [
        None,
        small,
        minimum_spanning_forest(matrix_of(40, seed)),
        minimum_spanning_forest(matrix_of(50, seed)),
        "tree",
        small.preorder,
    ][tree]
    problem = answered_or_refused(SelectionProblem, Own(), np.zeros(40), 7, 1.0)
    assert (problem is None) == (maximum not in (1.0, 1e300))
    if problem is not None:
        answer = answered_or_refused(solve, problem)
        assert answer is None or is_cohort(answer.cohort, 40, 7) is None
        assert (answer is None) == (rows not in (0, 5, 6) or tree in (1, 3, 4, 5))


if __name__ == "__main__":
    for attempt in (
        malformed,
        forests,
        distances_that_change_after_they_were_checked,
        distances_of_any_origin,
    ):
        attempt()
    print("done")
