"""Theorem 1: the distance between the selected clients and the chance to recover the full update.

Cohorts of clients are drawn at random; `theorem1_cones` has the geometry.
"""

from collections.abc import Mapping

import numpy as np

from fedgs.arrays import AnyArray, FloatMatrix
from fedgs.data.federation import Federation
from fedgs.experiments.paper.frame.experiment import (
    Computation,
    Experiment,
    ExperimentRecords,
    Rendering,
)
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.theorem1_cones import (
    cone_share,
    distances,
    further_but_smaller,
    mean_distance,
    rank_correlation,
    solid_angle,
)
from fedgs.graph import shortest_paths
from fedgs.report.table import Block, Cell, Column, Table
from fedgs.report.tables import number
from fedgs.rng import stream

__all__ = ["EXPERIMENTS", "compute"]

LABELS = (2, 3, 5)
SETS, DIRECTIONS, POINTS = 300, 20_000, 300


def compute(
    request: ExperimentRequest, computation: Computation, federation: Federation | None
) -> dict[str, AnyArray]:
    """Distances, determinants and shares of drawn cohorts for M = C, C + 1 and 2 C.

    Two counter-examples are added.
    """
    arrays: dict[str, AnyArray] = {}
    for labels in LABELS:
        rng = stream(request.seeds[0], "theorem1", labels)
        directions = np.abs(rng.standard_normal((labels, DIRECTIONS)))
        # (S, C, C), one client a column
        sets = rng.dirichlet(np.ones(labels), size=(SETS, labels)).transpose(0, 2, 1)
        arrays[f"{labels}/sets"] = sets
        arrays[f"{labels}/distance"] = np.array([mean_distance(cohort) for cohort in sets])
        arrays[f"{labels}/paths"] = np.array([mean_distance(cohort, paths=True) for cohort in sets])
        arrays[f"{labels}/determinant"] = np.abs(np.linalg.det(sets))
        arrays[f"{labels}/unit_determinant"] = np.abs(
            np.linalg.det(sets / np.linalg.norm(sets, axis=1, keepdims=True))
        )
        arrays[f"{labels}/solid_angle"] = np.array(
            [solid_angle(cohort, directions) for cohort in sets]
        )
        points = rng.dirichlet(np.ones(labels), size=POINTS).T
        for size in (labels, labels + 1, 2 * labels):
            drawn = (
                sets
                if size == labels
                else rng.dirichlet(np.ones(labels), size=(SETS, size)).transpose(0, 2, 1)
            )
            cohorts = drawn[: max(40, SETS // 5)]
            arrays[f"{labels}/larger/{size}/distance"] = np.array(
                [mean_distance(cohort) for cohort in cohorts]
            )
            arrays[f"{labels}/larger/{size}/share"] = np.array(
                [cone_share(cohort, points) for cohort in cohorts]
            )
    arrays["further_but_smaller"] = further_but_smaller(request.seeds[0])
    arrays["arc"] = np.array([[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]])
    return arrays


def render(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """Rank correlations for M = C and beyond, and the counter-examples."""
    result = records.computed.get("")
    if result is None:
        return Rendering()
    arrays = result.arrays
    exact = Table(
        "Theorem 1, M = C: rank correlation with the mean distance",
        _EXACT_COLUMNS,
        (_exact_block(arrays),),
        _EXACT_NOTES,
    )
    larger = Table(
        "Theorem 1, M >= C: rank correlation with the mean distance",
        _LARGER_COLUMNS,
        (_larger_block(arrays),),
        _LARGER_NOTES,
    )
    return Rendering({"equal": exact, "larger": larger}, verdict=_verdict(arrays))


_EXACT_COLUMNS = (
    Column("C", ("labels",)),
    Column("cohorts", ("cohorts",)),
    Column("|det| of e", ("correlation_unit_determinant",)),
    Column("|det| of p", ("correlation_determinant",)),
    Column("|det| of p, by H", ("correlation_determinant_paths",)),
    Column("solid angle", ("correlation_solid_angle",)),
    Column("mean |det| of p", ("determinant_mean",)),
    Column("mean solid angle", ("solid_angle_mean",)),
    Column("H differs from R", ("shortcut_share",)),
)
_EXACT_NOTES = (
    f"{SETS} cohorts of C clients uniform on the simplex; distance |e_i - e_j|²; by H: its "
    "shortest paths. |det| of p is the exact probability for p* uniform on the simplex; the solid "
    f"angle over the orthant's is that for a uniform direction, from {DIRECTIONS} directions.",
)
_LARGER_COLUMNS = (
    Column("C", ("labels",)),
    Column("M", ("clients",)),
    Column("cohorts", ("cohorts",)),
    Column("correlation", ("correlation",)),
    Column("mean share", ("share_mean",)),
)
_LARGER_NOTES = (
    f"share: of {POINTS} points p*, uniform on the simplex, that lie in the cone of the cohort "
    "(non-negative least squares).",
)


def _exact_block(arrays: Mapping[str, AnyArray]) -> Block:
    rows = []
    for labels in LABELS:
        distance = arrays[f"{labels}/distance"]
        keys = ("unit_determinant", "determinant", "solid_angle")
        correlations = [rank_correlation(distance, arrays[f"{labels}/{key}"]) for key in keys]
        correlations.insert(
            2, rank_correlation(arrays[f"{labels}/paths"], arrays[f"{labels}/determinant"])
        )
        means = [float(arrays[f"{labels}/{key}"].mean()) for key in keys[1:]]
        shortcut = float((arrays[f"{labels}/paths"] < distance - 1e-12).mean())
        figures = [*correlations, *means, shortcut]
        cells = (Cell(number(value, 3), (value,)) for value in figures)
        rows.append(
            (Cell(str(labels), (labels,)), Cell(str(len(distance)), (len(distance),)), *cells)
        )
    return Block((), tuple(rows))


def _larger_block(arrays: Mapping[str, AnyArray]) -> Block:
    rows = []
    for labels in LABELS:
        for size in (labels, labels + 1, 2 * labels):
            distance, share = (
                arrays[f"{labels}/larger/{size}/{key}"] for key in ("distance", "share")
            )
            correlation, average = rank_correlation(distance, share), float(share.mean())
            rows.append(
                (
                    *(Cell(str(value), (value,)) for value in (labels, size, len(share))),
                    *(Cell(number(value, 3), (value,)) for value in (correlation, average)),
                )
            )
    return Block((), tuple(rows))


def _verdict(arrays: Mapping[str, AnyArray]) -> list[str]:
    first, second = arrays["further_but_smaller"]
    sentences = []
    correlations = {
        labels: rank_correlation(arrays[f"{labels}/distance"], arrays[f"{labels}/determinant"])
        for labels in LABELS
    }
    correlation_text = ", ".join(
        f"{number(value, 3)} at C = {labels}" for labels, value in correlations.items()
    )
    sign = (
        "on the whole, as the paper says"
        if min(correlations.values()) > 0
        else "not always, against what the paper says"
    )
    sentences.append(
        f"A larger mean distance goes with a larger probability |det[p_1 .. p_C]| {sign}: rank "
        f"correlation {correlation_text}."
    )
    sentences.append(_counter_sentence(first, second))
    arc = distances(arrays["arc"])
    paths = shortest_paths(arc)
    sentences.append(
        "H = R does not hold: for p = (1, 0), (.5, .5), (0, 1) the edge between the ends is "
        f"{number(arc[0, 2], 3)} long, the way over the middle {number(paths[0, 2], 3)}."
    )
    worst = max(LABELS, key=lambda labels: _disagreement(arrays, labels))
    sentences.append(
        "p* uniform on the simplex and uniform in direction are not the same: the two "
        f"probabilities differ by up to {number(_disagreement(arrays, worst), 3)} (C = {worst}; "
        f"Monte Carlo error of one at most {number(1.5 / DIRECTIONS**0.5, 3)})."
    )
    return sentences


def _disagreement(arrays: Mapping[str, AnyArray], labels: int) -> float:
    return float(np.abs(arrays[f"{labels}/determinant"] - arrays[f"{labels}/solid_angle"]).max())


def _counter_sentence(first: FloatMatrix, second: FloatMatrix) -> str:
    far, near = mean_distance(first), mean_distance(second)
    small, large = (float(abs(np.linalg.det(columns))) for columns in (first, second))
    if not (far > near and small < large):
        return (
            "Among 400 drawn cohorts of C = 3 none has a larger mean distance and a smaller "
            "probability than another."
        )
    return (
        f"But not always, at C = 3: {_cohort_text(first)} has mean distance {number(far, 3)} and "
        f"probability {number(small, 3)}; {_cohort_text(second)} has the smaller mean distance "
        f"{number(near, 3)} and the larger probability {number(large, 3)}."
    )


def _cohort_text(columns: FloatMatrix) -> str:
    """The label distributions of a cohort's clients.

    >>> _cohort_text(np.array([[1.0, 0.3], [0.0, 0.7]]))
    'p = (1.0, 0.0), (0.3, 0.7)'
    """
    clients = (", ".join(f"{value:.1f}" for value in column) for column in columns.T)
    return f"p = {', '.join(f'({client})' for client in clients)}"


EXPERIMENTS = {
    "theorem1": Experiment(
        name="theorem1",
        title=(
            "Theorem 1: distance of the selected clients and the chance to recover the full update"
        ),
        claim=(
            "On a complete graph, a larger distance between the selected clients gives a better "
            "approximation of the full update."
        ),
        takes=frozenset({"seeds"}),
        data=(),
        compute=compute,
        render=render,
        one_seed=True,
    )
}
