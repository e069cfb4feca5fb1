"""What a round leaves behind: its record, with figures and time."""

from collections.abc import Mapping
from typing import TypedDict

import numpy as np

from fedgs.arrays import FloatArray
from fedgs.availability import RoundAvailability
from fedgs.checkpoint import State
from fedgs.clients import Selection
from fedgs.plan import Plan
from fedgs.record import Record
from fedgs.requests import Metrics
from fedgs.system import Played

__all__ = ["Figures", "TestAndValidation", "clock_of", "figures_of", "round_record"]

# Metrics of the test set and of the validation parts, if there are any.
TestAndValidation = tuple[Metrics, Metrics | None]


class Figures(TypedDict, total=False):
    """The fields of a record that hold metrics."""

    test_loss: float
    test_accuracy: float | None
    valid_loss: float | None
    test_metrics: Mapping[str, float] | None
    valid_metrics: Mapping[str, float] | None
    per_client: Mapping[str, object] | None


def figures_of(metrics: TestAndValidation | None) -> Figures:
    """The figures of a model; none where it was not evaluated."""
    if metrics is None:
        return {}
    test, valid = metrics
    further = {name: value for name, value in (test.others or {}).items() if name != "accuracy"}
    return {
        "test_loss": test.loss,
        "test_accuracy": test.accuracy,
        "valid_loss": None if valid is None else valid.loss,
        "test_metrics": further or None,
        "valid_metrics": None if valid is None else valid.others,
    }


class _Time(TypedDict, total=False):
    """The fields of a record that hold its time."""

    clock: float
    seconds: float
    fates: list[str]
    worked: list[float]
    traffic: int
    ended: str | None


def clock_of(state: State) -> _Time:
    """The clock alone, for a record of a model without a round."""
    return {} if state.time is None else {"clock": state.time.clock}


def _time(state: State, played: Played | None) -> _Time:
    """The time of a round; empty without a clock. A round without a cohort takes no time."""
    if state.time is None:
        return {}
    clock = state.time.clock
    if played is None:
        return _Time(clock=clock, seconds=0.0, fates=[], worked=[], traffic=0, ended=None)
    return {
        "clock": clock,
        "seconds": played.seconds,
        "fates": played.fates,
        "worked": played.worked,
        "traffic": played.traffic,
        "ended": played.ended,
    }


def round_record(
    plan: Plan,
    state: State,
    available: RoundAvailability,
    figures: Figures,
    *,
    selection: Selection | None = None,
    weights: FloatArray | None = None,
    played: Played | None = None,
) -> Record:
    """The record of a round; clients appear under their own keys."""
    names = plan.federation.clients.names
    status = available.status if selection is None else selection.status
    if selection is None:
        selection = Selection(np.empty(0, dtype=np.int64))
    return Record(
        round=state.round,
        available=list(available.names) if isinstance(available.names, list) else available.names,
        num_available=len(available.names),
        cohort=[names[k] for k in selection.clients.tolist()],
        draws=None if selection.draws is None else selection.draws.tolist(),
        weights=[] if weights is None else weights.tolist(),
        selection_status=status,
        selection_objective=selection.objective,
        selection_upper_bound=selection.upper_bound,
        **figures,
        **_time(state, played),
    )
