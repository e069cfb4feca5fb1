"""What the page shows, as plain data: rounded, binned, packed, each array once."""

import base64
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tomli_w

from fedgs.arrays import BoolArray, FloatArray, FloatMatrix
from fedgs.clients import Clients
from fedgs.palette import label_colours
from fedgs.report.doubles import latest
from fedgs.report.history import (
    Participation,
    binned,
    cohort_diversity,
    count_variances,
    curve,
    participation,
    standing,
)
from fedgs.report.network import Network, network_of_run
from fedgs.report.run_view import Run
from fedgs.report.style import looks

__all__ = ["page_data"]

MOST_POINTS = 250  # of a curve
FEW_POINTS = 50  # of a curve that jumps from round to round
MOST_CLIENTS = 1500  # drawn one by one; of more, as many are picked evenly by data size
MOST_CELLS = 1_200_000  # of one run's map of clients by rounds; of more, every second, third, ... round is kept
MOST_BYTES = (
    6_000_000  # of all maps together; beyond it, only the first seed of each method has its maps
)
MOST_EVENTS = 200  # of a run that are listed one by one, the last ones
METRICS = ("test_loss", "valid_loss", "test_accuracy")


@dataclass
class _Store:
    """Arrays that several runs share are kept once."""

    texts: list[str] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=dict)

    def put(self, text: str) -> int:
        key = hashlib.sha256(text.encode()).hexdigest()
        if key not in self.index:
            self.index[key] = len(self.texts)
            self.texts.append(text)
        return self.index[key]


def page_data(runs: Sequence[Run], problems: Sequence[str]) -> dict[str, object]:
    """Everything the page's script reads; the same runs give the same data. Of runs with one label and seed, the latest is shown.

    Args:
        runs: labelled.
        problems: one line each.
    """
    ordered = sorted(latest(runs)[0], key=lambda run: (run.group, run.label, run.seed, run.name))
    styles = looks(ordered)
    store = _Store()
    federations: list[dict[str, object]] = []
    networks: list[dict[str, object]] = []
    groups = sorted({run.group for run in ordered})
    made: list[dict[str, object]] = []
    for group in groups:
        inside = [run for run in ordered if run.group == group]
        made += _group_runs(inside, groups.index(group), store, federations, networks)
    _keep_within(made, store)
    return {
        "groups": [
            {"title": ", ".join(group), "curves": _curves([r for r in ordered if r.group == group])}
            for group in groups
        ],
        "methods": {
            label: {"colour": look.colour, "dash": look.dash}
            for label, look in sorted(styles.items())
        },
        "runs": made,
        "federations": federations,
        "networks": networks,
        "maps": store.texts,
        "problems": list(problems),
    }


def _curves(runs: Sequence[Run]) -> dict[str, dict[str, object]]:
    """metric -> label -> rounds, mean, spread; at most MOST_POINTS rounds, evenly picked; failed runs only where all failed."""
    curves: dict[str, dict[str, object]] = {}
    for metric in METRICS:
        for label in sorted({run.label for run in runs}):
            own, failed = standing([run for run in runs if run.label == label])
            one = curve(own, metric)
            if len(one.rounds):
                keep = np.unique(
                    np.linspace(0, len(one.rounds) - 1, min(len(one.rounds), MOST_POINTS))
                    .round()
                    .astype(np.int64)
                )
                curves.setdefault(metric, {})[label] = {
                    "rounds": one.rounds[keep].tolist(),
                    "mean": _numbers(one.mean[keep]),
                    "spread": _numbers(one.spread[keep]),
                    "seeds": one.seeds,
                    "failed": failed,
                }
    return curves


