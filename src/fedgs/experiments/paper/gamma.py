"""The aggregation analysis (equations 18 to 23): gamma_k and the exact expected weights."""

from collections.abc import Mapping

import numpy as np

from fedgs.arrays import AnyArray
from fedgs.config import Training, cohort_limit
from fedgs.data.federation import Federation
from fedgs.data.gamma import expected_weights, gamma
from fedgs.experiments.paper.frame.conditions import Source
from fedgs.experiments.paper.frame.experiment import (
    Computation,
    Computed,
    Experiment,
    ExperimentRecords,
    Rendering,
)
from fedgs.experiments.paper.frame.planning import data_of
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.report.table import Block, Cell, Column, Table
from fedgs.report.tables import number

__all__ = ["EXPERIMENTS"]


def compute(
    request: ExperimentRequest, computation: Computation, federation: Federation | None
) -> dict[str, AnyArray]:
    """Sizes, gamma_k and expected weights for the data set's cohort limit M."""
    assert federation is not None
    data = data_of(computation)
    limit = cohort_limit(
        Training().with_defaults(data.defaults_for(federation).training), len(federation)
    )
    sizes = federation.clients.data_sizes
    return {
        "names": np.array([str(name) for name in federation.clients.names]),
        "sizes": sizes,
        "cohort_limit": np.array(limit),
        "gamma": gamma(sizes, limit),
        "expected": expected_weights(sizes, limit, seed=request.seeds[0]),
    }


_COLUMNS = (
    Column("client", ("client",), numeric=False),
    Column("n_k", ("data_size",)),
    Column("n_k / n", ("share",)),
    Column("gamma_k", ("gamma",)),
    Column("gamma_k n_k / n", ("approximate_weight",)),
    Column("expected weight", ("expected_weight",)),
    Column("true factor", ("factor",)),
)


def render(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """The clients at the quartiles of the data size, all clients as CSV, the errors of gamma."""
    short, full, verdict = [], [], []
    for source in request.data:
        result = records.computed.get(source.key)
        if result is None:
            continue
        order = np.argsort(result.arrays["sizes"], kind="stable")
        quartiles = [int(order[round(q * (len(order) - 1))]) for q in (0, 0.25, 0.5, 0.75, 1)]
        keys = (("data", result.data_title),)
        short.append(Block(keys, tuple(_row(result.arrays, k) for k in dict.fromkeys(quartiles))))
        full.append(Block(keys, tuple(_row(result.arrays, k) for k in order.tolist())))
        verdict += _verdict(result)
    if not short:
        return Rendering()
    title = "Expected aggregation weights of uniform sampling"
    notes = (
        "The clients with the smallest data size, at its quartiles and with the largest; true "
        "factor: expected weight over n_k / n.",
    )
    return Rendering(
        {"": Table(title, _COLUMNS, tuple(short), notes)},
        {"clients": Table(title, _COLUMNS, tuple(full))},
        verdict,
    )


def _row(arrays: Mapping[str, AnyArray], k: int) -> tuple[Cell, ...]:
    share = float(arrays["sizes"][k] / arrays["sizes"].sum())
    factor, expected = float(arrays["gamma"][k]), float(arrays["expected"][k])
    figures = ((share, 4), (factor, 3), (share * factor, 4), (expected, 4), (expected / share, 3))
    name, size = str(arrays["names"][k]), int(arrays["sizes"][k])
    return (
        Cell(name, (name,)),
        Cell(str(size), (size,)),
        *(Cell(number(value, digits), (value,)) for value, digits in figures),
    )


def _verdict(result: Computed) -> list[str]:
    sizes, factors = result.arrays["sizes"], result.arrays["gamma"]
    shares = sizes / sizes.sum()
    true = result.arrays["expected"] / shares
    smallest, largest = int(sizes.argmin()), int(sizes.argmax())
    title, limit = result.data_title, int(result.arrays["cohort_limit"])
    if sizes.min() == sizes.max():
        return [
            f"{title}, M = {limit}: all clients have the same size, so gamma_k = 1 and the average "
            "is unbiased, as in the paper."
        ]
    total = number(float(shares @ factors), 3)
    return [
        f"{title}, M = {limit}: the weights gamma_k n_k / n add up to "
        f"{total}{', not to 1.000' if total != '1.000' else ''}; the expected weights add up to "
        f"{number(float(result.arrays['expected'].sum()), 3)}.",
        f"The smallest client's true factor is {number(float(true[smallest]), 3)} where gamma says "
        f"{number(float(factors[smallest]), 3)}, the largest client's "
        f"{number(float(true[largest]), 3)} where gamma says {number(float(factors[largest]), 3)}: "
        "the step from E[1/(n_k + s)] to 1/(n_k + E[s]) is Jensen's gap.",
    ]


EXPERIMENTS = {
    "gamma": Experiment(
        name="gamma",
        title="The aggregation analysis: gamma_k and the exact expected weights",
        claim=(
            "With uniform sampling without replacement the expected weight of client k is (n_k / "
            "n) gamma_k: unbiased where sizes are equal, and closer to it the larger M (equations "
            "18 to 23)."
        ),
        takes=frozenset({"data", "seeds", "set"}),
        data=(Source("synthetic"),),
        compute=compute,
        render=render,
        one_seed=True,
    )
}
