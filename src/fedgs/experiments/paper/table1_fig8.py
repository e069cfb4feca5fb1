"""Table 1 and Figure 8: the availability modes, their rates, and the clients that are available."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedgs.arrays import AnyArray, BoolArray, FloatArray
from fedgs.availability import activity
from fedgs.availability.base import Availability, checked_rates
from fedgs.config import Training, cohort_limit
from fedgs.data.base import Data
from fedgs.data.federation import Federation
from fedgs.experiments.paper.frame.conditions import Mode, Source
from fedgs.experiments.paper.frame.experiment import (
    Computation,
    Computed,
    Experiment,
    ExperimentRecords,
    Rendering,
)
from fedgs.experiments.paper.frame.planning import data_of
from fedgs.experiments.paper.frame.published import PAPER_BETA
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.registry import build
from fedgs.report.table import Block, Cell, Column, Table
from fedgs.report.tables import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENTS"]

_RATES = {
    "IDL": "1",
    "MDF": "(n_k / max n)^beta",
    "LDF": "(min n / n_k)^beta",
    "YMF": "beta min(y_k) / max(y) + 1 - beta",
    "YC": "beta [label of k has its turn] + 1 - beta",
    "LN": "c_k / max c, c lognormal(0, ln(1/(1-beta)))",
    "SLN": "LN's rate (0.4 sin(2 pi (1 + t mod T_p)/T_p) + 0.5)",
    "markov": "pi, a chain with correlation lambda",
    "bernoulli": "p_k uniform on [lowest, 1]",
    "label_dirichlet": "max(lowest, mean C <label shares of k, q>), q Dirichlet",
    "label_uniform": "<label shares of k, phi>, phi uniform",
    "staircase": "p_k, reduced in the second half of a period",
    "sine": "p_k (gamma sin(2 pi t/T_p) + 1 - gamma)",
    "interleaved": "that of sine, 0 below a threshold",
    "cyclic": "max(1, round(T_p p_k))/T_p, one block in a period",
    "groups": "1/G, groups in turn",
    "diurnal": "b_k (1 + a cos(2 pi (h - peak)/24)), a chain",
}
_FIG8 = {
    "synthetic": ("IDL", "LDF", "MDF"),
    "cifar10": ("LN", "SLN"),
    "fashion_mnist": ("YMF", "YC"),
}


def compute_availability(
    request: ExperimentRequest, computation: Computation, federation: Federation | None
) -> dict[str, AnyArray]:
    """By mode, (N, T) rates, activity and expected activity; and M of the federation."""
    assert federation is not None
    data = data_of(computation)
    source = next(source for source in request.data if source.key == computation.key)
    arrays: dict[str, AnyArray] = {"cohort_limit": np.array(_limit(data, federation))}
    for mode in _modes(request, source):
        availability = build("availability", {**mode.table, "seed": request.seeds[0]})
        assert isinstance(availability, Availability)
        rounds = request.rounds or (
            200 if request.name == "fig8" else int(data.defaults_for(federation).training["rounds"])
        )
        availability.check(federation.clients, rounds)
        rates = np.stack(
            [checked_rates(availability, federation.clients, t) for t in range(rounds)], axis=1
        )
        arrays[f"{mode.title}/active"] = activity(availability, federation.clients, rounds)
        arrays[f"{mode.title}/rates"] = rates
        redrawn = availability.empty_round == "redraw"
        arrays[f"{mode.title}/expected"] = given_any_available(rates) if redrawn else rates
    return arrays


def _limit(data: Data, federation: Federation) -> int:
    return cohort_limit(
        Training().with_defaults(data.defaults_for(federation).training), len(federation)
    )


def _modes(request: ExperimentRequest, source: Source) -> tuple[Mode, ...]:
    if request.modes:
        return request.modes
    names = (
        _FIG8.get(source.key, _FIG8["synthetic"]) if request.name == "fig8" else tuple(PAPER_BETA)
    )
    return tuple(Mode(name) for name in names)


def given_any_available(rates: FloatArray) -> FloatArray:
    """(N, T) probabilities of being available, given that at least one client is.

    They are p_k / (1 - prod(1 - p_i)).

    >>> given_any_available(np.array([[0.5, 1.0], [0.5, 0.0]])).round(3)
    array([[0.667, 1.   ],
           [0.667, 0.   ]])
    """
    any_available = 1 - np.prod(1 - rates, axis=0)
    return np.asarray(
        np.divide(rates, any_available, out=np.zeros_like(rates), where=any_available > 0)
    )


def autocorrelation(active: BoolArray, distance: int = 1) -> float:
    """The correlation of a client's states at a distance in rounds.

    It is the mean over clients of the sample autocorrelation, without clients whose state never
    changes; NaN without any other client.

    Args:
        active: (N, T) whether client k is available in round t, T > distance.
        distance: in rounds.

    >>> autocorrelation(np.tile([True, False], (1, 50)))
    -0.99
    """
    states = active[active.any(axis=1) & ~active.all(axis=1)]
    if len(states) == 0:
        return float("nan")
    centred = states - states.mean(axis=1, keepdims=True)
    products = (centred[:, :-distance] * centred[:, distance:]).sum(axis=1)
    return float((products / (centred**2).sum(axis=1)).mean())


def render_table1(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """Rates and measured activity, mode by mode; autocorrelation beside modes of others."""
    is_extended = any(mode.name not in PAPER_BETA for mode in request.modes)
    columns: tuple[Column, ...] = (
        Column("mode", ("mode",), numeric=False),
        Column("rate of client k in round t", ("rate",), numeric=False),
        Column("lowest", ("rate_lowest",)),
        Column("mean rate", ("rate_mean",)),
        Column("highest", ("rate_highest",)),
        Column("measured", ("measured", "standard_errors")),
        Column("mean |A_t|", ("available_mean",)),
        Column("rounds below M", ("rounds_below_limit", "rounds")),
    )
    if is_extended:
        columns = (*columns, Column("autocorrelation", ("autocorrelation",)))
    blocks, verdict = [], []
    for source in request.data:
        result = records.computed.get(source.key)
        if result is not None:
            modes = [
                mode for mode in _modes(request, source) if f"{mode.title}/rates" in result.arrays
            ]
            figures = {mode.title: _figures(result, mode) for mode in modes}
            rows = tuple(
                (*_row(mode, figures[mode.title]), *_memory(result, mode)[: int(is_extended)])
                for mode in modes
            )
            blocks.append(Block((("data", result.data_title),), rows))
            verdict.append(_activity_sentence(result.data_title, figures))
    notes = (
        "lowest, highest: of the clients' rates averaged over rounds; measured: share of "
        "(client, round) pairs in which the client was available.",
    )
    table = Table("Table 1: availability modes", columns, tuple(blocks), notes)
    return Rendering({"": table}, verdict=verdict) if blocks else Rendering(verdict=verdict)


def _figures(result: Computed, mode: Mode) -> dict[str, float]:
    available, rates, expected = (
        result.arrays[f"{mode.title}/{part}"] for part in ("active", "rates", "expected")
    )
    by_client = rates.mean(axis=1)
    spread = float(np.sqrt((expected * (1 - expected)).sum()))
    gap = float(available.sum() - expected.sum())
    sizes = available.sum(axis=0)
    errors = 0.0 if abs(gap) < 1e-6 else gap / spread if spread > 0 else float("inf")
    return {
        "lowest": float(by_client.min()),
        "mean": float(by_client.mean()),
        "highest": float(by_client.max()),
        "measured": float(available.mean()),
        # The spread is that of rounds that do not depend on each other.
        "errors": errors if mode.is_independent else float("nan"),
        "available": float(sizes.mean()),
        "below": int((sizes < int(result.arrays["cohort_limit"])).sum()),
        "rounds": available.shape[1],
    }


def _memory(result: Computed, mode: Mode) -> tuple[Cell, ...]:
    measured = autocorrelation(result.arrays[f"{mode.title}/active"])
    is_known = not np.isnan(measured)
    return (Cell(number(measured, 3) if is_known else "", (measured if is_known else None,)),)


def _row(mode: Mode, figures: Mapping[str, float]) -> tuple[Cell, ...]:
    below, rounds = int(figures["below"]), int(figures["rounds"])
    rate = _RATES.get(mode.name, "")  # modes of users have no words here
    errors = None if np.isnan(figures["errors"]) else figures["errors"]
    return (
        Cell(mode.title, (mode.title,)),
        Cell(rate, (rate,)),
        *(Cell(number(figures[key], 3), (figures[key],)) for key in ("lowest", "mean", "highest")),
        Cell(number(figures["measured"], 3), (figures["measured"], errors)),
        Cell(number(figures["available"], 1), (figures["available"],)),
        Cell(f"{below} of {rounds}", (below, rounds)),
    )


def _activity_sentence(title: str, figures: Mapping[str, Mapping[str, float]]) -> str:
    all_modes = len(figures)
    figures = {mode: row for mode, row in figures.items() if not np.isnan(row["errors"])}
    if not figures:
        return f"{title}: no standard errors, since rounds of these modes depend on each other."
    memory = "" if len(figures) == all_modes else " without memory"
    worst = max(figures, key=lambda mode: abs(figures[mode]["errors"]))
    far = [mode for mode, figure in figures.items() if abs(figure["errors"]) > 3]
    if far:
        return f"{title}: more than 3 standard errors from what the rates give: {', '.join(far)}."
    return (
        f"{title}: the measured activity lies within {abs(figures[worst]['errors']):.1f} standard "
        f"errors of what the rates give in all {len(figures)} modes{memory}."
    )


def render_fig8(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """The available clients in each round, one panel a mode."""
    panels: list[tuple[str, AnyArray]] = []
    verdict: list[str] = []
    for source in request.data:
        result = records.computed.get(source.key)
        if result is not None:
            for mode in _modes(request, source):
                available = result.arrays[f"{mode.title}/active"]
                sizes = available.sum(axis=0)
                # No more than fits above a panel.
                name = source.title.partition("(")[0][:14]
                panels.append((f"{name}, {mode.title}", available))
                verdict.append(
                    f"{result.data_title}, {mode.title}: {100 * available.mean():.0f} % of the "
                    f"clients are available on average, {int(sizes.min())} to "
                    f"{int(sizes.max())} in a round{_memory_words(available, mode)}."
                )

    def draw() -> "dict[str, Figure]":
        from fedgs.report.figures import active_states

        return {"": active_states(panels)}

    return Rendering(verdict=verdict, draw=draw if panels else None)


def _memory_words(active: BoolArray, mode: Mode) -> str:
    """The autocorrelation of a mode that is not the paper's."""
    measured = autocorrelation(active)
    if mode.name in PAPER_BETA or np.isnan(measured):
        return ""
    return f", with an autocorrelation of {number(measured, 2)}"


_TAKES = frozenset({"data", "modes", "rounds", "seeds", "set"})
EXPERIMENTS = {
    "table1": Experiment(
        name="table1",
        title="Table 1: availability modes, their rates and the measured activity",
        claim=(
            "Seven modes that depend on time, on data size, on labels or on none of them give the "
            "probability that a client is available."
        ),
        takes=_TAKES,
        data=(Source("synthetic"),),
        compute=compute_availability,
        render=render_table1,
        one_seed=True,
        other_modes=True,
    ),
    "fig8": Experiment(
        name="fig8",
        title="Figure 8: active states of the clients in each round",
        claim=(
            "The modes differ visibly in which clients are available and when; the active states "
            "are equal for all methods."
        ),
        takes=_TAKES,
        data=(Source("synthetic"), Source("cifar10"), Source("fashion_mnist")),
        compute=compute_availability,
        render=render_fig8,
        one_seed=True,
        other_modes=True,
        draws=True,
    ),
}
