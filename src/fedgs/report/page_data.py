"""What the page shows, as plain data: rounded, binned, packed, each array once."""

import base64
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import tomli_w

from fedgs.arrays import BoolArray, FloatArray, FloatMatrix, IntArray
from fedgs.clients import Clients
from fedgs.errors import OutputError
from fedgs.palette import label_colours
from fedgs.report.by_client import client_accuracies, client_losses
from fedgs.report.client_groups import (
    MOST_PICKED,
    MOST_ROWS,
    group_shares,
    means,
    picked,
    tenths,
    title_of,
)
from fedgs.report.doubles import latest
from fedgs.report.history import (
    Curve,
    Participation,
    binned,
    cohort_diversity,
    curve,
    participation,
    runs_to_average,
)
from fedgs.report.hours import has_clock, time_curve
from fedgs.report.metric_columns import further_figures
from fedgs.report.network import Network, network_of_run
from fedgs.report.run_view import Run, without_none
from fedgs.report.style import looks

__all__ = ["page_data"]

_MOST_POINTS = 250  # of a curve
_FEW_POINTS = 50  # of a curve that jumps from round to round
_MOST_LABELS = 200  # drawn one by one
# Of one run's map of clients by rounds; of larger ones, every second, third, ... round is kept.
_MOST_CELLS = 1_200_000
# Of all maps together; beyond it, only the first seed of each method has its maps.
_MOST_BYTES = 6_000_000
_MOST_EVENTS = 200  # of a run, listed one by one: the last ones
_METRICS = ("test_loss", "valid_loss", "test_accuracy")

_Values = dict[str, object]  # a JSON object


@dataclass
class _Maps:
    """Two bits for each client and round, packed and in base64.

    Attributes:
        available: the available clients.
        selected: the selected clients.
        stride: of so many rounds one is kept.
    """

    available: str
    selected: str
    stride: int


@dataclass
class _Shown:
    """A run, its values on the page, and its maps, which are added after those of all runs."""

    run: Run
    values: _Values
    maps: _Maps | None


@dataclass
class _Shared:
    """What several runs share and the page holds once; runs refer to it by position."""

    federations: list[_Values] = field(default_factory=list)
    networks: list[_Values] = field(default_factory=list)
    maps: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def page_data(runs: Sequence[Run], problems: Sequence[str]) -> dict[str, object]:
    """The data that the page's script reads; the same runs give the same data.

    Of runs with the same label and seed, the latest is shown.

    Args:
        runs: labelled.
        problems: one line each.
    """
    ordered = sorted(latest(runs)[0], key=lambda run: (run.group, run.label, run.seed, run.name))
    shared = _Shared()
    shown: list[_Shown] = []
    groups: list[_Values] = []
    for group in sorted({run.group for run in ordered}):
        of_group = [run for run in ordered if run.group == group]
        for run, network in zip(of_group, _networks_of(of_group), strict=True):
            shown.append(_shown(run, len(groups), network=network, shared=shared))
        curves: _Values = {"curves": _curves(of_group, curve)}
        if any(has_clock(run) for run in of_group):
            curves["by_hours"] = _curves(of_group, time_curve)
        groups.append({"title": ", ".join(group), **curves})
    _add_maps(shown, shared)
    return {
        "groups": groups,
        "methods": {
            label: {"colour": look.colour, "dash": look.dash}
            for label, look in sorted(looks(ordered).items())
        },
        "runs": [entry.values for entry in shown],
        "federations": shared.federations,
        "networks": shared.networks,
        "maps": shared.maps,
        "problems": [*problems, *shared.problems],
    }


def _curves(runs: Sequence[Run], make: Callable[..., Curve]) -> dict[str, _Values]:
    """Metric -> label -> rounds or hours, mean and spread of at most 250 of them, evenly picked.

    Failed runs count only if all of a label failed.
    """
    curves: dict[str, _Values] = {}
    for metric in (*_METRICS, *further_figures(runs)):
        for label in sorted({run.label for run in runs}):
            averaged, all_failed = runs_to_average([run for run in runs if run.label == label])
            drawn = make(averaged, metric)
            count = len(drawn.rounds)
            if count:
                positions = np.linspace(0, count - 1, min(count, _MOST_POINTS))
                picked = np.unique(positions.round().astype(np.int64))
                curves.setdefault(metric, {})[label] = {
                    "rounds": drawn.rounds[picked].tolist()
                    if drawn.rounds.dtype.kind == "i"
                    else _numbers(drawn.rounds[picked]),
                    "mean": _numbers(drawn.mean[picked]),
                    "spread": _numbers(drawn.spread[picked]),
                    "seeds": drawn.seeds,
                    "failed": all_failed,
                }
    return curves


def _networks_of(runs: Sequence[Run]) -> list[Network | None]:
    """The client graph with which each run of a group is drawn.

    A run without one of its own takes the group's first, if that has as many clients.
    """
    networks = _own_networks(runs)
    first = next((network for network in networks if network is not None), None)
    chosen: list[Network | None] = []
    for run, own_network in zip(runs, networks, strict=True):
        network = own_network or first
        fits = (
            network is not None
            and run.clients is not None
            and len(network.positions) == len(run.clients)
        )
        chosen.append(network if fits else None)
    return chosen