def _group_runs(
    runs: Sequence[Run],
    group: int,
    store: _Store,
    federations: list[dict[str, object]],
    networks: list[dict[str, object]],
) -> list[dict[str, object]]:
    drawings = _drawings(runs)
    common = next((drawn for drawn in drawings if drawn is not None), None)
    made = []
    for run, own in zip(runs, drawings, strict=True):
        drawn = own or common
        if drawn is not None and (run.clients is None or len(drawn.positions) != len(run.clients)):
            drawn = None
        made.append(_run(run, group, drawn, store, federations, networks))
    return made


def _drawings(runs: Sequence[Run]) -> list[Network | None]:
    """Each run's client graph, drawn once for all runs that share federation and distances."""
    known: dict[object, Network | None] = {}
    drawings: list[Network | None] = []
    for run in runs:
        distance = (
            run.memory().get("distance")
            if run.clients is not None and len(run.clients) <= MOST_CLIENTS
            else None
        )
        if distance is None:
            drawings.append(None)
            continue
        key = (
            run.about.get("data_fingerprint"),
            hashlib.sha256(np.ascontiguousarray(distance).tobytes()).hexdigest(),
        )
        if key not in known:
            known[key] = network_of_run(run)
        drawings.append(known[key])
    return drawings


def _run(
    run: Run,
    group: int,
    drawn: Network | None,
    store: _Store,
    federations: list[dict[str, object]],
    networks: list[dict[str, object]],
) -> dict[str, object]:
    made: dict[str, object] = {
        "name": run.name,
        "group": group,
        "label": run.label,
        "seed": run.seed,
        "rounds": run.rounds,
        "done": run.rounds_done,
        "state": "failed"
        if run.failure is not None
        else "finished"
        if run.finished
        else "unfinished",
        "failure": _failure(run),
        "config": tomli_w.dumps(_plain(run.config)),
        "statuses": dict(
            sorted(Counter(r.selection_status for r in run.records if r.selection_status).items())
        ),
        "gap": _gap(run),
        "seconds": _seconds(run.timings),
        "events": _events(run.events),
    }
    history = participation(run)
    if history is not None and run.clients is not None:
        picked = _picked(run.clients)
        made["federation"] = _put(federations, _federation(run.clients, picked))
        if drawn is not None:
            made["network"] = _put(networks, _network(drawn, picked))
        made.update(_series(history, None if drawn is None else drawn.distance))
        made["counts"] = history.counts[picked].tolist()
        made["activity"] = _numbers(history.activity[picked])
        made.update(_maps(history, picked, store))
    return made


def _failure(run: Run) -> str:
    if run.failure is None:
        return ""
    client = run.failure.get("client")
    where = f"round {run.failure.get('round')}" + ("" if client is None else f", client {client}")
    return f"{where}: {run.failure.get('error')}"


def _plain(value: object) -> Any:
    """The configuration without None, so that it can be written as TOML."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items() if inner is not None}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _gap(run: Run) -> float | None:
    """The largest distance between a selection's objective and its upper bound, relative to the bound."""
    gaps = [
        (record.selection_upper_bound - record.selection_objective)
        / max(1.0, abs(record.selection_upper_bound))
        for record in run.records
        if record.selection_objective is not None and record.selection_upper_bound is not None
    ]
    return _number(max(gaps)) if gaps else None


def _seconds(timings: Iterable[Mapping[str, float]]) -> dict[str, float | None]:
    """Milliseconds a round by phase: the median over the rounds that have the phase, times the share of the rounds that have it.

    The first round compiles and the first few warm up: a mean would say more of that than of a
    round.
    """
    found: dict[str, list[float]] = {}
    rounds = 0
    for line in timings:
        rounds += 1
        for phase, value in line.items():
            if phase != "round" and isinstance(value, int | float) and math.isfinite(value):
                found.setdefault(phase, []).append(value)
    return {
        phase: _number(1000 * float(np.median(values)) * len(values) / rounds)
        for phase, values in sorted(found.items())
    }