def _own_networks(runs: Sequence[Run]) -> list[Network | None]:
    """Each run's client graph, drawn once for all runs that share federation and distances."""
    drawn: dict[object, Network | None] = {}
    networks: list[Network | None] = []
    for run in runs:
        is_small = run.clients is not None and len(run.clients) <= MOST_PICKED
        distance = run.memory().get("distance") if is_small else None
        if distance is None:
            networks.append(None)
            continue
        digest = hashlib.sha256(np.ascontiguousarray(distance).tobytes()).hexdigest()
        key = (run.about.get("data_fingerprint"), digest)
        if key not in drawn:
            drawn[key] = network_of_run(run)
        networks.append(drawn[key])
    return networks


def _shown(run: Run, group: int, *, network: Network | None, shared: _Shared) -> _Shown:
    """A run's values, without its maps, and its maps."""
    state = "finished" if run.finished else "unfinished"
    statuses = Counter(r.selection_status for r in run.records if r.selection_status)
    values: _Values = {
        "name": run.name,
        "group": group,
        "label": run.label,
        "seed": run.seed,
        "rounds": run.rounds,
        "done": run.rounds_done,
        "state": state if run.failure is None else "failed",
        "stopped": _stopped(run),
        "failure": _failure(run),
        "config": tomli_w.dumps(without_none(run.config)),
        "statuses": dict(sorted(statuses.items())),
        "gap": _gap(run),
        "seconds": _milliseconds(run.timings),
        "events": _events(run.events),
    }
    history = participation(run)
    if history is None or run.clients is None:
        return _Shown(run, values, None)
    if len(run.clients) <= MOST_ROWS:
        values["by_client"] = _by_client(run, picked(run.clients))
    try:
        return _Shown(run, values, _of_clients(run.clients, history, network, values, shared))
    except OutputError as error:  # the available clients can neither be read nor drawn again
        shared.problems.append(f"{run.name}: without its clients, {error}")
        return _Shown(run, values, None)


def _of_clients(
    clients: Clients,
    history: Participation,
    network: Network | None,
    values: _Values,
    shared: _Shared,
) -> _Maps | None:
    """Add what the page shows of the clients; above 10^5 of them, by tenths of their data sizes."""
    activity = history.activity
    values.update(_series(history, None if network is None else network.distance))
    if len(clients) > MOST_ROWS:
        groups = tenths(clients)
        values["federation"] = _position(shared.federations, _grouped(clients, groups))
        values["counts"] = _numbers(means(groups, history.counts))
        values["activity"] = _numbers(means(groups, activity))
        stride = max(1, math.ceil(history.rounds / _FEW_POINTS))
        available, selected = group_shares(groups, history, stride)
        values["shares"] = {
            "stride": stride,
            "available": [_numbers(row) for row in available],
            "selected": [_numbers(row) for row in selected],
        }
        return None
    rows = picked(clients)
    values["federation"] = _position(shared.federations, _federation(clients, rows))
    if network is not None:
        values["network"] = _position(shared.networks, _network(network, rows))
    values["counts"] = history.counts[rows].tolist()
    values["activity"] = _numbers(activity[rows])
    return _maps(history, rows)


def _grouped(clients: Clients, groups: Sequence[IntArray]) -> _Values:
    """The clients by tenths: mean data sizes and label counts."""
    counts = clients.label_counts
    labels = 0 if counts is None else counts.shape[1]
    shown = counts is not None and labels <= _MOST_LABELS
    return {
        "total": len(clients),
        "examples": int(clients.data_sizes.sum()),
        "names": [title_of(clients, group) for group in groups],
        "sizes": _numbers(means(groups, clients.data_sizes)),
        "labels": [_numbers(counts[group].mean(axis=0)) for group in groups]
        if shown and counts is not None
        else None,
        "colours": label_colours(labels) if labels <= _MOST_LABELS else [],
    }


def _by_client(run: Run, rows: IntArray) -> _Values | None:
    """Losses and accuracies of the last model that was evaluated by client; None: there is none."""
    losses, accuracies = client_losses(run), client_accuracies(run)
    if losses is None or run.clients is None or len(losses) != len(run.clients):
        return None
    last = next(r for r in reversed(run.records) if r.per_client is not None)
    accuracy = None if accuracies is None else _numbers(accuracies[rows])
    part = (last.per_client or {}).get("part")
    return {
        "round": last.round,
        "part": part,
        "loss": _numbers(losses[rows]),
        "accuracy": accuracy,
    }


def _stopped(run: Run) -> str:
    """Why and where a run ended early, or nothing."""
    return f"{run.stopped} at round {run.rounds_done}" if run.stopped else ""