def _events(events: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """How many of each kind, and the last ones as (round, client, event, detail)."""
    counts = Counter(str(event.get("event")) for event in events)
    return {
        "counts": dict(sorted(counts.items())),
        "last": [_event(event) for event in events[-MOST_EVENTS:]],
    }


def _event(event: Mapping[str, object]) -> list[object]:
    client, clients, request = event.get("client"), event.get("clients"), event.get("request")
    told = (
        client
        if client is not None
        else ", ".join(map(str, clients))
        if isinstance(clients, list)
        else ""
    )
    kind = str(event.get("event")) + ("" if request is None else f" ({request})")
    return [str(event.get("round", "")), str(told), kind, str(event.get("detail", ""))]


def _picked(clients: Clients) -> np.ndarray:
    """(n,) ascending indices of the clients that are shown one by one."""
    if len(clients) <= MOST_CLIENTS:
        return np.arange(len(clients))
    by_size = np.argsort(clients.data_sizes, kind="stable")
    return np.sort(by_size[np.linspace(0, len(clients) - 1, MOST_CLIENTS).round().astype(np.int64)])


def _federation(clients: Clients, picked: np.ndarray) -> dict[str, object]:
    counts = clients.label_counts
    labels = 0 if counts is None else counts.shape[1]
    return {
        "total": len(clients),
        "names": [clients.names[k] for k in picked.tolist()],
        "sizes": clients.data_sizes[picked].tolist(),
        "labels": None if counts is None or labels > 200 else counts[picked].tolist(),
        "colours": label_colours(labels) if labels <= 200 else [],
    }


def _network(drawn: Network, picked: np.ndarray) -> dict[str, object]:
    assert len(picked) == len(drawn.positions)
    return {
        "positions": [_numbers(xy) for xy in drawn.positions],
        "edges": drawn.edges.ravel().tolist(),
        "caption": drawn.caption,
    }


def _series(history: Participation, distance: FloatMatrix | None) -> dict[str, object]:
    at, variance = binned(count_variances(history.selected), MOST_POINTS)
    made: dict[str, object] = {"at": at.tolist(), "variance": _numbers(variance)}
    if distance is not None:
        at, diversity = binned(cohort_diversity(history.selected, distance), FEW_POINTS)
        made.update(diversity_at=at.tolist(), diversity=_numbers(diversity))
    return made


def _maps(history: Participation, picked: np.ndarray, store: _Store) -> dict[str, object]:
    """Two bits a client and round: positions in the store, and every how many rounds."""
    cells = len(picked) * history.available.shape[1]
    stride = max(1, math.ceil(cells / MOST_CELLS))
    available, selected = (
        _packed(part[picked][:, ::stride]) for part in (history.available, history.selected)
    )
    return {"available": store.put(available), "selected": store.put(selected), "stride": stride}


def _packed(states: BoolArray) -> str:
    """(N, T) as base64 of bits, round by round, the first bit of a byte first."""
    return base64.b64encode(np.packbits(states.T.ravel()).tobytes()).decode()


def _keep_within(runs: Sequence[dict[str, Any]], store: _Store) -> None:
    """Drop the maps of further seeds, and then of further methods, where all together are too large for a page."""
    if sum(map(len, store.texts)) <= MOST_BYTES:
        return
    old, store.texts, store.index = store.texts, [], {}
    seen: set[tuple[int, str]] = set()
    for run in runs:
        wanted = [old[run[key]] for key in ("available", "selected") if key in run]
        room = MOST_BYTES - sum(map(len, store.texts))
        if not wanted or (run["group"], run["label"]) in seen or sum(map(len, wanted)) > room:
            run.pop("available", None)
            run.pop("selected", None)
            continue
        seen.add((run["group"], run["label"]))
        run["available"], run["selected"] = map(store.put, wanted)


def _put(things: list[dict[str, object]], thing: dict[str, object]) -> int:
    if thing not in things:
        things.append(thing)
    return things.index(thing)


def _numbers(values: FloatArray) -> list[float | None]:
    return [_number(value) for value in np.asarray(values, dtype=np.float64).tolist()]


def _number(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