def _failure(run: Run) -> str:
    if run.failure is None:
        return ""
    client = run.failure.get("client")
    where = f"round {run.failure.get('round')}" + ("" if client is None else f", client {client}")
    return f"{where}: {run.failure.get('error')}"


def _gap(run: Run) -> float | None:
    """The largest gap between a selection's objective and its bound, relative to the bound."""
    gaps = [
        (record.selection_upper_bound - record.selection_objective)
        / max(1.0, abs(record.selection_upper_bound))
        for record in run.records
        if record.selection_objective is not None and record.selection_upper_bound is not None
    ]
    return _number(max(gaps)) if gaps else None


def _milliseconds(timings: Iterable[Mapping[str, float]]) -> dict[str, float | None]:
    """Milliseconds per round by phase.

    The median over the rounds that have the phase, times their share of all rounds. A mean would
    mostly show the first rounds, which compile and warm up.
    """
    seconds: dict[str, list[float]] = {}
    rounds = 0
    for line in timings:
        rounds += 1
        for phase, value in line.items():
            if phase != "round" and isinstance(value, int | float) and math.isfinite(value):
                seconds.setdefault(phase, []).append(value)
    return {
        phase: _number(1000 * float(np.median(values)) * len(values) / rounds)
        for phase, values in sorted(seconds.items())
    }


def _events(events: Sequence[Mapping[str, object]]) -> _Values:
    """The number of events of each kind, and the last ones as (round, client, event, detail)."""
    counts = Counter(str(event.get("event")) for event in events)
    return {
        "counts": dict(sorted(counts.items())),
        "last": [_event(event) for event in events[-_MOST_EVENTS:]],
    }


def _event(event: Mapping[str, object]) -> list[str]:
    client, clients, request = event.get("client"), event.get("clients"), event.get("request")
    if client is None:
        client = ", ".join(map(str, clients)) if isinstance(clients, list) else ""
    kind = str(event.get("event")) + ("" if request is None else f" ({request})")
    return [str(event.get("round", "")), str(client), kind, str(event.get("detail", ""))]


def _federation(clients: Clients, picked: IntArray) -> _Values:
    counts = clients.label_counts
    labels = 0 if counts is None else counts.shape[1]
    return {
        "total": len(clients),
        "names": [clients.names[k] for k in picked.tolist()],
        "sizes": clients.data_sizes[picked].tolist(),
        "labels": None if counts is None or labels > _MOST_LABELS else counts[picked].tolist(),
        "colours": label_colours(labels) if labels <= _MOST_LABELS else [],
    }


def _network(network: Network, picked: IntArray) -> _Values:
    assert len(picked) == len(network.positions)
    return {
        "positions": [_numbers(xy) for xy in network.positions],
        "edges": network.edges.ravel().tolist(),
        "caption": network.caption,
    }


def _series(history: Participation, distance: FloatMatrix | None) -> _Values:
    """The spread of the sampling counts over the rounds; with H, the diversity of the cohorts."""
    at, variance = binned(history.variances, _MOST_POINTS)
    values: _Values = {"at": at.tolist(), "variance": _numbers(variance)}
    if distance is not None:
        at, diversity = binned(cohort_diversity(history.cohorts, distance), _FEW_POINTS)
        values.update(diversity_at=at.tolist(), diversity=_numbers(diversity))
    return values


def _maps(history: Participation, picked: IntArray) -> _Maps:
    stride = max(1, math.ceil(len(picked) * history.rounds / _MOST_CELLS))
    available, selected = history.rows(picked, stride)
    return _Maps(available=_packed(available), selected=_packed(selected), stride=stride)


def _packed(states: BoolArray) -> str:
    """(N, T) as base64 of bits, round by round, the first bit of a byte first."""
    return base64.b64encode(np.packbits(states.T.ravel()).tobytes()).decode()


def _add_maps(runs: Sequence[_Shown], shared: _Shared) -> None:
    """Add the maps of all runs; or of the first seed of each method, while they fit the page."""
    entries = [(entry.run, entry.values, entry.maps) for entry in runs if entry.maps is not None]
    distinct = {text for _, _, maps in entries for text in (maps.available, maps.selected)}
    all_fit = sum(map(len, distinct)) <= _MOST_BYTES
    positions: dict[str, int] = {}
    size = 0
    methods: set[tuple[object, str]] = set()
    for run, values, maps in entries:
        method = (run.group, run.label)
        needed = len(maps.available) + len(maps.selected)
        if all_fit or (method not in methods and size + needed <= _MOST_BYTES):
            methods.add(method)
            for key, text in (("available", maps.available), ("selected", maps.selected)):
                if text not in positions:
                    positions[text] = len(positions)
                    size += len(text)
                values[key] = positions[text]
        values["stride"] = maps.stride
    shared.maps += positions


def _position(items: list[_Values], item: _Values) -> int:
    """The item's position among the items; a new one is appended."""
    if item not in items:
        items.append(item)
    return items.index(item)


def _numbers(values: FloatArray) -> list[float | None]:
    return [_number(value) for value in np.asarray(values, dtype=np.float64).tolist()]


def _number(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
